"""One engine for all bad inputs of a file: each must leave it able to serve the next.

Around every test: time and memory are bounded, and a good file and a good start are served afterwards.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from support.databases import empty
from support.memory import forget_peak, peak
from support.samples import WORK

from bpm_engine import Config, Engine
from bpm_engine.testing import ManualClock

SECONDS = 2.0  # of this process's own time
MEGABYTES = 100


@pytest.fixture(scope="module", params=["sqlite memory", "postgresql"])
def site(request: pytest.FixtureRequest) -> Iterator[tuple[Engine, ManualClock]]:
    """One engine for all rows: each must leave it able to serve the next."""
    url = "sqlite://"
    if request.param == "postgresql":
        url = request.getfixturevalue("postgresql_schema")
    clock = ManualClock()
    with Engine(url, config=Config(pool_size=10), clock=clock) as engine:
        engine.handler("work")(lambda work: None)
        yield engine, clock
    if request.param == "postgresql":
        empty(url)


@pytest.fixture
def engine(site: tuple[Engine, ManualClock]) -> Iterator[Engine]:
    engine, _ = site
    before, begun = forget_peak(), time.process_time()
    yield engine
    assert time.process_time() - begun < SECONDS
    assert peak() - before < MEGABYTES
    engine.deploy(WORK)
    served = engine.start("p")
    engine.run_until_idle()
    assert engine.instances.get(served.id).status == "Completed"


@pytest.fixture
def clock(site: tuple[Engine, ManualClock]) -> ManualClock:
    return site[1]
