"""What time it is: one reading per transaction, taken after its locks are held.

The database's clock is the default, so that workers on many machines agree. Time enters SQL only as a bound
parameter; a test sets its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from threading import Lock
from typing import Protocol

import sqlalchemy as sa


class Clock(Protocol):
    def read(self, connection: sa.Connection) -> datetime: ...


@dataclass(frozen=True, slots=True)
class DatabaseClock:
    """Each database module knows how to ask."""

    ask: Callable[[sa.Connection], datetime]

    def read(self, connection: sa.Connection) -> datetime:
        return self.ask(connection)


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
