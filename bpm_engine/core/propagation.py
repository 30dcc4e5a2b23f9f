"""Errors on their way outwards (13.5.3): who catches one, and what that does.

From the thrower outwards: the activity's own boundary, the event sub-processes of its scope, the
scope's boundary, and so on, through a call activity into the caller. In one place a specific code beats
one that catches all. A technical failure is caught only where its code is named; nobody who wrote
"catch all" meant a lost connection. A saga stands in the way: it undoes its steps before its scope fails.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bpm_engine.bpmn.expressions import ExpressionError, to_json
from bpm_engine.bpmn.graph import ErrorEvent, EventSpec, Graph, Kind, Node
from bpm_engine.core import incidents, scopes
from bpm_engine.core.effects import RaiseError
from bpm_engine.core.state import LogKind, Phase, Scope, Token, Variables
from bpm_engine.core.variables import View, own_variables, write

if TYPE_CHECKING:
    from bpm_engine.core.marking import Marking
    from bpm_engine.core.visit import Visit


@dataclass(frozen=True, slots=True)
class Thrown:
    code: str | None
    message: str
    variables: Variables
    technical: bool


@dataclass(frozen=True, slots=True)
class Catcher:
    """`host` None: an event sub-process of the scope."""

    event: ErrorEvent
    node: Node  # boundary event, or start of the event sub-process
    scope: Scope
    host: Token | None


# ------------------------------------------------------------------ finding


def find_catcher(marking: Marking, token: Token, thrown: Thrown) -> Catcher | None:
    at: Token | None = token
    while at is not None:
        graph, scope = marking.graph(at.instance_id), marking.draft.scope(at.scope_id)
        hosted = (graph.nodes[node_id] for node_id in graph.nodes[at.node_id].boundary)
        if (found := _best(hosted, thrown)) is not None:
            return Catcher(found[0], found[1], scope, at)
        if at.compensates is not None:
            return None  # a failing handler holds the order of compensation; nobody else's affair
        if (found := _best(_handler_starts(graph, scope, at.node_id), thrown)) is not None:
            return Catcher(found[0], found[1], scope, None)
        if graph.scopes[scope.node_id].saga:
            return None  # the saga undoes its steps first; then its scope fails with this error
        at = marking.owner(scope)
    return None


def find_catcher_around(marking: Marking, root: Scope, thrown: Thrown) -> Catcher | None:
    """For a failure of the instance as a whole: its own event sub-processes, then its caller."""
    graph = marking.graph(root.instance_id)
    if (found := _best(_handler_starts(graph, root, ""), thrown)) is not None:
        return Catcher(found[0], found[1], root, None)
    owner = marking.owner(root)
    return None if owner is None else find_catcher(marking, owner, thrown)


def _handler_starts(graph: Graph, scope: Scope, thrower: str) -> Iterable[Node]:
    """The event sub-process that throws does not catch its own error."""
    for handler_id in graph.scopes[scope.node_id].handlers:
        if handler_id != thrower:
            yield from (graph.nodes[node_id] for node_id in graph.scopes[handler_id].starts)


def _best(nodes: Iterable[Node], thrown: Thrown) -> tuple[ErrorEvent, Node] | None:
    general: tuple[ErrorEvent, Node] | None = None
    for node in nodes:
        events: tuple[EventSpec, ...] = getattr(node.spec, "events", ())
        for event in events:
            if not isinstance(event, ErrorEvent):
                continue
            if event.code is not None and event.code == thrown.code:
                return event, node
            if event.code is None and not thrown.technical:
                general = general or (event, node)
    return general


# ------------------------------------------------------------------ catching


def raise_error(marking: Marking, visit: Visit, effect: RaiseError) -> None:
    """Thrown and caught, the end event is done; uncaught, its token stays there as the incident."""
    token, thrown = visit.token, Thrown(effect.code, effect.message, {}, technical=False)
    catcher = find_catcher(marking, token, thrown)
    if catcher is None:
        _uncaught(marking, token, Phase.ENTER, thrown)
        return
    marking.journal.log(LogKind.COMPLETED, token, {"error": effect.code, "message": effect.message})
    marking.end(token)
    catch(marking, token.instance_id, catcher, thrown)


def throw(marking: Marking, token: Token, phase: Phase, thrown: Thrown) -> None:
    """Uncaught it is an incident, never a silent end (decision 7)."""
    catcher = find_catcher(marking, token, thrown)
    if catcher is not None:
        catch(marking, token.instance_id, catcher, thrown)
    else:
        _uncaught(marking, token, phase, thrown)


def _uncaught(marking: Marking, token: Token, phase: Phase, thrown: Thrown) -> None:
    words = thrown.message or f"nothing catches the error {thrown.code!r}"
    trouble = incidents.Trouble(thrown.code or "ERROR", words, technical=thrown.technical)
    incidents.give_up(marking, token, phase, trouble)


def catch(marking: Marking, thrown_in: str, catcher: Catcher, thrown: Thrown) -> None:
    """`thrown_in`: the instance that the error comes from."""
    graph = marking.graph(catcher.scope.instance_id)
    values = {**_call_outputs(marking, catcher.host, thrown_in), **thrown.variables}
    if catcher.event.code_variable is not None:
        values[catcher.event.code_variable] = thrown.code
    if catcher.event.message_variable is not None:
        values[catcher.event.message_variable] = thrown.message
    write(marking.draft, graph, catcher.scope.id, None, values)
    if catcher.host is not None:
        token = scopes.leave_by_boundary(marking, catcher.host, catcher.node, interrupting=True)
    else:
        token = scopes.run_handler(marking, catcher.scope, catcher.node.scope, interrupting=True)
    marking.journal.log(
        LogKind.CAUGHT, token, {"error": thrown.code, "message": thrown.message}, catcher.node.id
    )


def _call_outputs(marking: Marking, host: Token | None, thrown_in: str) -> Variables:
    """An error that leaves a called process takes along the mapped outputs that exist by then."""
    if host is None or host.instance_id == thrown_in or marking.node(host).kind is not Kind.CALL:
        return {}
    child = thrown_in
    while marking.draft.instance(child).parent_token_id != host.id:
        child = marking.draft.instance(child).parent_instance_id or ""
    seen = View([own_variables(marking.draft, marking.draft.scope(child))])
    outputs: Variables = {}
    for name, expression in marking.node(host).outputs:
        try:
            outputs[name] = to_json(expression.evaluate(seen, marking.context.now))
        except ExpressionError:
            continue
    return outputs
