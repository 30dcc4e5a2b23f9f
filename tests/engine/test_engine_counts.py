"""Numbers over many rows, on every database: entries of the history, and what waits for workers."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry
from support.samples import HUMAN, WORK

from bpm_engine import Engine
from bpm_engine.observability import Metrics


def keyed(process: bytes, key: str) -> bytes:
    return process.replace(b'<process id="p"', f'<process id="{key}"'.encode())


def test_the_history_is_counted_by_node_and_kind(engine: Engine) -> None:
    engine.deploy(keyed(WORK, "job"))
    engine.deploy(keyed(HUMAN, "choice"))
    engine.handler("work")(lambda work: None)
    for _ in range(3):
        engine.start("job")
    engine.start("choice", {"amount": 1})
    engine.run_until_idle()
    counted = engine.history.count(definition="job")
    assert counted["work"] == {"entered": 3, "completed": 3}
    assert counted[""] == {"started": 3, "ended": 3}
    assert "decide" not in counted
    assert engine.history.count()["decide"] == {"entered": 1}
    assert engine.tenant("acme").history.count() == {}


@pytest.mark.reliable
def test_what_waits_is_counted_over_all_tenants(engine: Engine) -> None:
    registry = CollectorRegistry()
    engine.observe(Metrics(registry))
    for tenant in (engine, engine.tenant("acme")):
        tenant.deploy(WORK)
        tenant.start("p")
    assert registry.get_sample_value("bpm_queue_depth", {"topic": "work"}) == 2
    in_flight = {"definition": "p", "status": "Running"}
    assert registry.get_sample_value("bpm_instances_in_flight", in_flight) == 2
    assert registry.get_sample_value("bpm_outbox_events", {"status": "Pending"}) == 2
    assert registry.get_sample_value("bpm_incidents_open") == 0
    engine.handler("work")(lambda work: None)
    engine.run_until_idle()
    assert registry.get_sample_value("bpm_queue_depth", {"topic": "work"}) is None
