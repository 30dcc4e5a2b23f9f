"""Ad-hoc sub-processes: activities that somebody selects, one after the other or beside each other (13.3.5).

A token of the sub-process's own rests at its SELECT node as long as activities may be selected; when it is
gone although the sub-process lives, the completion condition has held. In a sequential one, tokens wait
before their activity until no other runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bpm_engine.bpmn.graph import Graph, Kind, Selection
from bpm_engine.core import scopes, waits
from bpm_engine.core.changes import Applied, Outcome, Refused
from bpm_engine.core.effects import AwaitSelection, AwaitTurn, Begin, CompleteAdHoc, Proceed
from bpm_engine.core.lifecycle import HALTED_INSTANCES, TERMINAL_INSTANCES, TERMINAL_TOKENS
from bpm_engine.core.needs import Lacking, Needs
from bpm_engine.core.state import LogKind, Phase, Scope, ScopeState, Token, TokenState, Waiting
from bpm_engine.core.stimuli import ActivitySelected

if TYPE_CHECKING:
    from bpm_engine.core.marking import Marking
    from bpm_engine.core.visit import Visit


# ------------------------------------------------------------------ looking


def _living(marking: Marking, scope: Scope) -> list[Token]:
    marking.draft.require_siblings(scope)
    tokens = marking.draft.tokens.where("scope_id", scope.id)
    return [token for token in tokens if token.state not in TERMINAL_TOKENS]


def is_complete(visit: Visit) -> bool:
    scope = visit.marking.draft.scope(visit.token.scope_id)
    return _is_complete(visit.marking, visit.graph, scope)


def _is_complete(marking: Marking, graph: Graph, scope: Scope) -> bool:
    if not _selection(graph, scope.node_id).waits:
        return False
    return not any(graph.nodes[token.node_id].kind is Kind.SELECT for token in _living(marking, scope))


def _selection(graph: Graph, scope_id: str) -> Selection:
    spec = graph.nodes[graph.scopes[scope_id].starts[0]].spec
    assert isinstance(spec, Selection)
    return spec


def must_wait(visit: Visit) -> bool:
    if visit.graph.scopes[visit.node.scope].ordering != "Sequential":
        return False
    return _is_busy(visit.marking, visit.graph, visit.marking.draft.scope(visit.token.scope_id))


def _is_busy(marking: Marking, graph: Graph, scope: Scope) -> bool:
    return any(graph.nodes[token.node_id].is_activity for token in _living(marking, scope))


# ------------------------------------------------------------------ effects


def begin(marking: Marking, visit: Visit, effect: Begin) -> None:
    scope = marking.draft.scope(visit.token.scope_id)
    for token in [marking.spawn(scope, node, mode=visit.token.mode) for node in effect.nodes]:
        marking.start(token)


def await_selection(marking: Marking, visit: Visit, effect: AwaitSelection) -> None:
    marking.rest(visit, state=TokenState.WAITING, waiting_for=Waiting.SELECTION)


def await_turn(marking: Marking, visit: Visit, effect: AwaitTurn) -> None:
    marking.put(visit.token, state=TokenState.WAITING, waiting_for=Waiting.TURN, phase=Phase.ENTER)


def proceed(marking: Marking, visit: Visit, effect: Proceed) -> None:
    (flow,) = visit.node.outgoing
    token = visit.token
    activation = token.activation + 1
    moved = marking.put(token, node_id=flow.target, flow_id=flow.id, activation=activation, phase=Phase.ENTER)
    marking.start(moved)


def complete(marking: Marking, visit: Visit, effect: CompleteAdHoc) -> None:
    """Activities that may run to their end are all that stays; where none does, the scope ends with this."""
    marking.journal.log(LogKind.COMPLETED, visit.token)
    scope = marking.draft.scope(visit.token.scope_id)
    for found in _living(marking, scope):
        token, node = marking.draft.token(found.id), visit.graph.nodes[found.node_id]
        if token.id == visit.token.id or token.state in TERMINAL_TOKENS:
            continue
        if node.kind is Kind.SELECT:
            marking.journal.log(LogKind.COMPLETED, token)
            marking.end(token)
        elif effect.cancels or not node.is_activity:
            scopes.cancel_token(marking, token)
    if marking.draft.scope(scope.id).live == 1:
        waits.close_handlers(marking, scope)
    marking.end(visit.token)


def next_turn(marking: Marking, scope: Scope) -> bool:
    """When nothing runs in a sequential sub-process, who waits longest begins."""
    graph = marking.graph(scope.instance_id)
    if graph.scopes[scope.node_id].ordering != "Sequential" or marking.is_halted(scope.instance_id):
        return False
    waiting = [
        token
        for token in _living(marking, scope)
        if token.waiting_for is Waiting.TURN and token.state is TokenState.WAITING
    ]
    if not waiting or _is_busy(marking, graph, scope):
        return False
    first = min(waiting, key=lambda token: (token.entered_at, token.id))
    marking.start(marking.put(first, state=TokenState.READY, waiting_for=None))
    return True


# ------------------------------------------------------------------ selecting


def select(marking: Marking, stimulus: ActivitySelected) -> Outcome:
    instance = marking.draft.instances.get(stimulus.instance_id)
    if instance is None:
        if marking.draft.snapshot.whole or stimulus.instance_id in marking.draft.snapshot.absent:
            return Refused("NOT_FOUND", "there is no such instance")
        raise Lacking(Needs(instances=frozenset({stimulus.instance_id})))
    if instance.status in HALTED_INSTANCES or instance.status in TERMINAL_INSTANCES:
        return Refused("INSTANCE_HALTED", f"the instance is {instance.status}; nothing can begin in it")
    graph = marking.graph(instance.id)
    place = _place(marking, graph, stimulus)
    if isinstance(place, Refused):
        return place
    if _is_complete(marking, graph, place):
        return Refused("AD_HOC_COMPLETE", "the ad-hoc sub-process is complete; nothing can begin in it")
    entry = dict(_selection(graph, place.node_id).enabled)[stimulus.node_id]
    local = dict(stimulus.variables) or None
    marking.start(marking.spawn(place, entry, local=local, mode=scopes.mode_inside(marking, place)))
    return Applied()


def _place(marking: Marking, graph: Graph, stimulus: ActivitySelected) -> Scope | Refused:
    """The activation of the ad-hoc sub-process in which the activity is to begin."""
    node = graph.nodes.get(stimulus.node_id)
    scope_id = None if node is None else _around(graph, node.scope)
    if scope_id is None or stimulus.node_id not in dict(_selection(graph, scope_id).enabled):
        return Refused("NOT_ENABLED", f"{stimulus.node_id!r} is no activity that can be selected")
    marking.draft.require_complete(marking.draft.scope(stimulus.instance_id))
    active = [
        scope
        for scope in marking.draft.scopes.where("instance_id", stimulus.instance_id)
        if scope.node_id == scope_id and scope.state is ScopeState.ACTIVE
        if stimulus.scope_id in (None, scope.id)
    ]
    if not active:
        return Refused("AD_HOC_NOT_ACTIVE", f"the ad-hoc sub-process {scope_id!r} is not active")
    if len(active) > 1:
        names = ", ".join(scope.id for scope in active)
        return Refused("AMBIGUOUS_SCOPE", f"{scope_id!r} is active {len(active)} times; say which: {names}")
    return active[0]


def _around(graph: Graph, scope_id: str) -> str | None:
    """The ad-hoc sub-process directly around a node; a repetition of the node lies between."""
    spec = graph.scopes[scope_id]
    if spec.kind == "repeat" and spec.parent is not None:
        spec = graph.scopes[spec.parent]
    return spec.id if spec.kind == "adhoc" else None
