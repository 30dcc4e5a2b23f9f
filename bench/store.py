"""What the store costs per token step, beside the same rows written by hand and one transaction per step.

    python bench/store.py [--steps 9000] [--ready 1000000]

A step is what a commit writes for one token: the token, a patch of its scope's variables, two history rows
and one outbox row. All ways run in turns within one run, on the same machine and server, so that their ratios
mean something even where the absolute times do not. PostgreSQL comes from BPM_TEST_DATABASE_URL, or is
started for the run.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import sqlalchemy as sa
from _server import server_url  # also makes `support` importable
from msgspec.structs import asdict
from support import rows as sample
from support.postgres.databases import libpq_url

from bpm_engine.core.changes import Changes
from bpm_engine.core.state import Token, replace
from bpm_engine.store import changes as changing
from bpm_engine.store import work
from bpm_engine.store.config import StoreConfig
from bpm_engine.store.store import Store

BATCH = 300
LEASE = timedelta(seconds=30)


class Steps:
    """Tokens of so many instances, and the changes of their next step."""

    def __init__(self, store: Store, number: int) -> None:
        self.store = store
        self.tokens: list[Token] = []
        self.seq = 0
        for _ in range(0, number, BATCH):
            started = sample.started(
                *(sample.instance() for _ in range(BATCH)), state="Executing", lease_owner="w"
            )
            with store.transaction() as tx:
                changing.apply(tx, started)
            self.tokens += started.tokens.inserted

    def batches(self) -> Iterator[Changes]:
        """One step of every token, in batches; made before the clock starts."""
        made = []
        for start in range(0, len(self.tokens), BATCH):
            made.append(sample.moved(self.tokens[start : start + BATCH], self.seq, state="Executing"))
        self.seq += 2
        self.tokens = [
            replace(t, version=t.version + 1, node_id="x", activation=t.activation + 1) for t in self.tokens
        ]
        yield from made


def by_store(store: Store, batches: list[Changes]) -> None:
    for changes in batches:
        with store.transaction() as tx:
            changing.apply(tx, changes)


def one_by_one(store: Store, batches: list[Changes]) -> None:
    """Every step its own transaction, through the store."""
    for batch in batches:
        for i, token in enumerate(batch.tokens.updated):
            single = Changes(log=batch.log[2 * i : 2 * i + 2], outbox=[batch.outbox[i]])
            single.tokens.updated = [token]
            single.scopes.updated = [batch.scopes.updated[i]]
            single.patches = {token.scope_id: batch.patches[token.scope_id]}
            with store.transaction() as tx:
                changing.apply(tx, single)


TOKEN_FIELDS = """scope_id uuid, node_id text, state text, mode text, phase text, held boolean,
    waiting_for text, topic text, priority int, attempt int, activation int, recoveries int, version int,
    flow_id text, parallel_group_id text, loop_index int, local jsonb, output jsonb, compensates uuid,
    lease_owner text, lease_until timestamptz, error jsonb, entered_at timestamptz"""
TOKEN_SETS = ", ".join(f"{field.split()[0]} = r.{field.split()[0]}" for field in TOKEN_FIELDS.split(","))
TOKEN_SQL = f"""
    UPDATE token SET {TOKEN_SETS}, updated_at = %(now)s
    FROM jsonb_to_recordset(%(rows)s::jsonb) AS r(id uuid, {TOKEN_FIELDS})
    WHERE token.id = r.id AND token.version = r.version - 1"""
SCOPE_SQL = """
    UPDATE scope SET live = r.live, seq = r.seq, variables = variables || r.patch, updated_at = %(now)s
    FROM jsonb_to_recordset(%(rows)s::jsonb) AS r(id uuid, live int, seq bigint, patch jsonb)
    WHERE scope.id = r.id"""
LOG_SQL = """
    INSERT INTO execution_log (tenant_id, instance_id, root_instance_id, seq, kind, at, node_id, token_id,
        activation)
    SELECT * FROM jsonb_to_recordset(%(rows)s::jsonb) AS r(tenant_id text, instance_id uuid,
        root_instance_id uuid, seq bigint, kind text, at timestamptz, node_id text, token_id uuid,
        activation int)"""
OUTBOX_SQL = """
    INSERT INTO event_outbox (id, tenant_id, instance_id, root_instance_id, seq, type, data, at, status,
        attempts, next_at, updated_at)
    SELECT r.*, 'Pending', 0, %(now)s, %(now)s FROM jsonb_to_recordset(%(rows)s::jsonb) AS r(id uuid,
        tenant_id text, instance_id uuid, root_instance_id uuid, seq bigint, type text, data jsonb,
        at timestamptz)"""


def by_hand(connection: psycopg.Connection, batches: list[Changes]) -> None:
    """The same rows by hand-written set-based SQL on the bare driver, encoded with the same fast encoder."""
    import msgspec

    encode = msgspec.json.Encoder().encode
    for batch in batches:
        now = datetime.now(UTC)
        scopes = [
            {"id": s.id, "live": s.live, "seq": s.seq, "patch": batch.patches[s.id]}
            for s in batch.scopes.updated
        ]
        for statement, given in (
            (TOKEN_SQL, batch.tokens.updated),
            (SCOPE_SQL, scopes),
            (LOG_SQL, batch.log),
            (OUTBOX_SQL, batch.outbox),
        ):
            rows = [row if isinstance(row, dict) else asdict(row) for row in given]
            connection.execute(statement, {"rows": encode(rows).decode(), "now": now})
        connection.commit()


class ReadyMade:
    """What the store sends to a database in this process, as its driver is given it: the statements and rows
    of a batch each. Sending them again on the bare driver is the least that the store can take."""

    def __init__(self, store: Store, batches: list[Changes]) -> None:
        self._store = store
        self._sent: list[list[tuple[str, Any]]] = []
        engine = store.database.engine
        sa.event.listen(engine, "before_cursor_execute", self._note)
        for changes in batches:
            self._sent.append([])
            with contextlib.suppress(_TakenBackError), store.transaction() as tx:
                changing.apply(tx, changes)
                raise _TakenBackError
        sa.event.remove(engine, "before_cursor_execute", self._note)

    def _note(
        self, connection: object, cursor: object, text: str, rows: Any, context: object, many: bool
    ) -> None:
        if many:
            self._sent[-1].append((text, rows))

    def send(self) -> None:
        for statements in self._sent:
            with self._store.transaction() as tx:
                driver = tx.connection.connection.driver_connection
                assert isinstance(driver, sqlite3.Connection)
                for text, rows in statements:
                    driver.executemany(text, rows)


class _TakenBackError(Exception):
    """Nothing of it is to stay."""


@dataclass(frozen=True)
class Way:
    steps: Steps
    run: Callable[[list[Changes]], None] | None = None  # None: by the bare driver, what the store has made
    share: float = 1.0  # of the batches; the store writes the others

    def ready(self, batches: list[Changes]) -> Callable[[], None]:
        """To be timed."""
        if self.run is None:
            return ReadyMade(self.steps.store, batches).send
        return functools.partial(self.run, batches)


def measure(ways: dict[str, Way], rounds: int) -> dict[str, float]:
    """Microseconds per step of each way: the ways take turns, the median of the rounds counts."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            batches = list(way.steps.batches())
            some = batches[: max(1, int(len(batches) * way.share))]
            number = sum(len(batch.tokens.updated) for batch in some)
            run = way.ready(some)
            begin = time.perf_counter()
            run()
            times[name].append((time.perf_counter() - begin) / number * 1e6)
            by_store(way.steps.store, batches[len(some) :])
    return {name: statistics.median(values) for name, values in times.items()}


