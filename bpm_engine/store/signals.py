"""Signals: one delivery row per subscription by one INSERT … SELECT; each delivery is a step of its own."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert as insert_or_nothing  # SQLite compiles it as well

from bpm_engine.core.state import SubscriptionKind, SubscriptionStatus, ThrownSignal, Variables
from bpm_engine.store import rows
from bpm_engine.store.records import Shape
from bpm_engine.store.rows import row_source
from bpm_engine.store.schema import delivery, subscription
from bpm_engine.store.statuses import DeliveryStatus, fixed, still
from bpm_engine.store.transaction import Transaction
from bpm_engine.store.types import Id, Instant, Json

FIRST_ID = "00000000-0000-0000-0000-000000000000"
NOW = sa.bindparam("now", type_=Instant)
LIMIT = sa.bindparam("limit", type_=sa.Integer())


class Signal(msgspec.Struct, frozen=True, kw_only=True):
    """A signal sent from outside; inside processes it is a `ThrownSignal`."""

    id: str
    tenant_id: str
    name: str
    payload: Variables = {}
    actor: str | None = None


class Delivery(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """Table delivery: a signal on its way to one subscription, of an instance or of a definition (a
    start).
    """

    signal_id: str
    subscription_id: str
    tenant_id: str
    instance_id: str | None = None
    root_instance_id: str | None = None
    definition_id: str | None = None
    node_id: str
    name: str
    payload: Variables
    status: DeliveryStatus = DeliveryStatus.PENDING
    error: str | None = None
    actor: str | None = None  # who sent the signal


DELIVERY = Shape(Delivery, delivery)


def fan_out(tx: Transaction, signals: Sequence[ThrownSignal | Signal]) -> int:
    """One delivery per open subscription of the tenant, also of definitions that the signal starts; but none
    to who began to wait in this very transaction after the throw.
    """
    given = rows.rows(
        [
            (
                each.id,
                each.tenant_id,
                each.name,
                each.payload,
                each.actor if isinstance(each, Signal) else None,
            )
            for each in signals
        ]
    )
    later = [(s.id, late) for s in signals if isinstance(s, ThrownSignal) for late in s.later]
    return tx.execute(FAN_OUT, {"given": given, "later": rows.rows(later), "now": tx.now()}).rowcount


def is_on_its_way(tx: Transaction, signal_id: str) -> bool:
    """Whether the signal has deliveries, pending or done."""
    return tx.execute(ON_ITS_WAY, {"signal_id": signal_id}).first() is not None


def pending_deliveries(tx: Transaction, limit: int, after: tuple[str, str] | None = None) -> list[Delivery]:
    """The next deliveries in order of the signals; page on with the last one's (signal_id,
    subscription_id).
    """
    signal_id, subscription_id = after or (FIRST_ID, FIRST_ID)
    values = {"signal_id": signal_id, "subscription_id": subscription_id, "limit": limit}
    return DELIVERY.read(tx.execute(PENDING_DELIVERIES, values))


def take_deliveries(tx: Transaction, keys: Sequence[tuple[str, str]]) -> frozenset[tuple[str, str]]:
    """Those of them that are pending, now held by `tx`; what another transaction holds is left to it."""
    found = tx.execute(TAKE_DELIVERIES, {"given": rows.rows(keys)})
    return frozenset((row.signal_id, row.subscription_id) for row in found)


def finish_deliveries(
    tx: Transaction, keys: Sequence[tuple[str, str]], status: DeliveryStatus, error: str | None = None
) -> int:
    """Only what is Pending, in the transaction that delivers; fewer than asked: somebody else did it."""
    values = {"given": rows.rows(keys), "status": status, "error": error, "now": tx.now()}
    return tx.execute(FINISH_DELIVERIES, values).rowcount


_SIGNALS = row_source(
    [
        sa.Column("id", Id),
        sa.Column("tenant_id", sa.Text()),
        sa.Column("name", sa.Text()),
        sa.Column("payload", Json),
        sa.Column("actor", sa.Text()),
    ]
)
ON_ITS_WAY = (
    sa.select(delivery.c.signal_id)
    .where(delivery.c.signal_id == sa.bindparam("signal_id", type_=Id))
    .limit(1)
)
_LATER = row_source([sa.Column("signal_id", Id), sa.Column("subscription_id", Id)], "later")
_DELIVERY_COLUMNS = [name for name in DELIVERY.fields if name != "error"]
FAN_OUT = (
    insert_or_nothing(delivery)
    .from_select(
        [*_DELIVERY_COLUMNS, "created_at", "updated_at"],
        sa.select(
            _SIGNALS.c.id,
            subscription.c.id,
            subscription.c.tenant_id,
            subscription.c.instance_id,
            subscription.c.root_instance_id,
            subscription.c.definition_id,
            subscription.c.node_id,
            subscription.c.name,
            _SIGNALS.c.payload,
            sa.literal(DeliveryStatus.PENDING, delivery.c.status.type),
            _SIGNALS.c.actor,
            NOW,
            NOW,
        )
        .join_from(
            _SIGNALS,
            subscription,
            sa.and_(
                subscription.c.tenant_id == _SIGNALS.c.tenant_id,
                subscription.c.name == _SIGNALS.c.name,
                subscription.c.kind == SubscriptionKind.SIGNAL,
                still(SubscriptionStatus.OPEN, subscription.c.status),
            ),
        )
        .where(
            ~sa.exists().where(
                _LATER.c.signal_id == _SIGNALS.c.id, _LATER.c.subscription_id == subscription.c.id
            )
        ),
    )
    .on_conflict_do_nothing()
    .execution_options(preserve_rowcount=True)  # asked for, since drivers forget it after an INSERT
)
PENDING_DELIVERIES = (
    sa.select(*DELIVERY.columns)
    .where(delivery.c.status == fixed(DeliveryStatus.PENDING))
    .where(
        sa.tuple_(delivery.c.signal_id, delivery.c.subscription_id)
        > sa.tuple_(sa.bindparam("signal_id", type_=Id), sa.bindparam("subscription_id", type_=Id))
    )
    .order_by(delivery.c.signal_id, delivery.c.subscription_id)
    .limit(LIMIT)
)
_TAKEN = row_source([sa.Column("signal_id", Id), sa.Column("subscription_id", Id)])
TAKE_DELIVERIES = (
    sa.select(delivery.c.signal_id, delivery.c.subscription_id)
    .join(
        _TAKEN,
        sa.and_(
            delivery.c.signal_id == _TAKEN.c.signal_id, delivery.c.subscription_id == _TAKEN.c.subscription_id
        ),
    )
    .where(still(DeliveryStatus.PENDING, delivery.c.status))
    .order_by(delivery.c.signal_id, delivery.c.subscription_id)
    .with_for_update(skip_locked=True, of=delivery)
)
_FINISHED = row_source([sa.Column("signal_id", Id), sa.Column("subscription_id", Id)])
FINISH_DELIVERIES = (
    delivery.update()
    .values(
        status=sa.bindparam("status", type_=delivery.c.status.type),
        error=sa.bindparam("error", type_=sa.Text()),
        updated_at=NOW,
    )
    .where(
        delivery.c.signal_id == _FINISHED.c.signal_id,
        delivery.c.subscription_id == _FINISHED.c.subscription_id,
        delivery.c.status == DeliveryStatus.PENDING,
    )
)
