"""A worker's line to its supervisor: tell whether it is ready, hear which topics are set apart.

When nobody listens any more the supervisor is gone, and the worker drains.
"""

from __future__ import annotations

import json
import logging
import os
import select
import signal
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Self

from bpm_engine.cli.endpoint import Readiness

logger = logging.getLogger("bpm_engine.supervisor")

SOON, USUAL = 0.2, 1.0  # seconds between two lines while it is not ready, and afterwards


def order(apart: frozenset[str]) -> bytes:
    """A line to a worker."""
    return json.dumps({"apart": sorted(apart)}).encode() + b"\n"


class Report:
    """`heed` is told the topics that are set apart: before the block begins, and whenever they change."""

    def __init__(
        self,
        connection: socket.socket,
        readiness: Callable[[], Readiness],
        heed: Callable[[frozenset[str]], None],
    ) -> None:
        self._connection = connection
        self._readiness = readiness
        self._heed = heed
        self._orders = connection.makefile("rb")
        self._stopping = threading.Event()
        self._threads = [
            threading.Thread(target=self._tell, name="bpm-report", daemon=True),
            threading.Thread(target=self._listen, name="bpm-parent", daemon=True),
        ]

    def __enter__(self) -> Self:
        """The first words are exchanged before anything is begun: whose leases are whose must be known when
        this process dies of its first work. What a supervisor orders lies there already; others, such as the
        demo, order nothing."""
        if select.select([self._connection], [], [], 0)[0]:
            self._hear()
        self._say()
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()

    def _tell(self) -> None:
        is_ready = False
        while not self._stopping.wait(USUAL if is_ready else SOON):
            is_ready = self._say()

    def _say(self) -> bool:
        """Whether it is ready."""
        state = self._readiness()
        line = json.dumps({"ready": state.ready, **state.details}, default=str)
        with suppress(OSError):  # nobody listens: that is noticed by who listens here
            self._connection.sendall(line.encode() + b"\n")
        return state.ready

    def _listen(self) -> None:
        while self._hear():
            pass
        if not self._stopping.is_set():
            logger.warning("the supervisor is gone; draining")
            os.kill(os.getpid(), signal.SIGTERM)

    def _hear(self) -> bool:
        """The next order; False: there are no more."""
        try:
            line = self._orders.readline()
        except OSError:
            return False
        if line:
            self._heed(frozenset(json.loads(line)["apart"]))
        return bool(line)
