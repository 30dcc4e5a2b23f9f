"""Worker processes that tests may kill: each a real process that builds an engine and runs all its services.

`Nursery` is a process that has imported everything and forks a worker whenever it is asked to, so that a new
worker takes milliseconds. `Crew` keeps a number of workers alive, finds busy ones by the leases in the
database and kills them. Leases last a second, so that what a dead worker held is soon found.

A worker ends on SIGTERM as `Engine.run` does, by draining.
"""

from __future__ import annotations

import faulthandler
import importlib
import json
import os
import random
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn
from weakref import WeakSet

import psycopg
import sqlalchemy as sa

from bpm_engine import crash
from bpm_engine.config import Config
from bpm_engine.core.state import TokenState
from bpm_engine.engine import Engine
from bpm_engine.publishers import LogPublisher
from bpm_engine.store.schema import token
from bpm_engine.store.store import Store

TESTS = Path(__file__).parents[1]
PATIENCE = 60.0  # seconds: a machine may be slow, and only a test that fails waits so long
GLANCE = 0.02
CUT = "the connections are cut"  # what a worker says when it happens to it
SETTINGS: dict[str, Any] = {
    "lease": 1.0,
    "lease_extension": 0.3,
    "outbox_lease": 1.0,
    "poll": 0.1,
    "auto_migrate": False,
    "worker_threads": 4,
    "pool_size": 3,
}


def wait_until(condition: Callable[[], object], what: str, patience: float = PATIENCE) -> None:
    """Look again and again until it holds; the test fails if it never does."""
    deadline = time.monotonic() + patience
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {patience:g} s in vain until {what}")
        select.select([], [], [], GLANCE)


Crash = tuple[str, int, str]  # point, hit, action


@dataclass(frozen=True, slots=True)
class Order:
    """What a worker shall be: `model` names a module with `register(engine, ledger_path)`, and perhaps
    with `publisher(ledger_path)`."""

    url: str
    model: str
    ledger: str
    worker: str
    log: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    crashes: Sequence[Crash] = ()
    only: Sequence[str] = ()  # of the services; none named: all


class Worker:
    """A process that runs an engine. It is no child of ours, so it is watched through a file descriptor."""

    def __init__(self, order: Order, pid: int) -> None:
        self.order = order
        self.pid = pid
        self._descriptor = os.pidfd_open(pid)

    @property
    def name(self) -> str:
        return self.order.worker

    def is_alive(self) -> bool:
        return self._descriptor >= 0 and not self._ends_within(0)

    def _ends_within(self, seconds: float) -> bool:
        """By poll(2): select(2) knows no descriptor beyond 1023, and a long run has many workers."""
        poll = select.poll()
        poll.register(self._descriptor, select.POLLIN)
        return bool(poll.poll(seconds * 1000))

    def signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._descriptor, number)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        self.wait()

    def stop(self) -> None:
        """Drain and end."""
        self.signal(signal.SIGTERM)
        self.wait()

    def wait(self, patience: float = PATIENCE) -> None:
        if not self._ends_within(patience):
            self.signal(signal.SIGUSR1)  # it tells where its threads are
            with suppress(AssertionError):
                wait_until(lambda: "most recent call first" in self.output(), "it has told", 5)
            raise AssertionError(f"worker {self.name} is still alive after {patience:g} s\n{self.output()}")

    def is_stopped(self) -> bool:
        """By SIGSTOP, every thread: a thread that is inside a system call, such as for a lock, ends it first.
        `T` in proc(5)."""
        with suppress(FileNotFoundError, ProcessLookupError):
            stats = [task / "stat" for task in Path(f"/proc/{self.pid}/task").iterdir()]
            return all(stat.read_text().rpartition(")")[2].split()[0] == "T" for stat in stats)
        return False

    def output(self) -> str:
        return Path(self.order.log).read_text(encoding="utf-8")

    def close(self) -> None:
        """Also for the second time."""
        if self._descriptor >= 0:
            self.kill()
            os.close(self._descriptor)
            self._descriptor = -1


