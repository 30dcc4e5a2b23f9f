"""Writing what the core decided: per table one statement for the new rows and one for the changed ones.

All in the caller's transaction: tokens, variables, history, outbox, timers and waits commit together or not
at all. Call it while the root scopes of all trees concerned are held (`trees.take_roots`) and the tokens were
loaded by `trees.load_snapshot`, which locks them: then no token can be stale. If one is all the same,
`StaleTokensError` rolls everything back and names it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from typing import Any, TypeVar

import sqlalchemy as sa
from msgspec import Struct
from msgspec.structs import astuple

from bpm_engine.core.changes import Changes
from bpm_engine.core.state import Instance, Scope, Variables
from bpm_engine.errors import ConflictError
from bpm_engine.store import records, rows
from bpm_engine.store.messages import buffer_thrown, fan_out
from bpm_engine.store.records import Shape
from bpm_engine.store.rows import Encoder, merged, row_source
from bpm_engine.store.schema import OutboxStatus, event_outbox, process_instance, scope, token
from bpm_engine.store.transaction import Transaction
from bpm_engine.store.types import Instant, Json
from bpm_engine.store.values import purge_time

R = TypeVar("R", bound=Struct)
NOW = sa.bindparam("now", type_=Instant)
IDENTITY = ("id", "tenant_id", "instance_id", "root_instance_id")
COUNTERS = ("live", "parked", "inclusive_waiting", "conditional", "steps", "seq", "population")


class StaleTokensError(ConflictError):
    """Tokens have changed since they were loaded."""

    def __init__(self, token_ids: Iterable[str]) -> None:
        self.token_ids = frozenset(token_ids)
        super().__init__(f"{len(self.token_ids)} tokens have changed since they were loaded")


def apply(tx: Transaction, changes: Changes, *, message_ttl: timedelta = timedelta(hours=1)) -> None:
    """Write `changes`. Statements: at most two per table, whatever the number of rows."""
    _insert_instances(tx, changes.instances.inserted)
    _insert(tx, INSERT_SCOPES, records.SCOPE, changes.scopes.inserted)
    _insert(tx, INSERT_TOKENS, records.TOKEN, changes.tokens.inserted)
    _insert(tx, INSERT_JOINS, records.JOIN, changes.joins.inserted)
    _insert(tx, INSERT_TIMERS, records.TIMER, changes.timers.inserted)
    _insert(tx, INSERT_SUBSCRIPTIONS, records.SUBSCRIPTION, changes.subscriptions.inserted)
    _insert(tx, INSERT_TASKS, records.TASK, changes.tasks.inserted)
    _insert(tx, INSERT_COMPENSATIONS, records.COMPENSATION, changes.compensations.inserted)
    _update_tokens(tx, changes)
    _update_scopes(tx, changes.scopes.updated, changes.patches)
    _update_instances(tx, changes.instances.updated)
    _update(tx, UPDATE_JOINS, records.JOIN, changes.joins.updated)
    _update(tx, UPDATE_TIMERS, records.TIMER, changes.timers.updated)
    _update(tx, UPDATE_SUBSCRIPTIONS, records.SUBSCRIPTION, changes.subscriptions.updated)
    _update(tx, UPDATE_TASKS, records.TASK, changes.tasks.updated)
    _update(tx, UPDATE_COMPENSATIONS, records.COMPENSATION, changes.compensations.updated)
    _insert(tx, INSERT_LOG, records.LOG, changes.log)
    _insert(tx, INSERT_OUTBOX, records.OUTBOX, changes.outbox)
    if changes.messages:
        buffer_thrown(tx, changes.messages, expires_at=tx.now() + message_ttl)
    if changes.signals:
        fan_out(tx, changes.signals)


def _insert(tx: Transaction, statement: sa.Insert, shape: Shape[R], new: Sequence[R]) -> None:
    if new:
        tx.execute(statement, {"given": shape.given(new), "now": tx.now()})


def _update(tx: Transaction, statement: sa.Update, shape: Shape[R], changed: Sequence[R]) -> int:
    if not changed:
        return 0
    return tx.execute(statement, {"given": shape.given(changed), "now": tx.now()}).rowcount


def _insert_instances(tx: Transaction, new: Sequence[Instance]) -> None:
    if new:
        tx.execute(INSERT_INSTANCES, {"given": _INSTANCE.given(new), "now": tx.now()})


def _update_instances(tx: Transaction, changed: Sequence[Instance]) -> None:
    if changed:
        tx.execute(UPDATE_INSTANCES, {"given": _INSTANCE.given(changed), "now": tx.now()})


def _update_tokens(tx: Transaction, changes: Changes) -> None:
    changed = changes.tokens.updated
    if _update(tx, UPDATE_TOKENS, records.TOKEN, changed) == len(changed):
        return
    versions = tx.execute(VERSIONS, {"ids": rows.ids(record.id for record in changed)})
    written = {row.id: row.version for row in versions}
    raise StaleTokensError(record.id for record in changed if written.get(record.id) != record.version)


def _scope_row(of: Scope) -> tuple[Any, ...]:
    """As `_SCOPE_COLUMNS` names them; written out, since every step makes one."""
    return (
        of.id,
        of.state,
        of.loop,
        of.written,
        of.live,
        of.parked,
        of.inclusive_waiting,
        of.conditional,
        of.steps,
        of.seq,
        of.population,
    )


def _update_scopes(tx: Transaction, changed: Sequence[Scope], patches: dict[str, Variables]) -> None:
    """The counters of a scope always, its variables only as far as they were written."""
    if not changed:
        return
    given = [_scope_row(record) for record in changed]
    plain = [row for row in given if row[0] not in patches]
    if plain:
        tx.execute(UPDATE_SCOPES, {"given": rows.rows(plain), "now": tx.now()})
    patched = [(*row, patches[row[0]]) for row in given if row[0] in patches]
    if patched:
        tx.execute(UPDATE_SCOPES_AND_VARIABLES, {"given": rows.rows(patched), "now": tx.now()})


def _inserting(shape: Shape[R], **constants: object) -> sa.Insert:
    """INSERT … SELECT from the bulk row source; the times of creation and update where the table has them."""
    source = row_source(shape.columns)
    times = [name for name in ("created_at", "updated_at") if name in shape.table.c]
    values = [*source.c, *(NOW for _ in times), *constants.values()]
    # WHERE true: without it SQLite could not tell ON CONFLICT from a join's ON.
    return shape.table.insert().from_select(
        [*shape.fields, *times, *constants], sa.select(*values).where(sa.true())
    )


def _updating(shape: Shape[R], *fence: Callable[[sa.Subquery], sa.ColumnElement[bool]]) -> sa.Update:
    """UPDATE … FROM the bulk row source, by id, with every column but those that never change."""
    source, table = row_source(shape.columns), shape.table
    values = {name: source.c[name] for name in shape.fields if name not in IDENTITY}
    conditions = [table.c.id == source.c.id, *(condition(source) for condition in fence)]
    return table.update().values(**values, updated_at=NOW).where(*conditions)


class _PurgedShape(Shape[Instance]):
    """An instance row with the time from which it may be deleted, derived from its end and its retention."""

    def __init__(self) -> None:
        super().__init__(Instance, process_instance)
        self.fields = (*self.fields, "purge_at")
        self.columns = [*self.columns, process_instance.c.purge_at]
        self.encode = Encoder(self.columns)

    def given(self, new: Iterable[Instance]) -> str:
        return self.encode((*astuple(record), purge_time(record)) for record in new)


_INSTANCE = _PurgedShape()
INSERT_INSTANCES = _inserting(_INSTANCE)
UPDATE_INSTANCES = _updating(_INSTANCE)
INSERT_SCOPES = _inserting(records.SCOPE)
INSERT_TOKENS = _inserting(records.TOKEN)
# The fence: the row is still the one that the core saw.
UPDATE_TOKENS = _updating(records.TOKEN, lambda given: token.c.version == given.c.version - 1)
INSERT_JOINS = _inserting(records.JOIN)
UPDATE_JOINS = _updating(records.JOIN)
INSERT_TIMERS = _inserting(records.TIMER)
UPDATE_TIMERS = _updating(records.TIMER)
INSERT_SUBSCRIPTIONS = _inserting(records.SUBSCRIPTION)
UPDATE_SUBSCRIPTIONS = _updating(records.SUBSCRIPTION)
INSERT_TASKS = _inserting(records.TASK)
UPDATE_TASKS = _updating(records.TASK)
INSERT_COMPENSATIONS = _inserting(records.COMPENSATION)
UPDATE_COMPENSATIONS = _updating(records.COMPENSATION)
INSERT_LOG = _inserting(records.LOG)
INSERT_OUTBOX = _inserting(
    records.OUTBOX,
    status=sa.literal(OutboxStatus.PENDING, event_outbox.c.status.type),
    attempts=sa.literal(0),
    next_at=NOW,
)
VERSIONS = sa.select(token.c.id, token.c.version).where(token.c.id.in_(sa.select(rows.id_source("ids").c.id)))
_SCOPE_COLUMNS = [
    scope.c.id,
    scope.c.state,
    scope.c.loop,
    scope.c.written,
    *(scope.c[name] for name in COUNTERS),
]


def _updating_scopes(source: sa.Subquery, **variables: sa.ColumnElement[Any]) -> sa.Update:
    values = {column.name: source.c[column.name] for column in _SCOPE_COLUMNS[1:]}
    return scope.update().values(**values, **variables, updated_at=NOW).where(scope.c.id == source.c.id)


UPDATE_SCOPES = _updating_scopes(row_source(_SCOPE_COLUMNS))
_PATCHED = row_source([*_SCOPE_COLUMNS, sa.Column("patch", Json)])
UPDATE_SCOPES_AND_VARIABLES = _updating_scopes(
    _PATCHED, variables=merged(scope.c.variables, _PATCHED.c.patch)
)