def compare_steps(postgresql: Store, sqlite: Store, number: int) -> None:
    with psycopg.connect(libpq_url(postgresql.config.url)) as connection:
        server, file = Steps(postgresql, number), Steps(sqlite, number)
        ways = {
            "hand-written SQL": Way(server, functools.partial(by_hand, connection)),
            "store": Way(server, functools.partial(by_store, postgresql)),
            "one transaction per step": Way(server, functools.partial(one_by_one, postgresql), share=0),
            "store on SQLite": Way(file, functools.partial(by_store, sqlite)),
            "bare driver of SQLite": Way(file),
        }
        found = measure(ways, rounds=5)
    print(f"\nsteps in batches of {BATCH}, microseconds per step (median of 5 rounds of {number} steps)")
    for name, micros in found.items():
        print(f"  {name:26} {micros:8.1f}")
    hand, store = found["hand-written SQL"], found["store"]
    print(f"  store / hand-written            {store / hand:6.2f}   (at most 1.4)")
    print(
        f"  one by one / store              {found['one transaction per step'] / store:6.1f}   (at least 8)"
    )
    print(f"  SQLite / PostgreSQL             {found['store on SQLite'] / store:6.2f}   (at most 0.5)")
    print(f"  its bare driver / PostgreSQL    {found['bare driver of SQLite'] / store:6.2f}")
    show_hot_ratio(postgresql)


