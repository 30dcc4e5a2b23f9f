"""One loop for all services: run until nothing is left, then wait for a wake-up, the next due time or a poll.

The number of the last wake-up is read before looking for work, so that what is committed in between is not
slept through. Polling finds what a lost wake-up would have told. An error is logged and followed by a growing
pause; a loop ends only when it is stopped.

An idle loop makes one look per poll: `next_due` is asked again only when something may have changed it. What
is due and cannot be done now (its instance is halted, its call tree busy, its receiver backs off) is looked
for again after growing pauses, up to a poll: it must not make the loop spin.
"""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from time import monotonic
from typing import Protocol

from bpm_engine.errors import UnavailableError
from bpm_engine.store.notifications import News

PAUSE = 0.1  # seconds after the first error in a row, doubled with each
AWAY_PAUSE = 5.0  # the longest while the database is away: it should be missed no longer than needed
ERROR_PAUSE = 60.0  # the longest after any other error
JITTER = 0.2  # of a wait, so that many processes do not look at the same moment
SHORTEST = 0.02  # seconds: by our clock it is due, by the database's not yet; doubled with each look in vain


class Wakeups(Protocol):
    """What a loop needs of the store's wake-ups."""

    def notify(self, news: Collection[News] = ...) -> None: ...

    def generation(self, news: News) -> int: ...

    def wait(self, since: int, timeout: float, news: News) -> bool: ...


def nothing_due() -> datetime | None:
    return None


def nothing_to_drain(timeout: float) -> None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """A name and what to call. `run_once` says how much it did; 0: there is nothing to do now."""

    name: str
    run_once: Callable[[], int]
    next_due: Callable[[], datetime | None] = nothing_due
    drain: Callable[[float], None] = nothing_to_drain  # after the loop has ended, within so many seconds
    poll: float | Callable[[], float] = 1.0  # seconds between two looks when nothing calls
    news: News | None = News.ANY  # what wakes it; None: only time does
    pause: float = 0.0  # the least time between two looks of which the first found nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """For liveness and readiness: whether the loop lives, and for how long it has failed."""

    name: str
    alive: bool
    failures: int  # in a row
    error: str | None
    last_success: float | None  # by the monotonic clock


