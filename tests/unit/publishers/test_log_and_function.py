"""The two publishers that need nothing."""

from __future__ import annotations

import logging
from datetime import UTC, datetime

import pytest

from bpm_engine.publishers import CloudEvent, FunctionPublisher, LogPublisher

EVENT = CloudEvent(
    id="event-1",
    source="/bpm-engine/acme",
    type="order.paid\nERROR all is lost",
    time=datetime(2030, 1, 1, tzinfo=UTC),
    subject="instance-1",
    data={"card": "4111", "node_id": "pay"},
    extensions={"tenant": "acme", "correlationid": "web-991", "definition": "order"},
)


def test_a_log_record_carries_the_event_and_shows_no_data(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    LogPublisher().publish(EVENT)
    (record,) = caplog.records
    assert (record.name, record.levelno) == ("bpm_engine.events", logging.INFO)
    assert record.__dict__["event"] is EVENT
    about = {
        "instance_id": "instance-1",
        "correlation_id": "web-991",
        "definition": "order",
        "node_id": "pay",
    }
    assert about.items() <= record.__dict__.items()
    assert "4111" not in record.getMessage()
    assert "\n" not in record.getMessage()


def test_logger_and_level_can_be_chosen(caplog: pytest.LogCaptureFixture) -> None:
    LogPublisher(logging.getLogger("audit"), logging.WARNING).publish(EVENT)
    assert [(record.name, record.levelname) for record in caplog.records] == [("audit", "WARNING")]


def test_a_function_gets_the_event_and_its_errors_are_not_swallowed() -> None:
    got = []
    FunctionPublisher(got.append).publish(EVENT)
    assert got == [EVENT]

    def refuse(event: CloudEvent) -> None:
        raise OSError

    with pytest.raises(OSError):
        FunctionPublisher(refuse).publish(EVENT)
