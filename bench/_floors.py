"""What the machine itself gives: the rows of a step written by bare loops on one connection.

Per step one version-checked token update, one patch of variables, two history rows and one outbox row: what
the engine writes, and nothing else. `sqlalchemy` and `psycopg` write them in set-based batches of 100;
`one by one` commits each step alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime

import msgspec
import psycopg
import sqlalchemy as sa
from msgspec.structs import asdict
from store import LOG_SQL, OUTBOX_SQL, SCOPE_SQL
from support import rows as sample
from support.postgres.databases import libpq_url

from bpm_engine.core.changes import Changes
from bpm_engine.core.state import Token, replace
from bpm_engine.store import changes as changing
from bpm_engine.store.config import StoreConfig
from bpm_engine.store.store import Store

BATCH = 100
TOKEN_SQL = """
    UPDATE token SET node_id = r.node_id, state = r.state, version = r.version, activation = r.activation,
        updated_at = %(now)s
    FROM jsonb_to_recordset(%(rows)s::jsonb) AS r(id uuid, node_id text, state text, version int,
        activation int)
    WHERE token.id = r.id AND token.version = r.version - 1"""
encode = msgspec.json.Encoder().encode


def floors(url: str, steps: int) -> dict[str, float]:
    """Steps per second of each loop."""
    driver = sa.create_engine(sa.make_url(url).set(drivername="postgresql+psycopg"))
    with Store(StoreConfig(url=url, auto_migrate=True)) as store:
        tokens = _tokens(store, steps)
        seen = {}
        with driver.connect() as connection:
            seen["SQLAlchemy, batches of 100"] = _rate(
                tokens, 0, BATCH, lambda m: _by_sqlalchemy(connection, m)
            )
        with psycopg.connect(libpq_url(url)) as raw:
            seen["psycopg, batches of 100"] = _rate(tokens, 1, BATCH, lambda m: _by_psycopg(raw, m))
            some = tokens[: max(1, steps // 20)]
            seen["psycopg, one by one"] = _rate(some, 2, 1, lambda m: _by_psycopg(raw, m))
    driver.dispose()
    return seen


def _tokens(store: Store, steps: int) -> list[Token]:
    tokens: list[Token] = []
    for _ in range(0, steps, BATCH):
        started = sample.started(
            *(sample.instance() for _ in range(BATCH)), state="Executing", lease_owner="w"
        )
        with store.transaction() as tx:
            changing.apply(tx, started)
        tokens += started.tokens.inserted
    return tokens


def _rate(tokens: list[Token], round_: int, batch: int, write: Callable[[Changes], None]) -> float:
    tokens = [replace(t, version=t.version + round_) for t in tokens]
    made = []
    for start in range(0, len(tokens), batch):
        made.append(sample.moved(tokens[start : start + batch], 1 + 2 * round_, state="Executing"))
    begun = time.perf_counter()
    for changes in made:
        write(changes)
    return len(tokens) / (time.perf_counter() - begun)


def _statements(changes: Changes) -> list[tuple[str, str]]:
    scopes = [
        {"id": s.id, "live": s.live, "seq": s.seq, "patch": changes.patches[s.id]}
        for s in changes.scopes.updated
    ]
    return [
        (sql, encode(rows).decode())
        for sql, rows in (
            (TOKEN_SQL, [_moved(t) for t in changes.tokens.updated]),
            (SCOPE_SQL, scopes),
            (LOG_SQL, [asdict(entry) for entry in changes.log]),
            (OUTBOX_SQL, [asdict(event) for event in changes.outbox]),
        )
    ]


def _moved(token: Token) -> dict[str, object]:
    return {
        "id": token.id,
        "node_id": token.node_id,
        "state": token.state,
        "version": token.version,
        "activation": token.activation,
    }


def _by_psycopg(connection: psycopg.Connection, changes: Changes) -> None:
    now = datetime.now(UTC)
    for sql, rows in _statements(changes):
        connection.execute(sql, {"rows": rows, "now": now})
    connection.commit()


TEXTS = {
    sql: sa.text(sql.replace("%(now)s", ":now").replace("%(rows)s::jsonb", "CAST(:rows AS jsonb)"))
    for sql in (TOKEN_SQL, SCOPE_SQL, LOG_SQL, OUTBOX_SQL)
}


def _by_sqlalchemy(connection: sa.Connection, changes: Changes) -> None:
    now = datetime.now(UTC)
    for sql, rows in _statements(changes):
        connection.execute(TEXTS[sql], {"rows": rows, "now": now})
    connection.commit()
