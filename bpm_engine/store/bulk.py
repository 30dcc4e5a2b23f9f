"""Bulk writes: the rows of a whole batch at once, however many there are, of all tables together.

A server gets one statement for all of them: a WITH whose members write one table each, from a JSON parameter
of their own. That is one round trip, and one statement to be sent, started and answered. A database inside
this process has no round trips to save, and unfolding JSON costs it more than the writing itself: there each
write is one prepared statement that the driver runs for each row. Both are built from the same columns and
the same values, so that there is one description of each write.

The members of a WITH see none of each other's rows and run in no particular order, so no two of them may
change the same row. Foreign keys are checked when all have run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache, reduce
from operator import add, itemgetter
from typing import Any

import msgspec
import sqlalchemy as sa
from msgspec.structs import astuple
from sqlalchemy.engine import Dialect
from sqlalchemy.sql.compiler import SQLCompiler

from bpm_engine.crash import crash_point
from bpm_engine.store.rows import row_source
from bpm_engine.store.transaction import Transaction
from bpm_engine.store.types import Instant, to_json

NOW = sa.bindparam("now", type_=Instant)
ONE = sa.literal_column("1", sa.Integer())
PREFIX = "given_"  # a parameter must not have the name of a column that is set

Values = Mapping[str, sa.ColumnElement[Any]]
Row = msgspec.Struct | Sequence[object]
MakeRow = Callable[[Any], Sequence[object]]
Conversion = tuple[int, Callable[[Any], Any]]


@dataclass(frozen=True, slots=True)
class _Prepared:
    """The statement for one row, spelt for one database, with NULL in the place of some columns."""

    text: str
    arrange: Callable[[Sequence[Any]], tuple[Any, ...]]  # the columns and the time, as the text wants them


@dataclass(frozen=True, slots=True)
class Implied:
    """Columns that need not be read from the rows of a usual batch: a server takes longer to read a time or
    an id from text than to write it."""

    columns: Mapping[str, str | None]  # and the column that has the same value; None: the transaction's time
    holds: Callable[[Sequence[Any], datetime], bool]  # whether it is so for all of these records


NOTHING_IMPLIED = Implied({}, lambda records, now: False)


class Bulk:
    """A write of rows with these columns. `row` makes one of a record whose fields are not just these.
    `fenced`: it may leave rows out, and its rows are counted.
    """

    def __init__(
        self,
        columns: Sequence[sa.Column[Any]],
        whole: Callable[[Values], sa.Insert | sa.Update],
        each: Callable[[Values], sa.Insert | sa.Update],
        *,
        row: MakeRow | None = None,
        fenced: bool = False,
        implied: Implied = NOTHING_IMPLIED,
    ) -> None:
        self._columns = columns
        self._row = row
        self._whole = whole
        self._each = each
        self._implied = implied
        self.fenced = fenced
        self._conversions: dict[str, list[Conversion]] = {}
        self._prepared: dict[tuple[str, frozenset[int]], _Prepared] = {}

    def member(self, number: int, *, is_usual: bool) -> sa.CTE:
        """Of a statement that writes several tables: its rows come in the parameter of that number."""
        whole = self.statement(_parameter(number), is_usual=is_usual)
        return (whole.returning(ONE) if self.fenced else whole).cte(f"written_{number}")

    def statement(self, parameter: str = "given", *, is_usual: bool = False) -> sa.Insert | sa.Update:
        """For this table alone. `is_usual`: what is implied is not read."""
        implied = self._implied.columns if is_usual else {}
        source = row_source(self._columns, parameter, unread=implied.keys())
        others = {name: NOW if same is None else source.c[same] for name, same in implied.items()}
        return self._whole({**dict(source.c.items()), **others})

    def is_usual(self, given: Sequence[Row], now: datetime) -> bool:
        return self._implied.holds(given, now)

    def rows(self, given: Sequence[Row]) -> Sequence[Row]:
        return given if self._row is None else [self._row(record) for record in given]

    def execute_each(self, tx: Transaction, rows: Iterable[Row]) -> int:
        """One by one; how many rows were written. A column that is empty in all of them is not bound: the
        driver takes longer for a None than for any other value.
        """
        dialect = tx.connection.dialect
        columns = list(
            zip(*(astuple(row) if isinstance(row, msgspec.Struct) else row for row in rows), strict=True)
        )
        number = len(columns[0])
        empty = frozenset(i for i, column in enumerate(columns) if column.count(None) == number)
        for i, convert in self._conversions_for(dialect):
            if i not in empty:
                columns[i] = _converted(columns[i], convert)
        now = Instant.dialect_impl(dialect).bind_processor(dialect)
        assert now is not None
        columns.append((now(tx.now()),) * number)
        prepared = self._prepare(dialect, empty)
        values = list(zip(*prepared.arrange(columns), strict=True))
        return tx.connection.exec_driver_sql(prepared.text, values).rowcount

    def _conversions_for(self, dialect: Dialect) -> list[Conversion]:
        if dialect.name not in self._conversions:
            processors = (
                (i, column.type.dialect_impl(dialect).bind_processor(dialect))
                for i, column in enumerate(self._columns)
            )
            self._conversions[dialect.name] = [(i, convert) for i, convert in processors if convert]
        return self._conversions[dialect.name]

    def _prepare(self, dialect: Dialect, empty: frozenset[int]) -> _Prepared:
        """Batches of one kind leave the same columns empty, so that the same few statements come again."""
        key = dialect.name, empty
        if key not in self._prepared:
            compiled = self._each(_parameters(self._columns, empty)).compile(dialect=dialect)
            names = [*(PREFIX + column.name for column in self._columns), "now"]
            assert isinstance(compiled, SQLCompiler)
            assert compiled.positiontup is not None
            self._prepared[key] = _Prepared(
                text=compiled.string,
                arrange=itemgetter(*(names.index(name) for name in compiled.positiontup)),
            )
        return self._prepared[key]


def _converted(column: tuple[Any, ...], convert: Callable[[Any], Any]) -> tuple[Any, ...]:
    """Most columns of a batch hold few different values: nothing, one status, one time for all."""
    first = column[0]
    if all(value is first for value in column):
        return (convert(first),) * len(column)
    return tuple(map(convert, column))


@dataclass(frozen=True, slots=True)
class Write:
    """Rows for one table, and what to tell when they are written."""

    bulk: Bulk
    rows: Sequence[Row]
    point: str | None = None


def write(tx: Transaction, writes: Sequence[Write]) -> int:
    """Write them all; how many rows were written of those that a fence may leave out."""
    writes = [each for each in writes if each.rows]
    passed = (_one_by_one if tx.database.is_embedded else _together)(tx, writes) if writes else 0
    for each in writes:
        if each.point is not None:
            crash_point(each.point)
    return passed


def _one_by_one(tx: Transaction, writes: Sequence[Write]) -> int:
    written = [(each.bulk.fenced, each.bulk.execute_each(tx, each.bulk.rows(each.rows))) for each in writes]
    return sum(number for fenced, number in written if fenced)


def _together(tx: Transaction, writes: Sequence[Write]) -> int:
    now = tx.now()
    values: dict[str, object] = {
        _parameter(n): to_json(each.bulk.rows(each.rows)) for n, each in enumerate(writes)
    }
    statement = _statement(tuple((each.bulk, each.bulk.is_usual(each.rows, now)) for each in writes))
    passed: int = tx.execute(statement, values | {"now": now}).scalar_one()
    return passed


@lru_cache(maxsize=1_000)
def _statement(bulks: tuple[tuple[Bulk, bool], ...]) -> sa.Select[int]:
    """Batches of one kind write the same tables, so that the same few statements come again and again."""
    members = [bulk.member(number, is_usual=is_usual) for number, (bulk, is_usual) in enumerate(bulks)]
    counts = [
        sa.select(sa.func.count()).select_from(member).scalar_subquery()
        for member, (bulk, _) in zip(members, bulks, strict=True)
        if bulk.fenced
    ]
    passed = reduce(add, counts, sa.literal_column("0", sa.Integer()))
    return sa.select(passed).add_cte(*members)


def _parameter(number: int) -> str:
    return f"rows_{number}"


def inserting(
    table: sa.Table,
    columns: Sequence[sa.Column[Any]],
    constants: Mapping[str, sa.ColumnElement[Any]],
    *,
    row: MakeRow | None = None,
    implied: Implied = NOTHING_IMPLIED,
) -> Bulk:
    """INSERT of these columns, and of others with the same value in every row."""

    def whole(given: Values) -> sa.Insert:
        values = {**given, **constants}
        return table.insert().from_select(list(values), sa.select(*values.values()))

    def each(given: Values) -> sa.Insert:
        return table.insert().values(**given, **constants)

    return Bulk(columns, whole, each, row=row, implied=implied)


def updating(
    columns: Sequence[sa.Column[Any]],
    build: Callable[[Values], sa.Update],
    *,
    row: MakeRow | None = None,
    fenced: bool = False,
    implied: Implied = NOTHING_IMPLIED,
) -> Bulk:
    """UPDATE of one row per given row; `build` makes the statement from the given values by name."""
    return Bulk(columns, build, build, row=row, fenced=fenced, implied=implied)


def _parameters(columns: Sequence[sa.Column[Any]], empty: frozenset[int]) -> Values:
    return {
        column.name: sa.null() if i in empty else sa.bindparam(PREFIX + column.name, type_=column.type)
        for i, column in enumerate(columns)
    }
