"""Between rows and records: which columns a record has, and how rows become records again.

A record's fields are its table's columns, in the same words; a test keeps the two together. Whole results
become records in one call of msgspec, which also turns texts into members of enumerations. A row with a JSON
value that is unreadable, or no object where one belongs, is not made a record: it is reported by its id, so
that the rest of the batch can go on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, TypeVar

import msgspec
import sqlalchemy as sa
from msgspec.structs import replace
from sqlalchemy.engine import Dialect

from bpm_engine.core import state
from bpm_engine.store import schema
from bpm_engine.store.types import Choice, Unreadable, to_json

R = TypeVar("R", bound=msgspec.Struct)


class Progress(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """Of a root scope what may change without an entry in the history, and the number of the last one."""

    id: str
    variables: state.Variables
    live: int
    parked: int
    inclusive_waiting: int
    conditional: int
    steps: int
    seq: int
    population: int

    def of(self, known: state.Scope) -> state.Scope:
        return replace(
            known,
            variables=self.variables,
            live=self.live,
            parked=self.parked,
            inclusive_waiting=self.inclusive_waiting,
            conditional=self.conditional,
            steps=self.steps,
            population=self.population,
        )


Conversion = tuple[int, Callable[[Any], Any]]  # which column, and how


class Shape(Generic[R]):
    """A record type and its table."""

    def __init__(self, record: type[R], table: sa.Table) -> None:
        self.record = record
        self.table = table
        self.fields: tuple[str, ...] = record.__struct_fields__
        self.columns: list[sa.Column[Any]] = [table.c[name] for name in self.fields]
        self._many = list[record]  # type: ignore[valid-type]
        self._conversions: dict[str, list[Conversion]] = {}

    def given(self, new: Iterable[R]) -> str:
        """The parameter of a bulk statement over rows of this shape."""
        return to_json(list(new))

    def read(
        self,
        found: sa.CursorResult[Any] | Iterable[Sequence[Any]],
        unreadable: dict[str, str] | None = None,
    ) -> list[R]:
        """Records from rows that begin with this shape's columns. Bad ones are put into `unreadable`."""
        rows = self._fetch(found) if isinstance(found, sa.CursorResult) else [tuple(row) for row in found]
        try:
            return msgspec.convert(rows, self._many)
        except msgspec.ValidationError:
            return [record for row in rows for record in self._try(row, unreadable)]

    def read_leniently(self, rows: Iterable[Sequence[Any]]) -> list[R]:
        """For people to look at: one record per row, with None in the place of what cannot be read."""
        width, record, fields = len(self.fields), self.record, self.fields
        shown = ([None if type(v) is Unreadable else v for v in row[:width]] for row in rows)
        return [record(**dict(zip(fields, row, strict=True))) for row in shown]

    def _fetch(self, result: sa.CursorResult[Any]) -> list[Sequence[Any]]:
        """As the driver gives them: row objects with access by name would cost more than the records."""
        rows = list(result.cursor.fetchall())
        conversions = self._for(result.dialect)
        if conversions:
            rows = [list(row) for row in rows]
            for row in rows:
                for i, convert in conversions:
                    row[i] = convert(row[i])
        result.close()
        return rows

    def _for(self, dialect: Dialect) -> list[Conversion]:
        """What is left to convert after the driver; enumerations are msgspec's."""
        if dialect.name not in self._conversions:
            processors = (
                (i, column.type.dialect_impl(dialect).result_processor(dialect, None))
                for i, column in enumerate(self.columns)
                if not isinstance(column.type, Choice)
            )
            self._conversions[dialect.name] = [(i, convert) for i, convert in processors if convert]
        return self._conversions[dialect.name]

    def _try(self, row: Sequence[Any], unreadable: dict[str, str] | None) -> Iterable[R]:
        values = dict(zip(self.fields, row, strict=False))
        bad = next((f"{name}: {v.reason}" for name, v in values.items() if isinstance(v, Unreadable)), None)
        if bad is None:
            try:
                yield msgspec.convert(row, self.record)
            except msgspec.ValidationError as error:  # JSON, but of another shape
                bad = self._named(str(error))
        if bad is not None and unreadable is not None:
            # By the call tree it belongs to, where there is one: nothing of that tree can be decided.
            owner = values.get("root_instance_id") or values["id"]
            unreadable[owner] = f"{self.table.name} {values.get('id')}: {bad}"

    def _named(self, problem: str) -> str:
        """msgspec counts the fields of a row: `Expected …, got … - at `$[3]``."""
        words, _, place = problem.partition(" - at `$[")
        number = place.partition("]")[0]
        return f"{self.fields[int(number)]}: {words}" if number.isdigit() else problem


INSTANCE = Shape(state.Instance, schema.process_instance)
SCOPE = Shape(state.Scope, schema.scope)
PROGRESS = Shape(Progress, schema.scope)
TOKEN = Shape(state.Token, schema.token)
JOIN = Shape(state.Join, schema.parallel_join)
TIMER = Shape(state.Timer, schema.timer)
SUBSCRIPTION = Shape(state.Subscription, schema.subscription)
TASK = Shape(state.HumanTask, schema.human_task)
COMPENSATION = Shape(state.CompensationRecord, schema.compensation_record)
LOG = Shape(state.LogEntry, schema.execution_log)
OUTBOX = Shape(state.OutboxEvent, schema.event_outbox)
