"""The edge of the message buffer: how full it is, and unwriting what the same transaction has written."""

from __future__ import annotations

from collections.abc import Iterable

import sqlalchemy as sa

from bpm_engine.store import rows
from bpm_engine.store.rows import id_source, row_source
from bpm_engine.store.schema import MessageStatus, fixed, message
from bpm_engine.store.transaction import Transaction


def forget_messages(tx: Transaction, message_ids: Iterable[str]) -> int:
    """Delete buffered messages by the ids of their rows, as if they had never come."""
    return tx.execute(FORGET, {"ids": rows.ids(message_ids)}).rowcount


def full_buffers(tx: Transaction, names: Iterable[tuple[str, str]], limit: int) -> frozenset[tuple[str, str]]:
    """Which of these (tenant, message name) have more than `limit` messages that wait for a taker."""
    values = {"given": rows.rows(list(names)), "limit": limit}
    return frozenset((row.tenant_id, row.name) for row in tx.execute(FULL, values))


IS_BUFFERED = message.c.status == fixed(MessageStatus.BUFFERED)
FORGET = message.delete().where(message.c.id.in_(sa.select(id_source().c.id)), IS_BUFFERED)
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
