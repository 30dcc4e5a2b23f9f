"""Looks after worker processes: starts them, starts a crashed one again, stops them in good order.

Each child has one end of a socket. It writes every second whether it is ready; when the other end closes, the
supervisor is gone and the child drains. So no child is ever left alone, whatever happens to its parent.

A child that dies at work is started again at once, and what it held is taken back: whoever has waited for a
process knows that it is dead, and need not wait for its leases. A child that crashes with nothing begun is
started again after 1, 2, 4 … 30 seconds; one that lasted a minute begins anew.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from tempfile import TemporaryFile
from time import monotonic, sleep
from types import TracebackType
from typing import IO, Self
from uuid import uuid4

from bpm_engine.cli.commands import GOOD, REFUSED
from bpm_engine.cli.endpoint import Endpoint, Exposition, Readiness, exposition
from bpm_engine.cli.nursery import Nursery, Process
from bpm_engine.engine import Engine
from bpm_engine.errors import EngineError
from bpm_engine.services.roster import read_roster
from bpm_engine.services.sweeps import bury
from bpm_engine.store.store import Store

logger = logging.getLogger("bpm_engine.supervisor")

WORKER_ID = "BPM_WORKER_ID"  # the setting `worker_id` in the environment
FIRST_PAUSE = 1.0  # seconds before an idle child that crashed is started again, doubled each time
LONGEST_PAUSE = 30.0
LASTING = 60.0  # seconds after which a crash is no longer one in a row
LOOK = 0.2  # seconds between two looks at the children
CLEAN = (0, -signal.SIGTERM)  # ends of a child: drained, or told to stop before it had begun anything
GRACE = 10.0  # seconds beyond the drain for a child to end
LOOKS = 3  # for what a dead child held: its last transaction may still hold locks


class Report:
    """The child's side: tell whether it is ready; stop when nobody listens any more."""

    def __init__(self, connection: socket.socket, readiness: Callable[[], Readiness]) -> None:
        self._connection = connection
        self._readiness = readiness
        self._stopping = threading.Event()
        self._threads = [
            threading.Thread(target=self._tell, name="bpm-report", daemon=True),
            threading.Thread(target=self._listen, name="bpm-parent", daemon=True),
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()

    def _tell(self) -> None:
        while not self._stopping.is_set():
            state = self._readiness()
            line = json.dumps({"ready": state.ready, **state.details}, default=str)
            try:
                self._connection.sendall(line.encode() + b"\n")
            except OSError:
                return
            self._stopping.wait(LOOK if not state.ready else 1.0)

    def _listen(self) -> None:
        try:
            while self._connection.recv(1):
                pass
        except OSError:
            pass
        if not self._stopping.is_set():
            logger.warning("the supervisor is gone; draining")
            os.kill(os.getpid(), signal.SIGTERM)


@dataclass(frozen=True, slots=True)
class Death:
    """What is known of a process that has ended."""

    pid: int
    owner: str | None  # of its leases, and of nobody else's; None: not known
    begun: frozenset[str] | None  # the tokens it was at; None: not known


@dataclass(slots=True)
class Child:
    """One place for a worker process, whichever process fills it now."""

    number: int
    arguments: Sequence[str]
    environment: Mapping[str, str]
    nursery: Nursery
    process: Process | None = None
    crashes: int = 0  # in a row
    idle_crashes: int = 0  # of these, with nothing begun
    begun: float = 0.0
    due: float = 0.0  # when to start again, by the monotonic clock
    state: dict[str, object] = field(default_factory=dict)
    name: str | None = None  # that it was given for its leases
    roster: IO[bytes] | None = None
    bury: list[Callable[[Death], None]] = field(default_factory=list)  # told of a process that has ended

    def start(self) -> None:
        ours, theirs = socket.socketpair()
        self.roster = TemporaryFile()  # noqa: SIM115 - closed when the process has ended
        self.name, own = _named(self.number)
        with theirs:
            descriptors = {"--reports-to": theirs.fileno(), "--roster": self.roster.fileno()}
            self.process = self.nursery.start(self.arguments, {**self.environment, **own}, descriptors)
        self.begun = monotonic()
        self.state = {}
        threading.Thread(target=self._listen, args=(ours, self.process), daemon=True).start()
        logger.info("worker %d starts (pid %d)", self.number, self.process.pid)

    def _listen(self, connection: socket.socket, process: Process) -> None:
        with connection, connection.makefile("rb") as lines:
            for line in lines:
                if self.process is process:
                    self.state = json.loads(line)

    def look(self) -> None:
        """Start what is due; notice what has crashed."""
        if self.process is None:
            if monotonic() >= self.due:
                self.start()
            return
        code = self.process.poll()
        if code is None:
            return
        death = self._death(self.process.pid)
        lasted = monotonic() - self.begun
        pause = self._pause(death, lasted)
        logger.error(
            "worker %d (pid %d) ended with %s after %.0f s; started again in %.0f s",
            self.number,
            self.process.pid,
            _cause(code),
            lasted,
            pause,
        )
        for told in self.bury:
            told(death)
        self.process, self.state, self.due = None, {}, monotonic() + pause
        if not pause:
            self.start()

    def _pause(self, death: Death, lasted: float) -> float:
        """Who dies at work may have died of it. There is an end to that: the loss is counted, and after some
        it is an incident. Meanwhile others wait for a worker. Who dies of nothing will do so again."""
        if lasted > LASTING:
            self.crashes = self.idle_crashes = 0
        self.crashes += 1
        if death.begun:
            return 0.0
        self.idle_crashes += 1
        return float(min(FIRST_PAUSE * 2.0 ** (self.idle_crashes - 1), LONGEST_PAUSE))

    def _death(self, pid: int) -> Death:
        assert self.roster is not None
        with self.roster:
            begun = read_roster(self.roster.fileno())
        owner = self.state.get("worker")
        is_own = owner == self.name or str(owner).startswith(f"{socket.gethostname()}-{pid}-")
        return Death(pid, str(owner) if owner and is_own else None, begun)

    @property
    def ready(self) -> bool:
        return self.process is not None and self.state.get("ready") is True

    def describe(self) -> dict[str, object]:
        pid = self.process.pid if self.process is not None else None
        return {"pid": pid, "crashes": self.crashes, "ready": self.ready, **self.state}


class Supervisor:
    def __init__(self, children: list[Child], nursery: Nursery, drain: float) -> None:
        self._children = children
        self._nursery = nursery
        self._drain = drain
        self._draining = False
        self._told: SimpleQueue[int | None] = SimpleQueue()  # signals; None: a child has ended
        nursery.told = lambda: self._told.put(None)

    def run(self) -> int:
        before = {
            number: signal.signal(number, lambda number, _: self._told.put(number))
            for number in (signal.SIGTERM, signal.SIGINT)
        }
        try:
            while not self._was_told(LOOK):
                if self._nursery.is_lost:
                    logger.error("the process that starts workers is gone; the workers drain")
                    return REFUSED
                for child in self._children:
                    child.look()
            return self._stop()
        finally:
            for number, action in before.items():
                signal.signal(number, action)

    def readiness(self) -> Readiness:
        workers = {str(child.number): child.describe() for child in self._children}
        ready = not self._draining and all(child.ready for child in self._children)
        return Readiness(ready, {"workers": workers})

    def _was_told(self, timeout: float) -> bool:
        """By a signal, to stop."""
        try:
            return self._told.get(timeout=timeout) is not None
        except Empty:
            return False

    def _stop(self) -> int:
        """Ask all to drain; a second signal, or too long a wait, kills."""
        self._draining = True
        running = [child.process for child in self._children if child.process is not None]
        logger.info("draining %d workers", len(running))
        for process in running:
            process.terminate()
        deadline = monotonic() + self._drain + GRACE
        while any(process.poll() is None for process in running) and not self._nursery.is_lost:
            if self._was_told(LOOK) or monotonic() > deadline:
                logger.error("workers that still run are killed; others will take over their work")
                for process in running:
                    process.kill()
                deadline = monotonic() + GRACE
        codes = [process.poll() for process in running]
        return GOOD if all(code in CLEAN for code in codes) else REFUSED


def supervise(
    engine: Engine,
    nursery: Nursery,
    arguments: list[str],
    processes: int,
    http: tuple[str, int] | None,
    *,
    metrics: bool,
) -> int:
    """Run so many children with these arguments of `bpm` until told to stop.

    The engine is the application's, for its settings, for what is read from the database, and to take back
    what dead children held; it runs nothing.
    """
    with ExitStack() as stack:
        stack.callback(nursery.close)
        shared: dict[str, str] = {}
        if metrics:
            shared["PROMETHEUS_MULTIPROC_DIR"] = stack.enter_context(
                tempfile.TemporaryDirectory(prefix="bpm-metrics-")
            )
        children = [Child(n, arguments, shared, nursery) for n in range(1, processes + 1)]
        for child in children:
            child.bury.append(lambda death: _take_back(engine, death))
        supervisor = Supervisor(children, nursery, engine.drain_timeout)
        if http is not None:
            expose = exposition
            if metrics:
                expose = _gathered(engine, shared["PROMETHEUS_MULTIPROC_DIR"], children)
            endpoint = Endpoint(http, supervisor.readiness, metrics=metrics, expose=expose)
            logger.info("health is served at http://%s:%d", *stack.enter_context(endpoint).address)
        return supervisor.run()


def _take_back(engine: Engine, death: Death) -> None:
    """In a thread: a database that is away must not keep anybody from being started again."""
    if death.owner is not None:
        arguments = (engine._runtime.store, death.owner, death.begun)
        threading.Thread(target=_bury, args=arguments, name="bpm-bury", daemon=True).start()


def _bury(store: Store, owner: str, begun: frozenset[str] | None) -> None:
    for _ in range(LOOKS):
        try:
            if not bury(store, owner, begun):
                return
        except EngineError as error:
            logger.warning("what %s held is taken back when its leases are over: %s", owner, error)
            return
        sleep(LOOK)


def _named(number: int) -> tuple[str | None, dict[str, str]]:
    """Each worker, and each process that takes its place, must have a name of its own: the leases of one may
    be taken back while another is at work. As a value, and for the environment."""
    given = os.environ.get(WORKER_ID)
    if given is None:
        return None, {}
    name = f"{given}-{number}-{uuid4().hex[:8]}"
    return name, {WORKER_ID: name}


def _gathered(engine: Engine, directory: str, children: list[Child]) -> Exposition:
    """The sum of what all children count, and what is read from the database once."""
    from prometheus_client import CollectorRegistry, generate_latest
    from prometheus_client.exposition import CONTENT_TYPE_LATEST
    from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

    from bpm_engine.observability.metrics import DatabaseMetrics

    registry = CollectorRegistry()
    MultiProcessCollector(registry, path=directory)  # type: ignore[no-untyped-call]
    engine.observe(DatabaseMetrics(registry))
    for child in children:  # what a dead process was running no longer runs
        child.bury.append(lambda death: mark_process_dead(death.pid, directory))  # type: ignore[no-untyped-call]
    return lambda: (generate_latest(registry), CONTENT_TYPE_LATEST)


def _cause(code: int) -> str:
    return f"exit code {code}" if code >= 0 else signal.Signals(-code).name
