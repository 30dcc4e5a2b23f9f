"""An engine on each database, with time standing still, and a look at its rows after every test."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest
import sqlalchemy as sa
from support.databases import MEMORY, SHARED
from support.faulty import faults_of, persistent_clients

from bpm_engine import Config, Engine
from bpm_engine.api.views import Finding
from bpm_engine.store.invariants import LIVENESS
from bpm_engine.testing import ManualClock

Opening = Callable[..., Engine]
# In memory there is the file's code without the file; the tests of the test kit are all there.
DAILY = [*SHARED, pytest.param(MEMORY, marks=pytest.mark.slow)]
IDLE = {invariant.name for invariant in LIVENESS}  # no service runs here, so nothing need be alive


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(autouse=True)
def _persistence() -> Iterator[None]:
    """With `BPM_TEST_FAULTS` the database fails now and then, and those who call try again."""
    if "BPM_TEST_FAULTS" not in os.environ:
        yield
        return
    with persistent_clients():
        yield


@pytest.fixture(params=DAILY)
def opening(
    request: pytest.FixtureRequest, url_of: Callable[[str], str], clock: ManualClock
) -> Iterator[Opening]:
    """Opens engines on one database; after the test its rows must contradict nothing."""
    url = url_of(request.param)
    opened: list[Engine] = []
    reliable = request.node.get_closest_marker("reliable") is not None
    faults = None if reliable else faults_of(request.node.nodeid)

    examiner = None
    if request.param == "postgresql" and faults is None:
        examiner = request.getfixturevalue("examiner")

    def open_engine(**settings: object) -> Engine:
        config = Config(**settings)  # type: ignore[arg-type]
        engine = Engine(url, config=config, clock=clock)
        if faults is not None:
            faults.spoil(engine)
            faults.keep_going(engine)
        opened.append(engine)
        return engine

    yield open_engine
    for engine in opened:
        findings = engine.doctor() if examiner is None else _examine(engine, examiner)
        assert [finding for finding in findings if finding.name not in IDLE] == []
        engine.close()


def _examine(engine: Engine, connections: sa.Engine) -> list[Finding]:
    database = engine._runtime.store.database
    own, database.engine = database.engine, connections
    try:
        return engine.doctor()
    finally:
        database.engine = own


@pytest.fixture
def engine(opening: Opening) -> Engine:
    return opening()
