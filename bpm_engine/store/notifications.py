"""Wake-ups over PostgreSQL's LISTEN and NOTIFY, each on a connection of its own, outside any step's
transaction.

NOTIFY inside the step took a third of the throughput: it is sent after the commit, at most once per five
milliseconds. Waiters of the same process are woken directly. A broken connection is opened again with a
pause; until then polling has to do.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from enum import StrEnum

import psycopg

CHANNEL = "bpm_engine"
PAUSE = 0.005  # seconds between two notifications of one process
CALM = 0.05  # seconds between two that tell of nothing but events: these come with every commit
RECONNECT = 1.0  # seconds after a failure
TURN = 1.0  # how often the listener looks whether it shall end


class News(StrEnum):
    """What a commit may have brought; each service waits for its own, so that a commit wakes nobody else."""

    ANY = "any"
    WORK = "work"  # tokens that can be claimed
    TIMERS = "timers"  # or schedules
    DELIVERIES = "deliveries"  # of signals, and messages that may have a taker
    EVENTS = "events"  # for the outbox


EVERYTHING = frozenset(News)
UNHURRIED = frozenset([News.EVENTS])


class Bell:
    """Numbers that rise, one per kind of news, and threads that wait for one to rise."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rung = {news: threading.Condition(self._lock) for news in News}
        self._generations = dict.fromkeys(News, 0)

    def ring(self, news: Collection[News] = EVERYTHING) -> None:
        with self._lock:
            for each in {News.ANY, *news}:
                self._generations[each] += 1
                self._rung[each].notify_all()

    def generation(self, news: News) -> int:
        with self._lock:
            return self._generations[news]

    def wait(self, since: int, timeout: float, news: News) -> bool:
        with self._lock:
            return self._rung[news].wait_for(lambda: self._generations[news] > since, timeout)


class Notifications:
    """Threads start on first use, so that constructing a store opens nothing."""

    def __init__(self, connect: Callable[[], psycopg.Connection]) -> None:
        """`connect` opens a connection that commits by itself."""
        self._connect = connect
        self._bell = Bell()
        self._pending = threading.Event()
        self._urgent = threading.Event()
        self._unsent: set[News] = set()
        self._closed = threading.Event()
        self._listening = threading.Event()
        self._threads: list[threading.Thread] = []
        self._start_lock = threading.Lock()
        self._started: set[str] = set()

    def notify(self, news: Collection[News] = EVERYTHING) -> None:
        self._bell.ring(news)
        self._start("notifier", self._send)
        with self._start_lock:
            self._unsent.update(news)
        self._pending.set()
        if not UNHURRIED.issuperset(news):
            self._urgent.set()

    def generation(self, news: News = News.ANY) -> int:
        self._start("listener", self._listen)
        return self._bell.generation(news)

    def wait(self, since: int, timeout: float, news: News = News.ANY) -> bool:
        self._start("listener", self._listen)
        return self._bell.wait(since, timeout, news)

    def wait_until_listening(self, timeout: float) -> bool:
        self._start("listener", self._listen)
        return self._listening.wait(timeout)

    def close(self) -> None:
        self._closed.set()
        self._pending.set()
        self._urgent.set()
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
                with self._connect() as connection:
                    run(connection)
            except psycopg.Error:
                self._listening.clear()
                self._closed.wait(RECONNECT)

    def _send(self, connection: psycopg.Connection) -> None:
        while not self._closed.is_set():
            self._pending.wait()
            self._urgent.wait(CALM)
            self._pending.clear()
            self._urgent.clear()
            with self._start_lock:
                news, self._unsent = self._unsent, set()
            connection.execute("SELECT pg_notify(%s, %s)", (CHANNEL, ",".join(sorted(news))))
            self._closed.wait(PAUSE)

    def _listen(self, connection: psycopg.Connection) -> None:
        connection.execute(f"LISTEN {CHANNEL}")
        self._bell.ring()  # what was committed while nobody listened
        self._listening.set()
        while not self._closed.is_set():
            for told in connection.notifies(timeout=TURN, stop_after=1):
                known = EVERYTHING & frozenset(told.payload.split(","))  # a newer version may tell of more
                self._bell.ring(known or EVERYTHING)