class Nursery:
    """Forks workers."""

    def __init__(self, folder: Path, record: Path, surroundings: Mapping[str, str] | None = None) -> None:
        """`record`: where the names of the crash points that any worker reached are written. `surroundings`:
        more of the environment."""
        self._folder = folder
        self._number = 0
        environment = os.environ | {"PYTHONPATH": str(TESTS), "BPM_CRASH_RECORD": str(record)}
        environment |= surroundings or {}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "support.workers"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            text=True,
            bufsize=1,
        )

    def spawn(
        self,
        url: str,
        model: str,
        ledger: str,
        *,
        settings: Mapping[str, Any] | None = None,
        crashes: Sequence[Crash] = (),
        only: Sequence[str] = (),
    ) -> Worker:
        self._number += 1
        name = f"worker-{self._number}"
        log = self._folder / f"{name}.log"
        log.touch()
        order = Order(url, model, ledger, name, str(log), SETTINGS | dict(settings or {}), crashes, only)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({name: getattr(order, name) for name in Order.__slots__}) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, "the nursery has died"
        return Worker(order, int(answer))

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(PATIENCE)
        self._process.stdout.close()


@dataclass(slots=True)
class Crew:
    """`size` workers of one kind, of which chance kills those that have work in hand."""

    spawn: Callable[[], Worker]
    store: Store
    size: int
    chance: random.Random
    workers: dict[str, Worker] = field(default_factory=dict)
    lost: list[Worker] = field(default_factory=list)

    def fill(self) -> None:
        while len(self.workers) < self.size:
            worker = self.spawn()
            self.workers[worker.name] = worker

    def busy(self) -> list[Worker]:
        query = sa.select(token.c.lease_owner).where(token.c.state == TokenState.EXECUTING).distinct()
        with self.store.reading() as tx:
            owners = sorted(str(row[0]) for row in tx.execute(query))
        return [self.workers[owner] for owner in owners if owner in self.workers]

    def kill_one(self) -> bool:
        """One that is busy, and a new one takes its place. False: none is."""
        busy = self.busy()
        if not busy:
            return False
        self.lose(self.chance.choice(busy))
        return True

    def lose(self, victim: Worker) -> None:
        victim.close()
        self.replace(victim)

    def replace(self, worker: Worker) -> None:
        """Somebody else takes its place."""
        self.lost.append(self.workers.pop(worker.name))
        self.fill()

    def close(self) -> None:
        for worker in (*self.workers.values(), *self.lost):
            worker.close()


@contextmanager
def crew(spawn: Callable[[], Worker], store: Store, size: int, seed: int) -> Iterator[Crew]:
    members = Crew(spawn, store, size, random.Random(seed))
    try:
        members.fill()
        yield members
    finally:
        members.close()


# ------------------------------------------------------------------ in the nursery's process


def _prepare_to_cut() -> None:
    """Know every connection of the pools, to break them as a network does: the socket, not the session."""
    connections: WeakSet[psycopg.Connection[Any]] = WeakSet()

    def note(connection: object, _record: object) -> None:
        if isinstance(connection, psycopg.Connection):
            connections.add(connection)

    def cut() -> None:
        for connection in list(connections):
            if not connection.closed:
                with suppress(OSError), socket.socket(fileno=os.dup(connection.fileno())) as broken:
                    broken.shutdown(socket.SHUT_RDWR)
        print(CUT, flush=True)

    sa.event.listen(sa.pool.Pool, "connect", note)
    crash.cut_with(cut)


def _serve(order: Order) -> NoReturn:
    """The life of a worker."""
    descriptor = os.open(order.log, os.O_WRONLY | os.O_APPEND)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    faulthandler.register(signal.SIGUSR1)
    if order.crashes:
        _prepare_to_cut()
        for point, hit, action in order.crashes:
            crash.arm(point, hit, action)
    model = importlib.import_module(order.model)
    publisher = model.publisher(order.ledger) if hasattr(model, "publisher") else LogPublisher()
    config = Config(worker_id=order.worker, **order.settings)
    engine = Engine(order.url, config=config, publisher=publisher)
    model.register(engine, order.ledger)
    engine.run(only=order.only or None)
    engine.close()
    os._exit(0)


def _breed() -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the dead are not kept
    for line in sys.stdin:
        order = Order(**json.loads(line))
        pid = os.fork()
        if pid == 0:
            _serve(order)
        sys.stdout.write(f"{pid}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    _breed()
