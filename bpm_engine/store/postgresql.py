"""PostgreSQL: connections, errors, the spelling of the bulk row source, NOTIFY.

Behind a transaction-mode pooler nothing is kept in the session: no prepared statements, timeouts are set
inside each transaction, and wake-ups use a direct connection.
"""

from __future__ import annotations

import selectors
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from time import monotonic
from typing import Any

import psycopg
import sqlalchemy as sa
from psycopg.pq import Format
from psycopg.types.json import set_json_loads
from psycopg.types.string import TextLoader
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.pool import ConnectionPoolEntry, PoolProxiedConnection
from sqlalchemy.sql.compiler import SQLCompiler

from bpm_engine.errors import InvalidInputError, UnavailableError
from bpm_engine.store import arrays, security, sessions
from bpm_engine.store.address import read_address
from bpm_engine.store.clock import ServerClock
from bpm_engine.store.compiled import TRANSLATIONS
from bpm_engine.store.config import StoreConfig
from bpm_engine.store.failures import Failure, UnsafeDurabilityError
from bpm_engine.store.notifications import Notifications
from bpm_engine.store.queue import Queue
from bpm_engine.store.rows import Field, contains, elements, listed, merged
from bpm_engine.store.schema import token
from bpm_engine.store.types import Instant, Jsonb, from_json
from bpm_engine.tenants import ALL_TENANTS

MIGRATION_LOCK = 0x62706D  # any number nobody else uses: "bpm"
Selector = getattr(selectors, "PollSelector", selectors.SelectSelector)  # without a handle of its own
RETRY = ("40001", "40P01", "55P03")
# By beginning: connections, resources, timeouts, shutdown, a disk that cannot be read or written, a server
# that only reads. None of them says anything about the step, which would succeed at another time.
AWAY = ("08", "53", "25P03", "25P04", "57014", "57P0", "58030", "25006")
FULL = ("53100", "53200")
READ_ONLY = "25006"
UNDEFINED_TABLE = "42P01"
PROCESS = "bpm_engine.process"  # of the server, behind a pooler: in the transaction that runs
RESTING_SINCE = "bpm_engine.resting_since"
RESTED = 1.0  # seconds in the pool after which a connection is tested before it is used
# A plan that was made for small tables is kept while they grow, until the server takes statistics: for a
# minute each claim of some work may walk through all of it. So plans are made anew where transactions take
# long: soon after a connection begins to be used much, then less and less often.
PLANS_KEPT = "bpm_engine.plans_kept"  # how long, and until when
USED_SINCE = "bpm_engine.used_since"
WAS_SLOW = "bpm_engine.was_slow"  # whether a use since the plans were made took long
LONG_USE = 0.01  # seconds; a single step takes a few milliseconds
FIRST_PLANS = 0.25  # seconds, doubled each time
LONGEST_PLANS = 10.0
# Statements are few and come again and again. Planning one that writes all tables takes some 0.5 ms, beside
# 0.75 ms for running it for one step; the server keeps the plan of a prepared one after five runs.
SEEN_BEFORE = 1  # runs before a statement is prepared
PREPARED = 500  # statements kept prepared by a connection
READ_OUR_WAY = [psycopg.adapters.types[name].oid for name in ("uuid", "json", "jsonb")]


