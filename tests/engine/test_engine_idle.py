"""An engine with nothing to do asks the database as little as it promises."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import sqlalchemy as sa
from support.samples import HOUR, WAIT

from bpm_engine import Config, Engine
from bpm_engine.publishers import FunctionPublisher
from bpm_engine.testing import ManualClock


@contextmanager
def queries(engine: Engine) -> Iterator[list[str]]:
    """What is asked meanwhile, but for where transactions begin and end."""
    asked: list[str] = []

    def note(_c: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if not statement.startswith("BEGIN"):
            asked.append(statement)

    database = engine._runtime.store.database.engine
    sa.event.listen(database, "before_cursor_execute", note)
    try:
        yield asked
    finally:
        sa.event.remove(database, "before_cursor_execute", note)


@pytest.fixture
def idle(url_of: Any, clock: ManualClock, request: pytest.FixtureRequest) -> Iterator[Engine]:
    config = Config(missing_handler="leave")
    publisher = FunctionPublisher(lambda event: None)
    with Engine(url_of(request.param), config=config, clock=clock, publisher=publisher) as engine:
        engine.handler("work")(lambda work: None)
        engine.deploy(HOUR)
        engine.deploy(WAIT)
        for version in (1, 2):
            engine.start("p", {"order": "A-1"}, version=version)
        engine.run_until_idle()
        yield engine


ON_ALL = pytest.mark.parametrize("idle", ["postgresql", "sqlite file"], indirect=True)


@ON_ALL
def test_a_service_with_nothing_to_do_makes_one_query_a_second_at_most(idle: Engine) -> None:
    """Instances wait for a timer and for a message; nothing is due, nothing is there to be taken."""
    for service in idle._runtime.services():
        if service.name == "retention":  # it has several tables to look at, every few minutes
            continue
        service.run_once()  # a first look may find out that there is nothing
        with queries(idle) as asked:
            assert service.run_once() == 0
        poll = service.poll if isinstance(service.poll, float | int) else service.poll()
        assert len(asked) <= poll, (service.name, asked)


@ON_ALL
def test_overdue_timers_of_halted_instances_are_met_once(idle: Engine, clock: ManualClock) -> None:
    waiting = idle.instances.find(version=1).items[0]
    idle.instances.suspend(waiting.id)
    clock.advance("2h")
    fire = next(s for s in idle._runtime.services() if s.name == "timers")
    while fire.run_once():
        pass
    with queries(idle) as asked:
        assert fire.run_once() == 0
    assert len(asked) == 1
    assert fire.next_due() is None
    assert idle.doctor() == []
    idle.instances.resume(waiting.id)
    assert fire.run_once()
    idle.run_until_idle()
    assert idle.instances.get(waiting.id).status == "Completed"
