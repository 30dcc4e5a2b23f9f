"""Errors and escalations on their way outwards (13.5.3): who catches one, and what that does.

From the thrower outwards: the activity's own boundary, the event sub-processes of its scope, the
scope's boundary, and so on, through a call activity into the caller. In one place a specific code beats
one that catches all. A technical failure is caught only where its code is named; nobody who wrote
"catch all" meant a lost connection. A saga stands in the way: it undoes its steps before its scope fails.

An escalation takes the same way, but is not critical (decision 8): who throws it goes on, unless its
catcher interrupts; a saga does not hear of it; uncaught it is a line in the history.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bpm_engine.bpmn.events import ErrorEvent, EscalationEvent, EventSpec
from bpm_engine.bpmn.expressions import ExpressionError, to_json
from bpm_engine.bpmn.graph import Boundary, Graph, Node, Start
from bpm_engine.core import incidents, scopes, waits
from bpm_engine.core.effects import Escalate, RaiseError
from bpm_engine.core.lifecycle import TERMINAL_TOKENS
from bpm_engine.core.state import (
    LogKind,
    Phase,
    Scope,
    ScopeState,
    Subscription,
    SubscriptionStatus,
    Token,
    Variables,
)
from bpm_engine.core.variables import own_variables, view, write
from bpm_engine.core.visit import put

if TYPE_CHECKING:
    from bpm_engine.core.marking import Marking
    from bpm_engine.core.visit import Visit


@dataclass(frozen=True, slots=True)
class Thrown:
    code: str | None
    message: str = ""
    variables: Variables = field(default_factory=dict)
    technical: bool = False
    critical: bool = True  # False: an escalation

    def told(self) -> Variables:
        """For the history."""
        if not self.critical:
            return {"escalation": self.code}
        return {"error": self.code, "message": self.message}


@dataclass(frozen=True, slots=True)
class Catcher:
    """`host` None: an event sub-process of the scope."""

    event: ErrorEvent | EscalationEvent
    node: Node  # boundary event, or start of the event sub-process
    scope: Scope
    host: Token | None
    wait: Subscription | None = None  # of an event that needs others as well
    is_last: bool = True  # those have come

    @property
    def interrupting(self) -> bool:
        assert isinstance(self.node.spec, Boundary | Start)
        return self.node.spec.interrupting and self.is_last


# ------------------------------------------------------------------ finding


def find_catcher(marking: Marking, token: Token, thrown: Thrown) -> Catcher | None:
    at: Token | None = token
    while at is not None:
        graph, scope = marking.graph(at.instance_id), marking.draft.scope(at.scope_id)
        hosted = (graph.nodes[node_id] for node_id in graph.nodes[at.node_id].boundary)
        if (found := _best(marking, scope, at, hosted, thrown)) is not None:
            return found
        if at.compensates is not None and (thrown.critical or scope.state is not ScopeState.ACTIVE):
            return None  # a failing handler holds the order of compensation; nobody else's affair
        starts = _handler_starts(graph, scope, at.node_id)
        if (found := _best(marking, scope, None, starts, thrown)) is not None:
            return found
        if thrown.critical and graph.scopes[scope.node_id].saga:
            return None  # the saga undoes its steps first; then its scope fails with this error
        at = marking.owner(scope)
    return None


def find_catcher_around(marking: Marking, root: Scope, thrown: Thrown) -> Catcher | None:
    """For a failure of the instance as a whole: its own event sub-processes, then its caller."""
    graph = marking.graph(root.instance_id)
    if (found := _best(marking, root, None, _handler_starts(graph, root, ""), thrown)) is not None:
        return found
    owner = marking.owner(root)
    return None if owner is None else find_catcher(marking, owner, thrown)


def _handler_starts(graph: Graph, scope: Scope, thrower: str) -> Iterable[Node]:
    for handler_id in graph.handlers_beside(scope.node_id, thrower):
        yield from (graph.nodes[node_id] for node_id in graph.scopes[handler_id].starts)


def _best(
    marking: Marking, scope: Scope, host: Token | None, nodes: Iterable[Node], thrown: Thrown
) -> Catcher | None:
    general: Catcher | None = None
    kind = ErrorEvent if thrown.critical else EscalationEvent
    for node in nodes:
        events: tuple[EventSpec, ...] = getattr(node.spec, "events", ())
        for event in events:
            if not isinstance(event, kind):
                continue
            if event.code is not None and event.code == thrown.code:
                if (catcher := _catcher(marking, scope, host, node, event)) is not None:
                    return catcher
            elif event.code is None and not thrown.technical:
                general = general or _catcher(marking, scope, host, node, event)
    return general


def _catcher(
    marking: Marking, scope: Scope, host: Token | None, node: Node, event: ErrorEvent | EscalationEvent
) -> Catcher | None:
    """Where other events are needed beside it, an escalation is noted until they come. An error cannot
    wait, its thrower has ended: it is caught there only when the others have come (10.5.6)."""
    if not waits.needs_all(node):
        return Catcher(event, node, scope, host)
    wait = waits.thrown_awaited(marking, scope, host, node, event)
    if wait is None:
        return None
    is_last = not waits.is_awaited(marking, wait, node.id)
    if isinstance(event, ErrorEvent) and not is_last:
        return None
    return Catcher(event, node, scope, host, wait, is_last)


# ------------------------------------------------------------------ catching


def raise_error(marking: Marking, visit: Visit, effect: RaiseError) -> None:
    """Thrown and caught, the end event is done; uncaught, its token stays there as the incident."""
    token, thrown = visit.token, Thrown(effect.code, effect.message)
    catcher = find_catcher(marking, token, thrown)
    if catcher is None:
        _uncaught(marking, token, Phase.ENTER, thrown)
        return
    marking.passed(visit, thrown.told())
    marking.end(visit.token)
    catch(marking, token.instance_id, catcher, thrown)


def escalate(marking: Marking, visit: Visit, effect: Escalate) -> None:
    """Each catcher that is still there reacts, those first that let the thrower go on."""
    token = visit.token
    found: list[tuple[Thrown, Catcher]] = []
    for thrown in (Thrown(code, critical=False) for code in effect.codes):
        marking.journal.log(LogKind.THROWN, token, thrown.told())
        catcher = find_catcher(marking, token, thrown)
        if catcher is not None and not catcher.is_last:
            catch(marking, token.instance_id, catcher, thrown)
        elif catcher is not None:
            found.append((thrown, catcher))
    interrupted = any(catcher.interrupting for _, catcher in found)
    if interrupted:  # the throw is done, whatever becomes of its surroundings
        marking.passed(visit)
        marking.end(visit.token)
    for thrown, catcher in sorted(found, key=lambda pair: pair[1].interrupting):
        if _is_there(marking, catcher):
            catch(marking, token.instance_id, catcher, thrown)
    if not interrupted:
        marking.perform(visit, effect.then)


def _is_there(marking: Marking, catcher: Catcher) -> bool:
    if catcher.host is not None:
        return marking.draft.token(catcher.host.id).state not in TERMINAL_TOKENS
    return marking.draft.scope(catcher.scope.id).state is ScopeState.ACTIVE


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
    """`thrown_in`: the instance that it comes from. What it brings is merged, or with output mappings the
    event's own, as `triggering` has it."""
    graph = marking.graph(catcher.scope.instance_id)
    _hand_out(marking, thrown_in, catcher.scope.instance_id)
    values = dict(thrown.variables)
    if catcher.event.code_variable is not None:
        values[catcher.event.code_variable] = thrown.code
    if isinstance(catcher.event, ErrorEvent) and catcher.event.message_variable is not None:
        values[catcher.event.message_variable] = thrown.message
    own = values if catcher.node.outputs and catcher.wait is None else None
    if own is None:
        write(marking.draft, graph, catcher.scope.id, None, values)
    if catcher.wait is not None:
        waits.end_subscription(marking, catcher.wait, SubscriptionStatus.CONSUMED)
    if not catcher.is_last:
        _note(marking, catcher, thrown)
        return
    if catcher.host is not None:
        token = scopes.leave_by_boundary(marking, catcher.host, catcher.node, catcher.interrupting, own)
    else:
        brought = {catcher.node.id: own} if own else None
        token = scopes.run_handler(marking, catcher.scope, catcher.node.scope, catcher.interrupting, brought)
    marking.journal.log(LogKind.CAUGHT, token, thrown.told(), catcher.node.id)
    if catcher.wait is not None and not catcher.interrupting:
        host_id = None if catcher.host is None else catcher.host.id
        waits.open_again(marking, marking.draft.scope(catcher.scope.id), host_id, catcher.node)


