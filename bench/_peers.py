"""Other engines and queues beside ours: what one of them is, and how one of them is run.

Each peer lives in a `_peer_*.py` of its own, imports its package only when it runs, and runs in a process of
its own on an empty database, so that its threads, loops and rows disturb nobody. It does `number` instances
of one workload with `processes` workers and says how many it had done after how many seconds: less than all
when its time was up.

    python bench/_peers.py '{"peer": "absurd", "workload": "W1", "url": …, "number": 100, "processes": 2}'
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from multiprocessing.context import SpawnContext, SpawnProcess
from multiprocessing.sharedctypes import Synchronized
from multiprocessing.synchronize import Semaphore
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
MODULES = ("_peer_ours", "_peer_absurd", "_peer_dbos", "_peer_pgqueuer", "_peer_spiff")
PATIENCE = 90.0  # seconds for a peer to set itself up, beyond the time it may run
SHORTEST_LOOK, LONGEST_LOOK = 0.02, 0.3  # seconds; each look takes time away from what is measured
UNITS = {
    "W1": "steps/s",
    "W2": "instances/s",
    "W3": "deliveries/s",
    "W4": "timers/s",
    "W5": "instances/s",
}
STEPS = {"W1": 5}  # steps that count per instance; elsewhere the instance itself counts


@dataclass(frozen=True, slots=True)
class Task:
    """What a peer is asked to do."""

    peer: str
    workload: str
    url: str
    number: int
    processes: int = 1
    seconds: float = 60.0
    settings: dict[str, str] = field(default_factory=dict)  # for the environment


@dataclass(frozen=True, slots=True)
class Outcome:
    """What it did: `done` instances in `seconds`, counted from the first message, timer or claim."""

    done: int
    seconds: float
    note: str = ""

    def rate(self, workload: str) -> float:
        return self.done * STEPS.get(workload, 1) / self.seconds if self.seconds else 0.0


@dataclass(frozen=True, slots=True)
class Peer:
    name: str
    package: str  # on the package index
    modules: tuple[str, ...]  # that have to be importable
    database: str
    supports: frozenset[str]
    processes: tuple[int, ...]  # worker counts worth trying
    pace: float  # instances at size 1 relative to ours, so that a run takes seconds for all
    run: Callable[[Task], Outcome]
    timers: float = 0.05  # of W4, relative to ours: who sets them one by one would take minutes for all
    is_durable: bool = True  # after every step: a crash neither loses one nor repeats what follows from it

    @property
    def installed(self) -> bool:
        return all(importlib.util.find_spec(name) is not None for name in self.modules)


def peers() -> dict[str, Peer]:
    found = (importlib.import_module(module).PEERS for module in MODULES)
    return {peer.name: peer for several in found for peer in several}


def run_apart(task: Task) -> Outcome | str:
    """The outcome, or why there is none."""
    process = subprocess.Popen(
        [sys.executable, __file__, json.dumps(asdict(task))],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | task.settings | {"PYTHONPATH": _import_path()},
        start_new_session=True,  # its own workers end with it
    )
    try:
        output, errors = process.communicate(timeout=task.seconds + PATIENCE)
    except subprocess.TimeoutExpired:
        return f"did not come to an end within {task.seconds + PATIENCE:.0f} s"
    finally:
        _end_group(process)
    lines = output.strip().splitlines()
    if process.returncode or not lines:
        return (errors.strip().splitlines() or [f"ended with code {process.returncode}"])[-1]
    return Outcome(**json.loads(lines[-1]))


def _import_path() -> str:
    """This very tree, whatever is installed."""
    return os.pathsep.join(filter(None, (str(ROOT), str(ROOT / "tests"), os.environ.get("PYTHONPATH"))))


def _end_group(process: subprocess.Popen[str]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    finally:
        process.wait()


class Shift:
    """What the workers of one run share: the moment to begin, the moment when timers are due, the count."""

    def __init__(self, context: SpawnContext) -> None:
        self._ready = context.Semaphore(0)
        self._waiting = context.Semaphore(0)
        self._begun = context.Event()
        self._due: Synchronized[float] = context.Value("d", 0.0)
        self._done: Synchronized[int] = context.Value("i", 0)

    def begin(self) -> float:
        """Called by a worker that is ready; goes on when all are. When timers are due, by the wall clock."""
        self._ready.release()
        self._begun.wait()
        return self._due.value

    def waiting(self) -> None:
        """Called by a worker whose timers are set."""
        self._waiting.release()

    def done(self) -> None:
        with self._done.get_lock():
            self._done.value += 1


class Crew(Shift):
    """The same, as their employer sees it. A worker that dies too early is noticed."""

    workers: Sequence[SpawnProcess] = ()

    def open(self, lead: float) -> None:
        self._all(self._ready)
        self._due.value = time.time() + lead
        self._begun.set()

    def count(self) -> int:
        return self._done.value

    def due(self) -> float:
        return self._due.value

    def all_waiting(self) -> None:
        self._all(self._waiting)

    def _all(self, arrived: Semaphore) -> None:
        given_up = time.monotonic() + PATIENCE
        for _ in self.workers:
            while not arrived.acquire(timeout=0.2):
                if time.monotonic() > given_up or any(worker.exitcode for worker in self.workers):
                    raise ChildProcessError("a worker ended or hung before the measurement could begin")


@contextmanager
def crew(target: Callable[[Shift, range, Task], None], task: Task, lead: float = 0.0) -> Iterator[Crew]:
    """Worker processes, begun together. Each calls `target` with its share of the instances' numbers."""
    context = multiprocessing.get_context("spawn")
    both = Crew(context)
    shares = [range(number, task.number, task.processes) for number in range(task.processes)]
    workers = [context.Process(target=target, args=(both, share, task), daemon=True) for share in shares]
    for worker in workers:
        worker.start()
    both.workers = workers
    try:
        both.open(lead)
        yield both
    finally:
        for worker in workers:
            worker.kill()


def until(done: Callable[[], int], number: int, seconds: float) -> Outcome:
    """Watch from now on until all is done or the time is up: rarely, and more often as the end comes near."""
    begun = time.perf_counter()
    while True:
        count = done()
        passed = time.perf_counter() - begun
        if count >= number or passed > seconds:
            return Outcome(count, passed, "" if count >= number else f"{count} of {number} within its time")
        ahead = passed * (number - count) / count if count else LONGEST_LOOK
        time.sleep(min(max(ahead / 2, SHORTEST_LOOK), LONGEST_LOOK))


def after(due: float, done: Callable[[], int], task: Task) -> Outcome:
    """Watch timers, all of them set by now, which are due at `due` by the wall clock."""
    if (left := due - time.time()) <= 0:
        return Outcome(0, 0.0, "not all timers were set before they were due")
    time.sleep(left)
    return until(done, task.number, task.seconds)


def main(arguments: dict[str, Any]) -> None:
    task = Task(**arguments)
    print(json.dumps(asdict(peers()[task.peer].run(task))))


if __name__ == "__main__":
    sys.modules["_peers"] = sys.modules["__main__"]  # one module, not a second one by its other name
    main(json.loads(sys.argv[1]))
