"""Connections: errors and what they mean, timeouts, durability, poolers, several processes, wake-ups."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import socket
import sqlite3
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import replace as with_fields
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa
from support import rows as sample
from support.postgres.databases import libpq_url
from support.postgres.server import Server

from bpm_engine.core.stimuli import WorkCompleted
from bpm_engine.errors import ConflictError, InvalidInputError, UnavailableError
from bpm_engine.handlers import Handlers
from bpm_engine.services.hands import Hands
from bpm_engine.services.running import HandedIn
from bpm_engine.store import changes as changing
from bpm_engine.store import clock, schema, trees, work
from bpm_engine.store.clock import ManualClock
from bpm_engine.store.config import StoreConfig
from bpm_engine.store.failures import CommitUnknownError, TransactionRetryError, UnsafeDurabilityError
from bpm_engine.store.notifications import News
from bpm_engine.store.store import Store, connect

LEASE = timedelta(seconds=30)


def start(store: Store, **fields: object) -> str:
    owner = sample.instance(**fields)
    with store.transaction() as tx:
        changing.apply(tx, sample.started(owner))
    return owner.id


def count(store: Store) -> int:
    with store.reading() as tx:
        return int(tx.execute(sa.select(sa.func.count()).select_from(schema.process_instance)).scalar_one())


def test_constructing_a_store_opens_nothing() -> None:
    before = threading.enumerate()
    with Store("postgresql://127.0.0.1:1/none"), Store("sqlite:////nowhere/at/all.db"):
        assert threading.enumerate() == before


@pytest.mark.parametrize("url", ["mysql://x", "nonsense", ""])
def test_another_database_is_refused(url: str) -> None:
    with pytest.raises(InvalidInputError, match="postgresql"):
        connect(StoreConfig(url=url))


@pytest.mark.parametrize("url", ["postgresql://127.0.0.1:1/none", "sqlite:////nowhere/at/all.db"])
def test_a_database_that_is_away_is_unavailable(url: str) -> None:
    with Store(StoreConfig(url=url, connect_timeout=2)) as store, pytest.raises(UnavailableError):
        start(store)


def test_a_full_pool_answers_soon(postgresql_store: Store) -> None:
    config = with_fields(postgresql_store.config, pool_size=1, pool_overflow=0, pool_timeout=0.05)
    with Store(config) as small, small.reading(), pytest.raises(UnavailableError), small.reading():
        pass


def test_a_full_pool_does_not_let_leases_run_out(postgresql_store: Store, clock: ManualClock) -> None:
    start(postgresql_store)
    config = with_fields(postgresql_store.config, pool_size=1, pool_overflow=0, pool_timeout=0.05)
    with Store(config, clock) as small:
        with small.transaction() as tx:
            (held,) = work.load_work(tx, work.claim_tokens(tx, owner="w", limit=1, lease=LEASE))
        hands = Hands(small, Handlers(), lease=LEASE, extension=LEASE)
        hands.hand_in([HandedIn(held, 10 * LEASE, WorkCompleted(claim=held.claim))])
        with small.reading():
            hands.extend_leases()
    with postgresql_store.reading() as tx:
        assert tx.execute(sa.select(schema.token.c.lease_until)).scalar() == clock.now + 10 * LEASE


def test_a_deadlock_is_told_as_a_retry(postgresql_store: Store) -> None:
    one, two = start(postgresql_store), start(postgresql_store)
    patient = with_fields(postgresql_store.config, lock_timeout=20)
    barrier = threading.Barrier(2)

    def lock(first: str, second: str) -> str:
        with Store(patient) as store:
            try:
                with store.transaction() as tx:
                    trees.take_roots(tx, [first], wait=True)
                    barrier.wait()
                    trees.take_roots(tx, [second], wait=True)
            except TransactionRetryError:
                return "retry"
        return "done"

    with ThreadPoolExecutor(2) as pool:
        assert sorted(pool.map(lock, (one, two), (two, one))) == ["done", "retry"]


def test_a_slow_statement_is_cut_off(postgresql_store: Store) -> None:
    with Store(with_fields(postgresql_store.config, statement_timeout=0.05)) as hasty:
        with pytest.raises(UnavailableError), hasty.transaction() as tx:
            tx.execute(sa.text("SELECT pg_sleep(5)"))
        assert count(hasty) == 0


def test_a_taken_key_is_a_conflict_and_its_text_does_not_tell_the_value(store: Store) -> None:
    start(store, idempotency_key="secret-7")
    with pytest.raises(ConflictError) as raised:
        start(store, idempotency_key="secret-7")
    assert "secret" not in str(raised.value)


def test_a_connection_lost_during_commit_is_told_apart(postgresql_store: Store) -> None:
    def cut(connection: sa.Connection) -> None:
        driver = connection.connection.driver_connection
        with socket.socket(fileno=os.dup(driver.fileno())) as same:
            same.shutdown(socket.SHUT_RDWR)

    sa.event.listen(postgresql_store.database.engine, "commit", cut)
    with pytest.raises(CommitUnknownError) as raised:
        start(postgresql_store)
    assert raised.value.process is not None
    sa.event.remove(postgresql_store.database.engine, "commit", cut)
    assert count(postgresql_store) == 0
    start(postgresql_store)


def test_a_connection_lost_before_commit_is_unavailable_and_the_pool_recovers(
    postgresql_store: Store,
) -> None:
    others = "datname = current_database() AND pid <> pg_backend_pid()"
    kill = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {others}"
    lost = pytest.raises(UnavailableError)
    with lost, postgresql_store.transaction() as tx:
        tx.execute(sa.text("SELECT 1"))
        with psycopg.connect(libpq_url(postgresql_store.config.url)) as other:
            other.execute(kill)
        tx.execute(sa.text("SELECT 1"))
    start(postgresql_store)
    assert count(postgresql_store) == 1


def test_a_server_that_may_lose_commits_is_refused(postgresql_store: Store) -> None:
    config = postgresql_store.config
    name = sa.make_url(config.url).database
    with psycopg.connect(libpq_url(config.url), autocommit=True) as connection:
        connection.execute(f"ALTER DATABASE {name} SET synchronous_commit = off")
        try:
            with Store(config) as store, pytest.raises(UnsafeDurabilityError, match="synchronous_commit"):
                store.open()
            with Store(with_fields(config, allow_unsafe_durability=True)) as store:
                store.open()
        finally:
            connection.execute(f"ALTER DATABASE {name} RESET synchronous_commit")


def test_an_acknowledged_step_survives_an_immediate_stop(postgresql_server: Server) -> None:
    with Store(StoreConfig(url=postgresql_server.url, auto_migrate=True)) as store:
        acknowledged = {start(store) for _ in range(5)}
        postgresql_server.restart(immediate=True)
        with store.reading() as tx:
            assert {row.id for row in tx.execute(sa.select(schema.process_instance.c.id))} == acknowledged


def test_a_caller_joins_with_a_savepoint_and_decides_itself(store: Store) -> None:
    with store.transaction() as outer:
        failing = pytest.raises(ZeroDivisionError)
        with failing, store.joined(outer.connection) as tx:
            changing.apply(tx, sample.started(sample.instance()))
            raise ZeroDivisionError
        with store.joined(outer.connection) as tx:
            changing.apply(tx, sample.started(sample.instance()))
    assert count(store) == 1


def test_the_database_clock_is_read_once_per_transaction_and_is_now(store: Store) -> None:
    with Store(store.config) as timed, timed.transaction() as tx:
        first = tx.now()
        assert tx.now() is first
        assert first.tzinfo is UTC
        assert abs(first - datetime.now(UTC)) < timedelta(minutes=1)


@pytest.mark.parametrize("level", ["FULL", "NORMAL"])
def test_sqlite_durability_is_as_configured(sqlite_store: Store, level: str) -> None:
    with Store(with_fields(sqlite_store.config, sqlite_synchronous=level)) as store, store.reading() as tx:
        found = tx.connection.exec_driver_sql("PRAGMA synchronous").scalar()
        assert found == {"FULL": 2, "NORMAL": 1}[level]
        assert tx.connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
        assert tx.connection.exec_driver_sql("PRAGMA foreign_keys").scalar() == 1


def test_a_reader_does_not_wait_for_the_writer(sqlite_store: Store) -> None:
    start(sqlite_store)
    with sqlite_store.transaction() as tx:
        changing.apply(tx, sample.started(sample.instance()))
        assert count(sqlite_store) == 1


def test_waiting_too_long_for_another_process_is_a_retry(sqlite_store: Store) -> None:
    start(sqlite_store)
    path = sa.make_url(sqlite_store.config.url).database
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        hasty = with_fields(sqlite_store.config, sqlite_busy_timeout=0.05)
        with Store(hasty) as store, pytest.raises(TransactionRetryError):
            start(store)


def claim_all(url: str, owner: str, barrier: object, answers: object) -> None:
    with Store(url) as store:
        store.open()
        barrier.wait()
        won: list[str] = []
        misses = 0
        while misses < 5:
            with store.transaction() as tx:
                taken = work.claim_tokens(tx, owner=owner, limit=5, lease=LEASE)
            misses = 0 if taken else misses + 1
            won += [t.id for t in taken]
        answers.put(won)


def test_several_processes_share_the_work_of_one_database(shared_store: Store) -> None:
    changes = sample.started(*(sample.instance() for _ in range(100)))
    with shared_store.transaction() as tx:
        changing.apply(tx, changes)
    context = multiprocessing.get_context("spawn")
    barrier, answers = context.Barrier(3), context.Queue()
    url = shared_store.config.url
    processes = [context.Process(target=claim_all, args=(url, str(i), barrier, answers)) for i in range(3)]
    for process in processes:
        process.start()
    won = [token for _ in processes for token in answers.get(timeout=60)]
    for process in processes:
        process.join()
    assert sorted(won) == sorted(t.id for t in changes.tokens.inserted)


def test_the_server_is_asked_for_the_time_once_a_second_and_its_time_is_told(postgresql_store: Store) -> None:
    asked: list[str] = []

    def note(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        asked.extend([statement] if "clock_timestamp" in statement else [])

    with Store(postgresql_store.config) as store:
        sa.event.listen(store.database.engine, "before_cursor_execute", note)
        told = []
        for _ in range(20):
            with store.reading() as tx:
                told.append(tx.now())
        with store.reading() as tx:
            (server,) = tx.connection.exec_driver_sql("SELECT now()").one()
            assert abs(server - tx.now()) < timedelta(seconds=0.5)
    assert 1 <= len(asked) < 20
    assert told == sorted(told)


@pytest.mark.parametrize(("there", "back"), [(0.4, 0.0), (0.0, 0.4), (0.2, 0.2)])
def test_a_worker_is_never_ahead_of_the_clock_of_the_server(
    there: float, back: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long the question took on its way there, or the answer on its way back; and never goes back."""
    passed = 0.0
    noon = datetime(2030, 1, 1, 12, tzinfo=UTC)

    def ask(_connection: sa.Connection) -> datetime:
        nonlocal passed
        passed += there
        answer = noon + timedelta(seconds=passed)
        passed += back
        return answer

    monkeypatch.setattr(clock, "steady", lambda: passed)
    server = clock.ServerClock(ask)
    told = []
    with sa.create_engine("sqlite://").connect() as connection:
        for _ in range(20):
            told.append(server.read(connection))
            assert told[-1] <= noon + timedelta(seconds=passed)
            passed += 0.11
    assert told == sorted(told)


