"""Wake-ups over PostgreSQL's LISTEN and NOTIFY, each on a connection of its own, outside any step's
transaction.

NOTIFY inside the step took a third of the throughput: it is sent after the commit, at most once per five
milliseconds. Waiters of the same process are woken directly. A broken connection is opened again with a
pause; until then polling has to do.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

import psycopg

CHANNEL = "bpm_engine"
PAUSE = 0.005  # seconds between two notifications of one process
RECONNECT = 1.0  # seconds after a failure
TURN = 1.0  # how often the listener looks whether it shall end


class Bell:
    """A number that rises, and threads that wait for it to rise."""

    def __init__(self) -> None:
        self._rung = threading.Condition()
        self._generation = 0

    def ring(self) -> None:
        with self._rung:
            self._generation += 1
            self._rung.notify_all()

    def generation(self) -> int:
        with self._rung:
            return self._generation

    def wait(self, since: int, timeout: float) -> bool:
        with self._rung:
            return self._rung.wait_for(lambda: self._generation > since, timeout)


class Notifications:
    """Threads start on first use, so that constructing a store opens nothing."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._bell = Bell()
        self._pending = threading.Event()
        self._closed = threading.Event()
        self._listening = threading.Event()
        self._threads: list[threading.Thread] = []
        self._start_lock = threading.Lock()
        self._started: set[str] = set()

    def notify(self) -> None:
        self._bell.ring()
        self._start("notifier", self._send)
        self._pending.set()

    def generation(self) -> int:
        self._start("listener", self._listen)
        return self._bell.generation()

    def wait(self, since: int, timeout: float) -> bool:
        self._start("listener", self._listen)
        return self._bell.wait(since, timeout)

    def wait_until_listening(self, timeout: float) -> bool:
        self._start("listener", self._listen)
        return self._listening.wait(timeout)

    def close(self) -> None:
        self._closed.set()
        self._pending.set()
        self._bell.ring()
        for thread in self._threads:
            thread.join(TURN + 5)

    def _start(self, name: str, run: Callable[[psycopg.Connection], None]) -> None:
        if name in self._started:
            return
        with self._start_lock:
            if name in self._started or self._closed.is_set():
                return
            self._started.add(name)
            thread = threading.Thread(target=self._keep, args=(run,), name=f"bpm-{name}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def _keep(self, run: Callable[[psycopg.Connection], None]) -> None:
        """Run on a fresh connection again and again until closed."""
        while not self._closed.is_set():
            try:
                with psycopg.connect(self._url, autocommit=True, connect_timeout=5) as connection:
                    run(connection)
            except psycopg.Error:
                self._listening.clear()
                self._closed.wait(RECONNECT)

    def _send(self, connection: psycopg.Connection) -> None:
        while not self._closed.is_set():
            self._pending.wait()
            self._pending.clear()
            connection.execute("SELECT pg_notify(%s, '')", (CHANNEL,))
            self._closed.wait(PAUSE)

    def _listen(self, connection: psycopg.Connection) -> None:
        connection.execute(f"LISTEN {CHANNEL}")
        self._listening.set()
        self._bell.ring()  # what was committed while nobody listened
        while not self._closed.is_set():
            for _ in connection.notifies(timeout=TURN, stop_after=1):
                self._bell.ring()
