"""Log lines of handlers say which instance they are about."""

from __future__ import annotations

import asyncio
import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from support.definitions import bpmn, path

from bpm_engine import Work
from bpm_engine.observability import log_work
from bpm_engine.observability.logs import set_up_logging
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
    alembic = logging.getLogger("alembic")
    quiet = alembic.level
    yield io.StringIO()
    root.handlers[:] = before
    root.setLevel(level)
    alembic.setLevel(quiet)


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
    assert lines["sync"]["amount"] == 12
    assert lines["async"]["level"] == "warning"
    assert "instance_id" not in lines["outside"]


def test_text_lines_end_with_them(output: io.StringIO) -> None:
    instance = run(output, "text")
    lines = output.getvalue().splitlines()
    assert any(line.endswith(f"shop  sync  [c-1 {instance} a]") for line in lines)
    assert any(line.endswith("shop  outside") for line in lines)


def test_an_exception_stays_on_its_line(output: io.StringIO) -> None:
    set_up_logging("json", "info", output)
    try:
        raise ValueError("bad")
    except ValueError:
        logger.exception("it failed")
    (line,) = map(json.loads, output.getvalue().splitlines())
    assert line["exception"].endswith("ValueError: bad")
