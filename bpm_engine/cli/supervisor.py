"""Looks after worker processes: starts them, starts a crashed one again, stops them in good order.

Each child has one end of a socket. It writes every second whether it is ready; when the other end closes, the
supervisor is gone and the child drains. So no child is ever left alone, whatever happens to its parent.

A child that keeps crashing is started again after 1, 2, 4 … 30 seconds; one that lasted a minute begins anew.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from time import monotonic
from types import TracebackType
from typing import Self

from bpm_engine.cli.commands import GOOD, REFUSED
from bpm_engine.cli.endpoint import Endpoint, Exposition, Readiness, exposition
from bpm_engine.engine import Engine

logger = logging.getLogger("bpm_engine.supervisor")

FIRST_PAUSE = 1.0  # seconds before a crashed child is started again, doubled with each crash in a row
LONGEST_PAUSE = 30.0
LASTING = 60.0  # seconds after which a crash is no longer one in a row
LOOK = 0.2  # seconds between two looks at the children
CLEAN = (0, -signal.SIGTERM)  # ends of a child: drained, or told to stop before it had begun anything
GRACE = 10.0  # seconds beyond the drain for a child to end


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


@dataclass(slots=True)
class Child:
    """One place for a worker process, whichever process fills it now."""

    number: int
    arguments: Sequence[str]
    environment: dict[str, str]
    process: subprocess.Popen[bytes] | None = None
    crashes: int = 0  # in a row
    begun: float = 0.0
    due: float = 0.0  # when to start again, by the monotonic clock
    state: dict[str, object] = field(default_factory=dict)
    bury: Callable[[int], None] = lambda pid: None  # told the pid of a process that has ended

    def start(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            command = [sys.executable, "-m", "bpm_engine.cli", "run", *self.arguments]
            self.process = subprocess.Popen(  # noqa: S603 - our own interpreter and arguments
                [*command, "--reports-to", str(theirs.fileno())],
                env=self.environment,
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # Ctrl-C is for the supervisor, which passes it on
            )
        self.begun = monotonic()
        self.state = {}
        threading.Thread(target=self._listen, args=(ours, self.process), daemon=True).start()
        logger.info("worker %d starts (pid %d)", self.number, self.process.pid)

    def _listen(self, connection: socket.socket, process: subprocess.Popen[bytes]) -> None:
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
        lasted = monotonic() - self.begun
        self.crashes = 1 if lasted > LASTING else self.crashes + 1
        pause = min(FIRST_PAUSE * 2.0 ** (self.crashes - 1), LONGEST_PAUSE)
        logger.error(
            "worker %d (pid %d) ended with %s after %.0f s; started again in %.0f s",
            self.number,
            self.process.pid,
            _cause(code),
            lasted,
            pause,
        )
        self.bury(self.process.pid)
        self.process, self.state, self.due = None, {}, monotonic() + pause

    @property
    def ready(self) -> bool:
        return self.process is not None and self.state.get("ready") is True

    def describe(self) -> dict[str, object]:
        pid = self.process.pid if self.process is not None else None
        return {"pid": pid, "crashes": self.crashes, "ready": self.ready, **self.state}


class Supervisor:
    def __init__(self, children: list[Child], drain: float) -> None:
        self._children = children
        self._drain = drain
        self._draining = False
        self._signals: SimpleQueue[int] = SimpleQueue()

    def run(self) -> int:
        before = {
            number: signal.signal(number, lambda number, _: self._signals.put(number))
            for number in (signal.SIGTERM, signal.SIGINT)
        }
        try:
            while not self._was_told(LOOK):
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
        try:
            self._signals.get(timeout=timeout)
        except Empty:
            return False
        return True

    def _stop(self) -> int:
        """Ask all to drain; a second signal, or too long a wait, kills."""
        self._draining = True
        running = [child.process for child in self._children if child.process is not None]
        logger.info("draining %d workers", len(running))
        for process in running:
            process.terminate()
        deadline = monotonic() + self._drain + GRACE
        while any(process.poll() is None for process in running):
            if self._was_told(LOOK) or monotonic() > deadline:
                logger.error("workers that still run are killed; others will take over their work")
                for process in running:
                    process.kill()
                break
        codes = [process.wait() for process in running]
        return GOOD if all(code in CLEAN for code in codes) else REFUSED


def supervise(
    engine: Engine,
    arguments: list[str],
    processes: int,
    http: tuple[str, int] | None,
    *,
    metrics: bool,
) -> int:
    """Run so many children with these arguments of `bpm run` until told to stop.

    The engine is the application's, for its settings and for what is read from the database; it runs nothing.
    """
    with ExitStack() as stack:
        shared: dict[str, str] = {}
        if metrics:
            shared["PROMETHEUS_MULTIPROC_DIR"] = stack.enter_context(
                tempfile.TemporaryDirectory(prefix="bpm-metrics-")
            )
        children = [Child(n, arguments, _environment(n, shared)) for n in range(1, processes + 1)]
        supervisor = Supervisor(children, engine.drain_timeout)
        if http is not None:
            expose = exposition
            if metrics:
                expose = _gathered(engine, shared["PROMETHEUS_MULTIPROC_DIR"], children)
            endpoint = Endpoint(http, supervisor.readiness, metrics=metrics, expose=expose)
            logger.info("health is served at http://%s:%d", *stack.enter_context(endpoint).address)
        return supervisor.run()


def _environment(number: int, shared: dict[str, str]) -> dict[str, str]:
    own = os.environ | shared
    if "BPM_WORKER_ID" in own:  # each worker must have a name of its own
        own["BPM_WORKER_ID"] += f"-{number}"
    return own


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
        child.bury = lambda pid: mark_process_dead(pid, directory)  # type: ignore[no-untyped-call]
    return lambda: (generate_latest(registry), CONTENT_TYPE_LATEST)


def _cause(code: int) -> str:
    return f"exit code {code}" if code >= 0 else signal.Signals(-code).name
