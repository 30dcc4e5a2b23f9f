"""Engines for scenarios, one pair per test module and database. Registered by tests/conftest.py."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.databases import SCHEMA
from support.postgres.databases import Databases
from support.scenarios.engine_driver import Engines


@pytest.fixture(scope="module")
def engines_on_sqlite(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engines]:
    path = shutil.copy(sqlite_template, tmp_path_factory.mktemp("engines") / "bpm.db")
    engines = Engines(f"sqlite:///{path}")
    yield engines
    engines.close()


@pytest.fixture(scope="module")
def engines_on_postgresql(postgresql_databases: Databases) -> Iterator[Engines]:
    with postgresql_databases.clone(SCHEMA) as url:
        engines = Engines(url)
        yield engines
        engines.close()
