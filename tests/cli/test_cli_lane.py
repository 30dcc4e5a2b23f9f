"""`bpm run --processes N` with work that keeps killing: a lane of its own, until it kills no more."""

from __future__ import annotations

import json
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.command import BPM, Shell, fetch, is_alive
from support.fault_models import one_task
from support.workers import wait_until

from bpm_engine import Engine

APP = """
import os, signal
from pathlib import Path
from bpm_engine import Config, Engine
from bpm_engine.cli import apart

apart.QUIET = float(os.environ["QUIET"])
settings = dict(poll=0.1, lease=600.0, recoveries=2, worker_threads=2)
engine = Engine(os.environ["BPM_DATABASE_URL"], config=Config.from_environment(**settings))

@engine.handler("risky")
def risky(work):
    if work.get("kills"):
        os.kill(os.getpid(), signal.SIGKILL)
    return {"by": os.getpid()}

@engine.handler("safe")
def safe(work):
    return {"by": os.getpid()}
"""


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    (tmp_path / "shop.py").write_text(APP)
    shell = Shell(tmp_path, {"QUIET": "4"})
    with Engine(shell.database) as engine:
        engine.deploy(one_task("risky", "risky"))
        engine.deploy(one_task("safe", "safe"))
    return shell


@contextmanager
def supervised(shell: Shell) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [*BPM, "run", "--app", "shop:engine", "--processes", "2", "--http", str(port)]
    with (shell.folder / "said").open("wb") as said:
        process = subprocess.Popen(
            command, cwd=shell.folder, env=shell.environment(), stdout=said, stderr=said
        )
    try:
        yield process, f"http://127.0.0.1:{port}/ready"
    finally:
        process.kill()
        process.wait()


def state(at: str) -> dict[str, Any]:
    return dict(json.loads(fetch(at)[1] or "{}"))


def pids(at: str) -> set[int]:
    return {worker["pid"] for worker in state(at)["workers"].values()}


def done_by(engine: Engine, key: str) -> int:
    instance = engine.start(key).id
    wait_until(lambda: engine.instances.get(instance).status == "Completed", f"{key} work is done")
    return int(engine.instances.get(instance).variables["by"])


def test_what_kills_gets_a_process_of_its_own_comes_to_its_incident_and_is_let_back(shell: Shell) -> None:
    with Engine(shell.database) as engine, supervised(shell) as (supervisor, at):
        wait_until(lambda: fetch(at)[0] == 200, "both workers are ready")
        assert state(at)["apart"] == []
        killer = engine.start("risky", {"kills": True}).id
        wait_until(lambda: state(at)["apart"] == ["risky"], "it is set apart")
        wait_until(lambda: fetch(at)[0] == 200, "both workers are ready again: the lane is not asked for it")
        workers = pids(at)
        assert {done_by(engine, "safe") for _ in range(5)} <= workers
        assert done_by(engine, "risky") not in workers, "the lane does the good work of that topic"
        wait_until(lambda: engine.incidents.find(instance=killer).items, "what kills is an incident")
        assert pids(at) == workers, "from then on nobody else has died"
        assert [each.code for each in engine.incidents.find().items] == ["worker_lost"]
        wait_until(lambda: state(at)["apart"] == [], "it is let back")
        wait_until(lambda: "lane" not in state(at), "the lane has ended")
        assert done_by(engine, "risky") in workers
        assert pids(at) == workers
        supervisor.terminate()
        assert supervisor.wait(25) == 0
        assert engine.doctor() == []
    said = (shell.folder / "said").read_text()
    assert said.count("'risky' is set apart") == 1
    assert said.count("'risky' is let back") == 1
    assert said.count("ended with SIGKILL") == 3
    assert said.count("drained") == 3


def test_a_lane_drains_with_the_others(shell: Shell) -> None:
    """Also where all have names of their own."""
    named = Shell(shell.folder, {"QUIET": "600", "BPM_WORKER_ID": "shop"})
    with Engine(shell.database) as engine, supervised(named) as (supervisor, at):
        killer = engine.start("risky", {"kills": True}).id
        wait_until(lambda: engine.incidents.find(instance=killer).items, "what kills is an incident")
        wait_until(lambda: state(at).get("lane", {}).get("ready"), "the lane is ready")
        wait_until(lambda: fetch(at)[0] == 200, "both workers are ready")
        everybody = pids(at) | {state(at)["lane"]["pid"]}
        assert len(everybody) == 3
        supervisor.terminate()
        assert supervisor.wait(25) == 0
        wait_until(lambda: not any(map(is_alive, everybody)), "all have ended")
