"""Claiming ready tokens, keeping and giving back leases, and what a handler needs to run.

A claim is one statement: the best claimable tokens by index, locked with SKIP LOCKED, then moved to Executing
where the version is still the one that was seen. A worker for everything walks the index by priority; a
worker for certain topics looks at the best of each topic, so that a million tokens of others cost it nothing.
None of these statements ever waits for a lock: they run beside the committer's batches without an order
between them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from typing import Any

import msgspec
import sqlalchemy as sa

from bpm_engine.core.external import MARK
from bpm_engine.core.state import Instance, Scope, Token, TokenState, Variables
from bpm_engine.core.stimuli import Claim
from bpm_engine.crash import crash_point, declare
from bpm_engine.store import rows
from bpm_engine.store.database import Database
from bpm_engine.store.queue import BACK, FRONT, Queue
from bpm_engine.store.records import INSTANCE, TOKEN
from bpm_engine.store.rows import id_source, row_source
from bpm_engine.store.schema import FOR_EXECUTORS, process_instance, scope, token
from bpm_engine.store.statuses import fixed, still
from bpm_engine.store.transaction import Transaction
from bpm_engine.store.types import Id, Instant

NOW = sa.bindparam("now", type_=Instant)
UNTIL = sa.bindparam("until", type_=Instant)
OWNER = sa.bindparam("owner", type_=sa.Text())
LIMIT = sa.bindparam("limit", type_=sa.Integer())
AUTOMATIC = ""  # how the index calls a token without a topic: one that only the engine itself carries on

CLAIMED = declare("claim.updated", "tokens are claimed, the transaction is not committed")
EXTENDED = declare("leases.extended", "leases are extended, the transaction is not committed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Topics:
    """Which topics a worker takes: by name or prefix ("" is the prefix of all). Exclusions go before."""

    names: frozenset[str] = frozenset()
    prefixes: frozenset[str] = frozenset()
    excluded: frozenset[str] = frozenset()
    excluded_prefixes: frozenset[str] = frozenset()
    automatic: bool = True  # also tokens that need no handler but the engine


class Work(msgspec.Struct, frozen=True, gc=False):
    """A claimed token with all that its handler may see, and that the worker need not read again."""

    token: Token
    instance: Instance
    variables: Variables  # of its scopes, inner ones before outer ones, then its own
    claim: Claim
    seq: int  # of the instance's history at most: while it is still that, the instance is as it is here
    chain: int = 1  # tasks in a row that the token is this worker's: all but the first were handed on
    root: Scope | None = None  # of its call tree, as the commit that handed it on left it, but for variables


def claim_on(token: Token) -> Claim:
    return Claim(token_id=token.id, version=token.version, owner=token.lease_owner or "")


@dataclass(frozen=True, slots=True)
class Extension:
    extended: frozenset[str]
    lost: frozenset[str]  # no longer the worker's: cancelled, recovered or done; neither: busy right now


def claim_tokens(
    tx: Transaction,
    *,
    owner: str,
    limit: int,
    lease: timedelta,
    topics: Topics | None = None,
    last_first: bool = False,
    losses: int | None = None,
) -> list[Token]:
    """Up to `limit` Ready tokens, now Executing under `owner`'s lease; highest priority first, then oldest.

    `topics` None takes everything but what is for external workers. Tokens of halted instances (`held`) are
    never taken. `last_first`: from the other end of the queue. `losses`: what has lost so many workers is
    passed over.
    """
    values: dict[str, Any] = {"owner": owner, "limit": limit, "now": tx.now(), "until": tx.now() + lease}
    queue = Queue(last_first, spares=losses is not None)
    if queue.spares:
        values["losses"] = losses
    if topics is None:
        claimed = tx.execute(CLAIMS[queue], values)
    else:
        names = topics.names | {AUTOMATIC} if topics.automatic else topics.names
        values |= {
            "names": _texts(names),
            "prefixes": _texts(topics.prefixes),
            "excluded": _texts(topics.excluded),
            "excluded_prefixes": _texts(topics.excluded_prefixes),
        }
        claimed = tx.execute(claim_of_topics(tx.database, queue), values)
    tokens = sorted(TOKEN.read(claimed), key=lambda t: (-t.priority, t.id))
    if tokens:
        crash_point(CLAIMED)
    return tokens


def load_work(tx: Transaction, tokens: Sequence[Token]) -> list[Work]:
    """What the handlers of claimed tokens get, in two statements for all of them.

    A token whose variables cannot be read is left out: its lease runs out, and nobody else waits for it.
    """
    if not tokens:
        return []
    visible: dict[str, Variables] = {}
    seqs: dict[str, int] = {}
    spoilt: set[str] = set()
    for row in tx.execute(VISIBLE_VARIABLES, _ids(t.scope_id for t in tokens)):
        if not isinstance(row.variables, dict) or not isinstance(row.loop, dict | None):
            spoilt.add(row.start)
            continue
        seqs.setdefault(row.start, row.seq)  # outermost first: of the root scope
        layer = (row.loop or {}) | row.variables
        visible[row.start] = visible.get(row.start, {}) | layer
    # After the numbers of their histories: an instance that changes in between is newer than its number says.
    instances = {i.id: i for i in INSTANCE.read(tx.execute(INSTANCES, _ids(t.instance_id for t in tokens)))}
    return [
        Work(
            t,
            instances[t.instance_id],
            visible.get(t.scope_id, {}) | (t.local or {}),
            claim_on(t),
            seqs[t.scope_id],
        )
        for t in tokens
        if t.instance_id in instances and t.scope_id in seqs and t.scope_id not in spoilt
    ]


def extend_leases(tx: Transaction, claims: Sequence[Claim], until: datetime) -> Extension:
    """Move the deadlines of running work. A token that is being committed right now is passed over."""
    if not claims:
        return Extension(frozenset(), frozenset())
    given = rows.rows([(c.token_id, c.version, c.owner) for c in claims])
    values = {"given": given, "until": until, "now": tx.now()}
    extended = frozenset(row.id for row in tx.execute(EXTEND, values))
    crash_point(EXTENDED)
    return Extension(extended, frozenset(c.token_id for c in claims) - still_held(tx, claims))


def still_held(tx: Transaction, claims: Sequence[Claim]) -> frozenset[str]:
    """The tokens among these that are their owners' yet."""
    if not claims:
        return frozenset()
    given = rows.rows([(c.token_id, c.version, c.owner) for c in claims])
    return frozenset(row.id for row in tx.execute(STILL_HELD, {"given": given}))