def _is_listening(store: Store) -> bool:
    """Who begins to listen is woken once for what may have been missed."""
    listening = getattr(store.wakeups, "wait_until_listening", lambda timeout: True)
    return bool(listening(10))


def test_a_commit_wakes_those_who_wait_in_the_same_process(store: Store) -> None:
    seen = store.wakeups.generation()
    with store.transaction() as tx:
        changing.apply(tx, sample.started(sample.instance()))
        tx.wake()
    assert store.wakeups.wait(seen, 10)


def test_a_commit_wakes_only_those_who_wait_for_what_it_brought(store: Store) -> None:
    assert _is_listening(store)
    seen = {news: store.wakeups.generation(news) for news in News}
    with store.transaction() as tx:
        tx.wake(News.TIMERS)
    assert store.wakeups.wait(seen[News.TIMERS], 10, News.TIMERS)
    assert store.wakeups.wait(seen[News.ANY], 10)
    assert store.wakeups.generation(News.WORK) == seen[News.WORK]
    assert store.wakeups.generation(News.EVENTS) == seen[News.EVENTS]


def test_a_rollback_wakes_nobody(sqlite_store: Store) -> None:
    seen = sqlite_store.wakeups.generation()
    failing = pytest.raises(ZeroDivisionError)
    with failing, sqlite_store.transaction() as tx:
        tx.wake()
        raise ZeroDivisionError
    assert sqlite_store.wakeups.generation() == seen
    assert not sqlite_store.wakeups.wait(seen, 0)


