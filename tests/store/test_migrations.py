"""Migrations: they make the schema of the code, go up and down, and refuse what they do not know."""

from __future__ import annotations

import multiprocessing
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from support import rows as sample

from bpm_engine.store import changes as changing
from bpm_engine.store import migrate
from bpm_engine.store.config import StoreConfig
from bpm_engine.store.database import Database
from bpm_engine.store.failures import SchemaVersionError
from bpm_engine.store.schema import metadata, process_instance, subscription, timer
from bpm_engine.store.store import Store, connect


@pytest.fixture(params=["postgresql", "sqlite"])
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgresql":
        return str(request.getfixturevalue("postgresql_url"))
    return f"sqlite:///{tmp_path / 'empty.db'}"


@pytest.fixture
def database(empty_url: str) -> Iterator[Database]:
    opened = connect(StoreConfig(url=empty_url))
    yield opened
    opened.close()


def described(database: Database) -> set[str]:
    """Every table, column, constraint, index and trigger, in the database's own words."""
    queries = {
        "postgresql": """
            SELECT conrelid::regclass || ' ' || conname || ' ' || pg_get_constraintdef(oid) FROM pg_constraint
            WHERE connamespace = 'public'::regnamespace
            UNION ALL SELECT indexdef FROM pg_indexes WHERE schemaname = 'public'
            UNION ALL SELECT concat_ws(' ', table_name, column_name, data_type, is_nullable,
            generation_expression) FROM information_schema.columns WHERE table_schema = 'public' UNION ALL
            SELECT c.relname || ' ' || option FROM pg_class c, unnest(c.reloptions) option WHERE
            c.relnamespace = 'public'::regnamespace AND starts_with(option, 'fillfactor')""",
        "sqlite": "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND type <> 'trigger'",
    }
    with database.engine.connect() as connection:
        rows = connection.exec_driver_sql(queries[connection.dialect.name]).scalars()
        found = {_same_spelling(row) for row in rows}
    return {line for line in found if migrate.VERSION_TABLE not in line}


def _same_spelling(statement: str) -> str:
    """Without the accidents of formatting; the columns and constraints of a CREATE TABLE in any order."""
    text = re.sub(r"[\s\"]+", " ", statement).replace(" ,", ",").strip()
    if text.startswith("CREATE TABLE"):
        head, _, body = text.partition("(")
        return head + " | ".join(sorted(re.split(r", (?![^()]*\))", body.rpartition(")")[0].strip())))
    return text


def _scripts() -> ScriptDirectory:
    return ScriptDirectory.from_config(migrate._config())


def test_the_migrated_schema_is_the_schema_of_the_code(database: Database) -> None:
    migrate.upgrade(database)
    migrated = described(database)
    with database.engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": migrate.VERSION_TABLE})
        assert compare_metadata(context, metadata) == []
    migrate.downgrade(database, "base")
    with database.writing() as connection:
        metadata.create_all(connection)
        connection.commit()
    assert described(database) == migrated


def test_down_and_up_again_leaves_usable_tables(database: Database, empty_url: str) -> None:
    migrate.upgrade(database)
    migrate.downgrade(database, "base")
    with database.engine.connect() as connection:
        assert set(sa.inspect(connection).get_table_names()) <= {migrate.VERSION_TABLE}
        assert migrate.current(connection) is None
    migrate.upgrade(database)
    with Store(empty_url) as store, store.transaction() as tx:
        changing.apply(tx, sample.started(sample.instance()))


def test_each_revision_goes_down_and_up_again_with_the_rows_that_are_there(
    database: Database, empty_url: str
) -> None:
    migrate.upgrade(database)
    before = described(database)
    owner = sample.instance()
    started = sample.started(owner)
    started.timers.inserted = [sample.timer(owner)]
    started.subscriptions.inserted = [sample.subscription(owner)]
    with Store(empty_url) as store, store.transaction() as tx:
        changing.apply(tx, started)
    revisions = [script.revision for script in _scripts().walk_revisions()]
    for lower in revisions[1:]:
        migrate.downgrade(database, lower)
        assert migrate.find_revision(database) == lower
    migrate.upgrade(database)
    assert described(database) == before
    with Store(empty_url) as store, store.transaction() as tx:
        assert tx.execute(sa.select(timer.c.instance_id)).scalars().all() == [owner.id]
        assert tx.execute(sa.select(subscription.c.instance_id)).scalars().all() == [owner.id]
        changing.apply(tx, sample.started(sample.instance()))


