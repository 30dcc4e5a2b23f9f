"""A worker in a process of its own, watched from outside: what it tells, how much memory it holds."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from bpm_engine import Engine

WORKER = Path(__file__).with_name("_worker.py")
PATIENCE = 600.0  # seconds for an instance to end, until something is wrong
EVERY = 0.04  # seconds from one start of a caller to the next, however long the instances take
LOOK = 0.2  # seconds between two looks at a worker
FIRST = 20  # instances until a caller and a worker are warm; not counted


class Worker:
    """All services on a database; it begins with `go`. It tells of ended instances of the given processes."""

    def __init__(self, url: str, *keys: str) -> None:
        path = f"{Path(__file__).parent.parent}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
        self._process = subprocess.Popen(
            [sys.executable, str(WORKER), url, *keys],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": path},
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._input = self._process.stdin
        self._output = self._process.stdout
        self._output.readline()
        self._ended: dict[str, float] = {}  # when it was told, by the clock of this process
        self._changed = threading.Condition()
        self._listener = threading.Thread(target=self._listen, daemon=True)

    def go(self) -> Self:
        self._input.write("\n")
        self._input.flush()
        self._listener.start()
        return self

    def has_ended(self, instance_id: str) -> bool:
        with self._changed:
            return instance_id in self._ended

    @property
    def ended(self) -> int:
        """How many instances it has told of."""
        with self._changed:
            return len(self._ended)

    def wait(self, instance_id: str) -> float:
        """When it has ended."""
        with self._changed:
            if not self._changed.wait_for(lambda: instance_id in self._ended, PATIENCE):
                raise TimeoutError(f"instance {instance_id} has not ended within {PATIENCE:g} s")
            return self._ended[instance_id]

    def memory(self) -> float:
        """MB that the process holds now."""
        status = Path(f"/proc/{self._process.pid}/status")
        if status.exists():
            held = [line.split()[1] for line in status.read_text().splitlines() if line.startswith("VmRSS")]
            return int(held[0]) / 1e3 if held else 0.0
        told = subprocess.run(
            ["ps", "-o", "rss=", "-p", str(self._process.pid)], capture_output=True, text=True, check=True
        )
        return int(told.stdout) / 1e3

    def kill(self) -> None:
        """At once, whatever it does."""
        self._process.kill()
        self._process.wait()
        self._input.close()
        self._listener.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """It drains."""
        if self._process.poll() is None:
            self._input.close()
            self._process.wait(60)

    def _listen(self) -> None:
        for line in self._output:
            with self._changed:
                self._ended[line.strip()] = time.perf_counter()
                self._changed.notify_all()


class Watch:
    """The memory of a worker by how much of its work is done (0 to 1)."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._samples: list[tuple[float, float]] = []
        self.at_start = worker.memory()

    def note(self, done: float) -> None:
        self._samples.append((done, self._worker.memory()))

    @property
    def done(self) -> float:
        return self._samples[-1][0] if self._samples else 0.0

    @property
    def peak(self) -> float:
        return max([self.at_start, *(memory for _, memory in self._samples)])

    def between(self, low: float, high: float) -> float:
        """Usually held while so much was done; where nobody looked then, what was seen next."""
        seen = [memory for done, memory in self._samples if low <= done <= high]
        later = [memory for done, memory in self._samples if done > high]
        return statistics.median(seen or later[:1] or [self._samples[-1][1]])


class Watching:
    """Notes in a thread, again and again, while the block lasts."""

    def __init__(self, watch: Watch, done: Callable[[], float]) -> None:
        self._watch = watch
        self._done = done
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._over.wait(LOOK):
            self._watch.note(self._done())


def call(engine: Engine, worker: Worker, going: Callable[[int], bool]) -> list[float]:
    """What a caller sees: milliseconds from the start of an instance of one task to its end in the worker.
    The next one is started in time, whether or not the last one has ended, while `going` says so of their
    number."""
    begun: dict[str, float] = {}
    while going(len(begun)):
        at = time.perf_counter()
        begun[engine.start("w8").id] = at
        time.sleep(max(0.0, at + EVERY - time.perf_counter()))
    return [(worker.wait(instance) - at) * 1000 for instance, at in begun.items()]


def warm_up(engine: Engine, worker: Worker) -> None:
    call(engine, worker, lambda number: number < FIRST)


def percentiles(times: list[float]) -> tuple[float, float]:
    """p50 and p99."""
    cuts = statistics.quantiles(times, n=100, method="inclusive")
    return cuts[49], cuts[98]