def test_a_commit_of_another_process_wakes_as_well(shared_store: Store) -> None:
    """A second store stands for the other process: they share nothing but the database."""
    shared_store.open()
    with Store(shared_store.config) as other:
        shared_store.wakeups.wait(shared_store.wakeups.generation(), 0.3)  # begins to listen
        assert _is_listening(shared_store)
        seen = shared_store.wakeups.generation(News.DELIVERIES)
        with other.transaction() as tx:
            changing.apply(tx, sample.started(sample.instance()))
            tx.wake(News.DELIVERIES, News.EVENTS)
        assert shared_store.wakeups.wait(seen, 10, News.DELIVERIES)


@pytest.fixture
def pooler_url(postgresql_store: Store, tmp_path: Path) -> Iterator[str]:
    """PgBouncer in transaction mode in front of the test's database, with a single server connection."""
    binary = shutil.which("pgbouncer") or "/usr/sbin/pgbouncer"
    if not Path(binary).exists():
        pytest.skip("no PgBouncer on this machine: install the package pgbouncer")
    url = sa.make_url(postgresql_store.config.url)
    directory = Path("/tmp") / f"bpm-pooler-{os.getpid()}"
    directory.mkdir()
    host = url.query.get("host", url.host)
    port = url.query.get("port", url.port or 5432)
    settings = f"""
[databases]
pooled = host={host} port={port} dbname={url.database} user={url.username}
[pgbouncer]
listen_addr =
unix_socket_dir = {directory}
listen_port = 6432
auth_type = any
pool_mode = transaction
default_pool_size = 2
ignore_startup_parameters = extra_float_digits
logfile = {directory}/log
pidfile = {directory}/pid
"""
    (directory / "pgbouncer.ini").write_text(settings)
    shutil.chown(directory, "postgres")
    process = subprocess.Popen(
        [binary, "-q", directory / "pgbouncer.ini"], user="postgres" if os.getuid() == 0 else None
    )
    try:
        pooled = f"postgresql://{url.username}@/pooled?host={directory}&port=6432"
        for _ in range(200):
            if (directory / ".s.PGSQL.6432").exists():
                break
            process.poll() is None or pytest.fail("PgBouncer did not start")
            threading.Event().wait(0.02)
        yield pooled
    finally:
        process.terminate()
        process.wait(10)
        shutil.rmtree(directory)


