"""What comes in from users, checked before anything is read or written.

Every refusal says which argument it is about, what is wrong with it and what is allowed (R57).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sa

from bpm_engine.core.state import Variables
from bpm_engine.durations import Duration, span
from bpm_engine.errors import InvalidInputError
from bpm_engine.store.config import Limits
from bpm_engine.store.pages import MAX_LIMIT
from bpm_engine.store.values import check_instant, check_name, check_variables
from bpm_engine.tenants import ALL_TENANTS

PRIORITY = 1_000_000  # either way; far from the edge of the column
HORIZON = timedelta(days=36_525)  # a hundred years: nobody waits longer on purpose
REASON = 2_000  # characters
W = TypeVar("W", bound=StrEnum)


class Border:
    """The limits of one tenant, applied to arguments."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits

    def name(self, value: object, what: str) -> str:
        if not isinstance(value, str):
            raise InvalidInputError(f"{what} must be a text that is not empty, not {value!r:.40}")
        return check_name(value, self._limits, what=what)

    def tenant(self, value: object) -> str:
        name = self.name(value, "tenant")
        if name == ALL_TENANTS:
            raise InvalidInputError(f"tenant must not be {name!r}, which means all tenants to the database")
        return name

    def optional_name(self, value: object, what: str) -> str | None:
        return None if value is None else self.name(value, what)

    def names(self, **values: object) -> None:
        """Those that are given must be names."""
        for what, value in values.items():
            self.optional_name(value, what)

    def all_names(self, values: Iterable[object], what: str) -> tuple[str, ...]:
        if isinstance(values, str):
            raise InvalidInputError(f"{what} and others make a list, such as [{values!r:.40}], not a text")
        return tuple(self.name(value, what) for value in values)

    def variables(self, value: object, what: str = "variables") -> Variables:
        if value is None:
            return {}
        given = dict(value) if isinstance(value, Mapping) else value
        return check_variables(given, self._limits, name=what)

    def reason(self, value: object) -> str:
        if not isinstance(value, str) or len(value) > REASON:
            raise InvalidInputError(f"reason must be a text of at most {REASON} characters")
        return self.name(value, "reason") if 0 < len(value) <= self._limits.name_characters else value

    def text(self, value: object, what: str, most: int) -> str:
        """Something that a person wrote: it may be long, or empty."""
        return (
            "" if value == "" else check_name(value, replace(self._limits, name_characters=most), what=what)
        )

    def priority(self, value: object) -> int:
        return self.number(value, "priority", -PRIORITY, PRIORITY)

    def number(self, value: object, what: str, lowest: int, highest: int) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not lowest <= value <= highest:
            raise InvalidInputError(
                f"{what} must be a whole number from {lowest} to {highest}, not {value!r:.40}"
            )
        return value

    def optional_number(self, value: object, what: str) -> int | None:
        return None if value is None else self.number(value, what, 1, 2**31 - 1)

    def limit(self, value: object) -> int:
        return self.number(value, "limit", 1, MAX_LIMIT)

    def start_at(self, value: object) -> datetime | None:
        if value is None:
            return None
        instant = check_instant(value, what="start_at")
        if instant > datetime.now(UTC) + HORIZON:
            raise InvalidInputError(
                f"start_at may be at most a hundred years ahead, not {instant.isoformat()}"
            )
        return instant

    def instant(self, value: object, what: str) -> datetime | None:
        return None if value is None else check_instant(value, what=what)

    def time_to_live(self, value: Duration | int) -> timedelta:
        if isinstance(value, int) and value == 0:
            return timedelta()
        if not isinstance(value, str | timedelta):
            raise InvalidInputError(f"ttl is a duration such as '1h', or 0, not {value!r:.40}")
        length = span(value, "ttl")
        if length > HORIZON:
            raise InvalidInputError("ttl may be at most a hundred years")
        return length

    def word(self, value: object, words: type[W], what: str) -> W:
        try:
            return words(str(value))
        except ValueError:
            raise InvalidInputError(f"{what} is one of {', '.join(words)}, not {value!r:.40}") from None

    def connection(self, value: Any, dialect: str) -> None:
        if value is None:
            return
        if not isinstance(value, sa.Connection):
            raise InvalidInputError(
                f"connection must be an open SQLAlchemy Connection, not {type(value).__name__}"
            )
        if value.dialect.name != dialect:
            raise InvalidInputError(
                f"connection leads to {value.dialect.name}, but the engine works on {dialect}; "
                "it must be a connection to the engine's own database"
            )
        if value.closed:
            raise InvalidInputError("connection is closed already; call while its block lasts")

    def same_file(self, theirs: sa.URL, ours: sa.URL) -> None:
        """An address without a file says nothing: such connections may be made by a function."""
        if theirs.database in (None, "", ":memory:") or str(theirs.database).startswith("file:"):
            return
        if ours.database in (None, "", ":memory:"):
            raise InvalidInputError(
                f"connection leads to the file {theirs.database}, but the engine works in memory; "
                "take the connection of engine.begin()"
            )
        if not _is_same_file(str(theirs.database), str(ours.database)):
            raise InvalidInputError(
                f"connection leads to the file {theirs.database}, but the engine works on {ours.database}; "
                "it must be a connection to the engine's own database"
            )


def _is_same_file(one: str, other: str) -> bool:
    try:
        return Path(one).samefile(other)
    except OSError:  # a database that nobody has written yet is no file
        return Path(one).absolute() == Path(other).absolute()
