"""The demo as a stranger runs it: real processes, a real SIGKILL, figures that agree with the seed."""

from __future__ import annotations

import json
import os
import pty
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support.command import is_alive
from support.workers import wait_until

from bpm_engine import Engine
from bpm_engine.demo.ending import environment
from bpm_engine.demo.orders import KEPT_OPEN, LARGE, is_forgotten, is_refused, is_unreachable, orders
from bpm_engine.demo.story import Settings

PROJECT = Path(__file__).parents[2]
BPM = [sys.executable, "-m", "bpm_engine.cli"]
ORDERS, SEED = 60, 3


@dataclass(frozen=True, slots=True)
class Run:
    folder: Path
    told: dict[str, Any]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("demo")
    command = [*BPM, "demo", "--json", "--orders", str(ORDERS), "--seed", str(SEED)]
    done = subprocess.run(
        command, cwd=folder, env=_environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return Run(folder, json.loads(done.stdout))


def test_every_order_meets_the_fate_that_its_seed_foresees(run: Run) -> None:
    wanted = orders(ORDERS, SEED)
    declined = [o for o in wanted if o.total >= LARGE and is_refused(SEED, o.number)]
    taken = [o for o in wanted if o not in declined]
    undone = [o for o in taken if is_unreachable(SEED, o.number)]
    delivered = [o for o in taken if o not in undone]
    assert run.told["outcomes"] == {
        "delivered": len(delivered),
        "undone": len(undone),
        "declined": len(declined),
    }
    assert min(map(len, (delivered, undone, declined))) > 0
    assert run.told["compensations"] == 2 * len(undone)
    assert run.told["timers"] >= sum(is_forgotten(SEED, o.number) for o in delivered) > 0
    assert run.told["messages"] + run.told["timers"] == len(delivered)
    assert run.told["ledger"]["balance"] == sum(o.total for o in delivered)


def test_a_worker_is_killed_and_others_finish_its_work(run: Run) -> None:
    assert run.told["taken_over"] > 0
    assert run.told["findings"] == []
    assert run.told["ledger"]["exact"] is True
    with pytest.raises(ProcessLookupError):
        os.kill(run.told["killed"], 0)


def test_the_picture_shows_where_the_order_went(run: Run) -> None:
    picture = (run.folder / run.told["picture"]).read_text(encoding="utf-8")
    assert 'data-element="check_order"' in picture
    assert "#1a7f47" in picture  # the colour of what is done


def test_what_it_says_to_type_next_works_word_for_word(run: Run) -> None:
    script = "\n".join(run.told["next"])
    tool = run.folder / "bin" / "bpm"
    tool.parent.mkdir()
    tool.write_text(f'#!/bin/sh\nexec {shlex.join(BPM)} "$@"\n')
    tool.chmod(0o755)
    environment = _environment() | {"PATH": f"{tool.parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        ["sh", "-eu", "-c", script],
        cwd=run.folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "taken over" in done.stdout or "recovered" in done.stdout
    with Engine(run.told["database"]) as engine:
        repaired = engine.instances.find(business_key=KEPT_OPEN[1]).items[0]
        assert repaired.variables["address"] == "2 Side Street"
        assert repaired.status == "Running"  # waits for the carrier
        assert not engine.tasks.find()
        assert not engine.incidents.find()


@pytest.mark.parametrize(
    "url", ["postgresql://eve:secret@host/db", "postgresql://eve@host/db?password=secret"]
)
def test_a_password_is_not_repeated(url: str) -> None:
    shown = environment(settings(url))
    assert "secret" not in shown
    assert shown.startswith("export BPM_DATABASE_URL=postgresql://eve@host/db PGPASSWORD")


def settings(database: str) -> Settings:
    return Settings(
        database=database,
        tenant="default",
        orders=1,
        workers=2,
        seed=1,
        picture=Path("p.svg"),
        log=Path("p.log"),
    )


def test_on_a_terminal_it_is_drawn_in_place_and_in_colour(tmp_path: Path) -> None:
    shown = _on_terminal(["demo", "--orders", "20"], tmp_path)
    assert "\x1b[1A" in shown or "\x1b[2K" in shown  # goes up to draw again
    assert re.search(r"\x1b\[[0-9;]*3[0-9]", shown)
    assert "20/20" in shown
    assert "finds nothing wrong" in shown


def test_workers_do_not_outlive_a_demo_that_is_killed(tmp_path: Path) -> None:
    demo = subprocess.Popen(
        [*BPM, "demo"], cwd=tmp_path, env=_environment(), stdout=subprocess.PIPE, text=True, bufsize=1
    )
    assert demo.stdout
    pids: list[int] = []
    for line in demo.stdout:
        pids += [int(pid) for pid in re.findall(r"is at work \(pid (\d+)\)", line)]
        if len(pids) == 2:
            break
    demo.kill()
    demo.wait()
    demo.stdout.close()
    wait_until(lambda: not any(map(is_alive, pids)), "they have drained")


def _environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("BPM_")}
    return kept | {"PYTHONPATH": str(PROJECT)}


def _on_terminal(arguments: list[str], folder: Path) -> str:
    """What a command writes to a terminal of its own."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*BPM, *arguments],
        cwd=folder,
        env=_environment() | {"TERM": "xterm-256color", "COLUMNS": "120", "LINES": "50"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    shown = b""
    while True:
        try:
            part = os.read(ours, 65_536)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        shown += part
    os.close(ours)
    assert process.wait() == 0, shown.decode(errors="replace")
    return shown.decode(errors="replace")
