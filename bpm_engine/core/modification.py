"""Modification: an operator withdraws tokens at one node and lets others begin at another.

The new token begins in the activation that is nearest to where the old one was; scopes that are missing
on the way are opened, with their input mappings, event sub-processes and boundary events, but without
their start events. A scope from which the last token is withdrawn has not completed: the token around it
is withdrawn as well, and so on outwards; an instance left without any token is cancelled.

A node with a multi-instance marker is moved as a whole. One item out of several can be moved inside the
item, not out of it: the repetition would lack it for ever.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

from bpm_engine.bpmn.expressions import ExpressionError
from bpm_engine.bpmn.graph import Graph, Kind
from bpm_engine.core import calls, incidents, scopes, waits
from bpm_engine.core.effects import Fault
from bpm_engine.core.lifecycle import TERMINAL_TOKENS
from bpm_engine.core.state import (
    Instance,
    InstanceStatus,
    LogKind,
    Phase,
    Scope,
    ScopeState,
    Token,
    TokenState,
)

if TYPE_CHECKING:
    from bpm_engine.core.marking import Marking

NOWHERE = frozenset({Kind.BOUNDARY, Kind.START})  # they begin by events of their own
NOT_CREATED = {"repeat": "a repetition", "event": "an event sub-process", "adhoc": "an ad-hoc sub-process"}


def move(marking: Marking, instance: Instance, from_node: str | None, to_node: str | None) -> None:
    """Start at the new place first, so that no scope ends in between. Faults take everything back."""
    marking.draft.require_complete(marking.draft.scope(instance.id))
    graph = marking.graph(instance.id)
    moved = [] if from_node is None else _resting(marking, instance, _whole(graph, from_node))
    if from_node is not None and not moved:
        raise Fault("NO_TOKEN", f"no token rests at {from_node!r}")
    if to_node is not None:
        _begin_all(marking, instance, graph, moved, _target(graph, to_node))
    marking.journal.log_instance(LogKind.MOVED, instance, {"from": from_node, "to": to_node})
    had_failed = any(token.error is not None for token in moved)
    _withdraw(marking, instance, moved)
    instance = marking.draft.instance(instance.id)
    if had_failed and instance.status is InstanceStatus.FAILED and not _has_incidents(marking, instance):
        incidents.release(marking, instance)


# ------------------------------------------------------------------ which tokens, which node


def live_tokens(marking: Marking, instance_id: str) -> list[Token]:
    tokens = marking.draft.tokens.where("instance_id", instance_id)
    return [token for token in tokens if token.state not in TERMINAL_TOKENS]


def _resting(marking: Marking, instance: Instance, node_id: str) -> list[Token]:
    moved = [token for token in live_tokens(marking, instance.id) if token.node_id == node_id]
    # Inside its own scope the repetition's node holds the feeder, which goes with the items.
    moved = [token for token in moved if marking.draft.scope(token.scope_id).node_id != node_id]
    if any(token.compensates is not None for token in moved):
        raise Fault("COMPENSATION_RUNS", f"{node_id!r} undoes a completed activity: retry or skip it instead")
    return moved


def _has_incidents(marking: Marking, instance: Instance) -> bool:
    return any(token.state is TokenState.FAILED for token in live_tokens(marking, instance.id))


def _whole(graph: Graph, node_id: str) -> str:
    """A repeated activity is named by its element, and meant with all its items."""
    node = graph.nodes.get(node_id)
    return node_id if node is None or graph.scopes[node.scope].kind != "repeat" else node.scope


def _target(graph: Graph, node_id: str) -> str:
    node = graph.nodes.get(node_id)
    refused = f"a token cannot be put at {node_id!r}"
    if node is None:
        raise Fault("NO_SUCH_NODE", f"{refused}: there is no such node{_near(graph, node_id)}")
    if node.kind in NOWHERE or node_id in _handlers(graph):
        raise Fault(
            "NO_SUCH_NODE", f"{refused}: it begins by an event, not by a token; name a node behind it"
        )
    if node.is_undo:
        raise Fault("NO_SUCH_NODE", f"{refused}: it undoes another activity, by compensation alone")
    return _whole(graph, node_id)


def _near(graph: Graph, node_id: str) -> str:
    """Of the elements in the file: nodes made by compilation have names that nobody knows."""
    meant = get_close_matches(node_id, {node.element for node in graph.nodes.values()}, n=1)
    return f"; did you mean {meant[0]!r}?" if meant else ""


def _handlers(graph: Graph) -> set[str]:
    """Event sub-processes: they begin by their events alone."""
    return {scope.id for scope in graph.scopes.values() if scope.kind == "event"}


# ------------------------------------------------------------------ beginning


def _begin_all(marking: Marking, instance: Instance, graph: Graph, moved: list[Token], target: str) -> None:
    """One new token for each branch that is left, however many tokens it held inside."""
    wanted = _chain(graph, graph.nodes[target].scope)
    branches: dict[str, Scope] = {}
    for token in moved:
        at, scope = token, marking.draft.scope(token.scope_id)
        while scope.node_id not in wanted:
            owner = marking.owner(scope)
            assert owner is not None
            at, scope = owner, marking.draft.scope(owner.scope_id)
        branches[at.id] = scope
    spawn = marking.spawn_instead if moved else marking.spawn
    for near in list(branches.values()) or [marking.draft.scope(instance.id)]:
        try:
            place = _descend(marking, graph, near, wanted[wanted.index(near.node_id) + 1 :], target)
        except ExpressionError as error:
            raise Fault(error.code, f"the way to {target!r} cannot be opened: {error}") from error
        marking.start(spawn(place, target, mode=scopes.mode_inside(marking, place)))


def _chain(graph: Graph, scope_id: str) -> list[str]:
    """The scopes from the process inwards to this one."""
    chain: list[str] = []
    place: str | None = scope_id
    while place is not None:
        chain.insert(0, place)
        place = graph.scopes[place].parent
    return chain


def _descend(marking: Marking, graph: Graph, scope: Scope, inwards: list[str], target: str) -> Scope:
    for scope_id in inwards:
        rows = marking.draft.scopes.where("parent_id", scope.id)
        active = [s for s in rows if s.node_id == scope_id and s.state is ScopeState.ACTIVE]
        if len(active) > 1:
            raise Fault(
                "AMBIGUOUS_SCOPE",
                f"{scope_id!r} is active {len(active)} times, and {target!r} lies in it: "
                "move a token that is inside, or the whole of it",
            )
        scope = active[0] if active else _open(marking, graph, scope, scope_id, target)
    return scope


def _open(marking: Marking, graph: Graph, scope: Scope, scope_id: str, target: str) -> Scope:
    """As if the sub-process had been entered, up to its start events (10.3.5)."""
    kind = graph.scopes[scope_id].kind
    if kind in NOT_CREATED:
        raise Fault(
            "NO_SUCH_SCOPE",
            f"{target!r} lies inside {NOT_CREATED[kind]}, {graph.nodes[scope_id].element!r}, which is not "
            f"active; {'it begins by its event' if kind == 'event' else 'move to the whole of it'}",
        )
    token = marking.spawn(scope, scope_id, mode=scopes.mode_inside(marking, scope))
    visit = marking.visit(token)
    if visit.node.inputs:
        visit.token = marking.put(token, local=visit.mapped(visit.node.inputs))
    opened = scopes.opened(marking, visit)
    waits.open_handlers(marking, opened, graph)
    return opened


# ------------------------------------------------------------------ withdrawing


def _withdraw(marking: Marking, instance: Instance, moved: list[Token]) -> None:
    doomed = {token.id: token for token in moved}
    while emptied := _emptied(marking, doomed):
        if emptied.id == instance.id:
            _cancel_instance(marking, instance)
            return
        owner = marking.owner(emptied)
        assert owner is not None
        doomed = {i: token for i, token in doomed.items() if token.scope_id != emptied.id}
        doomed[owner.id] = owner
    for token in doomed.values():
        if marking.draft.scope(token.scope_id).loop is not None:
            raise Fault(
                "INSIDE_REPETITION",
                f"the token at {token.node_id!r} is one item of several, and the repetition would lack it: "
                "move it inside the item, or move the whole activity",
            )
    for token in doomed.values():
        scopes.cancel_token(marking, marking.draft.token(token.id))


def _emptied(marking: Marking, doomed: dict[str, Token]) -> Scope | None:
    """A scope that would be left without a token."""
    for token in doomed.values():
        scope = marking.draft.scope(token.scope_id)
        if scope.live <= sum(other.scope_id == scope.id for other in doomed.values()):
            return scope
    return None


def _cancel_instance(marking: Marking, instance: Instance) -> None:
    calls.cancel_instance(marking, instance, "its last token was withdrawn")
    if instance.parent_token_id is not None:
        caller = marking.draft.token(instance.parent_token_id)
        words = "the last token of the called instance was withdrawn"
        incidents.fail(marking, caller, Phase.ENTER, "CALLED_INSTANCE_CANCELLED", words)
