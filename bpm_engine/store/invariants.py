"""What must hold of the rows of a live database, each invariant one query that must find nothing (R59).

Read-only and safe beside running workers: a step commits all its rows together, so no query can see half of
one. The last group is about liveness: nothing is wrong with the rows, but nobody seems to work on them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from typing import Any

import sqlalchemy as sa

from bpm_engine.core.state import (
    CompensationStatus,
    InstanceStatus,
    LogKind,
    ScopeState,
    SubscriptionKind,
    SubscriptionStatus,
    TaskStatus,
    TimerStatus,
    TokenState,
    Waiting,
)
from bpm_engine.store.schema import (
    compensation_record,
    execution_log,
    human_task,
    message,
    parallel_join,
    process_definition,
    process_instance,
    scope,
    subscription,
    timer,
    token,
)
from bpm_engine.store.statuses import ENDED, GONE, HALTED, MessageStatus, fixed, still
from bpm_engine.store.transaction import Transaction
from bpm_engine.store.types import Instant

TENANT = sa.bindparam("tenant", type_=sa.Text())
LATE = sa.bindparam("late", type_=Instant)
OVERDUE = timedelta(hours=1)
REPORT = "This must not happen: please report it with the rows named here."
WAITS = "Move the token to where it should wait, or cancel the instance. " + REPORT
COUNTS = "Suspend the instance before anything else runs in it, and compare `instances.verify`. " + REPORT
FOREIGN = "A row was changed by foreign hands: compare with a backup."


@dataclass(frozen=True, slots=True)
class Invariant:
    name: str
    query: sa.Select[Any]  # of one column: which rows break it
    advice: str = REPORT


def violations(
    tx: Transaction,
    tenant_id: str,
    invariant: Invariant,
    shown: int,
    limits: Mapping[str, int] | None = None,
) -> tuple[int, tuple[str, ...]]:
    """How many rows break it, and the first of them. `limits`: of the settings, by parameter."""
    every = {"tenant": tenant_id, "late": tx.now() - OVERDUE, **(limits or {})}
    counting, names = _prepared(invariant)
    values = {name: every[name] for name in names if name in every}
    count = tx.execute(counting, values).scalar_one()
    if not count:
        return 0, ()
    return count, tuple(str(row[0]) for row in tx.execute(invariant.query.limit(shown), values))


@cache
def _prepared(invariant: Invariant) -> tuple[sa.Select[Any], frozenset[str]]:
    """How to count what breaks it, and the parameters that it knows. Both take longer than a look at a small
    database."""
    counting = sa.select(sa.func.count()).select_from(invariant.query.subquery())
    return counting, frozenset(invariant.query.compile().params)


# ------------------------------------------------------------------ the words of the queries


def _of(table: sa.Table, *conditions: sa.ColumnElement[bool]) -> sa.Select[Any]:
    return sa.select(table.c.id).where(table.c.tenant_id == TENANT, *conditions).order_by(table.c.id)


def _within(table: sa.Table, *conditions: sa.ColumnElement[bool]) -> sa.Select[Any]:
    """Rows of a table together with their instances."""
    joined = table.join(process_instance, process_instance.c.id == table.c.instance_id)
    return _of(table, *conditions).select_from(joined)


def _exists(*conditions: sa.ColumnElement[bool]) -> sa.ColumnElement[bool]:
    return sa.exists().where(*conditions)


def _count(table: sa.FromClause, *conditions: sa.ColumnElement[bool]) -> sa.ScalarSelect[int]:
    return sa.select(sa.func.count()).select_from(table).where(*conditions).scalar_subquery()


_TERMINAL = [fixed(state) for state in GONE]
_ENDED = [fixed(status) for status in ENDED]
_CLOSED = [fixed(ScopeState.COMPLETED), fixed(ScopeState.CANCELLED)]
_HALTED = [fixed(status) for status in HALTED]
other = token.alias("other")
inner = scope.alias("inner_scope")
called = process_instance.alias("called")

IS_LIVE = token.c.state.not_in(_TERMINAL)
OTHER_IS_LIVE = other.c.state.not_in(_TERMINAL)
IS_WAITING = token.c.state == fixed(TokenState.WAITING)
HAS_TIMER = _exists(timer.c.token_id == token.c.id, still(TimerStatus.SCHEDULED, timer.c.status))
HAS_SUBSCRIPTION = _exists(
    subscription.c.token_id == token.c.id, still(SubscriptionStatus.OPEN, subscription.c.status)
)
HAS_TASK = _exists(human_task.c.token_id == token.c.id, still(TaskStatus.OPEN, human_task.c.status))
HAS_CALL = _exists(called.c.parent_token_id == token.c.id, called.c.status.not_in(_ENDED))
HAS_SCOPE = _exists(inner.c.token_id == token.c.id, inner.c.state.not_in(_CLOSED))
HAS_RECORD = _exists(
    compensation_record.c.requested_by == token.c.id,
    compensation_record.c.status.in_([fixed(CompensationStatus.RUNNING), fixed(CompensationStatus.FAILED)]),
)
REASONS = {
    Waiting.TIMER: HAS_TIMER,
    Waiting.RETRY: HAS_TIMER,
    Waiting.START: HAS_TIMER,
    Waiting.EVENT: sa.or_(HAS_TIMER, HAS_SUBSCRIPTION),
    Waiting.HUMAN: HAS_TASK,
    Waiting.CALL: HAS_CALL,
    Waiting.SCOPE: HAS_SCOPE,
}


def _without_reason() -> sa.ColumnElement[bool]:
    each = [sa.and_(token.c.waiting_for == fixed(why), ~has) for why, has in REASONS.items()]
    return sa.or_(token.c.waiting_for.is_(None), *each)


def _outlived(wait: sa.Table, is_open: sa.ColumnElement[bool]) -> sa.Select[Any]:
    """Waits that are still open although who waited is gone, or the scope around it."""
    gone = _exists(token.c.id == wait.c.token_id, token.c.state.in_(_TERMINAL))
    closed = _exists(scope.c.id == wait.c.scope_id, scope.c.state.in_(_CLOSED))
    return _of(wait, is_open, sa.or_(gone, closed))


def _orphans(table: sa.Table) -> sa.Select[Any]:
    return _of(table, ~_exists(scope.c.id == table.c.scope_id))


def _foreign(table: sa.Table) -> sa.Select[Any]:
    wrong = sa.or_(
        process_instance.c.tenant_id != table.c.tenant_id,
        process_instance.c.root_instance_id != table.c.root_instance_id,
    )
    return _within(table, wrong)


def _log_with_gaps() -> sa.Select[Any]:
    numbered = (
        sa.select(
            execution_log.c.instance_id,
            sa.func.max(execution_log.c.seq).label("last"),
            sa.func.count().label("number"),
        )
        .where(execution_log.c.tenant_id == TENANT)
        .group_by(execution_log.c.instance_id)
        .subquery("numbered")
    )
    return (
        sa.select(scope.c.id)
        .join(numbered, numbered.c.instance_id == scope.c.id)
        .where(sa.or_(numbered.c.last != numbered.c.number, numbered.c.last != scope.c.seq))
        .order_by(scope.c.id)
    )


def _completed_twice() -> sa.Select[Any]:
    visit = (execution_log.c.token_id, execution_log.c.activation, execution_log.c.node_id)
    return (
        sa.select(execution_log.c.token_id)
        .where(execution_log.c.tenant_id == TENANT, execution_log.c.kind == fixed(LogKind.COMPLETED))
        .group_by(execution_log.c.instance_id, *visit)
        .having(sa.func.count() > 1)
    )


def _miscounted_joins() -> sa.Select[Any]:
    arrived = (
        sa.select(sa.func.count(sa.distinct(token.c.flow_id)))
        .where(
            token.c.scope_id == parallel_join.c.scope_id,
            token.c.node_id == parallel_join.c.node_id,
            token.c.waiting_for == fixed(Waiting.JOIN),
            IS_LIVE,
        )
        .correlate(parallel_join)
        .scalar_subquery()
    )
    return _of(parallel_join, parallel_join.c.joined != arrived)


def _two_compensations() -> sa.Select[Any]:
    record = compensation_record.c
    return (
        sa.select(record.requested_by)
        .where(record.tenant_id == TENANT, record.status == fixed(CompensationStatus.RUNNING))
        .where(record.handler_id.is_not(None), _exists(token.c.id == record.requested_by, IS_LIVE))
        .group_by(record.requested_by)
        .having(sa.func.count() > 1)
    )


_SCHEDULED = still(TimerStatus.SCHEDULED, timer.c.status)
_OWNED = (scope, token, parallel_join, timer, human_task, compensation_record)

INVARIANTS: tuple[Invariant, ...] = (
    Invariant(
        "running instance without a token",
        _of(
            process_instance,
            process_instance.c.status == fixed(InstanceStatus.RUNNING),
            ~_exists(token.c.instance_id == process_instance.c.id, IS_LIVE),
        ),
        "Put a token where it should be (`instances.move(id, None, node)`), or cancel it. " + REPORT,
    ),
    Invariant(
        "live token in an ended instance",
        _within(token, IS_LIVE, process_instance.c.status.in_(_ENDED)),
        "Nothing runs there any more; purge the instance when its history is no longer needed. " + REPORT,
    ),
    Invariant(
        "ended instance without an end, or the other way round",
        _of(
            process_instance,
            sa.case((process_instance.c.status.in_(_ENDED), 1), else_=0)
            != sa.case((process_instance.c.ended_at.is_not(None), 1), else_=0),
        ),
    ),
    Invariant("waiting token with nothing to wait for", _of(token, IS_WAITING, _without_reason()), WAITS),
    Invariant(
        "compensation that nobody carries out",
        _of(token, IS_WAITING, token.c.waiting_for == fixed(Waiting.COMPENSATION), ~HAS_RECORD),
        WAITS,
    ),
    Invariant(
        "token held in a running instance",
        _within(token, token.c.held, IS_LIVE, process_instance.c.status == fixed(InstanceStatus.RUNNING)),
        "Suspend and resume the instance: that lets go of its tokens. " + REPORT,
    ),
    Invariant(
        "timer set aside in a running instance",
        _within(
            timer,
            _SCHEDULED,
            timer.c.parked,
            process_instance.c.status == fixed(InstanceStatus.RUNNING),
        ),
        "Suspend and resume the instance: that brings its timers back. " + REPORT,
    ),
    Invariant(
        "claimable token in a halted instance",
        _within(token, token.c.ready_topic.is_not(None), process_instance.c.status.in_(_HALTED)),
        "Resume the instance and suspend it again: that holds its tokens. " + REPORT,
    ),
    Invariant(
        "incident without a reason",
        _of(token, token.c.state == fixed(TokenState.FAILED), token.c.error.is_(None)),
    ),
    Invariant(
        "executing token without a lease",
        _of(
            token,
            token.c.state == fixed(TokenState.EXECUTING),
            sa.or_(token.c.lease_owner.is_(None), token.c.lease_until.is_(None)),
        ),
        "Suspend the instance; nobody can tell whether a worker has it. " + REPORT,
    ),
    Invariant(
        "timer that outlived its token or scope",
        _outlived(timer, _SCHEDULED),
        "It has no effect any more, and goes with its instance. " + REPORT,
    ),
    Invariant(
        "subscription that outlived its token or scope",
        _outlived(subscription, still(SubscriptionStatus.OPEN, subscription.c.status)),
        "It has no effect any more, and goes with its instance. " + REPORT,
    ),
    Invariant(
        "task that outlived its token or scope",
        _outlived(human_task, still(TaskStatus.OPEN, human_task.c.status)),
        "It has no effect any more, and goes with its instance. " + REPORT,
    ),
    Invariant(
        "scope that counts its tokens wrongly",
        _of(scope, scope.c.live != _count(other, other.c.scope_id == scope.c.id, OTHER_IS_LIVE)),
        COUNTS,
    ),
    Invariant(
        "instance that counts its tokens wrongly",
        _of(
            scope,
            scope.c.id == scope.c.instance_id,
            scope.c.population != _count(other, other.c.instance_id == scope.c.id, OTHER_IS_LIVE),
        ),
        COUNTS,
    ),
    Invariant(
        "instance that counts its conditional waits wrongly",
        _of(
            scope,
            scope.c.id == scope.c.instance_id,
            scope.c.conditional
            != _count(
                subscription,
                subscription.c.instance_id == scope.c.id,
                subscription.c.kind == fixed(SubscriptionKind.CONDITION),
                still(SubscriptionStatus.OPEN, subscription.c.status),
            ),
        ),
        COUNTS,
    ),
    Invariant(
        "closed scope with live tokens",
        _of(scope, scope.c.state.in_(_CLOSED), _exists(token.c.scope_id == scope.c.id, IS_LIVE)),
        COUNTS,
    ),
    Invariant("join that counts its arrivals wrongly", _miscounted_joins(), COUNTS),
    Invariant("two compensations at once", _two_compensations()),
    Invariant("history with a gap", _log_with_gaps(), FOREIGN),
    Invariant("node run completed twice", _completed_twice()),
    Invariant(
        "called instance that outlived its caller",
        _of(
            process_instance,
            process_instance.c.status.not_in(_ENDED),
            _exists(token.c.id == process_instance.c.parent_token_id, token.c.state.in_(_TERMINAL)),
        ),
        "Cancel the called instance. " + REPORT,
    ),
    Invariant(
        "instance without its definition",
        _of(process_instance, ~_exists(process_definition.c.id == process_instance.c.definition_id)),
        "Put the definition back from a backup: the instance cannot go on without it.",
    ),
    *(
        Invariant(f"{table.name} without a scope", _orphans(table), FOREIGN)
        for table in _OWNED
        if table is not scope
    ),
    *(
        Invariant(f"{table.name} of another tenant or tree than its instance", _foreign(table), FOREIGN)
        for table in _OWNED
    ),
    Invariant(
        "consumed message without a receiver",
        _of(message, message.c.status == fixed(MessageStatus.CONSUMED), message.c.consumed_by.is_(None)),
    ),
)

LIVENESS: tuple[Invariant, ...] = (
    Invariant(
        "lease expired an hour ago",
        _of(token, token.c.state == fixed(TokenState.EXECUTING), token.c.lease_until < LATE),
        "The recovery service takes such tokens back: is it running?",
    ),
    Invariant(
        "timer overdue by an hour",
        _within(
            timer,
            _SCHEDULED,
            timer.c.due_at < LATE,
            process_instance.c.status == fixed(InstanceStatus.RUNNING),
        ),
        "The timers service fires it: is it running, and does it keep up?",
    ),
)
