"""The first use of a database by many threads at once."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest
from support.workers import wait_until

from bpm_engine.errors import UnavailableError
from bpm_engine.store.config import StoreConfig
from bpm_engine.store.opening import Opening
from bpm_engine.store.store import Store

CALLERS = 6


class Silent:
    """A server that takes connections and never says a word."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self.taken: list[socket.socket] = []
        self._thread = threading.Thread(target=self._take)
        self._thread.start()

    def _take(self) -> None:
        with suppress(OSError):
            while True:
                self.taken.append(self._socket.accept()[0])

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join()
        for each in self.taken:
            each.close()


@pytest.fixture
def silent() -> Iterator[Silent]:
    server = Silent()
    yield server
    server.close()


def test_callers_of_a_server_that_does_not_answer_wait_for_one_attempt_together(silent: Silent) -> None:
    url = f"postgresql://u@127.0.0.1:{silent.port}/d?sslmode=disable&gssencmode=disable"
    together = threading.Barrier(CALLERS)

    def call(store: Store) -> str:
        together.wait()
        with pytest.raises(UnavailableError) as told:
            store.open()
        return str(told.value)

    with Store(StoreConfig(url=url, connect_timeout=2)) as store, ThreadPoolExecutor(CALLERS) as pool:
        told = set(pool.map(call, [store] * CALLERS))
    assert len(silent.taken) <= 2  # a straggler may come too late for the first
    assert len(told) == 1


def _ends(opening: Opening, go_on: threading.Event) -> list[BaseException | None]:
    """How an attempt ended for the one that made it, and for one that waited."""
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(opening.ensure)
        wait_until(lambda: opening._running, "the first has begun")
        second = pool.submit(opening.ensure)
        running = opening._running
        assert running is not None
        wait_until(lambda: running._condition._waiters, "the second waits")  # type: ignore[attr-defined]
        go_on.set()
        return [first.exception(), second.exception()]


def test_an_attempt_that_was_broken_off_is_told_as_such_and_made_again() -> None:
    go_on = threading.Event()
    tries: list[int] = []

    def attempt() -> None:
        tries.append(1)
        go_on.wait()
        if len(tries) == 1:
            raise KeyboardInterrupt

    opening = Opening(attempt)
    first, second = _ends(opening, go_on)
    assert isinstance(first, KeyboardInterrupt)
    assert isinstance(second, UnavailableError)
    opening.ensure()
    opening.ensure()
    assert len(tries) == 2


def test_who_waited_while_it_was_opened_goes_on() -> None:
    go_on = threading.Event()
    tries: list[int] = []

    def attempt() -> None:
        tries.append(1)
        go_on.wait()

    assert _ends(Opening(attempt), go_on) == [None, None]
    assert len(tries) == 1