class PostgreSQL:
    migrates_itself = False
    is_embedded = False

    def __init__(self, config: StoreConfig) -> None:
        self._config = config
        self._url = read_address(config.url)
        if config.transaction_pooler:
            self._settings = sessions.settings(config, self._url)
            self._url = sessions.without_options(self._url)
        self.engine = self._pool(config.pool_size, config.pool_overflow)
        self._reader = self.engine.execution_options(isolation_level="AUTOCOMMIT")
        self._reserve = self._pool(1, 0)  # opened when it is first needed: by workers
        direct = config.direct_url
        self._direct_url = read_address(direct, "direct_url") if direct else self._url
        self.wakeups = Notifications(self._connect_directly)
        self._clock = ServerClock(_ask_time)

    def _pool(self, size: int, overflow: int) -> sa.Engine:
        config = self._config
        engine = sa.create_engine(
            self._url,
            isolation_level="READ COMMITTED",
            pool_size=size,
            max_overflow=overflow,
            pool_timeout=config.pool_timeout,
            pool_use_lifo=True,  # few connections are used much: their plans are made, their memory is warm
            pool_recycle=config.pool_recycle,
            hide_parameters=True,
            execution_options={"compiled_cache": TRANSLATIONS},
            connect_args=self._connect_arguments(),
        )
        sa.event.listen(engine, "connect", _load_ids_and_json)
        sa.event.listen(engine, "connect", _keep_plans)
        sa.event.listen(engine, "checkin", _note_rest)
        sa.event.listen(engine, "handle_error", _leave_read_only)
        if not config.transaction_pooler:
            sa.event.listen(engine, "checkout", _plan_anew)
        if config.pool_check:
            sa.event.listen(engine, "checkout", _check_rested)
        return engine

    def _connect_arguments(self) -> dict[str, Any]:
        config = self._config
        arguments = sessions.link(config, self._url)
        if config.transaction_pooler:
            return arguments | {"prepare_threshold": None}
        options = sessions.options(config, self._url)
        return arguments | {"prepare_threshold": SEEN_BEFORE, sessions.OPTIONS: options}

    def _connect_directly(self) -> psycopg.Connection:
        """For wake-ups, past a pooler."""
        arguments, named = self.engine.dialect.create_connect_args(self._direct_url)
        ours = sessions.link(self._config, self._direct_url)
        return psycopg.connect(*arguments, **{**named, **ours}, autocommit=True)

    def image(self) -> None:
        """A server keeps its databases itself."""

    def begin_with(self, image: bytes) -> None:
        """A server keeps its databases itself."""

    def writing(self) -> AbstractContextManager[sa.Connection]:
        return self._writing(self.engine)

    def reserved(self) -> AbstractContextManager[sa.Connection]:
        return self._writing(self._reserve)

    @contextmanager
    def _writing(self, engine: sa.Engine) -> Iterator[sa.Connection]:
        with _connected(engine) as connection:
            if self._config.transaction_pooler:
                chosen = connection.execute(sessions.SET_ALL, self._settings)
                connection.info[PROCESS] = chosen.scalars().first()
            yield connection

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """Each statement for itself: READ COMMITTED would promise no more, for two round trips."""
        if self._config.transaction_pooler or self._config.row_level_security:  # settings of a transaction
            with self.writing() as connection:
                yield connection
        else:
            with _connected(self._reader) as connection:
                yield connection

    @contextmanager
    def surveying(self) -> Iterator[sa.Connection]:
        with self.writing() as connection:
            connection.execute(_ANY_PLAN)
            yield connection

    @contextmanager
    def joining(self, connection: sa.Connection) -> Iterator[None]:
        """Ids and JSON are read our way in our own statements only: the caller's own are none of our
        business.
        """
        driver = connection.connection.driver_connection
        if not isinstance(driver, psycopg.Connection):
            raise InvalidInputError("connection must use the driver psycopg 3: postgresql+psycopg://…")
        before = [
            (oid, driver.adapters.get_loader(oid, form))
            for oid in READ_OUR_WAY
            for form in (Format.TEXT, Format.BINARY)
        ]
        _load_ids_and_json(driver, None)
        try:
            yield
        finally:
            for oid, loader in before:
                if loader is not None:
                    driver.adapters.register_loader(oid, loader)

    def enter_tenant(self, connection: sa.Connection, tenant: str | None) -> None:
        """For this transaction only: a setting of the session would leak to the pool's next user. However a
        name came here, none opens the rows of all: that is for None alone.
        """
        if not self._config.row_level_security:
            return
        if tenant == ALL_TENANTS:
            raise InvalidInputError(f"{tenant!r} is the name of no tenant")
        connection.execute(_ENTER_TENANT, {"tenant": ALL_TENANTS if tenant is None else tenant})

    @contextmanager
    def as_tenant(self, connection: sa.Connection, tenant: str | None) -> Iterator[None]:
        if not self._config.row_level_security:
            yield
            return
        before = connection.execute(_TENANT).scalar() or ""
        self.enter_tenant(connection, tenant)
        yield
        connection.execute(_ENTER_TENANT, {"tenant": before})

    def check_durability(self, connection: sa.Connection) -> None:
        if self._config.allow_unsafe_durability:
            return
        for name in ("fsync", "synchronous_commit", "full_page_writes"):
            if connection.execute(_SETTING, {"name": name}).scalar_one() == "off":
                raise UnsafeDurabilityError(
                    f"The server runs with {name}=off: acknowledged steps may be lost in a crash."
                    f" Set {name}=on, or allow it explicitly with allow_unsafe_durability."
                )

    def check_security(self, connection: sa.Connection) -> None:
        if self._config.row_level_security and (problem := security.find_problem(connection)):
            raise InvalidInputError(f"row_level_security is set, but {problem}")

    def lock_migrations(self, connection: sa.Connection) -> None:
        """The wait for another migration, and a big index, may take longer than any step; the wait for a
        table must not, since everybody else would queue up behind it.
        """
        connection.execute(_WITHOUT_TIMEOUTS)
        connection.execute(_LOCK_MIGRATIONS, {"number": MIGRATION_LOCK})
        connection.execute(_LOCK_TIMEOUT, {"lock_timeout": sessions.milliseconds(self._config.lock_timeout)})

    def lock_names(self, connection: sa.Connection, names: Sequence[str]) -> None:
        connection.execute(_LOCK_NAMES, {"names": list(names)})

    def arrange_security(self, connection: sa.Connection, wanted: bool | None) -> None:
        security.arrange(connection, wanted)

    def classify(self, error: sa.exc.SQLAlchemyError) -> Failure:
        if isinstance(error, sa.exc.TimeoutError):  # no connection became free in the pool
            return Failure.UNAVAILABLE
        cause = error.orig if isinstance(error, sa.exc.DBAPIError) else None
        code = getattr(cause, "sqlstate", None)
        if code is None:
            lost = isinstance(cause, psycopg.OperationalError | psycopg.InterfaceError)
            return Failure.UNAVAILABLE if lost else Failure.BUG
        if code in RETRY:
            return Failure.RETRY
        if code == "23505":
            return Failure.CONFLICT
        if code in FULL:
            return Failure.FULL
        return Failure.UNAVAILABLE if code.startswith(AWAY) else Failure.BUG

    def process(self, connection: sa.Connection) -> int | None:
        """A pooler tells a number of its own, and serves each transaction by another process."""
        if self._config.transaction_pooler:
            return connection.info.get(PROCESS)
        driver = connection.connection.driver_connection
        return driver.info.backend_pid if isinstance(driver, psycopg.Connection) else None

    def is_at_work(self, connection: sa.Connection, process: int) -> bool:
        return bool(connection.execute(_IS_AT_WORK, {"process": process}).scalar_one())

    def lacks_tables(self, error: sa.exc.DBAPIError) -> bool:
        return getattr(error.orig, "sqlstate", None) == UNDEFINED_TABLE

    def now(self, connection: sa.Connection) -> datetime:
        return self._clock.read(connection)

    def ready_of_topics(
        self, topics: sa.CTE, limit: sa.BindParameter[int], queue: Queue
    ) -> sa.Select[tuple[str, int]]:
        """The best of each topic by index, the best of these, then locks on as many as are wanted.

        Looking goes further than taking, since others may be about to take the same; locking what is only
        looked at would write to every row of it.
        """
        reach = 2 * limit + 10
        best = (
            sa.select(token.c.id, token.c.priority)
            .where(token.c.ready_topic == topics.c.topic, queue.holds(token))
            .order_by(*queue.order(token))
            .limit(reach)
            .lateral("best")
        )
        near = (
            sa.select(best.c.id)
            .select_from(topics.join(best, sa.true()))
            .order_by(*queue.order(best))
            .limit(reach)
            .cte("near")
        )
        return (
            sa.select(token.c.id, token.c.version)
            .join(near, near.c.id == token.c.id)
            .where(token.c.ready_topic.is_not(None))
            .order_by(*queue.order(token))
            .limit(limit)
            .with_for_update(skip_locked=True, of=token)
        )

    def close(self) -> None:
        self.wakeups.close()
        self.engine.dispose()
        self._reserve.dispose()


