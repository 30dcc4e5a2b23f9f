"""`bpm run --processes N` with work that keeps killing: others stand in for the workers meanwhile."""

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
import os, signal, time
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
    if work.get("waits"):
        Path(f"at-{os.getpid()}").touch()
        while not Path("go-on").exists():
            time.sleep(0.02)
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


def test_stand_ins_die_of_what_kills_until_it_is_an_incident_and_then_go(shell: Shell) -> None:
    """Of its three losses two cost a worker, and the next one that kills costs none."""
    with Engine(shell.database) as engine, supervised(shell) as (supervisor, at):
        wait_until(lambda: fetch(at)[0] == 200, "both workers are ready")
        assert (state(at)["apart"], state(at)["stand_ins"]) == ([], []), "nobody needs them yet"
        killer = engine.start("risky", {"kills": True}).id
        wait_until(lambda: state(at)["apart"] == ["risky"], "it is set apart")
        wait_until(lambda: engine.incidents.find(instance=killer).items, "what kills is an incident")
        wait_until(lambda: fetch(at)[0] == 200, "both workers are ready again")
        workers = pids(at)
        other = engine.start("risky", {"kills": True}).id
        assert {done_by(engine, "safe") for _ in range(5)} <= workers
        assert done_by(engine, "risky") not in workers, "good work of that topic is done all the same"
        wait_until(lambda: said(shell).count("stand-in (pid") >= 2, "two stand-ins have died")
        engine.instances.cancel(other)
        assert pids(at) == workers, "nobody else has"
        assert {each.code for each in engine.incidents.find().items} == {"worker_lost"}
        wait_until(lambda: state(at)["apart"] == [], "it is let back")
        wait_until(lambda: state(at)["stand_ins"] == [], "the stand-ins have ended")
        assert done_by(engine, "risky") in workers
        assert pids(at) == workers
        supervisor.terminate()
        assert supervisor.wait(25) == 0
        assert engine.doctor() == []
    assert said(shell).count("'risky' is set apart") == 1
    assert said(shell).count("'risky' is let back") == 1
    assert said(shell).count("started again") == 2
    assert said(shell).count("drained") == 2


def test_an_application_that_cannot_be_forked_has_stand_ins_all_the_same(shell: Shell) -> None:
    """A thread that its import has begun would be missing."""
    thread = "import threading; threading.Thread(target=threading.Event().wait, daemon=True).start()"
    (shell.folder / "shop.py").write_text(f"{APP}\n{thread}\n")
    with Engine(shell.database) as engine, supervised(shell) as (_, at):
        killer = engine.start("risky", {"kills": True}).id
        wait_until(lambda: engine.incidents.find(instance=killer).items, "what kills is an incident")
        assert done_by(engine, "risky") not in pids(at)
    assert said(shell).count("stand-in of worker") == 1


def test_stand_ins_end_with_their_workers(shell: Shell) -> None:
    """Also where all have names of their own. What runs there may finish."""
    named = Shell(shell.folder, {"QUIET": "600", "BPM_WORKER_ID": "shop"})
    with Engine(shell.database) as engine, supervised(named) as (supervisor, at):
        killer = engine.start("risky", {"kills": True}).id
        wait_until(lambda: engine.incidents.find(instance=killer).items, "what kills is an incident")
        wait_until(lambda: fetch(at)[0] == 200, "both workers are ready")
        patient = [engine.start("risky", {"waits": True}).id for _ in range(3)]
        wait_until(lambda: list(shell.folder.glob("at-*")), "one is at work")
        everybody = {int(each.name.removeprefix("at-")) for each in shell.folder.glob("at-*")} | pids(at)
        assert len(everybody) > 2
        everybody |= set(state(at)["stand_ins"])
        supervisor.terminate()
        wait_until(lambda: "draining 2 workers" in said(shell), "they drain")
        (shell.folder / "go-on").touch()
        assert supervisor.wait(25) == 0
        wait_until(lambda: not any(map(is_alive, everybody)), "all have ended")
        done = [each for each in patient if engine.instances.get(each).status == "Completed"]
        assert done
        assert engine.doctor() == []


def said(shell: Shell) -> str:
    return (shell.folder / "said").read_text()
