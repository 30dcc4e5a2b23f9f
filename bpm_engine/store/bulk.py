"""Bulk writes: the rows of a whole batch in one execution, however many there are.

A server gets one statement over the row source: one round trip, one JSON parameter. A database inside this
process has no round trips to save, and unfolding JSON costs it more than the writing itself: there the same
write is one prepared statement that the driver runs for each row. Both are built from the same columns and
the same values, so that there is one description of each write.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import msgspec
import sqlalchemy as sa
from msgspec.structs import astuple
from sqlalchemy.engine import Dialect

from bpm_engine.store.rows import row_source
from bpm_engine.store.transaction import Transaction
from bpm_engine.store.types import Instant, to_json

NOW = sa.bindparam("now", type_=Instant)
PREFIX = "given_"  # a parameter must not have the name of a column that is set

Values = Mapping[str, sa.ColumnElement[Any]]
Row = msgspec.Struct | Sequence[object]
Conversion = tuple[int, Callable[[Any], Any]]


@dataclass(frozen=True, slots=True)
class _Prepared:
    """The statement for one row, spelt for one database."""

    text: str
    arrange: Callable[[Sequence[object]], tuple[object, ...]]  # the row and the time, as the text wants them
    conversions: list[Conversion]


class Bulk:
    """A write of rows with these columns."""

    def __init__(self, columns: Sequence[sa.Column[Any]], whole: sa.Executable, each: sa.Executable) -> None:
        self._columns = columns
        self.whole = whole
        self._each = each
        self._prepared: dict[str, _Prepared] = {}

    def execute(self, tx: Transaction, rows: Iterable[Row]) -> int:
        """How many rows were written: a fence may leave some out."""
        if tx.database.is_embedded:
            return self._execute_each(tx, rows)
        result = tx.execute(self.whole, {"given": to_json(list(rows)), "now": tx.now()})
        return result.rowcount

    def _execute_each(self, tx: Transaction, rows: Iterable[Row]) -> int:
        prepared = self._prepare(tx.connection.dialect)
        now = Instant.dialect_impl(tx.connection.dialect).bind_processor(tx.connection.dialect)
        assert now is not None
        at = now(tx.now())
        values = []
        for row in rows:
            value = [*(astuple(row) if isinstance(row, msgspec.Struct) else row), at]
            for i, convert in prepared.conversions:
                value[i] = convert(value[i])
            values.append(prepared.arrange(value))
        return tx.connection.exec_driver_sql(prepared.text, values).rowcount

    def _prepare(self, dialect: Dialect) -> _Prepared:
        if dialect.name not in self._prepared:
            compiled = self._each.compile(dialect=dialect)  # type: ignore[attr-defined]
            names = [*(PREFIX + column.name for column in self._columns), "now"]
            processors = (
                (i, column.type.dialect_impl(dialect).bind_processor(dialect))
                for i, column in enumerate(self._columns)
            )
            self._prepared[dialect.name] = _Prepared(
                text=compiled.string,
                arrange=itemgetter(*(names.index(name) for name in compiled.positiontup)),
                conversions=[(i, convert) for i, convert in processors if convert],
            )
        return self._prepared[dialect.name]


def inserting(
    table: sa.Table, columns: Sequence[sa.Column[Any]], constants: Mapping[str, sa.ColumnElement[Any]]
) -> Bulk:
    """INSERT of these columns, and of others with the same value in every row."""
    source = row_source(columns)
    names = [*(column.name for column in columns), *constants]
    # WHERE true: without it SQLite could not tell ON CONFLICT from a join's ON.
    selected = sa.select(*source.c, *constants.values()).where(sa.true())
    whole = table.insert().from_select(names, selected)
    given = _parameters(columns)
    return Bulk(columns, whole, table.insert().values(**given, **constants))


def updating(columns: Sequence[sa.Column[Any]], build: Callable[[Values], sa.Update]) -> Bulk:
    """UPDATE of one row per given row; `build` makes the statement from the given values by name."""
    source = row_source(columns)
    return Bulk(columns, build(dict(source.c.items())), build(_parameters(columns)))


def _parameters(columns: Sequence[sa.Column[Any]]) -> dict[str, sa.ColumnElement[Any]]:
    return {column.name: sa.bindparam(PREFIX + column.name, type_=column.type) for column in columns}
