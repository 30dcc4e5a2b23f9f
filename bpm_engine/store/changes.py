"""Writing what the core decided: one statement for all tables on a server, one per table in a file.

All in the caller's transaction: tokens, variables, history, outbox, timers and waits commit together or not
at all. Call it while the root scopes of all trees concerned are held (`trees.take_roots`) and the tokens were
loaded by `trees.load_snapshot`, which locks them: then no token can be stale. If one is all the same,
`StaleTokensError` rolls everything back and names it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from functools import partial
from operator import attrgetter
from typing import Any, NoReturn, TypeVar

import sqlalchemy as sa
from msgspec import Struct
from msgspec.structs import astuple

from bpm_engine.core.changes import Changes, Rows
from bpm_engine.core.state import Instance, InstanceStatus, Scope, Subscription, Timer, Token, Variables
from bpm_engine.crash import crash_point, declare
from bpm_engine.errors import ConflictError
from bpm_engine.store import records, rows, usual
from bpm_engine.store.bulk import (
    NOTHING_IMPLIED,
    NOW,
    ONE,
    Bulk,
    Implied,
    Values,
    Write,
    inserting,
    updating,
    write,
)
from bpm_engine.store.messages import buffer_thrown
from bpm_engine.store.records import Shape
from bpm_engine.store.rows import merged
from bpm_engine.store.schema import process_instance, scope, token
from bpm_engine.store.signals import fan_out
from bpm_engine.store.statuses import OutboxStatus, fixed
from bpm_engine.store.timers import unpark_timers
from bpm_engine.store.transaction import Transaction
from bpm_engine.store.types import Json
from bpm_engine.store.values import purge_time

S = TypeVar("S", bound=Struct)
# What a row never changes once it is there: not sent again with an update.
FOR_LIFE = frozenset(
    ("tenant_id", "instance_id", "root_instance_id", "scope_id", "mode", "parallel_group_id", "compensates")
)
RUNNING = InstanceStatus.RUNNING
COUNTERS = ("live", "parked", "inclusive_waiting", "conditional", "steps", "seq", "population")


# Crash points: each is passed only when rows of its kind are written.
INSTANCES = declare("write.instances", "new instances are written, their tokens are not")
TOKENS = declare("write.tokens", "new tokens are written")
JOINS = declare("write.joins", "new joins are written: the first arrival")
TIMERS = declare("write.timers", "new timers are written")
SUBSCRIPTIONS = declare("write.subscriptions", "new waits for events are written")
TASKS = declare("write.tasks", "new human tasks are written")
COMPENSATIONS = declare("write.compensations", "it is written what can be undone")
FENCED = declare("write.fenced", "changed tokens have passed the fence")
VARIABLES = declare("write.variables", "counters and variables of scopes are written")
CHANGED = declare("write.changed_instances", "changed instances are written, such as one that ends")
FIRED_JOINS = declare("write.changed_joins", "changed joins are written, such as one that fires")
ENDED_TIMERS = declare("write.changed_timers", "changed timers are written: fired or cancelled")
ENDED_WAITS = declare("write.changed_subscriptions", "changed waits are written: taken or cancelled")
ENDED_TASKS = declare("write.changed_tasks", "changed human tasks are written, such as completed ones")
UNDONE = declare("write.changed_compensations", "it is written what is being undone, or was")
LOG = declare("write.log", "history is written, its events are not")
OUTBOX = declare("write.outbox", "events are written")
THROWN = declare("write.messages", "thrown messages are written")
SIGNALLED = declare("write.signals", "deliveries of thrown signals are written")


class StaleTokensError(ConflictError):
    """Tokens have changed since they were loaded."""

    def __init__(self, token_ids: Iterable[str]) -> None:
        self.token_ids = frozenset(token_ids)
        super().__init__(f"{len(self.token_ids)} tokens have changed since they were loaded")


def apply(tx: Transaction, changes: Changes, *, message_ttl: timedelta = timedelta(hours=1)) -> None:
    """Write `changes`. The number of statements depends on the tables concerned, never on the rows."""
    passed = write(
        tx,
        [
            Write(INSERT_INSTANCES, changes.instances.inserted, INSTANCES),
            Write(INSERT_SCOPES, changes.scopes.inserted),
            Write(INSERT_TOKENS, changes.tokens.inserted, TOKENS),
            Write(INSERT_JOINS, changes.joins.inserted, JOINS),
            Write(INSERT_TIMERS, changes.timers.inserted, TIMERS),
            Write(INSERT_SUBSCRIPTIONS, changes.subscriptions.inserted, SUBSCRIPTIONS),
            Write(INSERT_TASKS, changes.tasks.inserted, TASKS),
            Write(INSERT_COMPENSATIONS, changes.compensations.inserted, COMPENSATIONS),
            *_token_writes(changes.tokens),
            *_scope_writes(changes.scopes, changes.patches),
            *_instance_writes(changes.instances),
            Write(UPDATE_JOINS, changes.joins.updated, FIRED_JOINS),
            *_timer_writes(changes.timers),
            *_subscription_writes(changes.subscriptions),
            Write(UPDATE_TASKS, changes.tasks.updated, ENDED_TASKS),
            Write(UPDATE_COMPENSATIONS, changes.compensations.updated, UNDONE),
            Write(INSERT_LOG, changes.log, LOG),
            Write(INSERT_OUTBOX, changes.outbox, OUTBOX),
        ],
    )
    if passed != len(changes.tokens.updated):
        _refuse(tx, changes.tokens.updated)
    resumed = [instance.id for instance in changes.instances.updated if instance.status is RUNNING]
    if resumed:
        unpark_timers(tx, resumed)
    # Apart: a scope whose place changes is among those whose counters do.
    write(tx, [Write(UPDATE_PLACES, sorted(changes.places.items()))])
    if changes.messages:
        buffer_thrown(tx, changes.messages, expires_at=tx.now() + message_ttl)
        crash_point(THROWN)
    if changes.signals:
        fan_out(tx, changes.signals)
        crash_point(SIGNALLED)


def _refuse(tx: Transaction, changed: Sequence[Token]) -> NoReturn:
    versions = tx.execute(VERSIONS, {"ids": rows.ids(record.id for record in changed)})
    written = {row.id: row.version for row in versions}
    raise StaleTokensError(record.id for record in changed if written.get(record.id) != record.version)


def _token_writes(tokens: Rows[Token]) -> list[Write]:
    moved, rested, others = usual.parted(tokens, usual.is_move, usual.is_rest)
    return [
        Write(MOVE_TOKENS, moved, FENCED),
        Write(REST_TOKENS, rested, FENCED),
        Write(UPDATE_TOKENS, others, FENCED),
    ]


def _scope_writes(scopes: Rows[Scope], patches: dict[str, Variables]) -> list[Write]:
    """The counters of a scope always, its variables only as far as they were written."""
    counted, populated, others = usual.parted(scopes, usual.is_count, usual.is_population)
    return [
        *_patching(_count(counted), patches, COUNT_SCOPES, COUNT_SCOPES_AND_VARIABLES),
        *_patching(_population(populated), patches, POPULATE_SCOPES, POPULATE_SCOPES_AND_VARIABLES),
        *_patching(_whole(others), patches, UPDATE_SCOPES, UPDATE_SCOPES_AND_VARIABLES),
    ]


def _instance_writes(instances: Rows[Instance]) -> list[Write]:
    ended, others = usual.parted(instances, usual.is_end)
    return [Write(END_INSTANCES, ended, CHANGED), Write(UPDATE_INSTANCES, others, CHANGED)]


def _timer_writes(timers: Rows[Timer]) -> list[Write]:
    fired, others = usual.parted(timers, usual.is_fire)
    return [Write(FIRE_TIMERS, fired, ENDED_TIMERS), Write(UPDATE_TIMERS, others, ENDED_TIMERS)]


def _subscription_writes(subscriptions: Rows[Subscription]) -> list[Write]:
    closed, others = usual.parted(subscriptions, usual.is_close)
    return [
        Write(CLOSE_SUBSCRIPTIONS, closed, ENDED_WAITS),
        Write(UPDATE_SUBSCRIPTIONS, others, ENDED_WAITS),
    ]


def _patching(
    rows: Iterable[tuple[Any, ...]], patches: dict[str, Variables], plain: Bulk, patching: Bulk
) -> list[Write]:
    without: list[tuple[Any, ...]] = []
    patched: list[tuple[Any, ...]] = []
    for row in rows:
        patch = patches.get(row[0])
        if patch is None:
            without.append(row)
        else:
            patched.append((*row, patch))
    return [Write(plain, without), Write(patching, patched, VARIABLES)]


def _inserting(
    shape: Shape[S], *, implied: Implied = NOTHING_IMPLIED, **constants: sa.ColumnElement[Any]
) -> Bulk:
    """With the times of creation and update where the table has them."""
    times = {name: NOW for name in ("created_at", "updated_at") if name in shape.table.c}
    return inserting(shape.table, shape.columns, times | constants, implied=implied)


def _updating(
    shape: Shape[S],
    only: Sequence[str] = (),
    *,
    fenced: bool = False,
    implied: Implied = NOTHING_IMPLIED,
) -> Bulk:
    """By id, with every column but those that never change, or with `only` some. `fenced`: only a row that is
    still the one that the core saw.
    """
    table = shape.table
    columns = [table.c[name] for name in ("id", *only)] if only else _changeable(shape)

    def build(given: Values) -> sa.Update:
        seen = [table.c.version == given["version"] - ONE] if fenced else []
        return _by_id(table, given).where(*seen)

    row = attrgetter(*(column.name for column in columns))
    return updating(columns, build, row=row, fenced=fenced, implied=implied)


def _changeable(shape: Shape[S]) -> list[sa.Column[Any]]:
    return [column for column in shape.columns if column.name not in FOR_LIFE]


def _by_id(table: sa.Table, given: Values) -> sa.Update:
    changed = {name: value for name, value in given.items() if name != "id" and name not in FOR_LIFE}
    return table.update().values(**changed, updated_at=NOW).where(table.c.id == given["id"])


def _with_purge_time(of: Instance) -> tuple[object, ...]:
    """From when on the row may be deleted is derived from its end and its retention."""
    return (*astuple(of), purge_time(of))


_INSTANCE_COLUMNS = [*records.INSTANCE.columns, process_instance.c.purge_at]
INSERT_INSTANCES = inserting(
    process_instance, _INSTANCE_COLUMNS, {"created_at": NOW, "updated_at": NOW}, row=_with_purge_time
)
UPDATE_INSTANCES = updating(
    _INSTANCE_COLUMNS, lambda given: _by_id(process_instance, given), row=_with_purge_time
)
_ended = attrgetter("id", *usual.END)
END_INSTANCES = updating(
    [process_instance.c[name] for name in ("id", *usual.END, "purge_at")],
    lambda given: _by_id(process_instance, given),
    row=lambda instance: (*_ended(instance), purge_time(instance)),
)
INSERT_SCOPES = _inserting(records.SCOPE)
INSERT_TOKENS = _inserting(records.TOKEN)
UPDATE_TOKENS = _updating(records.TOKEN, fenced=True)
MOVE_TOKENS = _updating(records.TOKEN, usual.MOVE, fenced=True, implied=usual.ENTERED)
REST_TOKENS = _updating(records.TOKEN, usual.REST, fenced=True, implied=usual.ENTERED)
INSERT_JOINS = _inserting(records.JOIN)
UPDATE_JOINS = _updating(records.JOIN)
INSERT_TIMERS = _inserting(records.TIMER)
UPDATE_TIMERS = _updating(records.TIMER)
FIRE_TIMERS = _updating(records.TIMER, usual.FIRE)
INSERT_SUBSCRIPTIONS = _inserting(records.SUBSCRIPTION)
UPDATE_SUBSCRIPTIONS = _updating(records.SUBSCRIPTION)
CLOSE_SUBSCRIPTIONS = _updating(records.SUBSCRIPTION, usual.CLOSE)
INSERT_TASKS = _inserting(records.TASK)
UPDATE_TASKS = _updating(records.TASK)
INSERT_COMPENSATIONS = _inserting(records.COMPENSATION)
UPDATE_COMPENSATIONS = _updating(records.COMPENSATION)
INSERT_LOG = _inserting(records.LOG, implied=usual.TOLD)
INSERT_OUTBOX = _inserting(
    records.OUTBOX,
    implied=usual.TOLD,
    status=fixed(OutboxStatus.PENDING),
    attempts=sa.literal_column("0"),
    next_at=NOW,
)
VERSIONS = sa.select(token.c.id, token.c.version).where(token.c.id.in_(sa.select(rows.id_source("ids").c.id)))


def _updating_scopes(names: Sequence[str], *, patched: bool) -> Bulk:
    more = [sa.Column("patch", Json)] if patched else []

    def build(given: Values) -> sa.Update:
        values = {name: given[name] for name in names}
        if patched:
            values["variables"] = merged(scope.c.variables, given["patch"])
        return scope.update().values(**values, updated_at=NOW).where(scope.c.id == given["id"])

    return updating([scope.c.id, *(scope.c[name] for name in names), *more], build)


_WHOLE = ("state", "loop", "written", *COUNTERS)
UPDATE_SCOPES = _updating_scopes(_WHOLE, patched=False)
UPDATE_SCOPES_AND_VARIABLES = _updating_scopes(_WHOLE, patched=True)
COUNT_SCOPES = _updating_scopes(usual.COUNT, patched=False)
COUNT_SCOPES_AND_VARIABLES = _updating_scopes(usual.COUNT, patched=True)
POPULATE_SCOPES = _updating_scopes(usual.POPULATION, patched=False)
POPULATE_SCOPES_AND_VARIABLES = _updating_scopes(usual.POPULATION, patched=True)


def _rows_of(names: Sequence[str]) -> Callable[[Iterable[Any]], Iterable[tuple[Any, ...]]]:
    return partial(map, attrgetter("id", *names))


_count = _rows_of(usual.COUNT)
_population = _rows_of(usual.POPULATION)
_whole = _rows_of(_WHOLE)
UPDATE_PLACES = updating(
    [scope.c.id, scope.c.node_id],
    lambda given: (
        scope.update().values(node_id=given["node_id"], updated_at=NOW).where(scope.c.id == given["id"])
    ),
)
