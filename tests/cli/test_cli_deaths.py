"""`bpm run --processes N` when workers die: at work, before it, and all that they held. Real processes."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic

import pytest
import sqlalchemy as sa
from support.command import BPM, Shell, is_alive
from support.definitions import bpmn, path
from support.workers import wait_until

from bpm_engine import Engine
from bpm_engine.cli.nursery import FromScratch
from bpm_engine.store.schema import token

TASK = bpmn(
    '<startEvent id="start"/><serviceTask id="task" bpm:topic="task"/><endEvent id="end"/>'
    + path("start", "task", "end")
)
LEASE = 600.0  # seconds: nobody waits for the end of one here
APP = f"""
import os, signal, time
from pathlib import Path
from bpm_engine import Config, Engine

settings = dict(poll=0.1, lease={LEASE}, recoveries=1, worker_threads=1)
engine = Engine(os.environ["BPM_DATABASE_URL"], config=Config.from_environment(**settings))

@engine.handler("task")
def task(work):
    if work.get("waits"):
        Path(f"at-{{os.getpid()}}").touch()
        while not Path("go-on").exists():
            time.sleep(0.02)
    with open(f"did-{{os.getpid()}}", "a") as done:
        done.write(".")
    if work.get("kills"):
        os.kill(os.getpid(), signal.SIGKILL)
    return {{"by": os.getpid()}}
"""
LAME = """
import os
from bpm_engine import Engine
if os.getppid() != int(os.environ["TEST_PID"]):  # the supervisor's parent is the test
    os._exit(7)
engine = Engine(os.environ["BPM_DATABASE_URL"])
"""


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    (tmp_path / "shop.py").write_text(APP)
    shell = Shell(tmp_path)
    with Engine(shell.database) as engine:
        engine.deploy(TASK)
    return shell


@contextmanager
def supervised(shell: Shell, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    """Two workers; what they say goes into a file, which is never full."""
    command = [*BPM, "run", "--app", "shop:engine", "--processes", "2", *options]
    with (shell.folder / "said").open("wb") as said:
        process = subprocess.Popen(
            command,
            cwd=shell.folder,
            env=shell.environment(),
            stdout=said,
            stderr=said,
            stdin=subprocess.DEVNULL,
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def said(shell: Shell) -> str:
    return (shell.folder / "said").read_text()


def kinds(engine: Engine, instance: str) -> list[str]:
    return [entry.kind for entry in engine.history.find(instance).items]


def held_with(engine: Engine, instance: str) -> set[str]:
    """The instances whose work is claimed by the worker that has claimed this one's."""
    owner = sa.select(token.c.lease_owner).where(token.c.instance_id == instance).scalar_subquery()
    held = sa.select(token.c.instance_id).where(token.c.lease_owner == owner)
    with engine.begin() as connection:
        return set(connection.execute(held).scalars()) - {instance}


def test_what_a_dead_worker_held_goes_on_at_once_and_only_what_it_ran_is_counted(shell: Shell) -> None:
    """Leases last ten minutes, and each worker runs one handler at a time."""
    with Engine(shell.database) as engine, supervised(shell):
        good: list[str] = []

        def are_both_quick() -> bool:
            good.extend(engine.start("p").id for _ in range(5))
            return [path.stat().st_size > 40 for path in shell.folder.glob("did-*")] == [True, True]

        wait_until(are_both_quick, "both workers have done so much that they claim ahead")
        killer = engine.start("p", {"waits": True, "kills": True}).id
        wait_until(lambda: list(shell.folder.glob("at-*")), "what kills is at work")

        def is_ahead() -> bool:
            good.append(engine.start("p", {"waits": True}).id)
            return len(held_with(engine, killer)) > 2

        wait_until(is_ahead, "its worker has claimed good work, too")
        begun = monotonic()
        (shell.folder / "go-on").touch()
        wait_until(lambda: engine.incidents.find(instance=killer).items, "what kills is an incident")
        wait_until(lambda: engine.instances.count(status="Completed") == len(good), "all others are done")
        assert monotonic() - begun < LEASE / 10
        assert [each.code for each in engine.incidents.find().items] == ["worker_lost"]
        assert kinds(engine, killer).count("recovered") == 2
        assert [each for each in good if "recovered" in kinds(engine, each)] == []
        assert engine.doctor() == []
    assert said(shell).count("ended with SIGKILL") == 2
    assert said(shell).count("started again in 0 s") == 2


def test_what_a_worker_ran_that_was_killed_is_soon_run_by_another(shell: Shell) -> None:
    """Also under a name of its own: the process that takes its place has another."""
    named = Shell(shell.folder, {"BPM_WORKER_ID": "shop"})
    with Engine(shell.database) as engine, supervised(named):
        instance = engine.start("p", {"waits": True}).id
        wait_until(lambda: list(shell.folder.glob("at-*")), "a worker is at it")
        (victim,) = [int(each.name.removeprefix("at-")) for each in shell.folder.glob("at-*")]
        os.kill(victim, signal.SIGKILL)
        wait_until(lambda: len(list(shell.folder.glob("at-*"))) == 2, "another one has taken it over")
        (shell.folder / "go-on").touch()
        wait_until(lambda: engine.instances.get(instance).status == "Completed", "it is done")
        assert kinds(engine, instance).count("recovered") == 1


def test_who_cannot_begin_is_started_again_after_a_growing_pause(shell: Shell) -> None:
    (shell.folder / "shop.py").write_text(LAME)
    with supervised(Shell(shell.folder, {"TEST_PID": str(os.getpid())})):
        wait_until(lambda: pauses(shell)[:2] == ["1", "2"], "it has ended twice, each time of itself")
        assert "in 0 s" not in said(shell)


def pauses(shell: Shell) -> list[str]:
    """After which one worker was started again."""
    return re.findall(r"worker 1 .* exit code 7 after \d+ s; started again in (\d+) s", said(shell))


def children(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_without_the_process_that_starts_workers_all_drain_and_end(shell: Shell) -> None:
    with supervised(shell) as supervisor:
        wait_until(lambda: said(shell).count("runs all services") == 2, "both workers run")
        (nursery,) = children(supervisor.pid)
        workers = children(nursery)
        assert len(workers) == 2
        os.kill(nursery, signal.SIGTERM)  # as by a service manager that means all of them
        assert is_alive(nursery)
        os.kill(nursery, signal.SIGKILL)
        assert supervisor.wait(25) == 1
        wait_until(lambda: not any(map(is_alive, workers)), "they have drained")


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_a_supervisor_that_is_told_to_stop_leaves_nobody_behind(shell: Shell) -> None:
    with supervised(shell) as supervisor:
        wait_until(lambda: said(shell).count("runs all services") == 2, "both workers run")
        (nursery,) = children(supervisor.pid)
        everybody = [nursery, *children(nursery)]
        supervisor.terminate()
        assert supervisor.wait(25) == 0
        wait_until(lambda: not any(map(is_alive, everybody)), "all have ended")
    assert said(shell).count("drained") == 2


def test_where_nothing_can_be_forked_workers_are_processes_from_scratch() -> None:
    process = FromScratch().start(["--version"], {}, {})
    wait_until(lambda: process.poll() is not None, "it has ended")
    assert process.poll() == 0
