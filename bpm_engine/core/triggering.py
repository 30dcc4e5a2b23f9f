"""An event came, wherever it stands: event sub-process, boundary, catch event, event gateway, start.

An event with several definitions is triggered by any of them; a parallel multiple one by all of them
(10.5.7). Then each that comes is struck off: its wait is closed, what it brought is kept, and the last
one triggers the event. One that does not interrupt waits for all of them anew. An error or escalation among
them comes by `propagation`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVarTuple

from bpm_engine.bpmn.expressions import ExpressionError
from bpm_engine.bpmn.graph import Boundary, Kind, Node, Start
from bpm_engine.core import incidents, propagation, scopes, waits
from bpm_engine.core.behaviours.events import keys_of, payload_of
from bpm_engine.core.changes import APPLIED, Outcome, Refused
from bpm_engine.core.effects import Fault, Happened
from bpm_engine.core.state import InstanceStatus, LogKind, Phase, Subscription, Timer, Token, Variables
from bpm_engine.core.variables import write
from bpm_engine.core.waits import needs_all

if TYPE_CHECKING:
    from bpm_engine.core.marking import Marking

Ts = TypeVarTuple("Ts")
Wait = Timer | Subscription
BOUNDARY, INSIDE = Kind.BOUNDARY, Phase.INSIDE  # see `marking` on words


def happens_once(node: Node) -> bool:
    """Whether a wait is over when it was met; else it is kept open for the next time."""
    spec = node.spec
    return not isinstance(spec, Boundary | Start) or spec.interrupting or needs_all(node)


def meet(marking: Marking, wait: Wait, act: Callable[[*Ts], None], *args: *Ts) -> Outcome:
    """Do what the event asks for wholly, or not at all: then it is still awaited, and who waits for it has an
    incident. A token too many is one reason; to come again and again would be to fail again and again."""
    mark, queued = len(marking.draft.undo), len(marking.agenda)
    try:
        act(*args)
    except (Fault, ExpressionError) as fault:
        marking.take_back(mark, queued)
        words = f"the event {wait.node_id!r} came: {fault.message if isinstance(fault, Fault) else fault}"
        fail(marking, wait, fault.code, words)
        return Refused(fault.code, words)
    return APPLIED


def fail(marking: Marking, wait: Wait, code: str, words: str) -> None:
    """The incident is the host's; for an event sub-process the scope's, or that of the whole instance."""
    draft = marking.draft
    token_id = wait.token_id or draft.scope(wait.scope_id).token_id
    if token_id is not None:
        incidents.fail(marking, draft.token(token_id), INSIDE, code, words)
        return
    root = draft.scope(wait.scope_id)
    thrown = propagation.Thrown(code, words, technical=True)
    catcher = propagation.find_catcher_around(marking, root, thrown)
    if catcher is not None:
        propagation.catch(marking, root.instance_id, catcher, thrown)
        return
    error = {"code": code, "message": words, "node_id": wait.node_id}
    incidents.halt(marking, draft.instance(root.instance_id), InstanceStatus.FAILED, error)


def happened(marking: Marking, wait: Wait, payload: Variables, kind: LogKind) -> None:
    """`wait` is closed already, unless it stays open for the next time."""
    node = marking.graph(wait.instance_id).nodes[wait.node_id]
    if wait.token_id is None:
        _at_handler(marking, wait, node, payload, kind)
        return
    host = marking.draft.token(wait.token_id)
    marking.journal.log(kind, host, node_id=node.id)
    if node.kind is BOUNDARY:
        _at_boundary(marking, wait, node, host, payload)
    else:
        marking.attempt(host, INSIDE, _at_rest, marking, wait, node, host, payload)


def _at_handler(marking: Marking, wait: Wait, node: Node, payload: Variables, kind: LogKind) -> None:
    assert isinstance(node.spec, Start)
    scope = marking.draft.scope(wait.scope_id)
    own = _take_in(marking, scope.id, node, Happened(node.id, wait.event, payload))
    if _others_missing(marking, wait, node):
        instance = marking.draft.instance(wait.instance_id)
        marking.journal.log_instance(kind, instance, {"node_id": node.id, "event": wait.event})
        return
    brought = {node.id: own} if own else None
    token = scopes.run_handler(marking, scope, node.scope, node.spec.interrupting, brought)
    marking.journal.log(kind, token, node_id=node.id)
    if needs_all(node) and not node.spec.interrupting:
        waits.open_again(marking, scope, None, node)


def _at_boundary(marking: Marking, wait: Wait, node: Node, host: Token, payload: Variables) -> None:
    assert isinstance(node.spec, Boundary)
    own = _take_in(marking, host.scope_id, node, Happened(node.id, wait.event, payload))
    if _others_missing(marking, wait, node):
        return
    scopes.leave_by_boundary(marking, host, node, node.spec.interrupting, own)
    if needs_all(node) and not node.spec.interrupting:
        waits.open_again(marking, marking.draft.scope(host.scope_id), host.id, node)


def _take_in(marking: Marking, scope_id: str, node: Node, came: Happened) -> Variables | None:
    """What came is merged; with output mappings it is the event's own, returned, and they say what becomes of
    it. Where several events are needed no token is there yet that could keep what the first ones bring."""
    graph = marking.graph(marking.draft.scope(scope_id).instance_id)
    if not node.outputs or needs_all(node):
        write(marking.draft, graph, scope_id, None, payload_of(graph, came))
        return None
    write(marking.draft, graph, scope_id, None, keys_of(graph, came))
    return payload_of(graph, came)


def _at_rest(marking: Marking, wait: Wait, node: Node, host: Token, payload: Variables) -> None:
    """A catch event, an event gateway, a parallel multiple start: the token itself waits."""
    came = Happened(node.id, wait.event, payload)
    if not needs_all(node):
        marking.resume(host, came)
        return
    earlier = (host.local or {}).get(node.id, {})
    if _others_missing(marking, wait, node):
        brought = {**earlier, **payload_of(marking.graph(wait.instance_id), came)}
        keep(marking, host, node.id, brought)
        return
    rest = {name: value for name, value in (host.local or {}).items() if name != node.id}
    host = marking.put(host, local=rest or None)
    marking.resume(host, Happened(node.id, wait.event, payload, earlier))


def keep(marking: Marking, host: Token, node_id: str, brought: Variables) -> None:
    """What the first events of a parallel multiple one brought waits with the token for the last."""
    marking.put(host, local={**(host.local or {}), node_id: brought})


def _others_missing(marking: Marking, wait: Wait, node: Node) -> bool:
    return needs_all(node) and waits.is_awaited(marking, wait, node.id)