def _note(marking: Marking, catcher: Catcher, thrown: Thrown) -> None:
    """The event is triggered when the others that it needs have come."""
    if catcher.host is not None:
        marking.journal.log(LogKind.CAUGHT, catcher.host, thrown.told(), catcher.node.id)
        return
    instance = marking.draft.instance(catcher.scope.instance_id)
    told = {**thrown.told(), "node_id": catcher.node.id}
    marking.journal.log_instance(LogKind.CAUGHT, instance, told)


def _hand_out(marking: Marking, thrown_in: str, caught_in: str) -> None:
    """At each call that it leaves on its way, the mapped outputs that exist by then go along (decision 7)."""
    instance_id = thrown_in
    while instance_id != caught_in:
        caller = marking.draft.token(marking.draft.instance(instance_id).parent_token_id or "")
        outputs = _outputs(marking, caller, marking.draft.scope(instance_id))
        write(marking.draft, marking.graph(caller.instance_id), caller.scope_id, None, outputs)
        instance_id = caller.instance_id


def _outputs(marking: Marking, caller: Token, called: Scope) -> Variables:
    """In their order, seen as when the call ends; what cannot be evaluated does not exist yet."""
    seen = view(marking.draft, caller.scope_id, caller.local)
    made: Variables = {}
    seen.layers[:0] = [made, own_variables(marking.draft, called)]
    for name, expression in marking.node(caller).outputs:
        try:
            put(made, seen, name, to_json(expression.evaluate(seen, marking.context.now)), changing=True)
        except ExpressionError:
            continue
    return made
