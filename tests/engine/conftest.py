"""An engine on each database, with time standing still, and a look at its rows after every test."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from support.databases import ALL

from bpm_engine import Config, Engine
from bpm_engine.store.invariants import LIVENESS
from bpm_engine.testing import ManualClock

Opening = Callable[..., Engine]
IDLE = {invariant.name for invariant in LIVENESS}  # no service runs here, so nothing need be alive


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=ALL)
def opening(
    request: pytest.FixtureRequest, url_of: Callable[[str], str], clock: ManualClock
) -> Iterator[Opening]:
    """Opens engines on one database; after the test its rows must contradict nothing."""
    url = url_of(request.param)
    opened: list[Engine] = []

    def open_engine(**settings: object) -> Engine:
        config = Config(**settings)  # type: ignore[arg-type]
        engine = Engine(url, config=config, clock=clock)
        opened.append(engine)
        return engine

    yield open_engine
    for engine in opened:
        findings = [finding for finding in engine.doctor() if finding.name not in IDLE]
        assert findings == []
        engine.close()


@pytest.fixture
def engine(opening: Opening) -> Engine:
    return opening()
