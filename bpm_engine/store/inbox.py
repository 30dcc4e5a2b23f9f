"""The edge of the message buffer: how full it is, unwriting what the same transaction has written, and who
may start an instance where several messages could.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

import sqlalchemy as sa

from bpm_engine.core.state import SubscriptionKind, SubscriptionStatus
from bpm_engine.store import rows
from bpm_engine.store.messages import StartSubscription
from bpm_engine.store.rows import id_source, row_source
from bpm_engine.store.schema import message, subscription
from bpm_engine.store.statuses import MessageStatus, fixed, still
from bpm_engine.store.transaction import Transaction


def forget_messages(tx: Transaction, message_ids: Iterable[str]) -> int:
    """Delete buffered messages by the ids of their rows, as if they had never come."""
    return tx.execute(FORGET, {"ids": rows.ids(message_ids)}).rowcount


def full_buffers(tx: Transaction, names: Iterable[tuple[str, str]], limit: int) -> frozenset[tuple[str, str]]:
    """Which of these (tenant, message name) have more than `limit` messages that wait for a taker."""
    values = {"given": rows.rows(list(names)), "limit": limit}
    return frozenset((row.tenant_id, row.name) for row in tx.execute(FULL, values))


def hold_starts(tx: Transaction, starts: Iterable[tuple[StartSubscription, str]]) -> bool:
    """Of these (start, correlation key), hold those whose process several messages can start: until the
    commit no other transaction starts one with that key. True: match again, somebody may have been faster.
    """
    wanted = sorted({(start.tenant_id, start.definition_key, key) for start, key in starts})
    found = tx.execute(CONTENDED, {"given": rows.rows(wanted)}).all()
    if found:
        tx.database.lock_names(tx.connection, [json.dumps(list(row)) for row in found])
    return bool(found)


IS_BUFFERED = message.c.status == fixed(MessageStatus.BUFFERED)
FORGET = message.delete().where(
    message.c.id.in_(sa.select(id_source().c.id)), still(MessageStatus.BUFFERED, message.c.status)
)
_NAMES = row_source([sa.Column("tenant_id", sa.Text()), sa.Column("name", sa.Text())])
# The row after the limit, if there is one: stops counting there.
_ONE_TOO_MANY = (
    sa.select(message.c.id)
    .where(IS_BUFFERED, message.c.tenant_id == _NAMES.c.tenant_id, message.c.name == _NAMES.c.name)
    .offset(sa.bindparam("limit", type_=sa.Integer()))
    .limit(1)
    .correlate(_NAMES)
    .scalar_subquery()
)
FULL = sa.select(_NAMES.c.tenant_id, _NAMES.c.name).where(_ONE_TOO_MANY.is_not(None))
_STARTS = row_source(
    [
        sa.Column("tenant_id", sa.Text()),
        sa.Column("definition_key", sa.Text()),
        sa.Column("correlation_key", sa.Text()),
    ]
)
_SECOND_START = (
    sa.select(subscription.c.id)
    .where(
        subscription.c.tenant_id == _STARTS.c.tenant_id,
        subscription.c.definition_key == _STARTS.c.definition_key,
        subscription.c.instance_id.is_(None),
        still(SubscriptionStatus.OPEN, subscription.c.status),
        subscription.c.kind == fixed(SubscriptionKind.MESSAGE),
    )
    .offset(1)
    .limit(1)
    .correlate(_STARTS)
    .scalar_subquery()
)
CONTENDED = sa.select(_STARTS).where(_SECOND_START.is_not(None)).order_by(*_STARTS.c)
