"""What time it is: one reading per transaction, taken after its locks are held.

The database's clock is the default, so that workers on many machines agree. Asking a server is a round trip,
so it is asked once a second; in between the own clock counts on from its answer. Time enters SQL only as a
bound parameter; a test sets its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from threading import Lock
from typing import Protocol

import sqlalchemy as sa

TRUST = 1.0  # seconds for which the last answer of a server is counted on from
# Where there is one, a clock that goes on while the machine sleeps.
steady = (
    partial(time.clock_gettime, time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic
)


class Clock(Protocol):
    def read(self, connection: sa.Connection) -> datetime: ...


@dataclass(frozen=True, slots=True)
class DatabaseClock:
    """Each database module knows how to ask."""

    ask: Callable[[sa.Connection], datetime]

    def read(self, connection: sa.Connection) -> datetime:
        return self.ask(connection)


@dataclass(slots=True)
class ServerClock:
    """The clock of a server, read at most once a second.

    It is behind the server by what the answer took to come, never ahead of it: no timer may be early.
    """

    ask: Callable[[sa.Connection], datetime]
    _told: tuple[datetime, float] | None = None  # its answer, and our time when it had come

    def read(self, connection: sa.Connection) -> datetime:
        begun = steady()
        if self._told is not None and begun - self._told[1] < TRUST:
            return self._told[0] + timedelta(seconds=begun - self._told[1])
        answer = self.ask(connection)
        self._told = answer, steady()
        return answer


@dataclass(slots=True)
class ManualClock:
    """A clock that moves only when told to."""

    now: datetime = datetime(2030, 1, 1, tzinfo=UTC)
    _lock: Lock = field(default_factory=Lock, repr=False)

    def read(self, connection: sa.Connection) -> datetime:
        return self.now

    def advance(self, by: timedelta) -> datetime:
        with self._lock:
            self.now += by
            return self.now