def test_upgrading_twice_changes_nothing(database: Database) -> None:
    migrate.upgrade(database)
    before = described(database)
    migrate.upgrade(database)
    assert described(database) == before


def test_the_revisions_are_one_line() -> None:
    assert len(_scripts().get_heads()) == 1
    assert all(not script.is_branch_point for script in _scripts().walk_revisions())


def test_the_last_script_is_known_without_reading_any() -> None:
    assert migrate.head() == _scripts().get_current_head()


def test_who_finds_the_schema_up_to_date_does_not_wait_for_alembic(
    database: Database, empty_url: str
) -> None:
    """Every start of a worker would pay for the import."""
    migrate.upgrade(database)
    script = (
        "import sys; from bpm_engine.store.store import Store, StoreConfig\n"
        f"with Store(StoreConfig(url={empty_url!r}, auto_migrate=False)) as store: store.open()\n"
        "sys.exit('alembic' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_a_newer_schema_is_refused_with_advice(database: Database, empty_url: str) -> None:
    migrate.upgrade(database)
    with database.writing() as connection:
        connection.exec_driver_sql(f"UPDATE {migrate.VERSION_TABLE} SET version_num = '9999'")
        connection.commit()
    refused = pytest.raises(SchemaVersionError, match=r"9999.*upgrade this installation")
    with Store(empty_url) as store, refused:
        store.open()
    with refused:
        migrate.upgrade(database)
    with refused:
        migrate.downgrade(database, "base")


def test_a_server_without_schema_is_refused_with_advice(postgresql_url: str) -> None:
    with Store(postgresql_url) as store, pytest.raises(SchemaVersionError, match="bpm db upgrade"):
        store.open()


def test_a_sqlite_file_gets_its_schema_on_first_use(tmp_path: Path) -> None:
    with Store(f"sqlite:///{tmp_path / 'new.db'}") as store, store.transaction() as tx:
        changing.apply(tx, sample.started(sample.instance()))


def upgrade_at(url: str, barrier: object, outcomes: object) -> None:
    database = connect(StoreConfig(url=url))
    try:
        barrier.wait()
        migrate.upgrade(database)
        outcomes.put("done")
    except Exception as error:  # noqa: BLE001  the parent reports it
        outcomes.put(repr(error))
    finally:
        database.close()


def test_two_processes_that_migrate_at_once_do_not_break_each_other(
    empty_url: str, database: Database
) -> None:
    context = multiprocessing.get_context("spawn")
    barrier, outcomes = context.Barrier(3), context.Queue()
    others = [context.Process(target=upgrade_at, args=(empty_url, barrier, outcomes)) for _ in range(3)]
    for process in others:
        process.start()
    assert [outcomes.get(timeout=60) for _ in others] == ["done"] * 3
    for process in others:
        process.join()
    with database.engine.connect() as connection:
        assert migrate.current(connection) == migrate.head()


def test_a_migration_waits_for_another_however_long_it_takes(postgresql_url: str) -> None:
    """Longer than a step may wait for a lock, and than a statement may run."""
    impatient = StoreConfig(url=postgresql_url, lock_timeout=0.05, statement_timeout=0.05)
    first, second = connect(StoreConfig(url=postgresql_url)), connect(impatient)
    asked = threading.Event()
    sa.event.listen(second.engine, "before_cursor_execute", lambda *_: asked.set())
    waiting = threading.Thread(target=migrate.upgrade, args=(second,))
    try:
        with first.writing() as connection:
            first.lock_migrations(connection)
            waiting.start()
            assert asked.wait(30)
            waits = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
            while not connection.exec_driver_sql(waits).first():
                pass
            connection.exec_driver_sql("SELECT pg_sleep(0.2)")
            assert connection.exec_driver_sql(waits).first(), "it has given up"
            connection.rollback()
        waiting.join(60)
        assert migrate.find_revision(first) == migrate.head()
    finally:
        first.close()
        second.close()


def test_databases_in_memory_begin_with_the_same_schema_and_share_no_rows() -> None:
    """All but the first are copies of what the migrations made."""
    migrated = connect(StoreConfig(url="sqlite://"))
    migrate.upgrade(migrated)
    with Store("sqlite://") as first, Store("sqlite://") as second:
        for store in (first, second):
            store.open()
            assert described(store.database) == described(migrated)
            assert migrate.find_revision(store.database) == migrate.head()
        with first.transaction() as tx:
            changing.apply(tx, sample.started(sample.instance()))
        with second.reading() as tx:
            assert tx.execute(sa.select(sa.func.count()).select_from(process_instance)).scalar_one() == 0
    migrated.close()


def test_a_copy_replaces_nothing() -> None:
    with Store("sqlite://") as store:
        store.open()
        with store.transaction() as tx:
            changing.apply(tx, sample.started(sample.instance()))
        migrate.prepare(store.database)
        with store.reading() as tx:
            assert tx.execute(sa.select(sa.func.count()).select_from(process_instance)).scalar_one() == 1


def test_what_one_engine_has_translated_serves_the_next(
    empty_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    query, other = sa.select(process_instance.c.id), sa.select(process_instance.c.subject)
    translated: list[object] = []
    translate = sa.Select._compiler

    def noted(self: sa.Select[tuple[object]], *given: object, **named: object) -> object:
        translated.append(self)
        return translate(self, *given, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(sa.Select, "_compiler", noted)
    for _ in range(2):
        with Store(StoreConfig(url=empty_url, auto_migrate=True)) as store, store.reading() as tx:
            tx.execute(query)
            tx.execute(other)
    assert sum(each is query for each in translated) <= 1
    assert sum(each is other for each in translated) <= 1


def test_a_failing_migration_leaves_the_schema_as_it_was(database: Database) -> None:
    with database.writing() as connection:
        connection.exec_driver_sql("CREATE TABLE schedule (id integer)")
        connection.commit()
    with pytest.raises(sa.exc.DBAPIError, match="schedule"):
        migrate.upgrade(database)
    with database.engine.connect() as connection:
        assert sa.inspect(connection).get_table_names() == ["schedule"]


def test_the_triggers_that_keep_the_history_fire_for_replicas_too(postgresql_url: str) -> None:
    """ENABLE ALWAYS: with session_replication_role = replica an ordinary trigger would be skipped."""
    database = connect(StoreConfig(url=postgresql_url))
    migrate.upgrade(database)
    with database.engine.connect() as connection:
        query = "SELECT tgname, tgenabled FROM pg_trigger WHERE NOT tgisinternal"
        found = {row.tgname: row.tgenabled for row in connection.exec_driver_sql(query)}
    database.close()
    assert found == dict.fromkeys(
        [
            "bpm_append_only",
            "bpm_no_truncate",
            "bpm_delete_rule",
            "bpm_log_goes",
            "bpm_purged_stays",
            "bpm_immutable",
        ],
        "A",
    )


def test_threads_that_migrate_a_database_each_do_not_disturb_each_other(tmp_path: Path) -> None:
    databases = [connect(StoreConfig(url=f"sqlite:///{tmp_path}/{number}.db")) for number in range(8)]
    begin = threading.Barrier(len(databases))

    def upgrade(database: Database) -> str | None:
        begin.wait(20)
        migrate.upgrade(database)
        return migrate.find_revision(database)

    with ThreadPoolExecutor(len(databases)) as threads:
        assert set(threads.map(upgrade, databases)) == {migrate.head()}
    for database in databases:
        database.close()
