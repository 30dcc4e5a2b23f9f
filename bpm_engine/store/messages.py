"""Messages that wait for a subscription, and subscriptions that wait for a message.

A message is written first and looked at afterwards, and so is a subscription; whichever comes second finds
the other after its commit, and `pair_buffered` finds what is left. No lock holds the two together. A message
id is unique per tenant and name: the second insert is answered as a duplicate.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import msgspec
import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert as insert_or_nothing  # SQLite compiles it as well

from bpm_engine.core.state import (
    InstanceStatus,
    SubscriptionKind,
    SubscriptionStatus,
    ThrownMessage,
    Variables,
)
from bpm_engine.store import rows
from bpm_engine.store.records import Shape
from bpm_engine.store.rows import contains, id_source, row_source
from bpm_engine.store.schema import delivery, message, process_instance, subscription
from bpm_engine.store.statuses import DeliveryStatus, MessageStatus, fixed, still
from bpm_engine.store.transaction import Transaction
from bpm_engine.store.types import EPOCH, Id, Instant

NOW = sa.bindparam("now", type_=Instant)
LIMIT = sa.bindparam("limit", type_=sa.Integer())


class Message(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """Table message. `message_id` is the sender's, for the inbox."""

    id: str
    tenant_id: str
    name: str
    correlation_key: str | None = None
    payload: Variables = {}
    message_id: str | None = None
    status: MessageStatus = MessageStatus.BUFFERED
    expires_at: datetime
    consumed_by: str | None = None  # the instance that got it, or that it started
    actor: str | None = None  # who sent it


