"""What an operator sees of `bpm run`: log lines that name the instance, and spans, from real processes."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from support.command import Shell
from support.definitions import bpmn, path
from support.workers import wait_until

from bpm_engine import Engine

SHOP = bpmn(
    '<startEvent id="start"/><serviceTask id="charge" bpm:topic="charge"/>'
    '<serviceTask id="mail" bpm:topic="mail"/><endEvent id="end"/>' + path("start", "charge", "mail", "end")
)
APP = """
import asyncio, logging, os, signal
from bpm_engine import Config, Engine, Retry

engine = Engine(os.environ["BPM_DATABASE_URL"], config=Config.from_environment(poll=0.05, lease=1.0))

@engine.handler("charge", retry=Retry(attempts=2, base="10ms"))
def charge(work):
    logging.getLogger("shop").info("charging")
    if work.get("dies") and work.attempt == 1 and not os.path.exists("dead"):
        open("dead", "w").close()
        os.kill(os.getpid(), signal.SIGKILL)
    if work.get("fails", 0) >= work.attempt:
        raise ConnectionError("the bank is closed")

@engine.handler("mail")
async def mail(work):
    await asyncio.sleep(0)
    logging.getLogger("shop").info("mailing")
"""
SPANS = """
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter

def set_up_spans():
    out = open(f"spans-{os.getpid()}.jsonl", "w", buffering=1)
    exporter = ConsoleSpanExporter(out=out, formatter=lambda span: span.to_json(indent=None) + "\\n")
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(exporter))
    trace.set_tracer_provider(provider)

set_up_spans()
"""
Line = dict[str, Any]


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    (tmp_path / "shop.py").write_text(APP)
    shell = Shell(tmp_path)
    with Engine(shell.database) as engine:
        engine.deploy(SHOP)
    return shell


def run_to_the_end(shell: Shell, status: str, variables: Line, *options: str) -> tuple[str, str]:
    """What the services print until an instance has the status, and its id; they end by SIGTERM."""
    with shell.running("run", "--app", "shop:engine", *options) as services, Engine(shell.database) as engine:
        instance = engine.start("p", variables, business_key="A-17", correlation_id="web-991")
        wait_until(lambda: engine.instances.get(instance.id).status == status, status)
        output = ended(services)
    assert services.returncode == 0, output
    return output, instance.id


def ended(services: subprocess.Popen[str]) -> str:
    services.send_signal(signal.SIGTERM)
    return services.communicate(timeout=30)[0]


def about(lines: list[Line], message: str) -> list[tuple[str, ...]]:
    names = ("level", "correlation_id", "instance_id", "business_key", "definition", "node_id", "tenant")
    return [tuple(line[name] for name in names) for line in lines if line["message"] == message]


def test_json_lines_of_handlers_and_engine_carry_the_ids_of_the_instance(shell: Shell) -> None:
    output, instance = run_to_the_end(shell, "Completed", {"fails": 1}, "--log-format", "json")
    lines = [json.loads(line) for line in output.splitlines()]
    ids = ("web-991", instance, "A-17", "p")
    assert about(lines, "charging") == [("info", *ids, "charge", "default")] * 2
    assert about(lines, "mailing") == [("info", *ids, "mail", "default")]
    failed = "attempt 1 failed: ConnectionError: the bank is closed"
    assert about(lines, failed) == [("warning", *ids, "charge", "default")]
    assert all("instance_id" not in line for line in lines if line["logger"] == "bpm_engine.run")


def test_an_incident_is_an_error_that_people_can_read(shell: Shell) -> None:
    output, instance = run_to_the_end(shell, "Failed", {"fails": 9})
    (line,) = [line for line in output.splitlines() if " ERROR " in line]
    assert "bpm_engine.instances  incident: ConnectionError: the bank is closed  " in line
    named = f"correlation_id=web-991 instance_id={instance} business_key=A-17 definition=p node_id=charge"
    assert line.endswith(f"{named} tenant=default")


def test_work_taken_over_from_a_worker_that_died_is_told_by_the_one_that_goes_on(shell: Shell) -> None:
    options = ("--processes", "2", "--log-format", "json")
    output, instance = run_to_the_end(shell, "Completed", {"dies": True}, *options)
    lines = [json.loads(line) for line in output.splitlines()]
    (recovered,) = [line for line in lines if line["message"].startswith("taken over from")]
    assert (recovered["level"], recovered["instance_id"]) == ("warning", instance)
    assert (recovered["correlation_id"], recovered["node_id"]) == ("web-991", "charge")
    at_work = [line["pid"] for line in lines if line["message"] == "charging"]
    assert len(at_work) == 2
    assert len(set(at_work)) == 2


def test_with_tracing_the_sdk_of_the_application_exports_every_step(shell: Shell) -> None:
    (shell.folder / "shop.py").write_text(APP + SPANS)
    _, instance = run_to_the_end(shell, "Completed", {"fails": 1}, "--tracing", "--processes", "2")
    spans = read_spans(shell)
    steps = sorted((s for s in spans if s["name"].startswith("bpm.step")), key=lambda s: s["start_time"])
    assert [s["name"] for s in steps] == ["bpm.step charge", "bpm.step charge", "bpm.step mail"]
    assert [s["status"]["status_code"] for s in steps] == ["ERROR", "UNSET", "UNSET"]
    assert [s["attributes"]["bpm.attempt"] for s in steps] == [1, 2, 1]
    assert {s["context"]["trace_id"] for s in spans} == {f"0x{UUID(instance).hex}"}
    (life,) = [s for s in spans if s["name"] == "bpm.run p"]
    for span in (*steps, life):
        named = [
            span["attributes"][f"bpm.{name}"] for name in ("correlation_id", "instance_id", "business_key")
        ]
        assert named == ["web-991", instance, "A-17"]


def test_without_the_option_no_spans_are_written(shell: Shell) -> None:
    (shell.folder / "shop.py").write_text(APP + SPANS)
    run_to_the_end(shell, "Completed", {})
    assert read_spans(shell) == []


def test_without_the_extra_the_option_says_what_to_install(shell: Shell) -> None:
    (shell.folder / "opentelemetry.py").write_text("raise ImportError('not installed')\n")
    told = shell.run("run", "--app", "shop:engine", "--tracing", code=1)
    assert "pip install 'bpm-engine[tracing]'" in told


def read_spans(shell: Shell) -> list[Line]:
    files = sorted(shell.folder.glob("spans-*.jsonl"))
    assert files
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]