@pytest.mark.parametrize("pooled", [False, True])
def test_it_is_known_which_process_of_the_server_is_at_work(postgresql_store: Store, pooled: bool) -> None:
    with Store(with_fields(postgresql_store.config, transaction_pooler=pooled)) as store:
        with store.transaction() as tx:
            process = tx.execute(sa.text("SELECT pg_backend_pid()")).scalar_one()
            assert store.database.process(tx.connection) == process
            with postgresql_store.reading() as other:
                assert other.database.is_at_work(other.connection, process)
        with postgresql_store.reading() as other:
            assert not other.database.is_at_work(other.connection, process)


def test_behind_a_transaction_pooler_everything_works(postgresql_store: Store, pooler_url: str) -> None:
    config = StoreConfig(url=pooler_url, direct_url=postgresql_store.config.url, transaction_pooler=True)
    with Store(config) as store:
        for _ in range(12):  # more than psycopg needs to begin to prepare
            start(store)
        with store.transaction() as one, store.transaction() as other:
            taken = [
                t.id for tx in (one, other) for t in work.claim_tokens(tx, owner="w", limit=6, lease=LEASE)
            ]
            assert len(set(taken)) == 12
        with store.transaction() as tx:
            assert tx.execute(sa.text("SHOW lock_timeout")).scalar() == "2s"
        with psycopg.connect(libpq_url(pooler_url), autocommit=True) as plain:
            assert plain.execute("SHOW lock_timeout").fetchone() == ("0",)
        assert store.wakeups.wait_until_listening(10)
        seen = store.wakeups.generation()
        postgresql_store.wakeups.notify()
        assert store.wakeups.wait(seen, 10)


def test_behind_a_transaction_pooler_the_options_of_the_url_hold_in_each_transaction(pooler_url: str) -> None:
    """PgBouncer itself refuses a session with options."""
    url = f"{pooler_url}&options=-clock_timeout%3D1234&application_name=shop"
    with Store(StoreConfig(url=url, transaction_pooler=True)) as store:
        for _ in range(3):
            start(store)
            with store.reading() as tx:
                assert tx.execute(sa.text("SHOW lock_timeout")).scalar() == "1234ms"
                assert tx.execute(sa.text("SHOW application_name")).scalar() == "shop"


def test_a_server_that_drops_every_new_connection_is_unavailable(postgresql_store: Store) -> None:
    start(postgresql_store)
    engine = postgresql_store.database.engine
    engine.dispose()

    def drop(connection: psycopg.Connection[object], _record: object) -> None:
        with suppress(psycopg.OperationalError):  # it ends the very session that asks
            connection.execute("SELECT pg_terminate_backend(pg_backend_pid())")

    sa.event.listen(engine, "connect", drop)
    try:
        with pytest.raises(UnavailableError, match="drops connections"):
            start(postgresql_store)
        with pytest.raises(UnavailableError, match="drops connections"):
            count(postgresql_store)
    finally:
        sa.event.remove(engine, "connect", drop)
    assert count(postgresql_store) == 1


def test_those_who_open_a_new_file_at_once_wait_for_each_other(tmp_path: Path) -> None:
    """SQLite itself tells all but one of them at once that the file is locked."""

    def open_at(barrier: threading.Barrier, url: str) -> None:
        database = connect(StoreConfig(url=url))
        barrier.wait()
        with database.writing() as connection:
            connection.exec_driver_sql("CREATE TABLE IF NOT EXISTS visited (id integer)")
            connection.commit()
        database.close()

    with ThreadPoolExecutor(4) as pool:
        for number in range(25):
            barrier, url = threading.Barrier(4), f"sqlite:///{tmp_path / f'{number}.db'}"
            for opening in [pool.submit(open_at, barrier, url) for _ in range(4)]:
                opening.result()