_ENTER_TENANT = sa.text("SELECT set_config('bpm.tenant', :tenant, true)")
_TENANT = sa.text("SELECT current_setting('bpm.tenant', true)")
_SETTING = sa.text("SELECT current_setting(:name)")
_LOCK_NAMES = sa.text(
    "SELECT pg_advisory_xact_lock(hashtextextended(name, 0)) FROM unnest(CAST(:names AS text[])) AS name"
)
_WITHOUT_TIMEOUTS = sa.text(
    "SELECT set_config('statement_timeout', '0', true), set_config('lock_timeout', '0', true)"
)
_LOCK_TIMEOUT = sa.text("SELECT set_config('lock_timeout', :lock_timeout, true)")
_LOCK_MIGRATIONS = sa.text("SELECT pg_advisory_xact_lock(:number)")
_IS_AT_WORK = sa.text(
    "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE pid = :process AND state IS DISTINCT FROM 'idle')"
)
_CLOCK = sa.select(sa.func.clock_timestamp(type_=Instant))
_ANY_PLAN = sa.text(
    "SELECT set_config('enable_hashjoin', 'on', true), set_config('enable_mergejoin', 'on', true),"
    " set_config('enable_material', 'on', true), set_config('enable_bitmapscan', 'on', true)"
)


def _ask_time(connection: sa.Connection) -> datetime:
    """Not `now()`, which is the start of the transaction: waiting for locks would backdate leases."""
    return connection.execute(_CLOCK).scalar_one()


