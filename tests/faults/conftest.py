"""Databases that several processes share, a ledger, and workers to kill."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path

import pytest
from support.databases import SCHEMA
from support.ledger import Ledger
from support.postgres.databases import Databases
from support.sites import KINDS, Site
from support.tours import undisturbed
from support.workers import Nursery

from bpm_engine.config import Config
from bpm_engine.engine import Engine


@pytest.fixture(scope="session")
def reached(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the names of the crash points that workers reached are collected."""
    path = tmp_path_factory.mktemp("crash") / "reached"
    path.touch()
    return path


@pytest.fixture(scope="session")
def nursery(tmp_path_factory: pytest.TempPathFactory, reached: Path) -> Iterator[Nursery]:
    nursery = Nursery(tmp_path_factory.mktemp("workers"), reached)
    yield nursery
    nursery.close()


@pytest.fixture
def sites(
    request: pytest.FixtureRequest, nursery: Nursery, tmp_path: Path
) -> Iterator[Callable[[str], Site]]:
    """A site on a new database of the kind asked for."""
    with ExitStack() as stack:
        numbers = count()

        def open_site(kind: str) -> Site:
            name = f"site{next(numbers)}"
            if kind == "postgresql":
                databases: Databases = request.getfixturevalue("postgresql_databases")
                url = stack.enter_context(databases.clone(SCHEMA))
            else:
                template: Path = request.getfixturevalue("sqlite_template")
                url = f"sqlite:///{shutil.copy(template, tmp_path / f'{name}.db')}"
            engine = Engine(url, config=Config(auto_migrate=False, pool_size=2))
            site = Site(url, engine, Ledger(tmp_path / f"{name}.ledger"), nursery)
            stack.callback(site.close)
            return site

        yield open_site


@pytest.fixture(params=KINDS)
def site(request: pytest.FixtureRequest, sites: Callable[[str], Site]) -> Site:
    return sites(request.param)


@pytest.fixture(scope="session")
def known_dumps() -> dict[str, str]:
    return {}


@pytest.fixture
def undisturbed_on(sites: Callable[[str], Site], known_dumps: dict[str, str]) -> Callable[[str], str]:
    """What a tour leaves in a database of that kind when nobody disturbs it."""

    def known(kind: str) -> str:
        if kind not in known_dumps:
            known_dumps[kind] = undisturbed(sites(kind))
        return known_dumps[kind]

    return known
