"""Between rows and records: which columns a record has, and how rows become records again.

A record's fields are its table's columns, in the same words; a test keeps the two together. A row with an
unreadable JSON value is not made a record: it is reported by its id, so that the rest of the batch can go on.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Generic, TypeVar

import msgspec
import sqlalchemy as sa
from msgspec.structs import astuple

from bpm_engine.core import state
from bpm_engine.store import schema
from bpm_engine.store.rows import Encoder
from bpm_engine.store.types import Jsonb, Unreadable

R = TypeVar("R", bound=msgspec.Struct)


class Shape(Generic[R]):
    """A record type and its table."""

    def __init__(self, record: type[R], table: sa.Table) -> None:
        self.record = record
        self.table = table
        self.fields: tuple[str, ...] = record.__struct_fields__
        self.columns: list[sa.Column[Any]] = [table.c[name] for name in self.fields]
        self.encode = Encoder(self.columns)
        self._json = [i for i, column in enumerate(self.columns) if isinstance(column.type, Jsonb)]

    def given(self, new: Iterable[R]) -> str:
        """The parameter of a bulk statement over rows of this shape."""
        return self.encode(map(astuple, new))

    def read(self, rows: Iterable[Sequence[Any]], unreadable: dict[str, str] | None = None) -> list[R]:
        """Records from rows that begin with this shape's columns. Bad ones are put into `unreadable`."""
        record, fields, json = self.record, self.fields, self._json
        found = []
        for row in rows:
            if any(type(row[i]) is Unreadable for i in json):
                self._set_aside(row, unreadable)
            else:
                found.append(record(**dict(zip(fields, row, strict=False))))
        return found

    def _set_aside(self, row: Sequence[Any], unreadable: dict[str, str] | None) -> None:
        """By the call tree it belongs to, where there is one: nothing of that tree can be decided."""
        values = dict(zip(self.fields, row, strict=False))
        column, value = next((name, v) for name, v in values.items() if isinstance(v, Unreadable))
        if unreadable is not None:
            owner = values.get("root_instance_id") or values["id"]
            unreadable[owner] = f"{self.table.name} {values.get('id')}: {column}: {value.reason}"


INSTANCE = Shape(state.Instance, schema.process_instance)
SCOPE = Shape(state.Scope, schema.scope)
TOKEN = Shape(state.Token, schema.token)
JOIN = Shape(state.Join, schema.parallel_join)
TIMER = Shape(state.Timer, schema.timer)
SUBSCRIPTION = Shape(state.Subscription, schema.subscription)
TASK = Shape(state.HumanTask, schema.human_task)
COMPENSATION = Shape(state.CompensationRecord, schema.compensation_record)
LOG = Shape(state.LogEntry, schema.execution_log)
OUTBOX = Shape(state.OutboxEvent, schema.event_outbox)