def release_tokens(tx: Transaction, claims: Sequence[Claim]) -> frozenset[str]:
    """Give back what was claimed and not begun: Ready again, for anybody."""
    if not claims:
        return frozenset()
    given = rows.rows([(c.token_id, c.version, c.owner) for c in claims])
    return frozenset(row.id for row in tx.execute(RELEASE, {"given": given, "now": tx.now()}))


def claims_of(tx: Transaction, owner: str) -> list[Claim]:
    """All that a worker holds."""
    return [
        Claim(token_id=row.id, version=row.version, owner=owner) for row in tx.execute(HELD, {"owner": owner})
    ]


def topics_held(tx: Transaction, owner: str) -> dict[str, str | None]:
    """The topics of all that a worker holds, by token."""
    return {row.id: row.topic for row in tx.execute(HELD, {"owner": owner})}


def ready_topics(tx: Transaction) -> list[str]:
    """The topics with claimable tokens, by jumping from one to the next in the index."""
    return [row.topic for row in tx.execute(READY_TOPICS)]


def count_ready(tx: Transaction) -> dict[str, int]:
    """How many tokens are claimable, by topic."""
    return {row.topic: row.number for row in tx.execute(COUNT_READY)}


def oldest_ready(tx: Transaction) -> datetime | None:
    """Since when the oldest of the claimable tokens waits that are next: the measure of backlog."""
    return tx.execute(OLDEST_READY).scalar()


def _ids(values: Iterable[str]) -> dict[str, list[str]]:
    return {"ids": rows.ids(dict.fromkeys(values))}


def _texts(values: Iterable[str]) -> str:
    return rows.rows([(value,) for value in sorted(values)])


def _claiming(candidates: sa.CTE) -> sa.sql.dml.ReturningUpdate[Any]:
    """Won only where the UPDATE changes the row: state and version are checked again."""
    return (
        token.update()
        .values(
            state=TokenState.EXECUTING,
            version=token.c.version + 1,
            lease_owner=OWNER,
            lease_until=UNTIL,
            updated_at=NOW,
        )
        .where(
            token.c.id == candidates.c.id,
            token.c.version == candidates.c.version,
            still(TokenState.READY, token.c.state),
        )
        .returning(*TOKEN.columns)
    )


IS_READY = sa.and_(token.c.ready_topic.is_not(None), sa.text(FOR_EXECUTORS))


def _claim(queue: Queue) -> sa.sql.dml.ReturningUpdate[Any]:
    return _claiming(
        sa.select(token.c.id, token.c.version)
        .where(IS_READY, queue.holds(token))
        .order_by(*queue.order(token))
        .limit(LIMIT)
        .with_for_update(skip_locked=True)
        .cte("candidates")
    )


CLAIMS = {
    queue: _claim(queue) for queue in (FRONT, BACK, Queue(spares=True), Queue(last_first=True, spares=True))
}


def _topics() -> sa.CTE:
    """A loose index scan: one look-up per topic, however many tokens it has."""
    other = token.alias("other")
    first = sa.select(sa.func.min(token.c.ready_topic).label("topic"))
    known = first.where(token.c.ready_topic.is_not(None)).cte("known", recursive=True)
    following = (
        sa.select(sa.func.min(other.c.ready_topic))
        .where(other.c.ready_topic > known.c.topic)
        .scalar_subquery()
    )
    return known.union_all(sa.select(following).where(known.c.topic.is_not(None)))


