"""One transaction: the connection, its one reading of the clock, and what to do once it is committed."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from bpm_engine.store.clock import Clock
from bpm_engine.store.database import Database
from bpm_engine.store.notifications import EVERYTHING, News


class Transaction:
    """What every statement function takes first.

    `now()` reads the clock on the first call and then stays the same; ask after the locks are held. `wake()`
    asks for a wake-up of the services that wait for such news after the commit; nothing is sent if the
    transaction fails.
    """

    __slots__ = ("_clock", "_now", "connection", "database", "news")

    def __init__(self, connection: sa.Connection, database: Database, clock: Clock) -> None:
        self.connection = connection
        self.database = database
        self.news: set[News] = set()
        self._clock = clock
        self._now: datetime | None = None

    def now(self) -> datetime:
        if self._now is None:
            self._now = self._clock.read(self.connection)
        return self._now

    def before_locks(self) -> Transaction:
        """The same transaction with a reading of the clock of its own, for what comes before its locks."""
        return Transaction(self.connection, self.database, self._clock)

    def wake(self, *news: News) -> None:
        """None named: everybody."""
        self.news.update(news or EVERYTHING)

    def execute(
        self, statement: sa.Executable, values: Mapping[str, Any] | None = None
    ) -> sa.CursorResult[Any]:
        return self.connection.execute(statement, values)
