"""What the operator wrote in the database URL wins over what the engine opens its sessions with."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
import sqlalchemy as sa
from support.postgres.databases import libpq_url

from bpm_engine.errors import InvalidInputError
from bpm_engine.store import migrate
from bpm_engine.store.config import StoreConfig
from bpm_engine.store.store import Store

WRITTEN = {
    "options": r"-csearch_path=bpm --lock-timeout=1234 -c my.motto=wait\ and\ see",
    "application_name": "shop",
    "connect_timeout": "33",
    "keepalives_idle": "44",
}
SETTINGS = ("search_path", "lock_timeout", "my.motto", "application_name", "statement_timeout")
FOUND = ("bpm", "1234ms", "wait and see", "shop", "30s")
LISTENER = "SELECT application_name FROM pg_stat_activity WHERE datname = %s AND query LIKE 'LISTEN%%'"


@pytest.fixture(params=[False, True], ids=["sessions", "transaction pooler"])
def written(request: pytest.FixtureRequest, postgresql_url: str) -> Iterator[Store]:
    with psycopg.connect(libpq_url(postgresql_url), autocommit=True) as admin:
        admin.execute("CREATE SCHEMA bpm")
    url = sa.make_url(postgresql_url).update_query_dict(WRITTEN).render_as_string(hide_password=False)
    with Store(StoreConfig(url=url, transaction_pooler=request.param)) as store:
        migrate.upgrade(store.database)
        yield store


def test_settings_hold_for_whoever_reads_and_writes(written: Store) -> None:
    question = "SELECT " + ", ".join(f"current_setting('{name}')" for name in SETTINGS)
    for opening in (written.transaction, written.reading, lambda: written.transaction(reserved=True)):
        with opening() as tx:
            assert tuple(tx.connection.exec_driver_sql(question).one()) == FOUND


def test_the_migration_makes_its_tables_where_the_url_says(written: Store) -> None:
    query = "SELECT DISTINCT schemaname FROM pg_tables WHERE tablename IN ('token', 'bpm_schema_version')"
    with written.reading() as tx:
        assert set(tx.connection.exec_driver_sql(query).scalars()) == {"bpm"}


def test_times_of_the_connection_are_those_of_the_url(written: Store) -> None:
    with written.reading() as tx:
        driver = tx.connection.connection.driver_connection
        assert isinstance(driver, psycopg.Connection)
        used = driver.info.get_parameters()
    assert {name: used[name] for name in WRITTEN if name != "options"} == {
        name: value for name, value in WRITTEN.items() if name != "options"
    }
    assert used["keepalives_count"] == "3"


def test_who_listens_has_the_name_that_the_url_gives(written: Store) -> None:
    url = sa.make_url(written.config.url)
    assert written.wakeups.wait_until_listening(10)  # type: ignore[attr-defined]
    with psycopg.connect(libpq_url(url.set(query={}).render_as_string()), **_host(url)) as admin:
        assert admin.execute(LISTENER, (url.database,)).fetchall() == [("shop",)]


def _host(url: sa.URL) -> dict[str, str]:
    return {name: str(url.query[name]) for name in ("host", "port") if name in url.query}


@pytest.mark.parametrize("options", ["-F", "-c", "-c search_path", "fsync=off"])
def test_options_that_are_no_settings_are_refused_behind_a_pooler(options: str) -> None:
    url = sa.make_url("postgresql://db/orders").update_query_dict({"options": options}).render_as_string()
    with pytest.raises(InvalidInputError, match="can only be settings: -c name=value"):
        Store(StoreConfig(url=url, transaction_pooler=True))
