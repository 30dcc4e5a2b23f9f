"""Migrated, empty databases of three kinds for tests: `url_of(kind)`. Registered by tests/conftest.py.

A SQLite file is a copy of a template. PostgreSQL is one database per test worker, emptied after each test
that used it, since creating one costs more than most tests.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from support.postgres.databases import Databases, Template

from bpm_engine.store import migrate
from bpm_engine.store.config import StoreConfig
from bpm_engine.store.schema import metadata
from bpm_engine.store.store import connect

ALL = ("postgresql", "sqlite file", "sqlite memory")
SHARED = ("postgresql", "sqlite file")  # that several processes can share


def migrated(url: str) -> None:
    database = connect(StoreConfig(url=url))
    migrate.upgrade(database)
    database.close()


SCHEMA = Template("store_schema", migrated)


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("schema") / "template.db"
    migrated(f"sqlite:///{path}")
    return path


@pytest.fixture(scope="session")
def postgresql_schema(postgresql_databases: Databases) -> Iterator[str]:
    """One migrated database for all tests that leave its tables as they are; emptied between them."""
    with postgresql_databases.clone(SCHEMA) as url:
        yield url


def empty_postgresql(url: str) -> None:
    """History refuses to be deleted, so the triggers rest meanwhile."""
    with psycopg.connect(url) as connection:
        found = connection.execute(
            "SELECT tgrelid::regclass, tgname FROM pg_trigger WHERE tgenabled = 'A' AND NOT tgisinternal"
        ).fetchall()
        for table, trigger in found:
            connection.execute(f"ALTER TABLE {table} DISABLE TRIGGER {trigger}")
        for each in reversed(metadata.sorted_tables):
            connection.execute(f"DELETE FROM {each.name}")
        for table, trigger in found:
            connection.execute(f"ALTER TABLE {table} ENABLE ALWAYS TRIGGER {trigger}")


def empty_sqlite(url: str) -> None:
    """History refuses to be deleted, so its triggers are taken away and put back."""
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("BEGIN IMMEDIATE")
        triggers = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for name, _ in triggers:
            connection.execute(f"DROP TRIGGER {name}")
        for each in reversed(metadata.sorted_tables):
            connection.execute(f"DELETE FROM {each.name}")
        for _, statement in triggers:
            connection.execute(statement)
        connection.execute("COMMIT")


def empty(url: str) -> None:
    """The tables of a database that several tests use one after the other."""
    if url.startswith("sqlite"):
        empty_sqlite(url)
    else:
        empty_postgresql(url)


@pytest.fixture
def emptied_url(postgresql_schema: str) -> Iterator[str]:
    yield postgresql_schema
    empty_postgresql(postgresql_schema)


@pytest.fixture
def url_of(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str], str]:
    """The URL of a migrated, empty database of the kind asked for."""

    def url(kind: str) -> str:
        match kind:
            case "postgresql":
                return str(request.getfixturevalue("emptied_url"))
            case "sqlite file":
                shutil.copy(request.getfixturevalue("sqlite_template"), tmp_path / "bpm.db")
                return f"sqlite:///{tmp_path / 'bpm.db'}"
            case _:
                return "sqlite://"

    return url
