"""Bulk writes: the rows of a whole batch at once, however many there are, of all tables together.

A server gets one statement for all of them: a WITH whose members write one table each. That is one round
trip, and one statement to be sent, started and answered. Few rows come as one JSON parameter per table, many
as one array per column: that is cheaper for each row, and dearer for each parameter (docs/adr/0019). A
database inside this process has no round trips to save, and unfolding a parameter costs it more than the
writing itself: there each write is one prepared statement that the driver runs for each row. All are built
from the same columns and the same values, so that there is one description of each write.

The members of a WITH see none of each other's rows and run in no particular order, so no two of them may
change the same row. Foreign keys are checked when all have run.

Which tables a batch writes, and in which forms, differs from batch to batch: a busy engine meets hundreds of
combinations. So each member is translated by itself, once, and a statement is their texts in a row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from itertools import count
from operator import itemgetter
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec
import sqlalchemy as sa
from msgspec.structs import astuple
from sqlalchemy.engine import Dialect
from sqlalchemy.sql.compiler import SQLCompiler

from bpm_engine.crash import crash_point
from bpm_engine.store.arrays import column_parameter, column_source
from bpm_engine.store.rows import row_source
from bpm_engine.store.transaction import Transaction
from bpm_engine.store.types import Instant, to_json

NOW = sa.bindparam("now", type_=Instant)
ONE = sa.literal_column("1", sa.Integer())
PREFIX = "given_"  # a parameter must not have the name of a column that is set
MANY = 200  # rows of one table, from which on arrays are cheaper
COMBINATIONS = 200  # of writes, whose statements are kept as text
_numbers = count()

Values = Mapping[str, sa.ColumnElement[Any]]
Row = msgspec.Struct | Sequence[object]
MakeRow = Callable[[Any], Sequence[object]]
Columns = list[tuple[Any, ...]]
Conversion = tuple[int, Callable[[Any], Any]]


@dataclass(frozen=True, slots=True)
class _Prepared:
    """The statement for one row, spelt for one database, with NULL in the place of some columns."""

    text: str
    arrange: Callable[[Sequence[Any]], tuple[Any, ...]]  # the columns and the time, as the text wants them


Implied = Mapping[str, str | None]
"""Columns that need not be sent with the rows of a usual batch, and the column that has the same value in all
of its rows; None: each has the transaction's time."""
NOTHING_IMPLIED: Implied = MappingProxyType({})


class Form(NamedTuple):
    """How the rows of a write reach a server. `is_many`: as arrays; `is_usual`: without what is implied."""

    is_many: bool
    is_usual: bool


FEW = Form(is_many=False, is_usual=False)


