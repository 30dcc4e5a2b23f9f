"""The test kit, as users need it in their own tests."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from support.definitions import bpmn, path
from support.samples import HOUR, HUMAN, WORK

from bpm_engine import InvalidInputError
from bpm_engine.publishers import CloudEvent, FunctionPublisher
from bpm_engine.testing import ManualClock, TestEngine


def test_files_are_deployed_and_handlers_registered() -> None:
    engine = TestEngine(WORK, handlers={"work": lambda work: {"done": work["n"] + 1}})
    instance = engine.start("p", {"n": 1})
    assert engine.waiting_at(instance) == ["work"]
    assert engine.run_until_idle() == 1
    assert engine.waiting_at(instance) == []
    assert engine.path(instance.id) == ["start", "work", "end"]
    assert engine.instances.get(instance.id).variables == {"n": 1, "done": 2}


def test_time_passes_only_when_told_and_timers_fire_when_run() -> None:
    engine = TestEngine(HOUR)
    instance = engine.start("p")
    engine.clock.advance("59m")
    engine.run_until_idle()
    assert engine.waiting_at(instance) == ["pause"]
    engine.clock.advance("PT1M")
    assert engine.waiting_at(instance) == ["pause"]
    engine.run_until_idle()
    assert engine.waiting_at(instance) == []
    assert engine.instances.get(instance.id).ended_at == datetime(2030, 1, 1, 1, tzinfo=UTC)


def test_a_token_inside_a_sub_process_is_where_it_waits() -> None:
    inner = '<startEvent id="s"/><userTask id="task"/><endEvent id="e"/>' + path("s", "task", "e")
    body = f'<startEvent id="start"/><subProcess id="sub">{inner}</subProcess><endEvent id="end"/>'
    engine = TestEngine(bpmn(body + path("start", "sub", "end")))
    instance = engine.start("p")
    assert engine.waiting_at(instance) == ["task"]
    assert engine.path(instance) == ["start", "sub", "s", "task"]


def test_each_engine_has_a_database_of_its_own() -> None:
    first, second = TestEngine(HUMAN), TestEngine(HUMAN)
    first.start("p", {"amount": 1})
    assert second.instances.count() == 0


def test_a_clock_takes_all_forms_of_a_duration() -> None:
    clock = ManualClock()
    for by in ("PT1H", "1h", timedelta(hours=1)):
        clock.advance(by)
    assert clock.now == datetime(2030, 1, 1, 3, tzinfo=UTC)
    with pytest.raises(InvalidInputError, match="must not be negative"):
        clock.advance(timedelta(seconds=-1))


def test_events_go_to_the_publisher_of_the_test() -> None:
    events: list[CloudEvent] = []
    engine = TestEngine(HUMAN, publisher=FunctionPublisher(events.append))
    engine.start("p", {"amount": 1})
    engine.run_until_idle()
    assert [event.type for event in events] == ["bpm.instance.started"]


def test_what_a_tenant_sees_has_the_kit_as_well() -> None:
    engine = TestEngine()
    acme = engine.tenant("acme")
    acme.deploy(WORK)
    stub = acme.stub("work", returns={"done": True})
    instance = acme.start("p")
    assert acme.waiting_at(instance) == ["work"]
    acme.run_until_idle()
    acme.expect(instance).completed().called("work", times=1)
    assert acme.path(instance) == ["start", "work", "end"]
    assert (acme.clock, engine.stubs) == (engine.clock, {"work": stub})
    acme.close()
    assert engine.is_closed
