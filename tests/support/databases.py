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
import sqlalchemy as sa
from support.postgres.databases import Databases, Template

from bpm_engine.store import migrate
from bpm_engine.store.config import StoreConfig
from bpm_engine.store.schema import metadata
from bpm_engine.store.store import Store, connect

SHARED = ("postgresql", "sqlite file")  # that several processes can share
MEMORY = "sqlite memory"
ALL = (*SHARED, MEMORY)


def migrated(url: str) -> None:
    database = connect(StoreConfig(url=url))
    migrate.upgrade(database)
    database.close()


SCHEMA = Template("store_schema", migrated)
# History goes with its instance, and an instance goes when it has ended and its time is over.
EMPTYING = "; ".join(
    (
        "UPDATE process_instance SET status = 'Completed', purge_at = created_at, purged_at = created_at",
        *(f"DELETE FROM {table.name}" for table in reversed(metadata.sorted_tables)),
    )
)


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
    """Nobody waits for this to be on the disk. No trigger is switched off for it: each session that is open
    would have to plan its statements anew.
    """
    with psycopg.connect(url) as connection:
        connection.execute(f"SET LOCAL synchronous_commit = off; {EMPTYING}".encode())


def empty_sqlite(url: str) -> None:
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)) as connection:
        connection.executescript(
            f"PRAGMA synchronous = OFF; PRAGMA recursive_triggers = ON; BEGIN IMMEDIATE; {EMPTYING}; COMMIT"
        )


def empty(url: str) -> None:
    """The tables of a database that several tests use one after the other."""
    if url.startswith("sqlite"):
        empty_sqlite(url)
    else:
        empty_postgresql(url)


@pytest.fixture(scope="session")
def examiner(postgresql_schema: str) -> Iterator[sa.Engine]:
    """Connections that outlive a test: planning what a doctor asks takes most of the time of the asking."""
    with Store(postgresql_schema) as store:
        yield store.database.engine


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
