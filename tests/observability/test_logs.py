"""Log lines say which instance they are about: the handler's own, and the engine's."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import logging.handlers
import queue
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import httpx2
import pytest
from support.definitions import bpmn, path

from bpm_engine import Retry, Work
from bpm_engine.observability import WorkFilter, log_work
from bpm_engine.observability.logs import set_up_logging
from bpm_engine.publishers import CloudEvent, LogPublisher
from bpm_engine.testing import TestEngine

PROCESS = bpmn(
    '<startEvent id="start"/><serviceTask id="a" bpm:topic="a"/><serviceTask id="b" bpm:topic="b"/>'
    '<endEvent id="end"/>' + path("start", "a", "b", "end")
)
logger = logging.getLogger("shop")


@pytest.fixture
def output() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    quiet = {name: logging.getLogger(name).level for name in ("alembic", "httpx2")}
    yield io.StringIO()
    root.handlers[:] = before
    root.setLevel(level)
    for name, before_it in quiet.items():
        logging.getLogger(name).setLevel(before_it)


@pytest.mark.parametrize("level", ["debug", "info"])
def test_urls_of_requests_are_not_logged(output: io.StringIO, level: str) -> None:
    set_up_logging("text", level, output)
    client = httpx2.Client(transport=httpx2.MockTransport(lambda request: httpx2.Response(200)))
    client.post("https://hooks.example.com/?token=abc")
    assert output.getvalue() == ""


def run(output: io.StringIO, form: str) -> str:
    """Both handlers log; the id of the instance that ran."""
    set_up_logging(form, "info", output)
    engine = TestEngine(PROCESS)
    log_work(engine)

    @engine.handler("a")
    def a(work: Work) -> None:
        logger.info("sync", extra={"amount": 12})

    @engine.handler("b")
    async def b(work: Work) -> None:
        await asyncio.sleep(0)
        logger.warning("async")

    instance = engine.start("p", correlation_id="c-1", business_key="A-17")
    engine.run_until_idle()
    logger.info("outside")
    return instance.id


def test_json_lines_carry_the_ids_of_the_work_at_hand(output: io.StringIO) -> None:
    instance = run(output, "json")
    lines: dict[str, dict[str, Any]] = {
        line["message"]: line for line in map(json.loads, output.getvalue().splitlines())
    }
    for message, node in (("sync", "a"), ("async", "b")):
        line = lines[message]
        assert (line["instance_id"], line["node_id"]) == (instance, node)
        assert (line["correlation_id"], line["business_key"], line["attempt"]) == ("c-1", "A-17", 1)
        assert (line["definition"], line["tenant"]) == ("p", "default")
    assert lines["sync"]["amount"] == 12
    assert lines["async"]["level"] == "warning"
    assert "instance_id" not in lines["outside"]


def test_text_lines_end_with_them(output: io.StringIO) -> None:
    instance = run(output, "text")
    lines = output.getvalue().splitlines()
    ids = f"correlation_id=c-1 instance_id={instance} business_key=A-17 definition=p node_id=a attempt=1"
    assert any(line.endswith(f"shop  sync  {ids} tenant=default") for line in lines)
    assert any(line.endswith("shop  outside") for line in lines)


def test_an_exception_stays_on_its_line(output: io.StringIO) -> None:
    set_up_logging("json", "info", output)
    try:
        raise ValueError("bad")
    except ValueError:
        logger.exception("it failed")
    (line,) = map(json.loads, output.getvalue().splitlines())
    assert line["exception"].endswith("ValueError: bad")


def failing(output: io.StringIO, form: str, level: str = "info") -> tuple[TestEngine, str]:
    """An engine and its instance, whose first task has failed for good."""
    set_up_logging(form, level, output)
    engine = TestEngine(PROCESS)
    log_work(engine)

    @engine.handler("a", retry=Retry(attempts=2, base="1s"))
    def a(work: Work) -> None:
        raise ValueError("the bank is closed")

    instance = engine.start("p", correlation_id="c 1", business_key="A-17")
    engine.run_until_idle()
    engine.clock.advance("1h")
    engine.run_until_idle()
    return engine, instance.id


def parsed(output: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in output.getvalue().splitlines()]


def test_failed_attempts_and_the_incident_are_logged_with_the_ids(output: io.StringIO) -> None:
    _, instance = failing(output, "json")
    lines = [line for line in parsed(output) if line["logger"] == "bpm_engine.instances"]
    assert [(line["level"], line["message"]) for line in lines] == [
        ("warning", "attempt 1 failed: ValueError: the bank is closed"),
        ("warning", "attempt 2 failed: ValueError: the bank is closed"),
        ("error", "incident: ValueError: the bank is closed"),
    ]
    for line in lines:
        assert (line["correlation_id"], line["instance_id"], line["business_key"]) == (
            "c 1",
            instance,
            "A-17",
        )
        assert (line["definition"], line["node_id"], line["tenant"]) == ("p", "a", "default")
    assert lines[0]["exception"].endswith("ValueError: the bank is closed")
    assert [line.get("attempt") for line in lines] == [1, 2, None]


def test_for_people_the_traceback_follows_and_odd_ids_are_quoted(output: io.StringIO) -> None:
    _, instance = failing(output, "text")
    line, *traceback = output.getvalue().splitlines()
    assert f'closed  correlation_id="c 1" instance_id={instance} business_key=A-17 definition=p' in line
    assert traceback[0] == "Traceback (most recent call last):"


def test_at_level_debug_every_step_is_told_and_what_operators_do_at_info(output: io.StringIO) -> None:
    engine, instance = failing(output, "json", "debug")
    (incident,) = engine.incidents.find()
    engine.incidents.resolve(incident.id, {"fixed": True}, actor="ann")
    lines = [line for line in parsed(output) if line.get("instance_id") == instance]
    messages = [line["message"] for line in lines]
    assert messages[:2] == ["started", "completed"]
    assert {line["node_id"] for line in lines if line["message"] == "entered"} == {"a"}
    (resumed,) = [line for line in lines if line["message"] == "resumed by ann"]
    assert (resumed["level"], resumed["actor"]) == ("info", "ann")


def test_an_application_with_a_logging_of_its_own_adds_the_filter() -> None:
    """Also where another thread writes the lines: the record has the fields by then."""
    records: queue.Queue[logging.LogRecord] = queue.Queue()
    handler = logging.handlers.QueueHandler(records)
    handler.addFilter(WorkFilter())
    own = logging.getLogger("shop.own")
    own.addHandler(handler)
    engine = TestEngine(PROCESS)
    log_work(engine)
    engine.handler("a")(lambda work: own.warning("here", extra={"attempt": "mine"}))
    instance = engine.start("p", correlation_id="c-1")
    engine.run_until_idle()
    own.removeHandler(handler)
    written = vars(records.get_nowait())
    assert (written["correlation_id"], written["instance_id"], written["node_id"]) == (
        "c-1",
        instance.id,
        "a",
    )
    assert written["attempt"] == "mine"


def test_of_an_event_its_envelope_is_logged_and_not_its_data(output: io.StringIO) -> None:
    set_up_logging("json", "info", output)
    at = datetime(2030, 1, 1, tzinfo=UTC)
    data = {"card": "4111"}
    event = CloudEvent(id="e-1", source="/shop", type="order.paid", time=at, subject="i-1", data=data)
    LogPublisher().publish(event)
    (line,) = parsed(output)
    assert (line["event"]["type"], line["instance_id"]) == ("order.paid", "i-1")
    assert "4111" not in output.getvalue()