@dataclass(frozen=True, slots=True, eq=False)
class _Member:
    """A write in one form, spelt for a server, as a part of a statement that writes several tables."""

    name: str
    text: str
    fenced: bool
    conversions: Mapping[str, Callable[[Any], Any]]  # of its parameters, where they need one

    def converted(self, values: Mapping[str, Any]) -> dict[str, Any]:
        convert = self.conversions
        return {name: convert[name](value) if name in convert else value for name, value in values.items()}


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
        positions = {column.name: position for position, column in enumerate(columns)}
        self._to_compare = [
            (positions[name], None if same is None else positions[same]) for name, same in implied.items()
        ]
        self.fenced = fenced
        self._name = f"rows_{next(_numbers)}"  # of its parameters: no other write has the same
        self._conversions: dict[str, list[Conversion]] = {}
        self._prepared: dict[tuple[str, frozenset[int]], _Prepared] = {}
        self._members: dict[tuple[str, Form], _Member] = {}

    def member(self, dialect: Dialect, form: Form) -> _Member:
        """Of a statement that writes several tables."""
        key = dialect.name, form
        if key not in self._members:
            self._members[key] = self._translated(dialect, form)
        return self._members[key]

    def _translated(self, dialect: Dialect, form: Form) -> _Member:
        whole = self.statement(self._name, form)
        compiled = (whole.returning(ONE) if self.fenced else whole).compile(dialect=dialect)
        assert isinstance(compiled, SQLCompiler)
        processors = (
            (name, bound.type.dialect_impl(dialect).bind_processor(dialect))
            for name, bound in compiled.binds.items()
        )
        conversions = {name: convert for name, convert in processors if convert is not None}
        return _Member(self._name, compiled.string, self.fenced, conversions)

    def statement(self, parameter: str = "given", form: Form = FEW) -> sa.Insert | sa.Update:
        """For this table alone."""
        implied = self._implied if form.is_usual else NOTHING_IMPLIED
        source: sa.FromClause
        if form.is_many:
            source = column_source([c for c in self._columns if c.name not in implied], parameter)
        else:
            source = row_source(self._columns, parameter, unread=implied.keys())
        others = {name: NOW if same is None else source.c[same] for name, same in implied.items()}
        return self._whole({**dict(source.c.items()), **others})

    def prepared(
        self, given: Sequence[Row], now: datetime, dialect: Dialect, *, is_many: bool
    ) -> tuple[_Member, dict[str, object]]:
        """A part of a statement that writes several tables, and its parameters."""
        columns = self._transposed(given)
        form = Form(is_many=is_many, is_usual=self._is_usual(columns, now))
        member = self.member(dialect, form)
        return member, member.converted({"now": now, **self._parameters(given, columns, form)})

    def _is_usual(self, columns: Columns, now: datetime) -> bool:
        for position, same in self._to_compare:
            column = columns[position]
            if column.count(now) != len(column) if same is None else column != columns[same]:
                return False
        return bool(self._to_compare)

    def _parameters(self, given: Sequence[Row], columns: Columns, form: Form) -> dict[str, object]:
        if not form.is_many:
            return {self._name: to_json(given if self._row is None else list(map(self._row, given)))}
        implied = self._implied if form.is_usual else NOTHING_IMPLIED
        return {
            column_parameter(self._name, column): values
            for column, values in zip(self._columns, columns, strict=True)
            if column.name not in implied
        }

    def _transposed(self, given: Sequence[Row]) -> Columns:
        make: MakeRow | None = self._row or (astuple if isinstance(given[0], msgspec.Struct) else None)
        rows: Iterable[Any] = given if make is None else map(make, given)
        return list(zip(*rows, strict=True))

    def execute_each(self, tx: Transaction, given: Sequence[Row]) -> int:
        """One by one; how many rows were written. A column that is empty in all of them is not bound: the
        driver takes longer for a None than for any other value.
        """
        dialect = tx.connection.dialect
        columns = self._transposed(given)
        number = len(given)
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
    written = [(each.bulk.fenced, each.bulk.execute_each(tx, each.rows)) for each in writes]
    return sum(number for fenced, number in written if fenced)


def _together(tx: Transaction, writes: Sequence[Write]) -> int:
    now = tx.now()
    dialect = tx.connection.dialect
    is_many = any(len(each.rows) >= MANY for each in writes)
    members: list[_Member] = []
    values: dict[str, object] = {}
    for each in writes:
        member, parameters = each.bulk.prepared(each.rows, now, dialect, is_many=is_many)
        members.append(member)
        values |= parameters
    passed: int = tx.connection.exec_driver_sql(_joined(*members), values).scalar_one()
    return passed


@lru_cache(COMBINATIONS)
def _joined(*members: _Member) -> str:
    """The statement of which these are the parts. It answers how many rows have passed their fences."""
    written = ", ".join(f"{member.name} AS ({member.text})" for member in members)
    passed = [f"(SELECT count(*) FROM {member.name})" for member in members if member.fenced]  # noqa: S608 - names of ours
    return f"WITH {written} SELECT {' + '.join(passed) or '0'}"


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
