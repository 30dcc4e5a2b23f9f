"""The small interface behind which the two databases differ: begin, errors, clock, wake-ups, claim.

Everything else in the store is written once. `connect` opens nothing; the first transaction does.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Protocol

import sqlalchemy as sa

from bpm_engine.store.failures import Failure
from bpm_engine.store.notifications import EVERYTHING, News
from bpm_engine.store.queue import Queue


class Wakeups(Protocol):
    """How idle services learn that there is something to do. Latency only: polling finds what gets lost."""

    def notify(self, news: Collection[News] = EVERYTHING) -> None:
        """Something was committed that others may wait for. Returns at once; many calls become one."""

    def generation(self, news: News = News.ANY) -> int:
        """A number that rises with every such wake-up; read it before looking for work."""

    def wait(self, since: int, timeout: float, news: News = News.ANY) -> bool:
        """Until the generation has passed `since` (True) or the time is up (False)."""

    def close(self) -> None: ...


class Database(Protocol):
    engine: sa.Engine
    is_embedded: bool  # in this process: no round trips to save
    migrates_itself: bool  # schema created on first use; a server's is the operator's to upgrade

    @property
    def wakeups(self) -> Wakeups: ...

    def image(self) -> bytes | None:
        """All of it, if it is in memory; None: it is not."""

    def begin_with(self, image: bytes) -> None:
        """What an empty database in memory contains from now on; any other stays as it is."""

    def writing(self) -> AbstractContextManager[sa.Connection]:
        """A connection in a transaction that may write; the caller commits or rolls back."""

    def reserved(self) -> AbstractContextManager[sa.Connection]:
        """The same with a connection that nobody else gets: a full pool must not let leases run out."""

    def reading(self) -> AbstractContextManager[sa.Connection]:
        """A connection in a transaction that only reads, with one consistent view where that is free."""

    def surveying(self) -> AbstractContextManager[sa.Connection]:
        """The same, for questions about whole tables rather than some rows."""

    def joining(self, connection: sa.Connection) -> AbstractContextManager[None]:
        """While the block lasts, a connection that somebody else opened behaves like one of ours, inside a
        transaction.
        """

    def enter_tenant(self, connection: sa.Connection, tenant: str | None) -> None:
        """Tell the database for whom the transaction runs (row-level security); None: for all."""

    def as_tenant(self, connection: sa.Connection, tenant: str | None) -> AbstractContextManager[None]:
        """The same for a part of somebody else's transaction: afterwards it is as it was. If the part fails,
        its savepoint takes care of that.
        """

    def check_durability(self, connection: sa.Connection) -> None:
        """Raise UnsafeDurabilityError if acknowledged commits may be lost."""

    def check_security(self, connection: sa.Connection) -> None:
        """Raise InvalidInputError if policies are asked for that would not hold."""

    def lock_migrations(self, connection: sa.Connection) -> None:
        """From here on only this transaction migrates."""

    def lock_names(self, connection: sa.Connection, names: Sequence[str]) -> None:
        """Until its end only this transaction holds these names; wait for others that do. Sorted, so that two
        never wait for each other."""

    def arrange_security(self, connection: sa.Connection, wanted: bool | None) -> None:
        """Row-level security by tenant on or off; None: as it is, new tables included."""

    def classify(self, error: sa.exc.SQLAlchemyError) -> Failure: ...

    def process(self, connection: sa.Connection) -> int | None:
        """Which process of a server serves the connection; None: there is none, or none that we can know."""

    def is_at_work(self, connection: sa.Connection, process: int) -> bool:
        """Whether that process is in a transaction: a server notices late that a connection is gone."""

    def lacks_tables(self, error: sa.exc.DBAPIError) -> bool:
        """Whether it says that a table is not there: the connection leads to another database."""

    def now(self, connection: sa.Connection) -> datetime: ...

    def ready_of_topics(
        self, topics: sa.CTE, limit: sa.BindParameter[int], queue: Queue
    ) -> sa.Select[tuple[str, int]]:
        """The first claimable tokens among these topics, locked: see `work.py`."""

    def close(self) -> None: ...
