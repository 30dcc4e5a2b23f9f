"""Looks after worker processes: starts them, starts a crashed one again, stops them in good order.

Each child has one end of a socket. It writes every second whether it is ready; when the other end closes, the
supervisor is gone and the child drains. So no child is ever left alone, whatever happens to its parent.

A child that dies at work is started again at once, and what it held is taken back: whoever has waited for a
process knows that it is dead, and need not wait for its leases. A child that crashes with nothing begun is
started again after 1, 2, 4 … 30 seconds; one that lasted a minute begins anew.

What keeps killing is set apart (`apart`): each worker gets two more processes, its stand-ins, which run the
handlers of these topics in its stead. So their deaths cost nobody a worker.
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
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from tempfile import TemporaryFile
from time import monotonic, sleep
from typing import IO
from uuid import uuid4

from bpm_engine.cli.apart import QUIET, Apart, Begun
from bpm_engine.cli.commands import GOOD, REFUSED
from bpm_engine.cli.endpoint import Endpoint, Exposition, Readiness, exposition
from bpm_engine.cli.nursery import Nursery, Process
from bpm_engine.cli.report import order
from bpm_engine.engine import Engine
from bpm_engine.errors import EngineError
from bpm_engine.services.roster import has_done, read_roster
from bpm_engine.services.sweeps import bury, topics_begun
from bpm_engine.store.store import Store

logger = logging.getLogger("bpm_engine.supervisor")

WORKER_ID = "BPM_WORKER_ID"  # the setting `worker_id` in the environment
FIRST_PAUSE = 1.0  # seconds before an idle child that crashed is started again, doubled each time
LONGEST_PAUSE = 30.0
LASTING = 60.0  # seconds after which a crash is no longer one in a row
LOOK = 0.2  # seconds between two looks at the children
CLEAN = (0, -signal.SIGTERM)  # ends of a child: drained, or told to stop before it had begun anything
GRACE = 10.0  # seconds beyond the drain for a child to end
STAND_INS = 2  # of each worker: one has fresh work, the other what is under suspicion
LOOKS = 3  # for what a dead child held: its last transaction may still be on its way


@dataclass(frozen=True, slots=True)
class Death:
    """What is known of a process that has ended."""

    pid: int
    owner: str | None  # of its leases, and of nobody else's; None: not known
    begun: frozenset[str] | None  # the tokens it was at; None: not known
    has_done: bool  # it got anything done in its life


@dataclass(slots=True)
class Child:
    """One place for a worker process, or for a stand-in, whichever process fills it now."""

    number: int
    arguments: Sequence[str]
    environment: Mapping[str, str]
    nursery: Nursery
    process: Process | None = None
    crashes: int = 0  # in a row
    idle_crashes: int = 0  # of these, with nothing begun
    barren: int = 0  # crashes at work in a row of processes that got nothing done
    begun: float = 0.0
    due: float = 0.0  # when to start again, by the monotonic clock
    state: dict[str, object] = field(default_factory=dict)
    name: str | None = None  # that it was given for its leases
    roster: IO[bytes] | None = None
    apart: frozenset[str] = frozenset()  # the topics that it was told
    connection: socket.socket | None = None  # None: there is nothing more to tell it
    listener: threading.Thread | None = None
    stands_in: bool = False
    is_wanted: bool = True  # to be started, and started again
    bury: list[Callable[[Death], None]] = field(default_factory=list)  # told of a process that has ended

    def start(self) -> None:
        ours, theirs = socket.socketpair()
        self.roster = TemporaryFile()  # noqa: SIM115 - closed when the process has ended
        self.name, own = _named(self.number)
        ours.sendall(order(self.apart))  # it lies there until the process reads it, before all else
        with theirs:
            descriptors = {"--reports-to": theirs.fileno(), "--roster": self.roster.fileno()}
            self.process = self.nursery.start(self.arguments, {**self.environment, **own}, descriptors)
        self.begun = monotonic()
        self.state, self.connection = {}, ours
        self.listener = threading.Thread(target=self._listen, args=(ours, self.process), daemon=True)
        self.listener.start()
        level = logging.DEBUG if self.stands_in else logging.INFO
        logger.log(level, "%s %d starts (pid %d)", self.kind, self.number, self.process.pid)

    def tell(self, apart: frozenset[str]) -> None:
        """Which topics are set apart now."""
        self.apart = apart
        if self.process is not None and self.connection is not None:
            with suppress(OSError):  # it has ended: the next one is told when it starts
                self.connection.sendall(order(apart))

    def _listen(self, connection: socket.socket, process: Process) -> None:
        with connection, connection.makefile("rb") as lines, suppress(OSError):  # who died left orders unread
            for line in lines:
                if self.process is process:
                    self.state = json.loads(line)

    def look(self) -> None:
        """Start what is due; notice what has crashed."""
        if self.process is None:
            if self.is_wanted and monotonic() >= self.due:
                self.start()
            return
        code = self.process.poll()
        if code is None:
            return
        death = self._death(self.process.pid)
        has_gone = self.stands_in and code in CLEAN  # its worker is gone, or needs it no more
        pause = 0.0 if has_gone else self._crashed(code, death)
        for told in self.bury:
            told(death)
        self.process, self.state, self.due = None, {}, monotonic() + pause
        if self.is_wanted and not pause:
            self.start()

    def _crashed(self, code: int, death: Death) -> float:
        """In how many seconds it is started again."""
        lasted = monotonic() - self.begun
        pause = self._pause(death, lasted)
        logger.log(
            logging.WARNING if self.stands_in else logging.ERROR,
            "%s %d (pid %d) ended with %s after %.0f s; started again in %.0f s",
            self.kind,
            self.number,
            death.pid,
            _cause(code),
            lasted,
            pause,
        )
        return pause

    def _pause(self, death: Death, lasted: float) -> float:
        """Who dies at work may have died of it. There is an end to that: the loss is counted, and after some
        it is an incident. Meanwhile others wait for a worker; for a stand-in that gets nothing done nobody
        does. Who dies of nothing will do so again."""
        if lasted > LASTING:
            self.crashes = self.idle_crashes = 0
        self.crashes += 1
        if death.begun:
            self.barren = 0 if death.has_done else self.barren + 1
            return FIRST_PAUSE if self.stands_in and self.barren > 1 else 0.0
        self.idle_crashes += 1
        return float(min(FIRST_PAUSE * 2.0 ** (self.idle_crashes - 1), LONGEST_PAUSE))

    def _death(self, pid: int) -> Death:
        assert self.roster is not None
        assert self.listener is not None
        self.listener.join(LOOK)  # its last words: usually they are heard long ago
        with self.roster:
            begun = read_roster(self.roster.fileno())
            done = has_done(self.roster.fileno())
        owner = self.state.get("worker")
        is_own = owner == self.name or str(owner).startswith(f"{socket.gethostname()}-{pid}-")
        return Death(pid, str(owner) if owner and is_own else None, begun, done)

    @property
    def kind(self) -> str:
        return "stand-in of worker" if self.stands_in else "worker"

    @property
    def ready(self) -> bool:
        return self.process is not None and self.state.get("ready") is True

    @property
    def deaths(self) -> int:
        """Of this process, and of those that it has forked."""
        told = self.state.get("deaths")
        return self.crashes + (told if isinstance(told, int) else 0)

    def describe(self) -> dict[str, object]:
        pid = self.process.pid if self.process is not None else None
        return {"pid": pid, "crashes": self.crashes, "ready": self.ready, **self.state}


class Supervisor:
    def __init__(self, children: list[Child], stand_ins: list[Child], nursery: Nursery, drain: float) -> None:
        self._children = children
        self._stand_ins = stand_ins
        self._apart = Apart()
        self._deaths = 0  # of stand-ins
        self._begun: SimpleQueue[Begun] = SimpleQueue()  # of deaths that were looked into
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
                self._set_apart()
                for child in self._everybody():
                    child.look()
            return self._stop()
        finally:
            for number, action in before.items():
                signal.signal(number, action)

    def _everybody(self) -> list[Child]:
        return [*self._children, *self._stand_ins]

    def readiness(self) -> Readiness:
        workers = {str(child.number): child.describe() for child in self._children}
        ready = not self._draining and all(child.ready for child in self._children)
        stand_ins = sorted(child.process.pid for child in self._stand_ins if child.process is not None)
        apart = sorted(self._apart.topics)
        return Readiness(ready, {"workers": workers, "apart": apart, "stand_ins": stand_ins})

    def learn(self, begun: Begun) -> None:
        """From any thread: what was at work in a death."""
        self._begun.put(begun)
        self._told.put(None)

    def _set_apart(self) -> None:
        before, now = self._apart.topics, monotonic()
        while not self._begun.empty():
            self._apart.died(self._begun.get(), now)
        deaths = sum(child.deaths for child in self._stand_ins)
        if deaths != self._deaths:
            self._deaths = deaths
            self._apart.stand_in_died(now)
        self._apart.let_back(now)
        topics = self._apart.topics
        if topics != before:
            _announce(topics - before, before - topics)
            for child in self._children:
                child.tell(topics)
            for child in self._stand_ins:  # their workers let them go
                child.is_wanted = bool(topics)

    def _was_told(self, timeout: float) -> bool:
        """By a signal, to stop."""
        try:
            return self._told.get(timeout=timeout) is not None
        except Empty:
            return False

    def _stop(self) -> int:
        """Ask all to drain; a second signal, or too long a wait, kills."""
        self._draining = True
        running = [child.process for child in self._everybody() if child.process is not None]
        logger.info("draining %d workers", len(self._children))
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
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="bpm-"))
        paths = {n: f"{folder}/{n}" for n in range(1, processes + 1)}
        children = [Child(n, [*arguments, "--stand-ins", at], shared, nursery) for n, at in paths.items()]
        stand_ins = [
            Child(n, [*arguments, "--stand-in", at], shared, nursery, stands_in=True, is_wanted=False)
            for n, at in paths.items()
            for _ in range(STAND_INS)
        ]
        supervisor = Supervisor(children, stand_ins, nursery, engine.drain_timeout)
        for child in children:
            child.bury.append(lambda death: _take_back(engine, death, supervisor.learn))
        if http is not None:
            expose = exposition
            if metrics:
                expose = _gathered(engine, shared["PROMETHEUS_MULTIPROC_DIR"], [*children, *stand_ins])
            endpoint = Endpoint(http, supervisor.readiness, metrics=metrics, expose=expose)
            logger.info("health is served at http://%s", stack.enter_context(endpoint).place)
        return supervisor.run()


def _take_back(engine: Engine, death: Death, learn: Callable[[Begun], None]) -> None:
    """In a thread: a database that is away must not keep anybody from being started again."""
    if death.owner is not None:
        arguments = (engine._runtime.store, death.owner, death.begun, learn)
        threading.Thread(target=_bury, args=arguments, name="bpm-bury", daemon=True).start()


def _bury(store: Store, owner: str, begun: frozenset[str] | None, learn: Callable[[Begun], None]) -> None:
    try:
        if begun:  # told first: what may kill must not find the next worker before that has heard of it
            learn(topics_begun(store, owner, begun))
        for _ in range(LOOKS):
            bury(store, owner, begun)
            sleep(LOOK)
    except EngineError as error:
        logger.warning("what %s held is taken back when its leases are over: %s", owner, error)


def _announce(apart: frozenset[str], back: frozenset[str]) -> None:
    for topic in sorted(apart):
        logger.warning(
            "%r is set apart: workers died while they ran its work. Processes that stand in for them run it "
            "until nobody has died of it for %.0f s",
            topic,
            QUIET,
        )
    for topic in sorted(back):
        logger.info("%r is let back: nobody has died of it for %.0f s", topic, QUIET)


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
