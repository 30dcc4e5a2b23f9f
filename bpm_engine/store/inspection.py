"""Everything that is live in instances, read without a lock: for looking, explaining, planning.

One statement per table, however many instances. Terminal tokens, closed scopes and settled waits are left
out, but for the scopes that unfinished compensation records name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import sqlalchemy as sa

from bpm_engine.core.state import (
    CompensationRecord,
    CompensationStatus,
    HumanTask,
    Instance,
    Join,
    OwnedRecord,
    Scope,
    Subscription,
    Timer,
    Token,
)
from bpm_engine.store import rows
from bpm_engine.store.loading import IS_LIVE, IS_OPEN, IS_OPEN_SCOPE, IS_OPEN_TASK, IS_SCHEDULED
from bpm_engine.store.records import (
    COMPENSATION,
    INSTANCE,
    JOIN,
    SCOPE,
    SUBSCRIPTION,
    TASK,
    TIMER,
    TOKEN,
    Shape,
)
from bpm_engine.store.rows import id_source
from bpm_engine.store.schema import (
    compensation_record,
    human_task,
    parallel_join,
    process_instance,
    scope,
    subscription,
    timer,
    token,
)
from bpm_engine.store.statuses import fixed
from bpm_engine.store.transaction import Transaction

R = TypeVar("R", bound=OwnedRecord)


@dataclass(frozen=True, slots=True)
class Live:
    """The live rows of one instance. `called`: the instances that its tokens wait for, by token."""

    tokens: list[Token]
    scopes: dict[str, Scope]
    joins: list[Join]
    timers: list[Timer]
    subscriptions: list[Subscription]
    tasks: list[HumanTask]
    records: list[CompensationRecord]
    called: dict[str, Instance]


def load_live(tx: Transaction, instance_ids: Sequence[str]) -> dict[str, Live]:
    values = {"ids": rows.ids(instance_ids)}

    def read(shape: Shape[R], statement: sa.Select[Any]) -> dict[str, list[R]]:
        found: dict[str, list[R]] = {instance_id: [] for instance_id in instance_ids}
        for record in shape.read(tx.execute(statement, values)):
            found[record.instance_id].append(record)
        return found

    tokens, scopes, joins = read(TOKEN, TOKENS), read(SCOPE, SCOPES), read(JOIN, JOINS)
    timers, subscriptions = read(TIMER, TIMERS), read(SUBSCRIPTION, SUBSCRIPTIONS)
    tasks, records = read(TASK, TASKS), read(COMPENSATION, RECORDS)
    called = INSTANCE.read(tx.execute(CALLED, values))
    return {
        each: Live(
            tokens=tokens[each],
            scopes={scope.id: scope for scope in scopes[each]},
            joins=joins[each],
            timers=timers[each],
            subscriptions=subscriptions[each],
            tasks=tasks[each],
            records=records[each],
            called={
                i.parent_token_id: i for i in called if i.parent_token_id and i.parent_instance_id == each
            },
        )
        for each in instance_ids
    }


_IDS = id_source()
_UNFINISHED = compensation_record.c.status != fixed(CompensationStatus.COMPLETED)


def _of(shape: Shape[Any], table: sa.Table, *conditions: sa.ColumnElement[bool]) -> sa.Select[Any]:
    return sa.select(*shape.columns).where(table.c.instance_id == _IDS.c.id, *conditions).order_by(table.c.id)


TOKENS = _of(TOKEN, token, IS_LIVE)
SCOPES = _of(
    SCOPE,
    scope,
    sa.or_(
        IS_OPEN_SCOPE,
        sa.exists().where(
            compensation_record.c.instance_id == scope.c.instance_id,
            _UNFINISHED,
            sa.or_(
                compensation_record.c.scope_id == scope.c.id,
                compensation_record.c.inner_scope_id == scope.c.id,
            ),
        ),
    ),
)
JOINS = _of(JOIN, parallel_join)
TIMERS = _of(TIMER, timer, IS_SCHEDULED)
SUBSCRIPTIONS = _of(SUBSCRIPTION, subscription, IS_OPEN)
TASKS = _of(TASK, human_task, IS_OPEN_TASK)
RECORDS = _of(COMPENSATION, compensation_record, _UNFINISHED)
CALLED = (
    sa.select(*INSTANCE.columns)
    .join(token, token.c.id == process_instance.c.parent_token_id)
    .where(token.c.instance_id == _IDS.c.id, process_instance.c.ended_at.is_(None))
    .order_by(process_instance.c.id)
)
