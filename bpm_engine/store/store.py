"""The way into the database: transactions, their errors, wake-ups, the schema's version.

A committer's step, in this order (each function is set-based: a constant number of statements per batch):

    with store.transaction() as tx:
        roots = trees.take_roots(tx, root_ids)          # SKIP LOCKED; works on what was obtained
        snapshot = trees.load_snapshot(tx, needs, roots.snapshot)  # locks the tokens it returns
        now = tx.now()                                  # the clock, after the locks
        ...                                             # the core decides
        stale = changes.apply(tx, made)                 # empty: nothing can have changed under the locks
        tx.wake()                                       # idle services look again after the commit

Lock order, everywhere: roots by id, then tokens by id, then nothing that another transaction waits for.
Claims and lease extensions lock tokens only, and never wait (SKIP LOCKED).

Errors: `TransactionRetryError` (run the function again), `ConflictError` (a unique key is taken),
`UnavailableError` (the database is away, nothing happened), `CommitUnknownError` (it broke during COMMIT:
read the versions again).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from types import TracebackType
from typing import Self

import sqlalchemy as sa

from bpm_engine.crash import crash_point, declare, loses_commit
from bpm_engine.errors import InvalidInputError, UnavailableError
from bpm_engine.store import migrate
from bpm_engine.store.address import read_address
from bpm_engine.store.clock import Clock, DatabaseClock
from bpm_engine.store.config import StoreConfig
from bpm_engine.store.database import Database, Wakeups
from bpm_engine.store.failures import CommitUnknownError, Failure, translate
from bpm_engine.store.opening import Opening
from bpm_engine.store.postgresql import PostgreSQL
from bpm_engine.store.sqlite import SQLite
from bpm_engine.store.transaction import Transaction

COMMIT = declare("commit", "a writing transaction is about to be committed")


def connect(config: StoreConfig) -> Database:
    """The database that the URL names. Opens nothing."""
    embedded = read_address(config.url).get_backend_name() == "sqlite"
    return SQLite(config) if embedded else PostgreSQL(config)


class Store:
    """Thread-safe. Constructing opens nothing, so imports and forks are safe; the first transaction opens."""

    def __init__(self, config: StoreConfig | str | None = None, clock: Clock | None = None) -> None:
        """`config` may be just the URL. `clock`: default is the database's own."""
        self.config = StoreConfig(url=config) if isinstance(config, str) else config or StoreConfig()
        self.database = connect(self.config)
        self.clock = clock or DatabaseClock(self.database.now)
        self._opening = Opening(self._open)
        self._opened = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def wakeups(self) -> Wakeups:
        """For the loops: `generation()`, look for work, then `wait(generation, timeout)`."""
        return self.database.wakeups

    def open(self) -> None:
        """Check the schema's version (or bring it up to date) and the durability, once.

        Raises SchemaVersionError with advice, UnsafeDurabilityError, UnavailableError, and InvalidInputError
        if row-level security is set and does not hold. Who asks while another thread does it gets the same
        answer.
        """
        self._opening.ensure()

    def _open(self) -> None:
        automatic = self.config.auto_migrate
        if self.database.migrates_itself if automatic is None else automatic:
            migrate.prepare(self.database)
        with self._errors(), self.database.reading() as connection:
            self.database.check_durability(connection)
            migrate.check_version(connection)
            self.database.check_security(connection)
            connection.rollback()
        self._opened = True

    @contextmanager
    def transaction(self, *, tenant: str | None = None, reserved: bool = False) -> Iterator[Transaction]:
        """A transaction that may write: committed at the end of the block, rolled back if it raises.

        On SQLite it holds the only write lock of the file, so keep it short, and never open one inside
        another. `tenant` matters for row-level security only; None is for services, which work for all
        tenants. `reserved`: on the connection that is kept for leases.
        """
        connecting = self.database.reserved() if reserved else self.database.writing()
        with self._transaction(connecting, tenant, commit=True) as tx:
            yield tx
        if tx.news:
            self.database.wakeups.notify(tx.news)

    @contextmanager
    def reading(self, *, tenant: str | None = None) -> Iterator[Transaction]:
        """A transaction that only reads. On SQLite it does not wait for writers."""
        with self._transaction(self.database.reading(), tenant, commit=False) as tx:
            yield tx

    @contextmanager
    def surveying(self, *, tenant: str | None = None) -> Iterator[Transaction]:
        """The same, for questions about whole tables rather than some rows."""
        with self._transaction(self.database.surveying(), tenant, commit=False) as tx:
            yield tx

    @contextmanager
    def joined(self, connection: sa.Connection, *, tenant: str | None = None) -> Iterator[Transaction]:
        """A part of the caller's own transaction, inside a savepoint: undone alone if the block raises.

        The caller commits; send the wake-up (`store.wakeups.notify(tx.news)`) afterwards if there is any.
        The tenant (row-level security) is named for this part only.
        """
        if not self._opened:
            self.open()
        database = self.database
        with (
            self._errors(),
            _of_this_database(database),
            database.joining(connection),
            connection.begin_nested(),
            database.as_tenant(connection, tenant),
        ):
            yield Transaction(connection, database, self.clock)

    def close(self) -> None:
        self.database.close()

    @contextmanager
    def _transaction(
        self, connecting: AbstractContextManager[sa.Connection], tenant: str | None, *, commit: bool
    ) -> Iterator[Transaction]:
        if not self._opened:
            self.open()
        with self._errors(), connecting as connection:
            try:
                self.database.enter_tenant(connection, tenant)
                yield Transaction(connection, self.database, self.clock)
            except BaseException:
                _roll_back(connection)
                raise
            if commit:
                self._commit(connection)
            else:
                connection.rollback()

    def _commit(self, connection: sa.Connection) -> None:
        crash_point(COMMIT)
        lost = loses_commit(COMMIT)
        process = self.database.process(connection)
        try:
            connection.commit()
        except sa.exc.DBAPIError as error:
            if self.database.classify(error) is Failure.UNAVAILABLE:
                raise CommitUnknownError(process=process if error.connection_invalidated else None) from error
            raise
        if lost:
            raise CommitUnknownError

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (sa.exc.DBAPIError, sa.exc.TimeoutError) as error:
            translate(self.database.classify(error), error)
        except sa.exc.PendingRollbackError as error:  # what was told of the loss was caught inside
            raise UnavailableError(
                "the connection was lost before the commit; nothing of its transaction is there"
            ) from error


def _roll_back(connection: sa.Connection) -> None:
    """Whatever made us roll back is the news; that the connection is gone as well is not."""
    try:
        connection.rollback()
    except sa.exc.DBAPIError:
        connection.invalidate()


@contextmanager
def _of_this_database(database: Database) -> Iterator[None]:
    """A caller's connection may lead elsewhere; where our tables are missing it does."""
    try:
        yield
    except sa.exc.DBAPIError as error:
        if not database.lacks_tables(error):
            raise
        raise InvalidInputError(
            "connection leads to a database without the engine's tables; it must be a connection to the "
            "engine's own database, such as that of engine.begin()"
        ) from None