def show_hot_ratio(store: Store) -> None:
    with psycopg.connect(libpq_url(store.config.url), autocommit=True) as connection:
        query = (
            "SELECT relname, n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables"
            " WHERE relname IN ('token', 'scope') ORDER BY relname"
        )
        for table, updates, hot in connection.execute(query):
            print(f"  HOT updates of {table:6} {hot / max(updates, 1):18.0%}   of {updates}")


FILL_READY = """
INSERT INTO token (id, tenant_id, instance_id, root_instance_id, scope_id, node_id, state, mode, phase, held,
topic,
    priority, attempt, activation, recoveries, version, entered_at, created_at, updated_at)
SELECT ('01900000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, 'acme', i.id, i.id, i.id, 'task',
'Ready',
    'Forward', 'inside', false, 'topic.' || (n %% 20), 0, 0, 1, 0, 1, now(), now(), now()
FROM generate_series(%(first)s::int, %(last)s::int) n, (SELECT id FROM process_instance LIMIT 1) i
"""


def claim_time(store: Store, topics: work.Topics | None) -> float:
    """Milliseconds per claim of 100; what was claimed is given back in the same transaction."""
    times = []
    for _ in range(30):
        with store.transaction() as tx:
            begin = time.perf_counter()
            assert len(work.claim_tokens(tx, owner="w", limit=100, lease=LEASE, topics=topics)) == 100
            times.append((time.perf_counter() - begin) * 1e3)
            tx.connection.rollback()
    return statistics.median(times)


def compare_claims(store: Store, many: int) -> None:
    few = 1_000
    one = work.Topics(prefixes=frozenset({"topic.1"}), automatic=False)
    with psycopg.connect(libpq_url(store.config.url), autocommit=True) as connection:
        connection.execute("UPDATE token SET state = 'Completed'")
        with store.transaction() as tx:
            changing.apply(tx, sample.started(sample.instance(), tokens=0))
        found = {}
        for first, last in ((1, few), (few + 1, many)):
            connection.execute(FILL_READY, {"first": first, "last": last})
            connection.execute("VACUUM ANALYZE token")
            found[last] = claim_time(store, None), claim_time(store, one)
    print("\nclaiming 100 of the ready tokens, milliseconds (median of 30)")
    for number, (everything, topics) in found.items():
        print(
            f"  of {number:9,}   all topics {everything:6.2f}   half of the topics, by prefix {topics:6.2f}"
        )
    for name, i in (("all topics", 0), ("by prefix", 1)):
        print(f"  {name:10} {many:,} / {few:,}  {found[many][i] / found[few][i]:6.2f}   (at most 2)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--steps", type=int, default=9_000, help="steps per round and way")
    parser.add_argument("--ready", type=int, default=1_000_000, help="ready tokens of the big claim")
    options = parser.parse_args()
    with server_url() as url, tempfile.TemporaryDirectory() as directory:
        slow = StoreConfig(url=url, auto_migrate=True)
        with Store(slow) as postgresql, Store(f"sqlite:///{directory}/bench.db") as sqlite:
            compare_steps(postgresql, sqlite, options.steps)
            compare_claims(postgresql, options.ready)


if __name__ == "__main__":
    main()