@contextmanager
def _connected(engine: sa.Engine) -> Iterator[sa.Connection]:
    """A pool that has had two connections in a row lost before their test gives up, with an error that looks
    like a mistake of its caller.
    """
    try:
        connection = engine.connect()
    except sa.exc.InvalidRequestError as error:
        raise UnavailableError("the database is away: it drops connections once they are open") from error
    with connection:
        yield connection


def _leave_read_only(context: sa.engine.ExceptionContext) -> None:
    """A server that only reads has been replaced by another one. The pool keeps no connection to it: new ones
    are led to whoever writes now.
    """
    if getattr(context.original_exception, "sqlstate", None) == READ_ONLY:
        context.is_disconnect = True


def _note_rest(connection: psycopg.Connection[Any] | None, record: ConnectionPoolEntry) -> None:
    record.info[RESTING_SINCE] = now = monotonic()
    if now - record.info.get(USED_SINCE, now) > LONG_USE:
        record.info[WAS_SLOW] = True


def _has_news(connection: psycopg.Connection[Any]) -> bool:
    with Selector() as selector:
        selector.register(connection, selectors.EVENT_READ)
        return bool(selector.select(0))


def _check_rested(
    connection: psycopg.Connection[Any], record: ConnectionPoolEntry, proxy: PoolProxiedConnection
) -> None:
    """Only what has rested for a while, or has news from a server that should be silent, is tested: a test
    of each would be a round trip per transaction.
    """
    rested = monotonic() - record.info.get(RESTING_SINCE, 0.0) >= RESTED
    if not rested and not connection.closed and not _has_news(connection):
        return
    try:
        connection.execute("SELECT 1")
        connection.rollback()
    except psycopg.Error as error:
        raise sa.exc.DisconnectionError("the connection was lost while it rested") from error


def _plan_anew(
    connection: psycopg.Connection[Any], record: ConnectionPoolEntry, proxy: PoolProxiedConnection
) -> None:
    """Now and then, while it is used. One that has rested is not made slower for a single use."""
    record.info[USED_SINCE] = now = monotonic()
    kept, until = record.info.get(PLANS_KEPT, (FIRST_PLANS, 0.0))
    if now - record.info.get(RESTING_SINCE, 0.0) >= RESTED:
        record.info[PLANS_KEPT] = FIRST_PLANS, now + FIRST_PLANS
    elif now >= until and record.info.pop(WAS_SLOW, False):
        connection.pgconn.exec_(b"DISCARD PLANS")  # a connection that is lost is noticed by its next use
        kept = min(2 * kept, LONGEST_PLANS)
        record.info[PLANS_KEPT] = kept, now + kept


def _load_ids_and_json(connection: psycopg.Connection[Any], _record: object) -> None:
    """Ids as text, not as UUID objects; JSON with a decoder that never fails a whole result."""
    connection.adapters.register_loader("uuid", TextLoader)
    set_json_loads(from_json, connection)
    arrays.teach(connection)


def _keep_plans(connection: psycopg.Connection[Any], _record: object) -> None:
    connection.prepared_max = PREPARED


@compiles(elements, "postgresql")
def _elements(element: elements, compiler: SQLCompiler, **kw: Any) -> str:
    return f"jsonb_array_elements(CAST({compiler.process(element.clauses, **kw)} AS JSONB))"


@compiles(listed, "postgresql")
def _listed(element: listed, compiler: SQLCompiler, **kw: Any) -> str:
    return f"(SELECT unnest({compiler.process(element.clauses, **kw)}) AS value)"


@compiles(Field, "postgresql")
def _field(element: Field, compiler: SQLCompiler, **kw: Any) -> str:
    value = compiler.process(element.value, **kw)
    if isinstance(element.type, Jsonb):
        return f"nullif({value} -> {element.position}, 'null'::jsonb)"
    column_type = compiler.dialect.type_compiler_instance.process(element.type)
    text = f"({value} ->> {element.position})"
    return text if column_type == "TEXT" else f"CAST({text} AS {column_type})"


@compiles(merged, "postgresql")
def _merged(element: merged, compiler: SQLCompiler, **kw: Any) -> str:
    old, patch = (compiler.process(clause, **kw) for clause in element.clauses)
    return f"({old} || {patch})"


@compiles(contains, "postgresql")
def _contains(element: contains, compiler: SQLCompiler, **kw: Any) -> str:
    whole, part = (compiler.process(clause, **kw) for clause in element.clauses)
    return f"({whole} @> {part})"
