"""Worker processes that need not import the engine: forked from one that has done so, and nothing else.

An import takes longer than all the rest of a worker's beginning. The nursery is forked from the supervisor
before that has read any application, opened a connection or begun a thread: nothing is there that a fork
would break. Each worker then imports the application itself. The nursery does nothing but fork, pass on
signals and tell how its children ended; when its supervisor is gone it ends, too.

Where fork is missing or not safe (macOS), workers are processes from scratch.
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NoReturn, Protocol

MESSAGE = 65_536  # bytes of an order at most


class Process(Protocol):
    """What a supervisor needs of `subprocess.Popen`."""

    @property
    def pid(self) -> int: ...

    def poll(self) -> int | None: ...

    def terminate(self) -> None: ...

    def kill(self) -> None: ...


class Nursery(Protocol):
    def start(
        self, arguments: Sequence[str], environment: Mapping[str, str], descriptors: Mapping[str, int]
    ) -> Process:
        """Run `bpm` with these arguments, and these values added to the environment. `descriptors` by the
        options that name them: their numbers may be others in the new process."""
        ...

    told: Callable[[], None]  # called when a child has ended, where that is known at once

    @property
    def is_lost(self) -> bool:
        """Nothing is known of its children any more."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Born:
    """This is a new process, and these are its arguments."""

    arguments: list[str]


def open_nursery() -> Nursery | Born:
    """In the supervisor a nursery. It returns once more in every process that is forked."""
    if not hasattr(os, "fork") or sys.platform == "darwin" or threading.active_count() > 1:
        return FromScratch()
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pid = os.fork()
    if pid:
        theirs.close()
        return ForkServer(ours, pid)
    ours.close()
    return _serve(theirs)


def _named(options: Iterable[str], descriptors: Iterable[int]) -> list[str]:
    pairs = zip(options, map(str, descriptors), strict=True)
    return [text for pair in pairs for text in pair]


class FromScratch:
    is_lost = False

    def __init__(self) -> None:
        self.told: Callable[[], None] = lambda: None  # nobody calls it: its children are looked at

    def start(
        self, arguments: Sequence[str], environment: Mapping[str, str], descriptors: Mapping[str, int]
    ) -> Process:
        return subprocess.Popen(  # noqa: S603 - our own interpreter and arguments
            [sys.executable, "-m", "bpm_engine.cli", *arguments, *_named(descriptors, descriptors.values())],
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            pass_fds=list(descriptors.values()),
            start_new_session=True,  # Ctrl-C is for the supervisor, which passes it on
        )

    def close(self) -> None:
        pass


class Forked:
    """A process that the nursery has made; only the nursery can signal it without doubt who that is."""

    def __init__(self, pid: int, nursery: socket.socket) -> None:
        self.pid = pid
        self.code: int | None = None
        self._nursery = nursery

    def poll(self) -> int | None:
        return self.code

    def terminate(self) -> None:
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        self._signal(signal.SIGKILL)

    def _signal(self, number: int) -> None:
        with suppress(OSError):  # a nursery that is gone is noticed by who looks after it
            self._nursery.send(json.dumps({"pid": self.pid, "signal": number}).encode())


class ForkServer:
    """The supervisor's side."""

    def __init__(self, connection: socket.socket, pid: int) -> None:
        self._connection = connection
        self._pid = pid
        self._children: dict[int, Forked] = {}
        self._born = threading.Semaphore(0)
        self._latest = 0
        self.is_lost = False
        self.told: Callable[[], None] = lambda: None  # called when a child has ended
        self._thread: threading.Thread | None = None

    def start(
        self, arguments: Sequence[str], environment: Mapping[str, str], descriptors: Mapping[str, int]
    ) -> Process:
        if self._thread is None:
            self._thread = threading.Thread(target=self._listen, name="bpm-nursery", daemon=True)
            self._thread.start()
        order = {"arguments": [*arguments], "environment": {**environment}, "descriptors": [*descriptors]}
        socket.send_fds(self._connection, [json.dumps(order).encode()], [*descriptors.values()])
        self._born.acquire()
        if self.is_lost:
            raise ConnectionError("the process that starts workers is gone")
        return self._children[self._latest]

    def _listen(self) -> None:
        with suppress(OSError):
            while message := self._connection.recv(MESSAGE):
                told = json.loads(message)
                if "born" in told:
                    self._latest = told["born"]
                    self._children[self._latest] = Forked(self._latest, self._connection)
                    self._born.release()
                else:
                    self._children.pop(told["pid"]).code = told["code"]
                    self.told()
        self.is_lost = True
        self._born.release()

    def close(self) -> None:
        self._connection.shutdown(socket.SHUT_RDWR)
        os.waitpid(self._pid, 0)
        if self._thread is not None:
            self._thread.join()
        self._connection.close()


# ------------------------------------------------------------------ in the nursery's process


def _serve(orders: socket.socket) -> Born:
    """Returns in the children only."""
    os.setsid()  # Ctrl-C is for the supervisor
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    _import_rest()
    gc.freeze()  # nobody looks at these again, so their memory stays shared
    told, tell = os.pipe()
    os.set_blocking(tell, False)
    signal.set_wakeup_fd(tell, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    children: set[int] = set()
    while True:
        ready, _, _ = select.select([orders.fileno(), told], [], [])
        if told in ready:
            os.read(told, MESSAGE)
            _bury(orders, children)
        if orders.fileno() in ready:
            born = _obey(orders, children)
            if born is not None:
                for descriptor in (told, tell):
                    os.close(descriptor)
                return born


def _import_rest() -> None:
    """What workers would import later, each for itself."""

    import bpm_engine.cli.supervisor
    import bpm_engine.services.standing_in  # noqa: F401


def _obey(orders: socket.socket, children: set[int]) -> Born | None:
    message, descriptors, _, _ = socket.recv_fds(orders, MESSAGE, 2)
    if not message:
        _end()
    order = json.loads(message)
    if "signal" in order:
        if order["pid"] in children:
            os.kill(order["pid"], order["signal"])
        return None
    pid = os.fork()
    if pid == 0:
        _begin(orders, order["environment"])
        return Born([*order["arguments"], *_named(order["descriptors"], descriptors)])
    for descriptor in descriptors:
        os.close(descriptor)
    children.add(pid)
    orders.send(json.dumps({"born": pid}).encode())
    return None


def _begin(orders: socket.socket, environment: Mapping[str, str]) -> None:
    """As if it had been started from scratch."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.setsid()
    orders.close()
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.environ.update(environment)


def _bury(orders: socket.socket, children: set[int]) -> None:
    for pid in list(children):
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            children.discard(pid)
            code = os.waitstatus_to_exitcode(status)
            with suppress(OSError):
                orders.send(json.dumps({"pid": pid, "code": code}).encode())


def _end() -> NoReturn:
    """Nothing of the supervisor's is ours to tidy up."""
    os._exit(0)
