"""What is due: timers, expired leases, schedules. Candidates come with their trees already locked.

Each query walks a partial index and takes the root scopes of what it finds by SKIP LOCKED, so that any number
of sweepers may run at once: what one holds the others pass over. Page on with the last key; a row that cannot
be dealt with is passed over as well and stops nobody.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, NamedTuple

import msgspec
import sqlalchemy as sa
from msgspec.structs import replace

from bpm_engine.core.state import InstanceStatus, Timer, TimerStatus, TokenState
from bpm_engine.store.records import TIMER, Shape
from bpm_engine.store.rows import id_source, ids, row_source, rows
from bpm_engine.store.schema import process_instance, schedule, scope, timer, token
from bpm_engine.store.statuses import ScheduleStatus, fixed, still
from bpm_engine.store.transaction import Transaction
from bpm_engine.store.types import EPOCH, Id, Instant

FIRST_ID = "00000000-0000-0000-0000-000000000000"
NOW = sa.bindparam("now", type_=Instant)
LIMIT = sa.bindparam("limit", type_=sa.Integer())
AFTER = sa.bindparam("after", type_=Id)
Key = tuple[datetime, str]


class Stuck(NamedTuple):
    """A token to be dealt with by its id; its other values may be unreadable."""

    id: str
    version: int
    root_instance_id: str


class Schedule(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """Table schedule: a timer start of the latest version of a definition. `due_at` None: nothing left to
    fire.
    """

    id: str
    tenant_id: str
    definition_id: str
    definition_key: str
    node_id: str
    event: int = 0
    due_at: datetime | None = None
    cycle: str | None = None
    remaining: int | None = None
    anchor_at: datetime | None = None
    catch_up: str = "once"
    status: ScheduleStatus = ScheduleStatus.ACTIVE
    fired: int = 0
    version: int = 1


SCHEDULE = Shape(Schedule, schedule)


def due_timers(tx: Transaction, now: datetime, limit: int, after: Key | None = None) -> list[Timer]:
    """The timers that are due, earliest first, of running instances whose trees were free; now held by
    `tx`.
    """
    due_at, timer_id = after or (EPOCH, FIRST_ID)
    values = {"now": now, "limit": limit, "due_at": due_at, "after": timer_id}
    return TIMER.read(tx.execute(DUE_TIMERS, values), {})


def latest_timers(tx: Transaction, now: datetime, limit: int) -> list[Timer]:
    """The same from the other end, latest first; none whose instance has an earlier one still to fire."""
    return TIMER.read(tx.execute(LATEST_TIMERS, {"now": now, "limit": limit}), {})


def park_timers(tx: Transaction, now: datetime, limit: int) -> int:
    """Take due timers of halted instances out of the sweep's way; how many. Each of them is met once, not
    with every look."""
    return len(tx.execute(PARK, {"now": now, "limit": limit}).all())


def unpark_timers(tx: Transaction, instance_ids: Iterable[str]) -> None:
    """These instances go on: what came due meanwhile fires."""
    tx.execute(UNPARK, {"ids": ids(instance_ids), "now": tx.now()})


def next_due(tx: Transaction) -> datetime | None:
    """When the next timer or schedule is due: idle services sleep until then."""
    due: datetime | None = tx.execute(NEXT).scalar()
    return due


def expired_leases(tx: Transaction, now: datetime, limit: int, after: str | None = None) -> list[Stuck]:
    """Tokens whose worker has let its lease run out, in order of their ids; their trees are held by `tx`."""
    values = {"now": now, "limit": limit, "after": after or FIRST_ID}
    return [Stuck._make(row) for row in tx.execute(EXPIRED_LEASES, values)]


def unclaimed_tokens(tx: Transaction, topics: Iterable[str], before: datetime, limit: int) -> list[Stuck]:
    """Tokens of these topics that are Ready since before that time and whose topic nobody works on now; their
    trees are held by `tx`.
    """
    names = rows([(topic,) for topic in topics])
    values = {"names": names, "before": before, "limit": limit}
    return [Stuck._make(row) for row in tx.execute(UNCLAIMED_TOKENS, values)]


def replace_schedules(tx: Transaction, tenant_id: str, definition_key: str, new: list[Schedule]) -> None:
    """Timer starts belong to the latest version: those of the former one end. One that was paused stays so:
    a deployment is no reason to go on.
    """
    values = {"tenant": tenant_id, "key": definition_key, "now": tx.now()}
    paused = {(row.node_id, row.event) for row in tx.execute(PAUSED_SCHEDULES, values)} if new else set()
    tx.execute(END_SCHEDULES, values)
    if new:
        given = SCHEDULE.given(
            replace(s, status=ScheduleStatus.PAUSED) if (s.node_id, s.event) in paused else s for s in new
        )
        tx.execute(ADD_SCHEDULES, {"given": given, "now": tx.now()})


def due_schedules(tx: Transaction, now: datetime, limit: int, after: Key | None = None) -> list[Schedule]:
    """Schedules to fire, locked until the end of `tx`; what another sweeper holds is left out."""
    due_at, schedule_id = after or (EPOCH, FIRST_ID)
    values = {"now": now, "limit": limit, "due_at": due_at, "after": schedule_id}
    return SCHEDULE.read(tx.execute(DUE_SCHEDULES, values))


def update_schedules(tx: Transaction, changed: list[Schedule]) -> frozenset[str]:
    """Write the new due times (`version` raised by one); the ids of those that were still as they were
    read.
    """
    given = SCHEDULE.given(changed)
    return frozenset(row.id for row in tx.execute(UPDATE_SCHEDULES, {"given": given, "now": tx.now()}))


def _taking_roots(query: sa.Select[Any], root_instance_id: sa.ColumnElement[str]) -> sa.Select[Any]:
    root = scope.alias("root")
    return query.join(root, root.c.id == root_instance_id).with_for_update(
        key_share=True, skip_locked=True, of=root
    )


_DUE_AFTER = sa.tuple_(timer.c.due_at, timer.c.id) > sa.tuple_(sa.bindparam("due_at", type_=Instant), AFTER)
IS_SCHEDULED = still(TimerStatus.SCHEDULED, timer.c.status)
IS_WAKING = sa.and_(IS_SCHEDULED, sa.text("NOT timer.parked"))
# A scalar subquery, answered row by row: a join might begin with all instances that run.
_status_of_instance = (
    sa.select(process_instance.c.status)
    .where(process_instance.c.id == timer.c.instance_id)
    .correlate(timer)
    .scalar_subquery()
)
_DUE = (
    sa.select(*TIMER.columns)
    .where(IS_WAKING, timer.c.due_at <= NOW, _status_of_instance == fixed(InstanceStatus.RUNNING))
    .limit(LIMIT)
)
DUE_TIMERS = _taking_roots(
    _DUE.where(_DUE_AFTER).order_by(timer.c.due_at, timer.c.id), timer.c.root_instance_id
)
_earlier = timer.alias("earlier")
LATEST_TIMERS = _taking_roots(
    _DUE.where(
        ~sa.exists().where(
            _earlier.c.instance_id == timer.c.instance_id,
            still(TimerStatus.SCHEDULED, _earlier.c.status),
            sa.tuple_(_earlier.c.due_at, _earlier.c.id) < sa.tuple_(timer.c.due_at, timer.c.id),
        )
    ).order_by(timer.c.due_at.desc(), timer.c.id.desc()),
    timer.c.root_instance_id,
)
NEXT_TIMER = sa.select(sa.func.min(timer.c.due_at)).where(IS_WAKING)
_OF_HALTED = _taking_roots(
    sa.select(timer.c.id)
    .where(IS_WAKING, timer.c.due_at <= NOW, _status_of_instance != fixed(InstanceStatus.RUNNING))
    .order_by(timer.c.due_at, timer.c.id)
    .limit(LIMIT),
    timer.c.root_instance_id,
).cte("of_halted")
PARK = (
    timer.update()
    .values(parked=True, updated_at=NOW)
    .where(timer.c.id == _OF_HALTED.c.id)
    .returning(timer.c.id)
)
UNPARK = (
    timer.update()
    .values(parked=False, updated_at=NOW)
    .where(timer.c.instance_id.in_(sa.select(id_source().c.id)), sa.text("timer.parked"), IS_SCHEDULED)
)
_STUCK = (token.c.id, token.c.version, token.c.root_instance_id)
EXPIRED_LEASES = _taking_roots(
    sa.select(*_STUCK)
    .where(token.c.state == fixed(TokenState.EXECUTING), token.c.lease_until <= NOW, token.c.id > AFTER)
    .order_by(token.c.id)
    .limit(LIMIT),
    token.c.root_instance_id,
)
_NAMES = row_source([sa.Column("text", sa.Text())], "names")
_busy = token.alias("busy")
UNCLAIMED_TOKENS = _taking_roots(
    sa.select(*_STUCK)
    .where(token.c.ready_topic.is_not(None), token.c.ready_topic.in_(sa.select(_NAMES.c.text)))
    .where(token.c.updated_at <= sa.bindparam("before", type_=Instant))
    .where(
        ~sa.exists().where(_busy.c.state == fixed(TokenState.EXECUTING), _busy.c.topic == token.c.ready_topic)
    )
    .order_by(token.c.ready_topic, token.c.priority.desc(), token.c.id)
    .limit(LIMIT),
    token.c.root_instance_id,
)
IS_ACTIVE = schedule.c.status == fixed(ScheduleStatus.ACTIVE)
NEXT_SCHEDULE = sa.select(sa.func.min(schedule.c.due_at)).where(IS_ACTIVE)
_next = sa.union_all(
    NEXT_TIMER.with_only_columns(sa.func.min(timer.c.due_at).label("due_at")), NEXT_SCHEDULE
).subquery("coming")
NEXT = sa.select(sa.func.min(_next.c.due_at))
DUE_SCHEDULES = (
    sa.select(*SCHEDULE.columns)
    .where(IS_ACTIVE, schedule.c.due_at <= NOW)
    .where(
        sa.tuple_(schedule.c.due_at, schedule.c.id) > sa.tuple_(sa.bindparam("due_at", type_=Instant), AFTER)
    )
    .order_by(schedule.c.due_at, schedule.c.id)
    .limit(LIMIT)
    .with_for_update(skip_locked=True)
)
PAUSED_SCHEDULES = sa.select(schedule.c.node_id, schedule.c.event).where(
    schedule.c.tenant_id == sa.bindparam("tenant"),
    schedule.c.definition_key == sa.bindparam("key"),
    schedule.c.status == fixed(ScheduleStatus.PAUSED),
)
END_SCHEDULES = (
    schedule.update()
    .values(status=ScheduleStatus.ENDED, version=schedule.c.version + 1, updated_at=NOW)
    .where(
        schedule.c.tenant_id == sa.bindparam("tenant"),
        schedule.c.definition_key == sa.bindparam("key"),
        schedule.c.status != fixed(ScheduleStatus.ENDED),
    )
)
_NEW = row_source(SCHEDULE.columns)
ADD_SCHEDULES = schedule.insert().from_select(
    [*SCHEDULE.fields, "created_at", "updated_at"], sa.select(*_NEW.c, NOW, NOW)
)
_CHANGED = row_source(SCHEDULE.columns)
UPDATE_SCHEDULES = (
    schedule.update()
    .values(
        **{
            name: _CHANGED.c[name]
            for name in ("due_at", "remaining", "anchor_at", "catch_up", "status", "fired", "version")
        },
        updated_at=NOW,
    )
    .where(schedule.c.id == _CHANGED.c.id, schedule.c.version == _CHANGED.c.version - 1)
    .returning(schedule.c.id)
)
