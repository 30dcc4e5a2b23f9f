"""SQLite, in a file or in memory: connections, errors, the spelling of the bulk row source, wake-ups.

Writers queue up on one lock per process and begin with BEGIN IMMEDIATE: a transaction that read first and
wrote then would fail at once with BUSY_SNAPSHOT, whatever the timeout. Other processes on the same file are
waited for by the busy timeout. In memory the database is a `memdb` file of this process; the shared cache
would answer "table is locked" instead of waiting.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import sqlalchemy as sa
import uuid_utils.compat as uuid
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler

from bpm_engine.errors import InvalidInputError
from bpm_engine.store.address import read_address
from bpm_engine.store.compiled import TRANSLATIONS
from bpm_engine.store.config import StoreConfig
from bpm_engine.store.containment import contains_text, merge
from bpm_engine.store.failures import Failure, TransactionRetryError
from bpm_engine.store.files import check_file
from bpm_engine.store.notifications import EVERYTHING, Bell, News
from bpm_engine.store.queue import Queue
from bpm_engine.store.rows import Field, contains, elements, listed, merged
from bpm_engine.store.schema import token
from bpm_engine.store.types import Jsonb, Timestamp, to_microseconds

BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
AWAY = (
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_PROTOCOL,
    sqlite3.SQLITE_INTERRUPT,
)
TAKEN = (sqlite3.SQLITE_CONSTRAINT_UNIQUE, sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY)
NUMBER_TAKEN = "this number is taken"  # a trigger says it of the history, before the key is looked at
CACHE = 32_000  # kibibytes of pages per connection; the default of 2,000 does not hold a batch
CHECKPOINT = 8_000  # pages of log; the default of 1,000 copies hot pages back again and again
TAUGHT = "bpm_engine.taught"  # on a caller's connection: it knows our functions
PAUSE = 0.005  # seconds between two attempts to switch the journal of a new file
GLANCE = 0.25  # seconds between two looks for commits of other processes


class SQLite:
    migrates_itself = True
    is_embedded = True

    def __init__(self, config: StoreConfig) -> None:
        self._config = config
        path = read_address(config.url).database
        self._memory = path in (None, "", ":memory:")
        self._unchecked = None if self._memory else path
        self._uri = f"file:/bpm-{uuid.uuid7()}?vfs=memdb" if self._memory else f"file:{quote(str(path))}"
        self.engine = sa.create_engine(
            "sqlite://",
            creator=self._connect,
            poolclass=sa.pool.QueuePool,
            pool_size=config.pool_size,
            max_overflow=config.pool_overflow,
            pool_timeout=config.pool_timeout,
            hide_parameters=True,
            execution_options={"compiled_cache": TRANSLATIONS},
        )
        self._writer = threading.Lock()
        self._writing_thread: int | None = None
        self._anchor: sqlite3.Connection | None = None  # a memdb lives as long as a connection to it
        self._anchor_lock = threading.Lock()
        self.wakeups = Commits(self._connect)

    def _connect(self) -> sqlite3.Connection:
        if self._memory:
            with self._anchor_lock:
                self._anchor = self._anchor or self._open()
        if self._unchecked:
            check_file(self._unchecked, allow_unsafe=self._config.allow_unsafe_durability)
            self._unchecked = None
        return self._open()

    def _open(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self._uri,
            uri=True,
            timeout=self._config.sqlite_busy_timeout,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=256,
        )
        if not self._memory:
            _write_ahead(connection, self._config.sqlite_busy_timeout)
        connection.execute(f"PRAGMA synchronous = {self._config.sqlite_synchronous}")
        connection.execute(f"PRAGMA cache_size = -{CACHE}")
        connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT}")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA recursive_triggers = ON")
        _teach(connection)
        return connection

    def image(self) -> bytes | None:
        with self._anchor_lock:
            return self._anchor.serialize() if self._anchor else None

    def begin_with(self, image: bytes) -> None:
        if not self._memory:
            return
        with self._anchor_lock, closing(sqlite3.connect(":memory:")) as source:
            self._anchor = self._anchor or self._open()
            if self._anchor.execute("SELECT 1 FROM sqlite_schema").fetchone() is None:
                source.deserialize(image)
                source.backup(self._anchor)

    def reserved(self) -> AbstractContextManager[sa.Connection]:
        """There is one writer at a time, and no way past it."""
        return self.writing()

    @contextmanager
    def writing(self) -> Iterator[sa.Connection]:
        self._refuse_nesting()
        if not self._writer.acquire(timeout=self._config.sqlite_busy_timeout):
            raise TransactionRetryError("another transaction of this process holds the write lock too long")
        self._writing_thread = threading.get_ident()
        try:
            with self.engine.connect() as connection:
                connection.exec_driver_sql("BEGIN IMMEDIATE")
                yield connection
        finally:
            self._writing_thread = None
            self._writer.release()

    def _refuse_nesting(self) -> None:
        """It would wait for itself."""
        if self._writing_thread == threading.get_ident():
            raise InvalidInputError(
                "this thread is inside a transaction on this database already, and SQLite has one writer; "
                "pass that transaction on with connection="
            )

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        if self._memory:  # where readers wait for the writer
            self._refuse_nesting()
        with self.engine.connect() as connection:
            connection.exec_driver_sql("BEGIN")
            yield connection

    def surveying(self) -> AbstractContextManager[sa.Connection]:
        return self.reading()

    @contextmanager
    def joining(self, connection: sa.Connection) -> Iterator[None]:
        """The driver's default begins a transaction before the first change only: a savepoint on its own
        would be committed by its release, whatever the caller does afterwards.
        """
        driver = connection.connection.driver_connection
        if not isinstance(driver, sqlite3.Connection):
            raise InvalidInputError("connection must use the driver sqlite3 of the standard library")
        if not connection.info.setdefault(TAUGHT, False):
            _teach(driver)
            connection.info[TAUGHT] = True
        if not driver.in_transaction:
            connection.exec_driver_sql("PRAGMA foreign_keys = ON")
            connection.exec_driver_sql("BEGIN IMMEDIATE")
        yield

    def enter_tenant(self, connection: sa.Connection, tenant: str | None) -> None:
        """There is no row-level security here: the tenant is part of every query."""

    def as_tenant(self, connection: sa.Connection, tenant: str | None) -> AbstractContextManager[None]:
        return nullcontext()

    def check_durability(self, connection: sa.Connection) -> None:
        """The level is ours to choose: `sqlite_synchronous`."""

    def check_security(self, connection: sa.Connection) -> None:
        """There are no policies here."""

    def lock_migrations(self, connection: sa.Connection) -> None:
        """BEGIN IMMEDIATE was enough."""

    def lock_names(self, connection: sa.Connection, names: Sequence[str]) -> None:
        """BEGIN IMMEDIATE was enough."""

    def arrange_security(self, connection: sa.Connection, wanted: bool | None) -> None:
        if wanted:
            raise InvalidInputError("row-level security needs PostgreSQL; SQLite has none")

    def process(self, connection: sa.Connection) -> None:
        """This one: what it was at has ended with the call."""

    def is_at_work(self, connection: sa.Connection, process: int) -> bool:
        return False

    def lacks_tables(self, error: sa.exc.DBAPIError) -> bool:
        return str(error.orig).startswith("no such table")

    def classify(self, error: sa.exc.SQLAlchemyError) -> Failure:
        if isinstance(error, sa.exc.TimeoutError):
            return Failure.UNAVAILABLE
        cause = error.orig if isinstance(error, sa.exc.DBAPIError) else None
        code: int | None = getattr(cause, "sqlite_errorcode", None)
        if code is None:
            return Failure.BUG
        primary = code & 0xFF
        if primary in BUSY:
            return Failure.RETRY
        if code in TAKEN or (code == sqlite3.SQLITE_CONSTRAINT_TRIGGER and NUMBER_TAKEN in str(cause)):
            return Failure.CONFLICT
        if primary == sqlite3.SQLITE_FULL:
            return Failure.FULL
        return Failure.UNAVAILABLE if primary in AWAY else Failure.BUG

    def now(self, connection: sa.Connection) -> datetime:
        return datetime.now(UTC)

    def ready_of_topics(
        self, topics: sa.CTE, limit: sa.BindParameter[int], queue: Queue
    ) -> sa.Select[tuple[str, int]]:
        """The best of each topic by index, then the best of these. There is no LATERAL, but IN may
        correlate.
        """
        other = token.alias("other")
        best = (
            sa.select(other.c.id)
            .where(other.c.ready_topic == topics.c.topic, queue.holds(other))
            .order_by(*queue.order(other))
            .limit(limit)
            .correlate(topics)
        )
        return (
            sa.select(token.c.id, token.c.version)
            .select_from(topics.join(token, token.c.id.in_(best)))
            .order_by(*queue.order(token))
            .limit(limit)
        )

    def close(self) -> None:
        self.wakeups.close()
        self.engine.dispose()
        with self._anchor_lock:
            if self._anchor:
                self._anchor.close()
                self._anchor = None


def _write_ahead(connection: sqlite3.Connection, patience: float) -> None:
    """Switch to the write-ahead log. Of several processes that open a new file at once all but one are told
    "locked" without waiting, whatever the busy timeout: SQLite sees two readers that both want to write.
    """
    deadline = time.monotonic() + patience
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF not in BUSY or time.monotonic() > deadline:
                raise
            time.sleep(PAUSE)
        else:
            return


def _teach(connection: sqlite3.Connection) -> None:
    """The functions that our statements use."""
    connection.create_function("merged", 2, merge, deterministic=True)
    connection.create_function("contains_json", 2, contains_text, deterministic=True)
    connection.create_function("microseconds", 1, _microseconds, deterministic=True)


def _microseconds(text: str | None) -> int | None:
    """A time that came in the row source, as the tables keep it."""
    return None if text is None else to_microseconds(datetime.fromisoformat(text))


class Commits:
    """Wake-ups inside this process, and a cheap look at whether another process has committed to the file."""

    def __init__(self, connect: Any) -> None:
        self._connect = connect
        self._bell = Bell()
        self._lock = threading.Lock()
        self._watcher: sqlite3.Connection | None = None
        self._version = 0
        self._closed = False

    def notify(self, news: Collection[News] = EVERYTHING) -> None:
        self._bell.ring(news)

    def generation(self, news: News = News.ANY) -> int:
        return self._bell.generation(news)

    def wait(self, since: int, timeout: float, news: News = News.ANY) -> bool:
        deadline = time.monotonic() + timeout
        while (left := deadline - time.monotonic()) > 0:
            if self._bell.wait(since, min(left, GLANCE), news):
                return True
            if self._others_committed():
                self._bell.ring()
        return self._bell.wait(since, 0, news)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            if self._watcher:
                self._watcher.close()
                self._watcher = None
        self._bell.ring()

    def _others_committed(self) -> bool:
        """`data_version` changes when another connection has committed; asking reads a counter in memory."""
        with self._lock:
            if self._closed:
                return False
            first = self._watcher is None
            try:
                self._watcher = self._watcher or self._connect()
                version = int(self._watcher.execute("PRAGMA data_version").fetchone()[0])
            except sqlite3.Error:  # until it can be read again, polling has to do
                return False
            changed, self._version = version != self._version, version
            return changed and not first


@compiles(elements, "sqlite")
@compiles(listed, "sqlite")
def _elements(element: elements | listed, compiler: SQLCompiler, **kw: Any) -> str:
    """LIMIT keeps it a subquery of its own: `json_each` renders `value` anew for each field read of it."""
    parameter = compiler.process(element.clauses, **kw)
    return f"(SELECT value FROM json_each({parameter}) LIMIT -1)"  # noqa: S608  a compiled placeholder


@compiles(Field, "sqlite")
def _field(element: Field, compiler: SQLCompiler, **kw: Any) -> str:
    value = compiler.process(element.value, **kw)
    if isinstance(element.type, Jsonb):
        return f"nullif({value} -> {element.position}, 'null')"
    if isinstance(element.type, Timestamp):
        return f"microseconds({value} ->> {element.position})"
    return f"({value} ->> {element.position})"


@compiles(merged, "sqlite")
def _merged(element: merged, compiler: SQLCompiler, **kw: Any) -> str:
    return f"merged({compiler.process(element.clauses, **kw)})"


@compiles(contains, "sqlite")
def _contains(element: contains, compiler: SQLCompiler, **kw: Any) -> str:
    return f"contains_json({compiler.process(element.clauses, **kw)})"
