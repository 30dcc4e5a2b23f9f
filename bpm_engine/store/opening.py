"""What many need and one does, such as opening a database: the first who asks does it, the others wait."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from copy import copy

from bpm_engine.errors import UnavailableError


class Opening:
    """Done once. Who waited for an attempt that fails gets its failure, instead of trying in turn: so nobody
    waits longer than one attempt takes, however many ask. Who asks afterwards tries again.
    """

    def __init__(self, attempt: Callable[[], None]) -> None:
        self._attempt = attempt
        self._lock = threading.Lock()
        self._running: Future[None] | None = None
        self._done = False

    def ensure(self) -> None:
        with self._lock:
            if self._done:
                return
            others = self._running
            if others is None:
                self._running = own = Future[None]()
        if others is None:
            self._run(own)
        elif (failure := others.exception()) is not None:
            raise copy(failure) from failure  # each thread adds its own traceback

    def _run(self, own: Future[None]) -> None:
        try:
            self._attempt()
        except BaseException as error:
            self._end(done=False)
            broken_off = UnavailableError("whoever was opening the database broke off; try again")
            own.set_exception(error if isinstance(error, Exception) else broken_off)
            raise
        self._end(done=True)
        own.set_result(None)

    def _end(self, *, done: bool) -> None:
        with self._lock:
            self._running, self._done = None, done