class StartSubscription(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A definition's wait: a message or signal that starts an instance. Table subscription, without
    instance.
    """

    id: str
    tenant_id: str
    definition_id: str
    definition_key: str
    node_id: str
    event: int = 0
    kind: SubscriptionKind
    name: str = ""
    correlation_key: str | None = None
    match: Variables | None = None
    status: SubscriptionStatus = SubscriptionStatus.OPEN


class Waiting(NamedTuple):
    """An instance's wait, as far as a delivery has to know it: the step that plays it loads the rest."""

    id: str
    root_instance_id: str


Taker = Waiting | StartSubscription


class Match(NamedTuple):
    """A message and who would take it."""

    message_id: str  # the id of the row
    taker: Taker


class Arriving(NamedTuple):
    """What decides who takes a message."""

    id: str
    tenant_id: str
    name: str
    correlation_key: str | None
    payload: Variables


MESSAGE = Shape(Message, message)
START = Shape(StartSubscription, subscription)


def add_messages(tx: Transaction, new: Sequence[Message]) -> frozenset[str]:
    """Write them; the ids of those written. The others are duplicates: their message id was there before."""
    given = MESSAGE.given(new)
    return frozenset(row.id for row in tx.execute(ADD_MESSAGES, {"given": given, "now": tx.now()}))


def buffer_thrown(tx: Transaction, thrown: Sequence[ThrownMessage], expires_at: datetime) -> None:
    """Messages of the processes themselves: correlated after the commit like those from outside."""
    add_messages(
        tx,
        [
            Message(
                id=each.id,
                tenant_id=each.tenant_id,
                name=each.name,
                correlation_key=each.correlation_key,
                payload=each.payload,
                expires_at=expires_at,
            )
            for each in thrown
        ],
    )


def match_messages(tx: Transaction, message_ids: Iterable[str]) -> list[Match]:
    """For each of these buffered messages the subscription that takes it, where there is one.

    By name and key, then by containment of the payload; an instance's wait before a start. Halted instances
    do not take messages. Two messages may be given the same subscription: deliver one and ask again for the
    other.
    """
    return _matches(tx, TAKERS_OF_MESSAGES, {"ids": rows.ids(message_ids)})


def match_arriving(tx: Transaction, arriving: Sequence[Arriving]) -> list[Match]:
    """The same for messages that are not written."""
    return _matches(tx, TAKERS_OF_ARRIVING, {"given": rows.rows(arriving)})


def match_subscriptions(tx: Transaction, subscription_ids: Iterable[str]) -> list[Match]:
    """For each of these open subscriptions the oldest buffered message that it would take."""
    return _matches(tx, MESSAGES_FOR_TAKERS, {"ids": rows.ids(subscription_ids)})


def what_waits(tx: Transaction) -> tuple[bool, bool]:
    """Whether there are buffered messages, and whether there are deliveries to be made: the one query of a
    quiet engine."""
    found = tx.execute(WHAT_WAITS).one()
    return bool(found.messages), bool(found.deliveries)


def pair_buffered(
    tx: Transaction, limit: int, after: tuple[datetime, str] | None = None
) -> tuple[list[Match], tuple[datetime, str] | None]:
    """The sweep: the next `limit` buffered messages, those that expire first, with takers, and where to go on
    (None: the end).
    """
    expires_at, last = after or (EPOCH, FIRST_ID)
    values = {"limit": limit, "expires_at": expires_at, "after": last, "now": tx.now()}
    page = [(row.expires_at, row.id) for row in tx.execute(BUFFERED_PAGE, values)]
    matches = match_messages(tx, [message_id for _, message_id in page]) if page else []
    return matches, page[-1] if len(page) == limit else None


def consume_messages(
    tx: Transaction, consumed: dict[str, str], *, memory: timedelta = timedelta()
) -> frozenset[str]:
    """Mark messages as taken by instances, in the transaction that delivers them; the ids that were still
    there.

    A message that is missing in the answer went to somebody else: roll that delivery back. The sender's id is
    remembered for `memory` at least: how long the message would have waited says nothing about how late it
    may be sent again.
    """
    given = rows.rows(list(consumed.items()))
    values = {"given": given, "now": tx.now(), "remembered": tx.now() + memory}
    return frozenset(row.id for row in tx.execute(CONSUME, values))


def load_messages(tx: Transaction, message_ids: Iterable[str]) -> list[Message]:
    return MESSAGE.read(tx.execute(LOAD_MESSAGES, {"ids": rows.ids(message_ids)}))


def find_message(tx: Transaction, tenant_id: str, name: str, message_id: str) -> Message | None:
    """What became of a message with the sender's id."""
    values = {"tenant_id": tenant_id, "name": name, "message_id": message_id}
    return next(iter(MESSAGE.read(tx.execute(FIND_MESSAGE, values))), None)


def expire_messages(tx: Transaction, limit: int) -> list[Message]:
    """Buffered messages whose time is over, now Expired."""
    return MESSAGE.read(tx.execute(EXPIRE, {"limit": limit, "now": tx.now()}))


def purge_messages(tx: Transaction, before: datetime, limit: int) -> int:
    """Delete what is no longer buffered and expired before that time: until then its id guards the inbox."""
    return tx.execute(PURGE_MESSAGES, {"before": before, "limit": limit}).rowcount


def replace_start_subscriptions(
    tx: Transaction, tenant_id: str, definition_key: str, new: Sequence[StartSubscription]
) -> None:
    """Start subscriptions belong to the latest version: those of the former one are cancelled."""
    values = {"tenant": tenant_id, "key": definition_key, "now": tx.now()}
    tx.execute(CANCEL_STARTS, values)
    if new:
        given = START.given(new)
        tx.execute(ADD_STARTS, {"given": given, "now": tx.now()})


def _matches(tx: Transaction, statement: sa.Select[Any], values: Mapping[str, object]) -> list[Match]:
    result = tx.execute(statement, {**values, "now": tx.now()})
    found = [(row.message_id, row.subscription_id, row.tree) for row in result]
    takers: dict[str, Taker] = {s: Waiting(s, root) for _, s, root in found if root is not None}
    starting = [s for _, s, root in found if root is None]
    if starting:
        starts = START.read(tx.execute(LOAD_STARTS, {"ids": rows.ids(dict.fromkeys(starting))}))
        takers |= {start.id: start for start in starts}
    return [Match(m, takers[s]) for m, s, _ in found if s in takers]


FIRST_ID = "00000000-0000-0000-0000-000000000000"
LOAD_STARTS = sa.select(*START.columns).where(subscription.c.id.in_(sa.select(id_source().c.id)))

_NEW = row_source(MESSAGE.columns)
ADD_MESSAGES = (
    insert_or_nothing(message)
    .from_select([*MESSAGE.fields, "created_at", "updated_at"], sa.select(*_NEW.c, NOW, NOW).where(sa.true()))
    .on_conflict_do_nothing()
    .returning(message.c.id)
)
IS_BUFFERED = message.c.status == fixed(MessageStatus.BUFFERED)
BY_NAME = subscription.c.correlation_key.is_(None)  # a wait without a key takes any message of its name


def _taker(given: sa.FromClause, key: sa.ColumnElement[bool], *, start: bool) -> sa.ScalarSelect[str]:
    """The oldest subscription, by index; of an instance only while it runs."""
    is_waiting = sa.and_(
        still(SubscriptionStatus.OPEN, subscription.c.status),
        subscription.c.kind == SubscriptionKind.MESSAGE,
        subscription.c.tenant_id == given.c.tenant_id,
        subscription.c.name == given.c.name,
        sa.or_(subscription.c.match.is_(None), contains(given.c.payload, subscription.c.match)),
    )
    query = sa.select(subscription.c.id).where(is_waiting, key).order_by(subscription.c.id).limit(1)
    if start:
        return query.where(subscription.c.definition_id.is_not(None)).correlate(given).scalar_subquery()
    running = sa.exists().where(
        process_instance.c.id == subscription.c.instance_id,
        process_instance.c.status == InstanceStatus.RUNNING,
    )
    return query.where(running).correlate(given).scalar_subquery()


def _matching(given: sa.FromClause) -> sa.Select[Any]:
    """Each of these messages, written or not, and its taker."""
    by_key = subscription.c.correlation_key == given.c.correlation_key
    taker = sa.func.coalesce(
        _taker(given, by_key, start=False),
        _taker(given, BY_NAME, start=False),
        _taker(given, by_key, start=True),
        _taker(given, BY_NAME, start=True),
        type_=Id,
    )
    return sa.select(given.c.id.label("message_id"), taker.label("subscription_id"))


MATCH_MESSAGES = _matching(message).where(
    message.c.id.in_(sa.select(id_source().c.id)), IS_BUFFERED, message.c.expires_at > NOW
)
MATCH_ARRIVING = _matching(row_source([message.c[name] for name in Arriving._fields]))


def _oldest_message(key: sa.ColumnElement[bool]) -> sa.ScalarSelect[str]:
    fits = sa.or_(subscription.c.match.is_(None), contains(message.c.payload, subscription.c.match))
    return (
        sa.select(message.c.id)
        .where(IS_BUFFERED, message.c.tenant_id == subscription.c.tenant_id)
        .where(message.c.name == subscription.c.name, key, fits, message.c.expires_at > NOW)
        .order_by(message.c.id)
        .limit(1)
        .correlate(subscription)
        .scalar_subquery()
    )


MATCH_SUBSCRIPTIONS = sa.select(
    subscription.c.id.label("subscription_id"),
    sa.case(
        (BY_NAME, _oldest_message(sa.true())),
        else_=_oldest_message(message.c.correlation_key == subscription.c.correlation_key),
    ).label("message_id"),
).where(
    subscription.c.id.in_(sa.select(id_source().c.id)),
    still(SubscriptionStatus.OPEN, subscription.c.status),
    still(SubscriptionKind.MESSAGE, subscription.c.kind),
)


def _with_takers(matching: sa.Select[Any]) -> sa.Select[Any]:
    """With the call tree of each taker, none of a start; the oldest message comes first.

    The offset keeps the search for a taker from being made anew for each column, and the tree is looked up
    row by row: a join might begin with all subscriptions that there are.
    """
    pairs = matching.offset(sa.literal_column("0")).subquery("pairs")
    taker = subscription.alias("taker")
    tree = sa.select(taker.c.root_instance_id).where(taker.c.id == pairs.c.subscription_id).scalar_subquery()
    return (
        sa.select(pairs.c.message_id, pairs.c.subscription_id, tree.label("tree"))
        .where(pairs.c.message_id.is_not(None), pairs.c.subscription_id.is_not(None))
        .order_by(pairs.c.message_id)
    )


TAKERS_OF_MESSAGES = _with_takers(MATCH_MESSAGES)
TAKERS_OF_ARRIVING = _with_takers(MATCH_ARRIVING)
MESSAGES_FOR_TAKERS = _with_takers(MATCH_SUBSCRIPTIONS)
BUFFERED_PAGE = (
    sa.select(message.c.expires_at, message.c.id)
    .where(IS_BUFFERED, message.c.expires_at > NOW)
    .where(
        sa.tuple_(message.c.expires_at, message.c.id)
        > sa.tuple_(sa.bindparam("expires_at", type_=Instant), sa.bindparam("after", type_=Id))
    )
    .order_by(message.c.expires_at, message.c.id)
    .limit(LIMIT)
)
WHAT_WAITS = sa.select(
    sa.exists().where(IS_BUFFERED).label("messages"),
    sa.exists().where(delivery.c.status == fixed(DeliveryStatus.PENDING)).label("deliveries"),
)
_CONSUMED = row_source([sa.Column("id", Id), sa.Column("consumed_by", Id)])
_REMEMBERED = sa.bindparam("remembered", type_=Instant)
CONSUME = (
    message.update()
    .values(
        status=MessageStatus.CONSUMED,
        consumed_by=_CONSUMED.c.consumed_by,
        expires_at=sa.case((message.c.expires_at < _REMEMBERED, _REMEMBERED), else_=message.c.expires_at),
        updated_at=NOW,
    )
    .where(message.c.id == _CONSUMED.c.id, still(MessageStatus.BUFFERED, message.c.status))
    .returning(message.c.id)
)
LOAD_MESSAGES = sa.select(*MESSAGE.columns).where(message.c.id.in_(sa.select(id_source().c.id)))
FIND_MESSAGE = sa.select(*MESSAGE.columns).where(
    message.c.tenant_id == sa.bindparam("tenant_id"),
    message.c.name == sa.bindparam("name"),
    message.c.message_id == sa.bindparam("message_id"),
)
_OVER = (
    sa.select(message.c.id)
    .where(IS_BUFFERED, message.c.expires_at <= NOW)
    .order_by(message.c.expires_at, message.c.id)
    .limit(LIMIT)
    .with_for_update(skip_locked=True)
    .cte("over")
)
EXPIRE = (
    message.update()
    .values(status=MessageStatus.EXPIRED, updated_at=NOW)
    .where(message.c.id == _OVER.c.id)
    .returning(*MESSAGE.columns)
)
PURGE_MESSAGES = message.delete().where(
    message.c.id.in_(
        sa.select(message.c.id)
        .where(message.c.status != fixed(MessageStatus.BUFFERED))
        .where(message.c.expires_at < sa.bindparam("before", type_=Instant))
        .order_by(message.c.expires_at, message.c.id)
        .limit(LIMIT)
        .with_for_update(skip_locked=True)  # two sweeps must not wait for each other
    )
)
CANCEL_STARTS = (
    subscription.update()
    .values(status=SubscriptionStatus.CANCELLED, updated_at=NOW)
    .where(
        subscription.c.tenant_id == sa.bindparam("tenant"),
        subscription.c.definition_key == sa.bindparam("key"),
        subscription.c.definition_id.is_not(None),
        still(SubscriptionStatus.OPEN, subscription.c.status),
    )
)
_STARTS = row_source(START.columns)
ADD_STARTS = subscription.insert().from_select(
    [*START.fields, "created_at", "updated_at"], sa.select(*_STARTS.c, NOW, NOW)
)
