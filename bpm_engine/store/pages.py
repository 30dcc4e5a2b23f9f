"""Pages of a search: a stable order, and a cursor that says where the next page begins.

The order ends with the id, so it is total, and the next page begins after the last key instead of at a
number: rows that come or go meanwhile neither repeat nor hide others. A cursor carries nothing but that key
and a checksum over the tenant and the filters; an altered or foreign one is refused. The tenant is a
condition of the query anyway.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec
import sqlalchemy as sa

from bpm_engine.errors import InvalidInputError
from bpm_engine.store.types import to_json

T = TypeVar("T")
MAX_LIMIT = 500


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    items: list[T]
    cursor: str | None  # of the next page; None: this was the last one


@dataclass(frozen=True, slots=True)
class Key:
    """One part of an order: what to sort by, its type in Python, and which way."""

    column: sa.ColumnElement[Any]
    type: type
    descending: bool = False


@dataclass(frozen=True, slots=True)
class Paging:
    """How a search is ordered and cut. `filters` is whatever must be the same from page to page."""

    order: Sequence[Key]
    limit: int
    cursor: str | None
    filters: object

    def apply(self, query: sa.Select[Any]) -> sa.Select[Any]:
        """The query with the order, the beginning and one row more than the limit; the keys come last in a
        row.
        """
        if not 1 <= self.limit <= MAX_LIMIT:
            raise InvalidInputError(f"limit must be between 1 and {MAX_LIMIT}, not {self.limit}")
        if self.cursor is not None:
            query = query.where(_after(self.order, self._position(self.cursor)))
        columns = [key.column.label(f"key_{i}") for i, key in enumerate(self.order)]
        ordering = [key.column.desc() if key.descending else key.column.asc() for key in self.order]
        return query.add_columns(*columns).order_by(*ordering).limit(self.limit + 1)

    def page(self, rows: Sequence[sa.Row[Any]], read: Callable[[Sequence[sa.Row[Any]]], list[T]]) -> Page[T]:
        """`rows` as the query gave them, `read` makes items of those that belong here. It may leave some out:
        the next page begins behind the last row."""
        items = read(rows[: self.limit])
        if len(rows) <= self.limit:
            return Page(items, None)
        last = rows[self.limit - 1][-len(self.order) :]
        return Page(items, self._cursor(list(last)))

    def _cursor(self, position: list[Any]) -> str:
        body = to_json([position, self._checksum(position)]).encode()
        return base64.urlsafe_b64encode(body).decode().rstrip("=")

    def _position(self, cursor: str) -> list[Any]:
        try:
            body = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
            position, checksum = msgspec.json.decode(body, type=tuple[list[Any], str])
            if len(position) != len(self.order):
                raise ValueError("another number of keys")
            typed: list[Any] = [
                msgspec.convert(v, key.type) for v, key in zip(position, self.order, strict=True)
            ]
        except (ValueError, msgspec.MsgspecError) as error:
            raise InvalidInputError("the cursor is not one of ours") from error
        if checksum != self._checksum(typed):
            raise InvalidInputError("the cursor belongs to another search")
        return typed

    def _checksum(self, position: list[Any]) -> str:
        return hashlib.sha256(to_json([self.filters, position]).encode()).hexdigest()[:16]


def _after(order: Sequence[Key], position: list[Any]) -> sa.ColumnElement[bool]:
    """Beyond the position: greater in the first key, or equal there and beyond it in the rest."""
    key, value = order[0], sa.literal(position[0], order[0].column.type)
    beyond = key.column < value if key.descending else key.column > value
    if len(order) == 1:
        return beyond
    return sa.or_(beyond, sa.and_(key.column == value, _after(order[1:], position[1:])))


def newest_or_oldest(column: sa.ColumnElement[Any], order: str) -> list[Key]:
    """By id, which is the order of creation."""
    if order not in ("newest", "oldest"):
        raise InvalidInputError(f"order is newest or oldest, not {order!r}")
    return [Key(column, str, descending=order == "newest")]
