"""Column types: how an id, an instant, a JSON value, a flag and a status look in Python and in each database.

The only place where a type spells itself per database. SQLite tables are STRICT, so every type there is one
of TEXT and INTEGER. A value that cannot be read back (a number beyond Python's range, put there by foreign
hands) becomes `Unreadable` instead of failing the whole result: the reader sets the one row aside.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Dialect
from sqlalchemy.types import TypeEngine, UserDefinedType

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
LATEST = datetime(9999, 12, 31, tzinfo=UTC)  # no row holds a later time: Python could not read it

Processor = Callable[[Any], Any] | None
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A stored JSON text that is not what the store would have written."""

    reason: str


def to_json(value: object) -> str:
    """Text, not bytes: SQLite would keep bytes as a BLOB."""
    return _encode(value).decode()


def from_json(text: str | bytes) -> Any:
    try:
        return _decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        return Unreadable(str(error))


def to_microseconds(value: datetime) -> int:
    return (value - EPOCH) // MICROSECOND


def from_microseconds(value: int) -> datetime:
    return EPOCH + timedelta(microseconds=value)


class _Microseconds(sa.types.TypeDecorator[datetime]):
    """SQLite has no type for times: whole microseconds since 1970 sort and compare exactly."""

    impl = sa.Integer
    cache_ok = True

    def bind_processor(self, dialect: Dialect) -> Processor:
        return lambda value: None if value is None else to_microseconds(value)

    def result_processor(self, dialect: Dialect, coltype: object) -> Processor:
        return lambda value: None if value is None else from_microseconds(value)

    def literal_processor(self, dialect: Dialect) -> Callable[[Any], str]:
        return lambda value: str(to_microseconds(value))


class Timestamp(sa.types.TypeDecorator[datetime]):
    """timestamptz, read as UTC whatever the session's zone is (a pooler may hand over any session)."""

    impl = sa.DateTime(timezone=True)
    cache_ok = True

    def result_processor(self, dialect: Dialect, coltype: object) -> Processor:
        return lambda value: value if value is None or value.tzinfo is UTC else value.astimezone(UTC)


class Uuid(UserDefinedType[str]):
    """An id as text. The connection loads uuid as text (see `postgresql.py`): nothing is converted here."""

    cache_ok = True
    render_bind_cast = True

    def get_col_spec(self, **_: object) -> str:
        return "UUID"


class JsonText(sa.types.TypeDecorator[Any]):
    impl = sa.Text
    cache_ok = True

    def bind_processor(self, dialect: Dialect) -> Processor:
        return lambda value: None if value is None else to_json(value)

    def result_processor(self, dialect: Dialect, coltype: object) -> Processor:
        return lambda value: None if value is None else from_json(value)


class Jsonb(UserDefinedType[Any]):
    """jsonb. The driver decodes it with `from_json` (see `postgresql.py`). None is SQL NULL, never null."""

    cache_ok = True
    render_bind_cast = True

    def get_col_spec(self, **_: object) -> str:
        return "JSONB"

    def bind_processor(self, dialect: Dialect) -> Processor:
        return lambda value: None if value is None else to_json(value)


class _IntegerFlag(sa.types.TypeDecorator[bool]):
    impl = sa.Integer
    cache_ok = True

    def bind_processor(self, dialect: Dialect) -> Processor:
        return lambda value: None if value is None else int(value)

    def result_processor(self, dialect: Dialect, coltype: object) -> Processor:
        return lambda value: None if value is None else bool(value)


class Choice(sa.types.TypeDecorator[StrEnum]):
    """A member of an enumeration, stored as its text; the table has a CHECK for it."""

    impl = sa.Text
    cache_ok = True

    def __init__(self, members: type[StrEnum]) -> None:
        super().__init__()
        self.members = members

    def bind_processor(self, dialect: Dialect) -> Processor:
        return lambda value: None if value is None else str(value)

    def result_processor(self, dialect: Dialect, coltype: object) -> Processor:
        known = {str(member): member for member in self.members}
        return lambda value: None if value is None else known[value]

    def literal_processor(self, dialect: Dialect) -> Callable[[Any], str]:
        return lambda value: f"'{value}'"


Id: TypeEngine[str] = Uuid().with_variant(sa.Text(), "sqlite")
Instant: TypeEngine[datetime] = Timestamp().with_variant(_Microseconds(), "sqlite")
Json: TypeEngine[Any] = Jsonb().with_variant(JsonText(), "sqlite")
Flag: TypeEngine[bool] = sa.Boolean().with_variant(_IntegerFlag(), "sqlite")
Large: TypeEngine[int] = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
