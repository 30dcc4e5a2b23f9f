"""How much of a tenant's has not ended, and who takes a message. Counting stops at the limit."""

from __future__ import annotations

import sqlalchemy as sa

from bpm_engine.core.lifecycle import TERMINAL_INSTANCES
from bpm_engine.core.state import InstanceStatus, SubscriptionKind, SubscriptionStatus
from bpm_engine.store.schema import message, process_definition, process_instance, subscription
from bpm_engine.store.statuses import MessageStatus, fixed, still
from bpm_engine.store.transaction import Transaction

TENANT = sa.bindparam("tenant", type_=sa.Text())
KEY = sa.bindparam("key", type_=sa.Text())
NAME = sa.bindparam("name", type_=sa.Text())
BEFORE_LAST = sa.bindparam("before_last", type_=sa.Integer())
LIVE = [fixed(each) for each in InstanceStatus if each not in TERMINAL_INSTANCES]


def is_process_crowded(tx: Transaction, tenant_id: str, definition_key: str, limit: int) -> bool:
    """Whether so many instances of the process have not ended."""
    values = {"tenant": tenant_id, "key": definition_key, "before_last": limit - 1}
    return tx.execute(LAST_OF_PROCESS, values).first() is not None


def is_tenant_crowded(tx: Transaction, tenant_id: str, limit: int) -> bool:
    """Whether so many instances of the tenant have not ended, whatever their process."""
    return tx.execute(LAST_OF_TENANT, {"tenant": tenant_id, "before_last": limit - 1}).first() is not None


def is_buffer_full(tx: Transaction, tenant_id: str, limit: int) -> bool:
    """Whether so many messages of the tenant wait for a taker, whatever their name."""
    return tx.execute(LAST_MESSAGE, {"tenant": tenant_id, "before_last": limit - 1}).first() is not None


def is_expected(
    tx: Transaction, tenant_id: str, name: str, correlation_key: str | None, message_id: str | None
) -> bool:
    """Whether an instance may wait for such a message, which goes before a start; or whether the message came
    before, and has no effect."""
    values = {"tenant": tenant_id, "name": name, "key": correlation_key, "message_id": message_id}
    return bool(tx.execute(IS_EXPECTED, values).scalar())


def started_by(tx: Transaction, tenant_id: str, name: str) -> list[str]:
    """The processes that a message of that name starts if nobody waits for it."""
    return [row.definition_key for row in tx.execute(STARTED_BY, {"tenant": tenant_id, "name": name})]


def _last_of(*conditions: sa.ColumnElement[bool]) -> sa.Select[tuple[str]]:
    return (
        sa.select(process_instance.c.id)
        .where(process_instance.c.tenant_id == TENANT, process_instance.c.status.in_(LIVE), *conditions)
        .offset(BEFORE_LAST)
        .limit(1)
    )


LAST_OF_PROCESS = _last_of(process_instance.c.definition_key == KEY)
# By process, as the index is ordered: those that have ended are not looked at.
_KEYS = sa.select(process_definition.c.key).where(process_definition.c.tenant_id == TENANT).distinct()
LAST_OF_TENANT = _last_of(process_instance.c.definition_key.in_(_KEYS))

_TAKES_MESSAGES = sa.and_(
    subscription.c.tenant_id == TENANT,
    subscription.c.name == NAME,
    subscription.c.kind == fixed(SubscriptionKind.MESSAGE),
    still(SubscriptionStatus.OPEN, subscription.c.status),
)
STARTED_BY = (
    sa.select(subscription.c.definition_key)
    .where(_TAKES_MESSAGES, subscription.c.definition_id.is_not(None))
    .distinct()
)
_IS_AWAITED = sa.exists().where(
    _TAKES_MESSAGES,
    subscription.c.definition_id.is_(None),
    sa.or_(subscription.c.correlation_key.is_(None), subscription.c.correlation_key == KEY),
)
_CAME_BEFORE = sa.exists().where(
    message.c.tenant_id == TENANT,
    message.c.name == NAME,
    message.c.message_id == sa.bindparam("message_id", type_=sa.Text()),
)
IS_EXPECTED = sa.select(sa.or_(_IS_AWAITED, _CAME_BEFORE))
LAST_MESSAGE = (
    sa.select(message.c.id)
    .where(message.c.tenant_id == TENANT, message.c.status == fixed(MessageStatus.BUFFERED))
    .order_by(message.c.name)  # as the index of each tenant's buffer is ordered
    .offset(BEFORE_LAST)
    .limit(1)
)