class Loop:
    """One service in a thread of its own."""

    def __init__(
        self,
        service: Service,
        wakeups: Wakeups | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        stopping: threading.Event | None = None,
    ) -> None:
        """`wakeups` None: polling alone. `stopping` ends the loop when it is set."""
        self.service = service
        self._wakeups = wakeups
        self._now = now
        self._stopping = stopping or threading.Event()
        self._called = threading.Event()  # where only time concerns the service: it may not wait
        self._thread: threading.Thread | None = None
        self._logger = logging.getLogger(f"bpm_engine.{service.name}")
        self._failures = 0
        self._error: str | None = None
        self._last_success: float | None = None
        self._due: datetime | None = None
        self._due_is_known = False
        self._vain = 0  # looks in a row for something that is due, and found nothing that can be done

    def start(self) -> None:
        if self._thread is not None:
            raise RuntimeError(f"{self.service.name} runs already")
        self._stopping.clear()
        self._thread = threading.Thread(target=self.run, name=f"bpm-{self.service.name}", daemon=True)
        self._thread.start()

    def look(self) -> None:
        """Do not wait for the next look: what decides when it is has changed."""
        self._called.set()

    def ask_to_stop(self) -> None:
        """What runs is finished, nothing new is begun. Returns at once."""
        self._stopping.set()
        self._called.set()
        if self._wakeups is not None:
            self._wakeups.notify()

    def stop(self, timeout: float = 30.0) -> bool:
        """Stop, wait for the thread, drain; False: the service was still busy when the time was up."""
        deadline = monotonic() + timeout
        self.ask_to_stop()
        if self._thread is not None:
            self._thread.join(timeout)
            if self._thread.is_alive():
                self._logger.warning("%s did not stop within %g s", self.service.name, timeout)
                return False
            self._thread = None
        try:
            self.service.drain(max(0.0, deadline - monotonic()))
        except Exception:
            self._logger.exception("%s could not be drained", self.service.name)
        return True

    def health(self) -> Health:
        return Health(
            name=self.service.name,
            alive=self._thread is not None and self._thread.is_alive(),
            failures=self._failures,
            error=self._error,
            last_success=self._last_success,
        )

    def run(self) -> None:
        """Until stopped; in the calling thread."""
        while not self._stopping.is_set():
            try:
                since = self._generation()
                self._work()
                timeout = self._until_next()
            except Exception as error:  # noqa: BLE001 - whatever it is, the loop goes on
                self._stopping.wait(self._note_failure(error))
                continue
            self._note_success()
            self._rest(since, timeout)

    def _generation(self) -> int:
        news = self.service.news
        return self._wakeups.generation(news) if self._wakeups is not None and news is not None else 0

    def _work(self) -> None:
        """Until nothing is left or a stop is asked for."""
        while not self._stopping.is_set():
            if not self.service.run_once():
                return
            self._note_success()
            self._due_is_known = False
            self._vain = 0

    def _until_next(self) -> float:
        """How long to wait if nothing calls."""
        poll = self.service.poll if isinstance(self.service.poll, float | int) else self.service.poll()
        poll *= 1 + JITTER * random.random()  # noqa: S311 - jitter
        if not self._due_is_known:
            self._due = self.service.next_due()
            self._due_is_known = True
        if self._due is None:
            return poll
        ahead = (self._due - self._now()).total_seconds()
        if ahead > 0:
            self._vain = 0
            return min(poll, max(SHORTEST, ahead))
        self._vain += 1
        return min(poll, SHORTEST * 2.0 ** min(self._vain - 1, 20))

    def _rest(self, since: int, timeout: float) -> None:
        if self.service.news is None:
            self._called.wait(timeout)
            self._called.clear()
            return
        if self._wakeups is None:
            self._stopping.wait(timeout)
            return
        if self.service.pause:
            self._stopping.wait(self.service.pause)
        if not self._stopping.is_set() and self._wakeups.wait(since, timeout, self.service.news):
            self._due_is_known = False

    def _note_success(self) -> None:
        if self._failures:
            self._logger.info("%s works again after %d failures", self.service.name, self._failures)
        self._failures = 0
        self._error = None
        self._last_success = monotonic()

    def _note_failure(self, error: Exception) -> float:
        """How long to pause."""
        self._failures += 1
        self._error = f"{type(error).__name__}: {error}"
        self._due_is_known = False
        away = isinstance(error, UnavailableError)
        if not away:
            self._logger.error("%s failed", self.service.name, exc_info=error)
        elif self._failures == 1:
            self._logger.warning("%s waits for the database: %s", self.service.name, error)
        longest = AWAY_PAUSE if away else ERROR_PAUSE
        pause = min(PAUSE * 2.0 ** min(self._failures - 1, 20), longest)
        return pause * (1 - JITTER * random.random())  # noqa: S311 - jitter


class Services:
    """A set of loops, started together and stopped in the given order, each drained before the next.

    So put those that take on work first and those that carry the results away last.
    """

    def __init__(self, services: Sequence[Service], wakeups: Wakeups | None = None) -> None:
        self.loops = [Loop(service, wakeups) for service in services]

    def start(self) -> None:
        for loop in self.loops:
            loop.start()

    def stop(self, timeout: float = 30.0) -> bool:
        """True: all ended in time. One that needs it all leaves the others a second each."""
        deadline = monotonic() + timeout
        ended = [loop.stop(max(1.0, deadline - monotonic())) for loop in self.loops]
        return all(ended)

    def look(self, *names: str) -> None:
        """Have these look at once."""
        for loop in self.loops:
            if loop.service.name in names:
                loop.look()

    def health(self) -> list[Health]:
        return [loop.health() for loop in self.loops]
