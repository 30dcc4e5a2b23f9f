"""The metrics, judged by the real library: what is exposed is what happened."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from support.definitions import bpmn, path
from support.samples import HOUR, HUMAN, WAIT, WORK

from bpm_engine import BpmnError, Engine, RetryLater, Work
from bpm_engine.observability import Metrics
from bpm_engine.observability import catalogue as c
from bpm_engine.testing import TestEngine


def keyed(process: bytes, key: str) -> bytes:
    return process.replace(b'<process id="p"', f'<process id="{key}"'.encode())


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def engine(registry: CollectorRegistry) -> TestEngine:
    engine = TestEngine(
        keyed(WORK, "job"), keyed(WAIT, "payment"), keyed(HOUR, "hour"), keyed(HUMAN, "choice")
    )
    engine.observe(Metrics(registry))
    return engine


def test_instances_are_counted_from_start_to_end(engine: TestEngine, registry: CollectorRegistry) -> None:
    engine.handler("work")(lambda work: None)
    engine.start("hour")
    engine.start("job")
    engine.instances.cancel(engine.start("choice").id)
    engine.run_until_idle()
    assert registry.get_sample_value("bpm_instances_started_total", {"definition": "hour"}) == 1
    assert registry.get_sample_value("bpm_instances_in_flight", _flight("hour")) == 1
    engine.clock.advance("1h")
    engine.run_until_idle()
    assert registry.get_sample_value("bpm_instances_ended_total", _ended("hour", "Completed")) == 1
    assert registry.get_sample_value("bpm_instances_ended_total", _ended("choice", "Cancelled")) == 1
    assert registry.get_sample_value("bpm_instance_duration_seconds_sum", {"definition": "hour"}) == 3600
    assert registry.get_sample_value("bpm_instances_in_flight", _flight("hour")) is None
    assert registry.get_sample_value("bpm_timers_total", {"definition": "hour"}) == 1


def _flight(definition: str) -> dict[str, str]:
    return {"definition": definition, "status": "Running"}


def _ended(definition: str, status: str) -> dict[str, str]:
    return {"definition": definition, "status": status}


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (None, "completed"),
        (BpmnError("NO"), "error"),
        (RetryLater("1h"), "retry_later"),
        (ValueError("bad"), "failed"),
    ],
)
def test_each_run_of_a_handler_is_timed_by_its_outcome(
    engine: TestEngine, registry: CollectorRegistry, error: Exception | None, outcome: str
) -> None:
    @engine.handler("work")
    def work(work: Work) -> None:
        assert registry.get_sample_value("bpm_handlers_running", {"topic": "work"}) == 1
        if error is not None:
            raise error

    engine.start("job")
    engine.run_until_idle()
    labels = {"topic": "work", "outcome": outcome}
    assert registry.get_sample_value("bpm_step_duration_seconds_count", labels) == 1
    assert registry.get_sample_value("bpm_handlers_running", {"topic": "work"}) == 0


def test_async_and_transactional_handlers_are_timed_as_well(registry: CollectorRegistry) -> None:
    tasks = '<serviceTask id="a" bpm:topic="a"/><serviceTask id="b" bpm:topic="b"/>'
    events = '<startEvent id="start"/><endEvent id="end"/>'
    engine = TestEngine(bpmn(f"{events}{tasks}" + path("start", "a", "b", "end")))
    engine.observe(Metrics(registry))

    @engine.handler("a")
    async def a(work: Work) -> None: ...

    @engine.handler("b", transactional=True)
    def b(work: Work, connection: object) -> None: ...

    instance = engine.start("p")
    engine.run_until_idle()
    assert engine.instances.get(instance.id).status == "Completed"
    for topic in ("a", "b"):
        labels = {"topic": topic, "outcome": "completed"}
        assert registry.get_sample_value("bpm_step_duration_seconds_count", labels) == 1


def test_failures_incidents_and_what_waits(engine: TestEngine, registry: CollectorRegistry) -> None:
    engine.start("job")
    assert registry.get_sample_value("bpm_queue_depth", {"topic": "work"}) == 1

    @engine.handler("work")
    def fail(work: Work) -> None:
        raise ValueError("bad")

    for _ in range(3):
        engine.run_until_idle()
        engine.clock.advance("10m")
    engine.instances.suspend(engine.start("choice").id)
    assert registry.get_sample_value("bpm_retries_total", {"definition": "job"}) == 3
    assert registry.get_sample_value("bpm_incidents_total", {"definition": "job"}) == 1
    assert registry.get_sample_value("bpm_incidents_open") == 1
    assert registry.get_sample_value("bpm_queue_depth", {"topic": "work"}) is None
    assert registry.get_sample_value("bpm_instances_suspended_total", {"definition": "choice"}) == 1


def test_messages_that_take_effect_and_what_retention_removes(
    engine: TestEngine, registry: CollectorRegistry
) -> None:
    engine.start("payment", {"order": "A-1"}, retention="1h")
    engine.send_message("paid", "A-1")
    engine.run_until_idle()
    assert registry.get_sample_value("bpm_signals_total", {"definition": "payment"}) == 1
    engine.clock.advance("2h")
    engine._runtime.retention.run_once()
    assert registry.get_sample_value("bpm_swept_total", {"what": "call trees purged"}) == 1


def test_what_is_exposed_is_what_the_catalogue_lists(engine: TestEngine, registry: CollectorRegistry) -> None:
    text = generate_latest(registry).decode()
    families = {family.name: family for family in text_string_to_metric_families(text)}
    assert set(families) == {c.PREFIX + metric.name for metric in (*c.COUNTED, *c.READ)}
    for metric in (*c.COUNTED, *c.READ):
        assert families[c.PREFIX + metric.name].type == metric.kind


def test_a_database_that_is_away_is_said_and_breaks_no_scrape(registry: CollectorRegistry) -> None:
    with Engine("postgresql://127.0.0.1:1/none") as engine:
        engine.observe(Metrics(registry))
        assert registry.get_sample_value("bpm_database_up") == 0
        assert registry.get_sample_value("bpm_incidents_open") is None


def test_an_observer_that_fails_does_not_stop_the_engine(
    engine: TestEngine, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(Metrics):
        def committed(self, changes: object, instances: object) -> None:
            raise RuntimeError("no more room")

    engine.observe(Broken(CollectorRegistry()))
    engine.handler("work")(lambda work: None)
    instance = engine.start("job")
    engine.run_until_idle()
    assert engine.instances.get(instance.id).status == "Completed"
    assert "an observer failed" in caplog.text
