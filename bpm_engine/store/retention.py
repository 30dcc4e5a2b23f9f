"""The end of rows: soft deletion, purging of whole ended call trees, and small sweeps.

What goes is first marked as purged, which a CHECK allows no earlier than its purge time; the triggers let
nothing else go. Every transaction is bounded in rows, told by log entries, the bulk of what goes. Trees are
taken until they fill the batch, marked and deleted at once. One with more than fits into a batch is only
marked: that hides it for good and frees its key, and nobody is kept waiting behind it. Then it goes batch by
batch, the instances that it called before the top, and of an instance with more than a batch the rows before
itself. Whoever comes next goes on where the last one died.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from bpm_engine.store import rows
from bpm_engine.store.loading import is_below
from bpm_engine.store.rows import id_source
from bpm_engine.store.schema import (
    compensation_record,
    delivery,
    execution_log,
    human_task,
    parallel_join,
    process_instance,
    scope,
    subscription,
    timer,
    token,
)
from bpm_engine.store.statuses import ENDED, DeliveryStatus, fixed
from bpm_engine.store.transaction import Transaction
from bpm_engine.store.types import Id, Instant
from bpm_engine.store.values import identifier

NOW = sa.bindparam("now", type_=Instant)
LIMIT = sa.bindparam("limit", type_=sa.Integer())
TENANT = sa.bindparam("of_tenant", type_=sa.Text())
INSTANCE = sa.bindparam("instance", type_=Id)
TREE = sa.bindparam("tree", type_=Id)
INSTANCES = 1_000  # looked at in one transaction, of a tree that does not fit into one
LOG_ROWS = 20_000


def delete_instance(
    tx: Transaction, tenant_id: str, instance_id: str, *, reason: str, actor: str | None
) -> bool:
    """Soft: an ended instance is hidden and can be purged. False: there is none, it runs, or it is
    deleted.
    """
    values = {"of_tenant": tenant_id, "instance": identifier(instance_id), "reason": reason, "actor": actor}
    return bool(tx.execute(DELETE_INSTANCE, {**values, "now": tx.now()}).rowcount)


def purge_trees(tx: Transaction, now: datetime, *, trees: int = 1000, log_rows: int = LOG_ROWS) -> int:
    """Purge ended trees that are past their purge time; how many. 0: none is left to be purged now.

    What is left of a tree that does not fit into one transaction goes by `purge_rest`.
    """
    found = tx.execute(PURGEABLE, {"now": now, "limit": trees}).all()
    fitting = _fitting(found, log_rows)
    bigger = next((row.id for row in found if row.entries > log_rows), None)
    _delete_instances(tx, now, fitting)
    if bigger is not None:
        tx.execute(MARK_TREE, {"tree": bigger, "now": now, "limit": log_rows})
    return len(fitting) + (bigger is not None)


def purge_tree(tx: Transaction, tenant_id: str, instance_id: str, *, log_rows: int = LOG_ROWS) -> bool | None:
    """Purge an ended top instance and all that it called, now. False: all of it but the rest that is for
    `purge_rest`. None: there is none, or it has not ended.
    """
    values = {"of_tenant": tenant_id, "instance": identifier(instance_id)}
    top = tx.execute(ENDED_TREE, values).first()
    if top is None:
        return None
    if top.purged_at is None and top.entries <= log_rows:
        _delete_instances(tx, tx.now(), {top.id})
        return True
    tx.execute(MARK_TREE, {"tree": top.id, "now": tx.now(), "limit": log_rows})
    return False


def purge_rest(tx: Transaction, now: datetime, *, log_rows: int = LOG_ROWS, tree: str | None = None) -> int:
    """A batch of the rows of a tree that is marked, of `tree` or of any; how many instances and rows of their
    history went, or more. 0: nothing is left, or others are at it.
    """
    asked = tx.execute(MARKED) if tree is None else tx.execute(MARKED_TREE, {"tree": tree})
    top = asked.scalar_one_or_none()
    if top is None:
        return 0
    found = tx.execute(BELOW, {"tree": top, "limit": INSTANCES}).all() or tx.execute(TOP, {"tree": top}).all()
    fitting = _fitting(found, log_rows)
    if not fitting:  # each is more than a batch
        return _delete_rows(tx, now, found[0].id, log_rows)
    _delete_instances(tx, now, fitting)
    entries: int = sum(row.entries for row in found if row.id in fitting)
    return len(fitting) + entries


def _fitting(found: Iterable[sa.Row[Any]], log_rows: int) -> set[str]:
    """Those that go together in one transaction, past what does not fit into the rest of it."""
    fitting: set[str] = set()
    for row in found:
        if row.entries > log_rows:
            continue
        log_rows -= row.entries
        fitting.add(row.id)
    return fitting


def _delete_instances(tx: Transaction, now: datetime, chosen: set[str]) -> None:
    """With all that hangs on them, and below them."""
    if chosen:
        values = {"ids": rows.ids(chosen)}
        tx.execute(MARK_PURGED, {**values, "now": now})
        tx.execute(DELETE_PURGED, values)


def _delete_rows(tx: Transaction, now: datetime, instance_id: str, limit: int) -> int:
    """What hangs on one instance, the history last: how much of it is there tells how much is to be done."""
    tx.execute(MARK_PURGED, {"ids": rows.ids([instance_id]), "now": now})
    left = limit
    for statement in DELETE_ROWS:
        left -= tx.execute(statement, {"instance": instance_id, "limit": left}).rowcount
        if left <= 0:
            break
    return limit - left


def purge_deliveries(tx: Transaction, before: datetime, limit: int) -> int:
    """Delete deliveries that were finished before that time."""
    return tx.execute(PURGE_DELIVERIES, {"before": before, "limit": limit}).rowcount


_ENDED = [fixed(each) for each in ENDED]
_IS_TOP = process_instance.c.depth == sa.literal_column("0")
IS_ENDED = process_instance.c.status.in_(_ENDED)
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
_ENDED_TREES = (
    sa.select(process_instance.c.id, process_instance.c.purged_at, _entries.label("entries"))
    .where(_IS_TOP, IS_ENDED)
    .where(
        ~sa.exists().where(
            *is_below(_below, process_instance.c.id),
            _below.c.status.not_in(_ENDED),
        )
    )
)
PURGEABLE = (
    _ENDED_TREES.where(process_instance.c.purge_at <= NOW, process_instance.c.purged_at.is_(None))
    .order_by(process_instance.c.purge_at, process_instance.c.id)
    .limit(LIMIT)
    .with_for_update(skip_locked=True, of=process_instance)
)
ENDED_TREE = _ENDED_TREES.where(
    process_instance.c.id == INSTANCE, process_instance.c.tenant_id == TENANT
).with_for_update(of=process_instance)

_TREES = id_source()
_MEMBERS = sa.union_all(sa.select(_TREES.c.id), sa.select(_below.c.id).where(*is_below(_below, _TREES.c.id)))
# Below may be what was to be kept for longer: it goes with its top.
_MARKING = (
    process_instance.update()
    .values(
        purge_at=sa.case((process_instance.c.purge_at < NOW, process_instance.c.purge_at), else_=NOW),
        purged_at=NOW,
        deleted_at=sa.func.coalesce(process_instance.c.deleted_at, NOW),
        idempotency_key=sa.null(),
        updated_at=NOW,
    )
    .where(process_instance.c.purged_at.is_(None))
)
MARK_PURGED = _MARKING.where(process_instance.c.id.in_(_MEMBERS))
DELETE_PURGED = process_instance.delete().where(
    process_instance.c.id.in_(_MEMBERS), process_instance.c.purged_at.is_not(None)
)
# The rest of a tree with more instances than a batch is marked when it goes.
_first_below = sa.select(_below.c.id).where(*is_below(_below, TREE)).limit(LIMIT).subquery()
MARK_TREE = _MARKING.where(
    process_instance.c.id.in_(sa.union_all(sa.select(TREE), sa.select(_first_below.c.id)))
)

_MARKED_TREES = (
    sa.select(process_instance.c.id)
    .where(_IS_TOP, process_instance.c.purged_at.is_not(None))
    .with_for_update(skip_locked=True, of=process_instance)
)
MARKED = _MARKED_TREES.order_by(process_instance.c.id).limit(1)
MARKED_TREE = _MARKED_TREES.where(process_instance.c.id == TREE)
# The rows with the highest numbers go first, so this is how many are left.
_left = (
    sa.select(sa.func.max(execution_log.c.seq))
    .where(execution_log.c.instance_id == process_instance.c.id)
    .correlate(process_instance)
).scalar_subquery()
_LEFT = sa.select(process_instance.c.id, sa.func.coalesce(_left, 0).label("entries"))
BELOW = _LEFT.where(*is_below(process_instance, TREE)).limit(LIMIT)
TOP = _LEFT.where(process_instance.c.id == TREE)


def _deleting(table: sa.Table) -> sa.Delete:
    key = sa.tuple_(*table.primary_key)
    some = sa.select(*table.primary_key).where(table.c.instance_id == INSTANCE).limit(LIMIT)
    return table.delete().where(key.in_(some))


_last = sa.select(sa.func.max(execution_log.c.seq)).where(execution_log.c.instance_id == INSTANCE)
_DELETE_LOG = execution_log.delete().where(
    execution_log.c.instance_id == INSTANCE, execution_log.c.seq > _last.scalar_subquery() - LIMIT
)
# No row is left behind by the scope that it is in.
DELETE_ROWS: Sequence[sa.Delete] = (
    *map(_deleting, (token, timer, subscription, human_task, compensation_record, parallel_join, delivery)),
    _deleting(scope),
    _DELETE_LOG,
)
PURGE_DELIVERIES = delivery.delete().where(
    sa.tuple_(delivery.c.signal_id, delivery.c.subscription_id).in_(
        sa.select(delivery.c.signal_id, delivery.c.subscription_id)
        .where(delivery.c.status != DeliveryStatus.PENDING)
        .where(delivery.c.updated_at < sa.bindparam("before", type_=Instant))
        .order_by(delivery.c.updated_at)
        .limit(LIMIT)
        .with_for_update(skip_locked=True)  # two sweeps must not wait for each other
    )
)
