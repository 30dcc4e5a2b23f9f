"""One fixture, three databases: what holds for the store holds on PostgreSQL, in a SQLite file and in memory.

`store` runs a test on all three, `shared_store` on the two that several processes can share,
`postgresql_store` and `sqlite_store` where only one applies. Time stands still unless the test moves the
clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from support.databases import ALL, SHARED

from bpm_engine.store.clock import ManualClock
from bpm_engine.store.config import StoreConfig
from bpm_engine.store.store import Store


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=ALL)
def store(
    request: pytest.FixtureRequest, url_of: Callable[[str], str], clock: ManualClock
) -> Iterator[Store]:
    with Store(StoreConfig(url=url_of(request.param), pool_size=10), clock) as opened:
        yield opened


@pytest.fixture(params=SHARED)
def shared_store(
    request: pytest.FixtureRequest, url_of: Callable[[str], str], clock: ManualClock
) -> Iterator[Store]:
    with Store(StoreConfig(url=url_of(request.param), pool_size=10), clock) as opened:
        yield opened


@pytest.fixture
def postgresql_store(url_of: Callable[[str], str], clock: ManualClock) -> Iterator[Store]:
    with Store(StoreConfig(url=url_of("postgresql"), pool_size=10), clock) as opened:
        yield opened


@pytest.fixture
def sqlite_store(url_of: Callable[[str], str], clock: ManualClock) -> Iterator[Store]:
    with Store(StoreConfig(url=url_of("sqlite file")), clock) as opened:
        yield opened
