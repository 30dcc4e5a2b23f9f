"""A waiting token has exactly one reason to wait, and every wait has a token or a scope that it serves.

Beyond `support.invariants`, which counts: here each `waiting_for` is held against the rows that justify it.
"""

from __future__ import annotations

from collections.abc import Iterator

from support.world import World

from bpm_engine.core.lifecycle import TERMINAL_INSTANCES, TERMINAL_TOKENS
from bpm_engine.core.state import (
    CompensationRecord,
    CompensationStatus,
    ScopeState,
    SubscriptionStatus,
    TaskStatus,
    TimerPurpose,
    TimerStatus,
    Token,
    TokenState,
    Waiting,
)


def unexplained(world: World) -> list[str]:
    """Waiting tokens without a reason, and waits without a token; empty when all is well."""
    waiting = [token for token in world.tokens.values() if token.state is TokenState.WAITING]
    lonely = [
        f"{token.node_id} waits for {token.waiting_for} and has {count} of it"
        for token in waiting
        if (count := _reasons(world, token)) != 1
    ]
    return [*lonely, *_orphans(world)]


def _reasons(world: World, token: Token) -> int:
    """How many rows justify that it waits; events may come from several, which are one reason."""
    match token.waiting_for:
        case Waiting.TIMER | Waiting.RETRY | Waiting.START:
            return _timers(world, token)
        case Waiting.EVENT:
            return min(1, _timers(world, token) + _subscriptions(world, token))
        case Waiting.HUMAN:
            tasks = world.tasks.where("token_id", token.id)
            return sum(task.status is TaskStatus.OPEN for task in tasks)
        case Waiting.SCOPE:
            scopes = world.scopes.where("token_id", token.id)
            return sum(scope.state in (ScopeState.ACTIVE, ScopeState.COMPENSATING) for scope in scopes)
        case Waiting.CALL:
            called = world.instances.where("parent_token_id", token.id)
            return sum(instance.status not in TERMINAL_INSTANCES for instance in called)
        case Waiting.JOIN:
            join = world.joins.get((token.scope_id, token.node_id))
            return int(join is not None and join.arrivals.get(token.flow_id or "", 0) > 0)
        case Waiting.COMPENSATION:
            return min(1, sum(record.requested_by == token.id for record in _running(world, token)))
        case _:
            return 1


def _running(world: World, token: Token) -> list[CompensationRecord]:
    records = world.compensations.where("instance_id", token.instance_id)
    unfinished = (CompensationStatus.RUNNING, CompensationStatus.FAILED)
    return [record for record in records if record.status in unfinished]


def _timers(world: World, token: Token) -> int:
    of_its_own = (TimerPurpose.EVENT, TimerPurpose.RETRY, TimerPurpose.START)
    timers = world.timers.where("token_id", token.id)
    return sum(timer.status is TimerStatus.SCHEDULED and timer.purpose in of_its_own for timer in timers)


def _subscriptions(world: World, token: Token) -> int:
    rows = world.subscriptions.where("token_id", token.id)
    return sum(row.status is SubscriptionStatus.OPEN for row in rows)


def _orphans(world: World) -> Iterator[str]:
    for scope in world.scopes.values():
        if scope.state is ScopeState.ACTIVE and scope.token_id is not None:
            owner = world.tokens[scope.token_id]
            if owner.state in TERMINAL_TOKENS:
                yield f"scope {scope.node_id} is active, its token ended"
    for instance in world.instances.values():
        if instance.parent_token_id is None or instance.status in TERMINAL_INSTANCES:
            continue
        if world.tokens[instance.parent_token_id].state in TERMINAL_TOKENS:
            yield f"instance {instance.id} runs, its call ended"
