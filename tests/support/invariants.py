"""What must hold of all rows between any two stimuli, whatever the process."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Protocol

from support.world import World

from bpm_engine.bpmn.graph import Graph, Kind
from bpm_engine.core.lifecycle import HALTED_INSTANCES, TERMINAL_INSTANCES, TERMINAL_TOKENS
from bpm_engine.core.state import (
    CompensationStatus,
    HumanTask,
    InstanceStatus,
    LogEntry,
    ScopeState,
    Subscription,
    SubscriptionKind,
    SubscriptionStatus,
    TaskStatus,
    Timer,
    TimerStatus,
    Token,
    TokenState,
    Waiting,
)

PARKED = (Waiting.JOIN, Waiting.TURN)


class Graphs(Protocol):
    def graph(self, definition_id: str) -> Graph | None: ...


def violations(world: World, definitions: Graphs, log: list[LogEntry]) -> list[str]:
    return [
        *_counters(world, definitions),
        *_joins(world),
        *_tokens(world),
        *_waits(world),
        *_history(world, log),
        *_compensation(world),
    ]


def _live(world: World, scope_id: str) -> list[Token]:
    return [t for t in world.tokens.where("scope_id", scope_id) if t.state not in TERMINAL_TOKENS]


def _is_parked(world: World, token: Token) -> bool:
    if token.waiting_for in PARKED and token.state in (TokenState.WAITING, TokenState.FAILED):
        return True
    inner = [scope.id for scope in world.scopes.where("token_id", token.id)]
    inner += [instance.id for instance in world.instances.where("parent_token_id", token.id)]
    return any(_is_stuck(world, scope_id) for scope_id in inner)


def _is_stuck(world: World, scope_id: str) -> bool:
    live = _live(world, scope_id)
    return bool(live) and all(_is_parked(world, token) for token in live)


def _counters(world: World, definitions: Graphs) -> Iterator[str]:
    for scope in world.scopes.values():
        live = _live(world, scope.id)
        graph = definitions.graph(world.instances[scope.instance_id].definition_id)
        assert graph is not None
        if scope.live != len(live):
            yield f"scope {scope.node_id} counts {scope.live} live tokens, there are {len(live)}"
        if scope.parked != sum(_is_parked(world, token) for token in live):
            yield f"scope {scope.node_id} counts {scope.parked} parked tokens wrongly"
        waiting = [t for t in live if t.waiting_for is Waiting.JOIN]
        inclusive = sum(graph.nodes[t.node_id].kind in (Kind.INCLUSIVE, Kind.COMPLEX) for t in waiting)
        if scope.inclusive_waiting != inclusive:
            yield f"scope {scope.node_id} counts {scope.inclusive_waiting} at inclusive joins"
        if scope.state in (ScopeState.COMPLETED, ScopeState.CANCELLED) and live:
            yield f"scope {scope.node_id} is {scope.state} with live tokens"
    for instance in world.instances.values():
        population = sum(
            len(_live(world, scope.id)) for scope in world.scopes.values() if scope.instance_id == instance.id
        )
        if world.scopes[instance.id].population != population:
            yield f"instance {instance.id} counts its tokens wrongly"
        conditions = sum(
            row.kind is SubscriptionKind.CONDITION and row.status is SubscriptionStatus.OPEN
            for row in world.subscriptions.where("instance_id", instance.id)
        )
        if world.scopes[instance.id].conditional != conditions:
            yield f"instance {instance.id} counts its conditional waits wrongly"


def _joins(world: World) -> Iterator[str]:
    for join in world.joins.values():
        parked: dict[str, int] = {}
        for token in _live(world, join.scope_id):
            if token.node_id == join.node_id and token.waiting_for is Waiting.JOIN:
                parked[token.flow_id or ""] = parked.get(token.flow_id or "", 0) + 1
        if join.arrivals != parked or join.joined != len(parked):
            yield f"join {join.node_id} counts {join.arrivals}, there wait {parked}"


def _tokens(world: World) -> Iterator[str]:
    for token in world.tokens.values():
        if token.state in TERMINAL_TOKENS:
            continue
        instance = world.instances[token.instance_id]
        if instance.status in TERMINAL_INSTANCES:
            yield f"token at {token.node_id} lives in an instance that is {instance.status}"
        if token.held and instance.status not in HALTED_INSTANCES:
            yield f"token at {token.node_id} is held in a running instance"
        if instance.status in HALTED_INSTANCES and token.state is TokenState.READY and not token.held:
            yield f"token at {token.node_id} is claimable in an instance that is {instance.status}"
        if (token.state is TokenState.WAITING) and token.waiting_for is None:
            yield f"token at {token.node_id} waits for nothing"
        if token.state is TokenState.FAILED and not token.error:
            yield f"token at {token.node_id} failed without a reason"
        if token.waiting_for is Waiting.SCOPE and token.state is TokenState.WAITING:
            inner = [
                s for s in world.scopes.where("token_id", token.id) if s.state is not ScopeState.CANCELLED
            ]
            if not inner:
                yield f"token at {token.node_id} waits around nothing"
    for instance in world.instances.values():
        running = instance.status is InstanceStatus.RUNNING
        if running and not any(
            t.instance_id == instance.id and t.state not in TERMINAL_TOKENS for t in world.tokens.values()
        ):
            yield f"instance {instance.id} is running without a token"


def _waits(world: World) -> Iterator[str]:
    timers = [t for t in world.timers.values() if t.status is TimerStatus.SCHEDULED]
    subscriptions = [x for x in world.subscriptions.values() if x.status is SubscriptionStatus.OPEN]
    tasks = [t for t in world.tasks.values() if t.status is TaskStatus.OPEN]
    waits: list[Timer | Subscription | HumanTask] = [*timers, *subscriptions, *tasks]
    for wait in waits:
        if wait.token_id is not None and world.tokens[wait.token_id].state in TERMINAL_TOKENS:
            yield f"a wait at {wait.node_id} outlived its token"
        scope = world.scopes[wait.scope_id]
        if scope.state in (ScopeState.COMPLETED, ScopeState.CANCELLED):
            yield f"a wait at {wait.node_id} outlived its scope"


def _history(world: World, log: list[LogEntry]) -> Iterator[str]:
    numbers: dict[str, list[int]] = {}
    for entry in log:
        numbers.setdefault(entry.instance_id, []).append(entry.seq)
    for instance_id, found in numbers.items():
        if any(after != before + 1 for before, after in pairwise([0, *found])):
            yield f"the history of {instance_id} has a gap: {found}"
        if world.scopes[instance_id].seq != found[-1]:
            yield f"the counter of {instance_id} is not its last number"


def _compensation(world: World) -> Iterator[str]:
    for instance in world.instances.values():
        running = [
            record
            for record in world.compensations.where("instance_id", instance.id)
            if record.status is CompensationStatus.RUNNING and record.handler_id is not None
        ]
        requesters = [record.requested_by for record in running]
        live = [r for r in requesters if r and world.tokens[r].state not in TERMINAL_TOKENS]
        if len(set(live)) != len(live):
            yield f"two compensations of {instance.id} run at once"
