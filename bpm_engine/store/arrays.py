"""The columns of a batch as arrays in PostgreSQL's binary form: what a bulk write sends to a server.

A server takes longer to read an id, a number or a time from text than to write it into a row. In binary form
there is nothing to read, and none of it is copied again and again on the way. The driver's own arrays are
made value by value in Python; these are made by a few calls per column, which C code runs (docs/adr/0019).

An array is a head, and each value behind its length; a length of -1 is NULL.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
import psycopg
import sqlalchemy as sa
from psycopg.adapt import Dumper
from psycopg.pq import Format
from sqlalchemy.engine import Dialect
from sqlalchemy.types import TypeEngine, UserDefinedType

from bpm_engine.store.types import MICROSECOND, Choice, Jsonb, Processor, Timestamp, Uuid

Column = Sequence[Any]

# Dimensions, whether there may be NULLs, the type of the values, how many, the number of the first
HEAD = struct.Struct(">iiiii")
EPOCH = datetime(2000, 1, 1, tzinfo=UTC)  # PostgreSQL counts microseconds from here
LENGTH = struct.Struct(">i")
NULL = LENGTH.pack(-1)
LENGTH_AND_VERSION = struct.Struct(">ib")
ID = LENGTH.pack(16).hex()  # in front of an id, while that is text
ID_SIZE = 20  # bytes of an id and its length
_encode_lines = msgspec.json.Encoder().encode_lines


def ids(column: Column) -> bytes:
    """All at once: the lengths are put between them while they are still text."""
    missing = 0
    try:
        text = ID + ID.join(column)
    except TypeError:
        missing = column.count(None)
        text = "".join([NULL.hex() if value is None else ID + value for value in column])
    packed = bytes.fromhex(text.replace("-", ""))
    if len(packed) != ID_SIZE * (len(column) - missing) + len(NULL) * missing:
        raise ValueError("an id of this batch is no UUID")
    return packed


def _each(pack: Callable[[Any], bytes]) -> Callable[[Column], bytes]:
    """A column of a batch holds few different values: each is packed once."""

    def items(column: Column) -> bytes:
        packed = {value: NULL if value is None else pack(value) for value in set(column)}
        if len(packed) == 1:
            return next(iter(packed.values())) * len(column)
        return b"".join(map(packed.__getitem__, column))

    return items


def _number(form: str) -> Callable[[Any], bytes]:
    packer = struct.Struct(f">i{form}")
    size = packer.size - len(NULL)
    return lambda value: packer.pack(size, value)


_large = _number("q")


def _instant(value: datetime) -> bytes:
    return _large((value - EPOCH) // MICROSECOND)


def _text(value: str) -> bytes:
    encoded = value.encode()
    return LENGTH.pack(len(encoded)) + encoded


def _document(encoded: bytes) -> bytes:
    """Behind the length the version of its form."""
    return NULL if encoded == b"null" else LENGTH_AND_VERSION.pack(len(encoded) + 1, 1) + encoded


_documents = _each(_document)


def documents(column: Column) -> bytes:
    """JSON. All at once, a line each: in none of them is a line break."""
    return _documents(_encode_lines(column).splitlines())


class Array(bytes):
    """Ready to be sent. A class for each type of values: by it the driver knows which type to name."""

    __slots__ = ()
    oid = 0
    items: Callable[[Column], bytes]
    of = 0  # the type of the values

    @classmethod
    def pack(cls, column: Column) -> Array:
        """Many columns hold nothing in every row."""
        number = len(column)
        is_empty = not number or (column[0] is None and column.count(None) == number)
        items = NULL * number if is_empty else cls.items(column)
        return cls(HEAD.pack(1, 1, cls.of, number, 1) + items)


def _array(type_name: str, items: Callable[[Column], bytes]) -> type[Array]:
    known = psycopg.adapters.types[type_name]
    members = {"__slots__": (), "of": known.oid, "oid": known.array_oid, "items": staticmethod(items)}
    return type(f"{type_name}_array", (Array,), members)


_TEXTS = _array("text", _each(_text))
# The most special first: a large integer is an integer, too.
ARRAYS: dict[type[TypeEngine[Any]], type[Array]] = {
    Uuid: _array("uuid", ids),
    Jsonb: _array("jsonb", documents),
    Timestamp: _array("timestamptz", _each(_instant)),
    Choice: _TEXTS,
    sa.Text: _TEXTS,
    sa.Boolean: _array("bool", _each(_number("?"))),
    sa.BigInteger: _array("int8", _each(_large)),
    sa.Integer: _array("int4", _each(_number("i"))),
}


class Many(UserDefinedType[Sequence[Any]]):
    """The values of one column of a batch."""

    cache_ok = True
    render_bind_cast = True

    def __init__(self, each: TypeEngine[Any]) -> None:
        self.each = each
        self._array = next(array for kind, array in ARRAYS.items() if isinstance(each, kind))

    def get_col_spec(self, **_: object) -> str:
        return f"{psycopg.adapters.types[self._array.of].name}[]"

    def bind_processor(self, dialect: Dialect) -> Processor:
        return self._array.pack


def column_source(columns: Sequence[sa.Column[Any]], name: str = "given") -> sa.FromClause:
    """A FROM element with these columns, fed by `{column_parameter(name, column): values}` when the
    statement is executed. The arrays are unfolded in a SELECT list: as a FROM element a server would write
    each into a table of its own first."""
    arrays = ((c, sa.bindparam(column_parameter(name, c), type_=Many(c.type))) for c in columns)
    return sa.select(*(sa.func.unnest(a, type_=c.type).label(c.name) for c, a in arrays)).subquery(name)


def column_parameter(name: str, column: sa.Column[Any]) -> str:
    return f"{name}_{column.name}"


class _AsItIs(Dumper):
    format = Format.BINARY

    def dump(self, obj: Array) -> bytes:
        return obj


DUMPERS = {
    array: type(f"{array.__name__}_dumper", (_AsItIs,), {"oid": array.oid}) for array in ARRAYS.values()
}


def teach(connection: psycopg.Connection[Any]) -> None:
    """Let a connection send them."""
    for array, dumper in DUMPERS.items():
        connection.adapters.register_dumper(array, dumper)
