"""Stores for tests of services: `store` on PostgreSQL and SQLite with a clock that stands still.

`live_store` runs on the database's own clock, for what several threads or processes do at the same time. Each
test has a database of its own.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.postgres.databases import Databases, Template

from bpm_engine.store import migrate
from bpm_engine.store.clock import ManualClock
from bpm_engine.store.config import StoreConfig
from bpm_engine.store.store import Store, connect

BOTH = ("postgresql", "sqlite")


def migrated(url: str) -> None:
    database = connect(StoreConfig(url=url))
    migrate.upgrade(database)
    database.close()


SCHEMA = Template("services_schema", migrated)


@pytest.fixture(scope="session")
def services_sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("services_schema") / "template.db"
    migrated(f"sqlite:///{path}")
    return path


@pytest.fixture(params=BOTH)
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A migrated, empty database that several processes can share."""
    if request.param == "sqlite":
        shutil.copy(request.getfixturevalue("services_sqlite_template"), tmp_path / "bpm.db")
        yield f"sqlite:///{tmp_path / 'bpm.db'}"
        return
    databases: Databases = request.getfixturevalue("postgresql_databases")
    with databases.clone(SCHEMA) as url:
        yield url


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(database_url: str, clock: ManualClock) -> Iterator[Store]:
    with Store(StoreConfig(url=database_url, pool_size=10), clock) as opened:
        yield opened


@pytest.fixture
def live_store(database_url: str) -> Iterator[Store]:
    with Store(StoreConfig(url=database_url, pool_size=10)) as opened:
        yield opened
