"""Events on their way out: leased, published outside a transaction, marked; in order per instance.

The order hangs on one row: the oldest pending event of an instance, its head. Only heads are looked for and
locked, and the head's instance goes to whoever got it, with the events that follow. Locking row by row with
SKIP LOCKED would hand the later events of an instance to a second dispatcher. An event that cannot be
published becomes Dead after its attempts: visible, and no longer in the way of the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec
import sqlalchemy as sa

from bpm_engine.core.state import Variables
from bpm_engine.store import rows
from bpm_engine.store.records import Shape
from bpm_engine.store.rows import id_source, row_source
from bpm_engine.store.schema import event_outbox
from bpm_engine.store.statuses import OutboxStatus, fixed, still
from bpm_engine.store.transaction import Transaction
from bpm_engine.store.types import Id, Instant, Unreadable

NOW = sa.bindparam("now", type_=Instant)
UNTIL = sa.bindparam("until", type_=Instant)
OWNER = sa.bindparam("owner", type_=sa.Text())
LIMIT = sa.bindparam("limit", type_=sa.Integer())


class OutboxRow(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """Table event_outbox, whole: the event and how far it has come."""

    id: str
    tenant_id: str
    instance_id: str
    root_instance_id: str
    seq: int
    type: str
    data: Variables
    at: datetime
    status: OutboxStatus
    attempts: int
    next_at: datetime
    lease_owner: str | None
    error: str | None
    published_at: datetime | None


OUTBOX = Shape(OutboxRow, event_outbox)


def lease_events(tx: Transaction, *, owner: str, limit: int, lease: timedelta) -> list[OutboxRow]:
    """Up to `limit` pending events, per instance in order and without gaps. Publish in the order of the list.

    Until the lease is over nobody else gets an event of these instances. After a failure publish no later
    event of that instance: `postpone_events` it.
    """
    values = {"owner": owner, "limit": limit, "now": tx.now(), "until": tx.now() + lease}
    leased = tx.execute(LEASE_EVENTS, values).all()
    events = OUTBOX.read(leased, {})
    if len(events) < len(leased):
        _bury(tx, leased, {event.id for event in events})
    return sorted(events, key=lambda event: (event.at, event.id))


def _bury(tx: Transaction, leased: Sequence[sa.Row[Any]], readable: set[str]) -> None:
    """What cannot be read can never be published: dead at once, where an operator sees it."""
    spoilt = [row for row in leased if row.id not in readable]
    dead = [
        (row.id, tx.now(), row.data.reason if isinstance(row.data, Unreadable) else "it is no object")
        for row in spoilt
    ]
    tx.execute(BURY, {"given": rows.rows(dead), "now": tx.now()})


def mark_published(tx: Transaction, owner: str, event_ids: Iterable[str]) -> frozenset[str]:
    """Fenced: only what `owner` still holds. What is missing in the answer will be published once more."""
    values = {"ids": rows.ids(event_ids), "owner": owner, "now": tx.now()}
    return frozenset(row.id for row in tx.execute(MARK_PUBLISHED, values))


def postpone_events(
    tx: Transaction, owner: str, failures: Sequence[tuple[str, datetime, str]], *, attempts: int
) -> frozenset[str]:
    """Back off: (event id, next try, error) each. The instance's later events wait with it.

    An event that has failed `attempts` times becomes Dead; the ids of these are the answer.
    """
    values = {
        "given": rows.rows(failures),
        "owner": owner,
        "attempts": attempts,
        "now": tx.now(),
    }
    changed = tx.execute(POSTPONE, values).all()
    waiting = [(row.instance_id, row.next_at) for row in changed if row.status is OutboxStatus.PENDING]
    if waiting:
        tx.execute(POSTPONE_REST, {"given": rows.rows(waiting), "now": tx.now()})
    return frozenset(row.id for row in changed if row.status is OutboxStatus.DEAD)


def release_events(tx: Transaction, owner: str, event_ids: Iterable[str]) -> int:
    """Give back what was leased and not tried."""
    return tx.execute(RELEASE, {"ids": rows.ids(event_ids), "owner": owner, "now": tx.now()}).rowcount


def requeue_events(tx: Transaction, tenant_id: str, event_ids: Iterable[str]) -> frozenset[str]:
    """Dead events of a tenant get all their attempts again; the ids of those that were Dead."""
    values = {"ids": rows.ids(event_ids), "tenant": tenant_id, "now": tx.now()}
    return frozenset(row.id for row in tx.execute(REQUEUE, values))


def drop_events(tx: Transaction, tenant_id: str, event_ids: Iterable[str]) -> frozenset[str]:
    """Delete dead events of a tenant; the ids of those that were Dead."""
    values = {"ids": rows.ids(event_ids), "tenant": tenant_id}
    return frozenset(row.id for row in tx.execute(DROP, values))


def purge_events(tx: Transaction, before: datetime, limit: int) -> int:
    """Delete events that were published before that time."""
    return tx.execute(PURGE, {"before": before, "limit": limit}).rowcount


def purge_unpublished(tx: Transaction, before: datetime, limit: int) -> int:
    """Delete events that have waited for a publisher since before that time."""
    return tx.execute(PURGE_UNPUBLISHED, {"before": before, "limit": limit}).rowcount


def next_due(tx: Transaction) -> datetime | None:
    """When the next pending event is to be looked at; None: there is none."""
    due: datetime | None = tx.execute(NEXT_DUE).scalar_one_or_none()
    return due


def count_events(tx: Transaction) -> dict[OutboxStatus, int]:
    """How many are pending and how many are dead."""
    return {row.status: row.number for row in tx.execute(COUNT)}


def _lease() -> sa.sql.dml.ReturningUpdate[tuple[object, ...]]:
    """The first event of an instance is compared with a minimum, not looked for by NOT EXISTS: a scalar
    subquery is answered by index row by row, whatever the planner believes about a table that changes faster
    than its statistics.
    """
    earlier, follower, busy = (event_outbox.alias(name) for name in ("earlier", "follower", "busy"))
    pending = fixed(OutboxStatus.PENDING)
    first = (
        sa.select(sa.func.min(earlier.c.seq))
        .where(earlier.c.instance_id == event_outbox.c.instance_id, earlier.c.status == pending)
        .scalar_subquery()
    )
    heads = (
        sa.select(event_outbox.c.id, event_outbox.c.instance_id)
        .where(event_outbox.c.status == pending, event_outbox.c.next_at <= NOW, event_outbox.c.seq == first)
        .order_by(event_outbox.c.next_at, event_outbox.c.id)
        .limit(LIMIT)
        .with_for_update(skip_locked=True, of=event_outbox)
        .cte("heads")
    )
    # Somebody else has these: the head was requeued and came in before them.
    first_busy = (
        sa.select(sa.func.min(busy.c.seq))
        .where(busy.c.instance_id == follower.c.instance_id, busy.c.status == pending, busy.c.next_at > NOW)
        .scalar_subquery()
    )
    taken = (
        sa.select(follower.c.id)
        .join(heads, follower.c.instance_id == heads.c.instance_id)
        .where(follower.c.status == pending)
        .where(follower.c.seq < sa.func.coalesce(first_busy, follower.c.seq + 1))
        .order_by(follower.c.seq, follower.c.id)
        .limit(LIMIT)
        .cte("taken")
    )
    return (
        event_outbox.update()
        .values(lease_owner=OWNER, next_at=UNTIL, updated_at=NOW)
        .where(event_outbox.c.id == taken.c.id, event_outbox.c.status == pending)
        .returning(*OUTBOX.columns)
    )


LEASE_EVENTS = _lease()
_IDS = id_source()
IS_MINE = sa.and_(still(OutboxStatus.PENDING, event_outbox.c.status), event_outbox.c.lease_owner == OWNER)
MARK_PUBLISHED = (
    event_outbox.update()
    .values(status=OutboxStatus.PUBLISHED, published_at=NOW, lease_owner=None, error=None, updated_at=NOW)
    .where(event_outbox.c.id == _IDS.c.id, IS_MINE)
    .returning(event_outbox.c.id)
)
_FAILED_COLUMNS: list[sa.Column[Any]] = [
    sa.Column("id", Id),
    sa.Column("next_at", Instant),
    sa.Column("error", sa.Text()),
]
_FAILED = row_source(_FAILED_COLUMNS)
_IS_LAST = event_outbox.c.attempts + 1 >= sa.bindparam("attempts", type_=sa.Integer())
POSTPONE = (
    event_outbox.update()
    .values(
        attempts=event_outbox.c.attempts + 1,
        status=sa.case((_IS_LAST, fixed(OutboxStatus.DEAD)), else_=fixed(OutboxStatus.PENDING)),
        next_at=_FAILED.c.next_at,
        error=_FAILED.c.error,
        lease_owner=None,
        updated_at=NOW,
    )
    .where(event_outbox.c.id == _FAILED.c.id, IS_MINE)
    .returning(event_outbox.c.id, event_outbox.c.instance_id, event_outbox.c.status, event_outbox.c.next_at)
)
BURY = (
    event_outbox.update()
    .values(
        status=OutboxStatus.DEAD,
        error=sa.literal("its data cannot be read: ") + _FAILED.c.error,
        lease_owner=None,
        updated_at=NOW,
    )
    .where(event_outbox.c.id == _FAILED.c.id)
)
_WAITING_COLUMNS: list[sa.Column[Any]] = [sa.Column("instance_id", Id), sa.Column("next_at", Instant)]
_WAITING = row_source(_WAITING_COLUMNS)
POSTPONE_REST = (
    event_outbox.update()
    .values(next_at=_WAITING.c.next_at, lease_owner=None, updated_at=NOW)
    .where(
        event_outbox.c.instance_id == _WAITING.c.instance_id,
        event_outbox.c.status == fixed(OutboxStatus.PENDING),
        event_outbox.c.next_at < _WAITING.c.next_at,
    )
)
RELEASE = (
    event_outbox.update()
    .values(next_at=NOW, lease_owner=None, updated_at=NOW)
    .where(event_outbox.c.id == _IDS.c.id, IS_MINE)
)
_IS_DEAD_OF_TENANT = sa.and_(
    event_outbox.c.id.in_(sa.select(_IDS.c.id)),
    event_outbox.c.tenant_id == sa.bindparam("tenant"),
    event_outbox.c.status == fixed(OutboxStatus.DEAD),
)
DROP = event_outbox.delete().where(_IS_DEAD_OF_TENANT).returning(event_outbox.c.id)
REQUEUE = (
    event_outbox.update()
    .values(status=OutboxStatus.PENDING, attempts=0, next_at=NOW, updated_at=NOW)
    .where(_IS_DEAD_OF_TENANT)
    .returning(event_outbox.c.id)
)


def _purging(status: OutboxStatus, since: sa.Column[Any]) -> sa.Delete:
    oldest = (
        sa.select(event_outbox.c.id)
        .where(event_outbox.c.status == fixed(status), since < sa.bindparam("before", type_=Instant))
        .order_by(since)
        .limit(LIMIT)
        .with_for_update(skip_locked=True)
    )
    return event_outbox.delete().where(event_outbox.c.id.in_(oldest))


PURGE = _purging(OutboxStatus.PUBLISHED, event_outbox.c.published_at)
PURGE_UNPUBLISHED = _purging(OutboxStatus.PENDING, event_outbox.c.next_at)
NEXT_DUE = (
    sa.select(event_outbox.c.next_at)
    .where(event_outbox.c.status == fixed(OutboxStatus.PENDING))
    .order_by(event_outbox.c.next_at)
    .limit(1)
)
COUNT = (
    sa.select(event_outbox.c.status, sa.func.count().label("number"))
    .where(event_outbox.c.status != OutboxStatus.PUBLISHED)
    .group_by(event_outbox.c.status)
)
