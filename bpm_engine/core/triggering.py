"""An event came, wherever it stands: event sub-process, boundary, catch event, event gateway, start.

An event with several definitions is triggered by any of them; a parallel multiple one by all of them
(10.5.7). Then each that comes is struck off: its wait is closed, what it brought is kept, and the last
one triggers the event. One that does not interrupt waits for all of them anew. An error or escalation among
them comes by `propagation`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bpm_engine.bpmn.graph import Boundary, Kind, Node, Start
from bpm_engine.core import scopes, waits
from bpm_engine.core.behaviours.events import payload_of
from bpm_engine.core.effects import Happened
from bpm_engine.core.state import LogKind, Phase, Subscription, Timer, Token, Variables
from bpm_engine.core.variables import write
from bpm_engine.core.waits import needs_all

if TYPE_CHECKING:
    from bpm_engine.core.marking import Marking

Wait = Timer | Subscription
BOUNDARY, INSIDE = Kind.BOUNDARY, Phase.INSIDE  # see `marking` on words


def happens_once(node: Node) -> bool:
    """Whether a wait is over when it was met; else it is kept open for the next time."""
    spec = node.spec
    return not isinstance(spec, Boundary | Start) or spec.interrupting or needs_all(node)


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
    graph, scope = marking.graph(wait.instance_id), marking.draft.scope(wait.scope_id)
    write(marking.draft, graph, scope.id, None, payload_of(graph, Happened(node.id, wait.event, payload)))
    if _others_missing(marking, wait, node):
        instance = marking.draft.instance(wait.instance_id)
        marking.journal.log_instance(kind, instance, {"node_id": node.id, "event": wait.event})
        return
    token = scopes.run_handler(marking, scope, node.scope, node.spec.interrupting)
    marking.journal.log(kind, token, node_id=node.id)
    if needs_all(node) and not node.spec.interrupting:
        waits.open_again(marking, scope, None, node)


def _at_boundary(marking: Marking, wait: Wait, node: Node, host: Token, payload: Variables) -> None:
    assert isinstance(node.spec, Boundary)
    graph = marking.graph(wait.instance_id)
    came = Happened(node.id, wait.event, payload)
    write(marking.draft, graph, host.scope_id, None, payload_of(graph, came))
    if _others_missing(marking, wait, node):
        return
    scopes.leave_by_boundary(marking, host, node, node.spec.interrupting)
    if needs_all(node) and not node.spec.interrupting:
        waits.open_again(marking, marking.draft.scope(host.scope_id), host.id, node)


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