def _text_source(name: str) -> sa.Subquery:
    return row_source([sa.Column("text", sa.Text())], name)


def _begins(topic: sa.ColumnElement[str], prefixes: sa.Subquery) -> sa.ColumnElement[bool]:
    """Not LIKE: a prefix may contain its wildcards."""
    prefix = prefixes.c.text
    return sa.exists().where(sa.func.substr(topic, 1, sa.func.length(prefix)) == prefix)


@cache
def _wanted_topics() -> sa.CTE:
    known = _topics()
    names, prefixes, excluded = (_text_source(name) for name in ("names", "prefixes", "excluded"))
    excluded_prefixes = _text_source("excluded_prefixes")
    by_prefix = sa.and_(
        known.c.topic != AUTOMATIC,
        sa.func.substr(known.c.topic, 1, 1) != MARK,  # external workers name their topics in full
        _begins(known.c.topic, prefixes),
    )
    return (
        sa.select(known.c.topic)
        .where(known.c.topic.is_not(None))
        .where(sa.or_(known.c.topic.in_(sa.select(names.c.text)), by_prefix))
        .where(known.c.topic.not_in(sa.select(excluded.c.text)))
        .where(sa.not_(_begins(known.c.topic, excluded_prefixes)))
        .cte("topics")
    )


_claims_of_topics: dict[tuple[type, Queue], sa.sql.dml.ReturningUpdate[Any]] = {}


def claim_of_topics(database: Database, queue: Queue = FRONT) -> sa.sql.dml.ReturningUpdate[Any]:
    """Built once per kind of database: how to take the best of each topic is what differs."""
    kind = (type(database), queue)
    if kind not in _claims_of_topics:
        ready = database.ready_of_topics(_wanted_topics(), LIMIT, queue)
        _claims_of_topics[kind] = _claiming(ready.cte("candidates"))
    return _claims_of_topics[kind]


_KNOWN = _topics()
READY_TOPICS = sa.select(_KNOWN.c.topic).where(_KNOWN.c.topic.is_not(None))
_counted = token.alias("counted")
_number = sa.select(sa.func.count()).where(_counted.c.ready_topic == _KNOWN.c.topic).correlate(_KNOWN)
COUNT_READY = READY_TOPICS.add_columns(_number.scalar_subquery().label("number"))
_NEXT = sa.select(token.c.entered_at).where(IS_READY).order_by(*FRONT.order(token)).limit(1_000).subquery()
OLDEST_READY = sa.select(sa.func.min(_NEXT.c.entered_at))
INSTANCES = sa.select(*INSTANCE.columns).where(process_instance.c.id.in_(sa.select(id_source().c.id)))


def _visible_variables() -> sa.Select[Any]:
    """The scope chain of each scope given, up to the root of its own instance, outermost first."""
    given = id_source()
    chain = sa.select(
        given.c.id.label("start"), given.c.id.label("scope_id"), sa.literal(0).label("distance")
    ).cte("chain", recursive=True)
    outer = (
        sa.select(chain.c.start, scope.c.parent_id, chain.c.distance + 1)
        .join(scope, scope.c.id == chain.c.scope_id)
        .where(scope.c.parent_id.is_not(None))
    )
    chain = chain.union_all(outer)
    return (
        sa.select(chain.c.start, scope.c.variables, scope.c.loop, scope.c.seq)
        .join(scope, scope.c.id == chain.c.scope_id)
        .order_by(chain.c.distance.desc())
    )


VISIBLE_VARIABLES = _visible_variables()
_CLAIMS = row_source([sa.Column("id", Id), sa.Column("version", sa.Integer()), sa.Column("owner", sa.Text())])
IS_HELD = sa.and_(
    token.c.id == _CLAIMS.c.id,
    token.c.version == _CLAIMS.c.version,
    token.c.lease_owner == _CLAIMS.c.owner,
    still(TokenState.EXECUTING, token.c.state),
)
STILL_HELD = sa.select(token.c.id).where(IS_HELD)
HELD = sa.select(token.c.id, token.c.version, token.c.topic).where(
    token.c.state == fixed(TokenState.EXECUTING), token.c.lease_owner == OWNER
)
_MINE = (
    sa.select(token.c.id)
    .where(IS_HELD)
    .order_by(token.c.id)
    .with_for_update(skip_locked=True, of=token)
    .cte("mine")
)
EXTEND = (
    token.update()
    .values(lease_until=UNTIL, updated_at=NOW)
    .where(token.c.id == _MINE.c.id)
    .returning(token.c.id)
)
RELEASE = (
    token.update()
    .values(
        state=TokenState.READY,
        version=token.c.version + 1,
        lease_owner=None,
        lease_until=None,
        updated_at=NOW,
    )
    .where(token.c.id == _MINE.c.id)
    .returning(token.c.id)
)
