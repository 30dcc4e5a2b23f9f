"""The bulk row source: one JSON parameter becomes a typed FROM element on either database.

Rows travel as JSON arrays, not objects: reading by position was twice as fast as `jsonb_to_recordset`
(docs/adr/0010-store-layout.md), and both databases spell it `->>`. Each bulk statement is thus written once
in SQLAlchemy Core and executed with one parameter, however many rows there are. Only what a large batch
writes a server gets as one array per column (`arrays`).

The databases differ in how the parameter is unfolded, how a field gets its type, how variables are merged and
how containment is tested; these five constructs are compiled in `postgresql.py` and `sqlite.py`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.sql.expression import ColumnElement
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import TypeEngine

from bpm_engine.store.arrays import Many
from bpm_engine.store.types import Flag, Id, Json, JsonText, to_json

IDS: TypeEngine[Sequence[str]] = Many(Id).with_variant(JsonText(), "sqlite")
ZERO = sa.literal_column("0", sa.Integer())  # OFFSET 0: the planner takes the subquery as it is


class elements(FunctionElement[Any]):  # noqa: N801  SQL functions are written in lower case
    """The elements of a JSON array, one row each, in the column `value`."""

    name = "elements"
    inherit_cache = True


class listed(FunctionElement[Any]):  # noqa: N801
    """The ids of a list, one row each, in the column `value`."""

    name = "listed"
    inherit_cache = True


class Field(ColumnElement[Any]):
    """One position of a row, as a value of the column's type."""

    inherit_cache = True
    _traverse_internals = [  # noqa: RUF012  as the base class declares it
        ("value", sa.sql.visitors.InternalTraversal.dp_clauseelement),
        ("position", sa.sql.visitors.InternalTraversal.dp_plain_obj),
        ("type", sa.sql.visitors.InternalTraversal.dp_type),
    ]

    def __init__(self, value: ColumnElement[Any], position: int, type_: TypeEngine[Any]) -> None:
        self.value = value
        self.position = position
        self.type = type_


class merged(FunctionElement[Any]):  # noqa: N801
    """The first JSON object with the keys of the second set in it: shallow, and null sets null."""

    name = "merged"
    type = Json
    inherit_cache = True


class contains(FunctionElement[bool]):  # noqa: N801
    """Whether the first JSON value contains the second, in the sense of PostgreSQL's `@>`."""

    name = "contains"
    type = Flag
    inherit_cache = True


def row_source(
    columns: Iterable[sa.Column[Any]], name: str = "given", *, unread: Collection[str] = ()
) -> sa.Subquery:
    """A FROM element with these columns, fed by `{name: rows(...)}` when the statement is executed.

    `unread`: columns that are in the rows, but not in the element. Those that are there may then be used
    several times: each is read once.
    """
    parameter = sa.bindparam(name, type_=sa.Text())
    source = elements(parameter).table_valued(sa.column("value", Json)).alias(f"{name}_rows")
    fields = [
        Field(source.c.value, i, c.type).label(c.name) for i, c in enumerate(columns) if c.name not in unread
    ]
    chosen = sa.select(*fields).select_from(source)
    return (chosen.offset(ZERO) if unread else chosen).subquery(name)


def id_source(name: str = "ids") -> sa.Subquery:
    """A FROM element with the one column `id`, fed by `{name: ids(...)}`. Nearly every statement has one, so
    a server gets an array, which it need not parse."""
    given = listed(sa.bindparam(name, type_=IDS)).table_valued(sa.column("value", Id)).alias(f"{name}_rows")
    return sa.select(given.c.value.label("id")).subquery(name)


def rows(values: Sequence[Sequence[object]]) -> str:
    """The parameter. Times travel as text, which is exact."""
    return to_json(values)


def ids(values: Iterable[str]) -> list[str]:
    return list(values)
