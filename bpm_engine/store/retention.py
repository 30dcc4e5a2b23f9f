"""The end of rows: soft deletion, purging of whole ended call trees, and small sweeps.

A tree is purged in two statements of one transaction: its instances are marked as purged, which a CHECK
allows no earlier than their purge time, then deleted with everything that hangs on them. The number of rows
is bounded: trees are taken until their log entries, the bulk of what goes, fill the batch; a single bigger
tree goes alone.
"""

from __future__ import annotations

from datetime import datetime

import sqlalchemy as sa

from bpm_engine.core.state import InstanceStatus
from bpm_engine.store import rows
from bpm_engine.store.loading import is_below, members
from bpm_engine.store.rows import id_source
from bpm_engine.store.schema import DeliveryStatus, delivery, fixed, process_instance, scope
from bpm_engine.store.transaction import Transaction
from bpm_engine.store.types import Id, Instant
from bpm_engine.store.values import identifier

NOW = sa.bindparam("now", type_=Instant)
LIMIT = sa.bindparam("limit", type_=sa.Integer())
TENANT = sa.bindparam("of_tenant", type_=sa.Text())
INSTANCE = sa.bindparam("instance", type_=Id)


def delete_instance(
    tx: Transaction, tenant_id: str, instance_id: str, *, reason: str, actor: str | None
) -> bool:
    """Soft: an ended instance is hidden and can be purged. False: there is none, it runs, or it is
    deleted.
    """
    values = {"of_tenant": tenant_id, "instance": identifier(instance_id), "reason": reason, "actor": actor}
    return bool(tx.execute(DELETE_INSTANCE, {**values, "now": tx.now()}).rowcount)


def make_purgeable(tx: Transaction, tenant_id: str, instance_id: str) -> bool:
    """Bring the purge time of an ended top instance and of all that it called forward to now."""
    values = {"of_tenant": tenant_id, "instance": identifier(instance_id), "now": tx.now()}
    return bool(tx.execute(MAKE_PURGEABLE, values).rowcount)


def purge_trees(tx: Transaction, now: datetime, *, trees: int = 1000, log_rows: int = 50_000) -> int:
    """Delete ended trees that are past their purge time; how many. 0: nothing is left to do now."""
    candidates = tx.execute(PURGEABLE, {"now": now, "limit": trees}).all()
    chosen: list[str] = []
    total = 0
    for row in candidates:
        total += row.entries
        if chosen and total > log_rows:
            break
        chosen.append(row.id)
    if not chosen:
        return 0
    values = {"ids": rows.ids(chosen)}
    tx.execute(MARK_PURGED, {**values, "now": now})
    tx.execute(DELETE_PURGED, values)
    return len(chosen)


def purge_tree(tx: Transaction, tenant_id: str, instance_id: str) -> bool:
    """Delete an ended top instance and all that it called, now. False: there is none, or it has not ended."""
    if not make_purgeable(tx, tenant_id, instance_id):
        return False
    values = {"ids": rows.ids([instance_id])}
    tx.execute(MARK_PURGED, {**values, "now": tx.now()})
    tx.execute(DELETE_PURGED, values)
    return True


def purge_deliveries(tx: Transaction, before: datetime, limit: int) -> int:
    """Delete deliveries that were finished before that time."""
    return tx.execute(PURGE_DELIVERIES, {"before": before, "limit": limit}).rowcount


IS_ENDED = process_instance.c.status.in_([fixed(InstanceStatus.COMPLETED), fixed(InstanceStatus.CANCELLED)])
DELETE_INSTANCE = (
    process_instance.update()
    .values(
        deleted_at=NOW,
        deleted_by=sa.bindparam("actor", type_=sa.Text()),
        delete_reason=sa.bindparam("reason", type_=sa.Text()),
        updated_at=NOW,
    )
    .where(process_instance.c.id == INSTANCE, process_instance.c.tenant_id == TENANT)
    .where(IS_ENDED, process_instance.c.deleted_at.is_(None))
)
MAKE_PURGEABLE = (
    process_instance.update()
    .values(purge_at=NOW, updated_at=NOW)
    .where(
        process_instance.c.id.in_(members(INSTANCE)),
        process_instance.c.tenant_id == TENANT,
        IS_ENDED,
    )
)
_below = process_instance.alias("below")
_own_entries = (
    sa.select(scope.c.seq).where(scope.c.id == process_instance.c.id).correlate(process_instance)
).scalar_subquery()
_entries_below = (
    sa.select(sa.func.sum(scope.c.seq))
    .where(scope.c.id == _below.c.id, *is_below(_below, process_instance.c.id))
    .correlate(process_instance)
).scalar_subquery()
_entries = sa.func.coalesce(_own_entries, 0) + sa.func.coalesce(_entries_below, 0)
PURGEABLE = (
    sa.select(process_instance.c.id, _entries.label("entries"))
    .where(process_instance.c.depth == sa.literal_column("0"), process_instance.c.purge_at <= NOW, IS_ENDED)
    .where(
        ~sa.exists().where(
            *is_below(_below, process_instance.c.id),
            _below.c.status.not_in([fixed(InstanceStatus.COMPLETED), fixed(InstanceStatus.CANCELLED)]),
        )
    )
    .order_by(process_instance.c.purge_at, process_instance.c.id)
    .limit(LIMIT)
    .with_for_update(skip_locked=True, of=process_instance)
)
_TREES = id_source()
_MEMBERS = sa.union_all(sa.select(_TREES.c.id), sa.select(_below.c.id).where(*is_below(_below, _TREES.c.id)))
MARK_PURGED = (
    process_instance.update()
    .values(purge_at=sa.func.coalesce(process_instance.c.purge_at, NOW), purged_at=NOW, updated_at=NOW)
    .where(process_instance.c.id.in_(_MEMBERS))
)
DELETE_PURGED = process_instance.delete().where(
    process_instance.c.id.in_(_MEMBERS), process_instance.c.purged_at.is_not(None)
)
PURGE_DELIVERIES = delivery.delete().where(
    sa.tuple_(delivery.c.signal_id, delivery.c.subscription_id).in_(
        sa.select(delivery.c.signal_id, delivery.c.subscription_id)
        .where(delivery.c.status != DeliveryStatus.PENDING)
        .where(delivery.c.updated_at < sa.bindparam("before", type_=Instant))
        .order_by(delivery.c.updated_at)
        .limit(LIMIT)
    )
)
