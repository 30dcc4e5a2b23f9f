"""The border: what the store refuses to keep, checked before the first write, with the same answer on both
databases.

Left alone the databases differ: PostgreSQL refuses NUL and lone surrogates, SQLite stores NaN as broken JSON,
and either keeps numbers that Python cannot read back. Refused here, such a value cannot spoil a batch.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sized
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from bpm_engine.core.state import Instance, InstanceStatus, Variables
from bpm_engine.errors import InvalidInputError
from bpm_engine.store.config import Limits
from bpm_engine.store.types import LATEST, to_json

DEFAULT_LIMITS = Limits()
EARLIEST = datetime(1, 1, 2, tzinfo=UTC)  # a day from the edge, so that no time zone can push it over
EXACT = 2.0**53  # from here on every float is a whole number
PATH = 200  # characters of the path to a value, in a refusal
ADVICE = {  # how people usually write what JSON does not have, by its type
    "datetime": "; write it as text by .isoformat()",
    "date": "; write it as text by .isoformat()",
    "time": "; write it as text by .isoformat()",
    "timedelta": "; write it as a number by .total_seconds()",
    "Decimal": "; write it as text by str()",
    "UUID": "; write it as text by str()",
    "PosixPath": "; write it as text by str()",
    "WindowsPath": "; write it as text by str()",
    "bytes": "; write it as text by .decode() or base64.b64encode(…).decode()",
    "set": "; write it as a list by list() or sorted()",
    "frozenset": "; write it as a list by list() or sorted()",
}
_UNTRUE_TEXT = re.compile("[\x00\ud800-\udfff]")


def check_variables(
    variables: object, limits: Limits = DEFAULT_LIMITS, *, name: str = "variables"
) -> Variables:
    """`variables`, to be stored; InvalidInputError says which part cannot be, and why.

    Floats beyond 2^53 come back as the integers that they are: PostgreSQL would make integers of them, too,
    but of their shortest decimal form, which is another number. Tuples, enums, markup, NumPy's floats and
    the like come back as the plain values they are made of: an expression must read them now as it will
    read them from the row.
    """
    if not isinstance(variables, dict):
        raise InvalidInputError(f"{name} must be an object with names, not {type(variables).__name__}")
    total, kept = 0, variables
    for key, value in variables.items():
        check_name(key, limits, what=f"a name in {name}")
        if key in limits.reserved_names:
            raise InvalidInputError(f"{name}: {key!r} is a reserved name")
        if _check(value, f"{name}.{key}", limits, depth=1):
            if kept is variables:
                kept = dict(variables)
            kept[key] = value = _plain(value)
        size = len(to_json(value).encode())
        if size > limits.variable_bytes:
            raise InvalidInputError(
                f"{name}.{key} has {size} bytes of JSON; {limits.variable_bytes} are allowed"
            )
        total += size + len(key) + 4
        if total > limits.variables_bytes:
            raise InvalidInputError(
                f"{name} have at least {total} bytes of JSON; {limits.variables_bytes} are allowed"
            )
    return kept


def check_name(value: object, limits: Limits = DEFAULT_LIMITS, *, what: str = "the name") -> str:
    """A key, name or id that people choose: text, not empty, not too long, storable."""
    if not isinstance(value, str) or not value:
        raise InvalidInputError(f"{what} must be a text that is not empty")
    if len(value) > limits.name_characters:
        raise InvalidInputError(f"{what} has {len(value)} characters; {limits.name_characters} are allowed")
    _check_text(value, what)
    return value


def storable(text: str) -> str:
    """A text that nobody chose, such as that of an error: what cannot be stored is replaced, not refused."""
    return _UNTRUE_TEXT.sub("\ufffd", text)


def check_instant(value: object, *, what: str = "the time") -> datetime:
    """An aware time that both databases and Python can hold, as UTC."""
    if not isinstance(value, datetime) or value.tzinfo is None:
        raise InvalidInputError(f"{what} must be a datetime with a time zone")
    if not EARLIEST <= value < LATEST:
        raise InvalidInputError(f"{what} must be between the years 1 and 9999, not {value}")
    return value.astimezone(UTC)


def identifier(value: str) -> str | None:
    """The canonical form of an id, or None if it cannot be one: then there is no such row."""
    try:
        return str(UUID(value))
    except (ValueError, AttributeError, TypeError):
        return None


def is_row(column: sa.ColumnElement[Any], value: str) -> sa.ColumnElement[bool]:
    """The column holds this id. Nothing holds what cannot be an id; compared as None it would mean NULL."""
    known = identifier(value)
    return sa.false() if known is None else column == known


def purge_time(instance: Instance) -> datetime | None:
    """From when on an ended instance may be deleted; None: not yet known, or kept for ever."""
    ended = instance.status in (InstanceStatus.COMPLETED, InstanceStatus.CANCELLED)
    if not ended or instance.ended_at is None or instance.retention is None:
        return None
    try:
        return min(instance.ended_at + timedelta(seconds=instance.retention), LATEST - timedelta(days=1))
    except OverflowError:
        return None


def _check(value: Any, where: str, limits: Limits, depth: int) -> bool:
    """Whether there is something in it that has to be written otherwise: see `_plain`."""
    if depth > limits.depth:
        raise InvalidInputError(f"{where} is nested deeper than {limits.depth} levels")
    match value:
        case None | bool():
            return False
        case str():
            _check_length(value, where, limits)
            _check_text(value, where)
            return type(value) is not str
        case float() if not math.isfinite(value):
            raise InvalidInputError(f"{where} is {value}, which JSON does not have")
        case int() | float():
            if abs(value) >= 10**limits.digits:
                raise InvalidInputError(f"{where} is a number with more than {limits.digits} digits")
            return type(value) is not int and (type(value) is not float or abs(value) >= EXACT)
        case list() | tuple():
            _check_length(value, where, limits)
            inner = [_check(item, f"{where}[{i}]", limits, depth + 1) for i, item in enumerate(value)]
            return any(inner) or type(value) is not list
        case dict():
            _check_length(value, where, limits)
            members = [_check_member(key, item, where, limits, depth) for key, item in value.items()]
            return any(members) or type(value) is not dict
        case _:
            kind = type(value).__name__
            raise InvalidInputError(f"{where} is a {kind}, which JSON does not have{ADVICE.get(kind, '')}")


def _check_member(key: object, item: Any, where: str, limits: Limits, depth: int) -> bool:
    if not isinstance(key, str):
        raise InvalidInputError(f"{where} has the key {key!r:.80}; JSON knows only texts as keys")
    _check_text(key, f"a key in {where}")
    inner = f"{where}.{key}" if len(where) + len(key) < PATH else f"{where:.{PATH}}…"
    return _check(item, inner, limits, depth + 1) or type(key) is not str


def _plain(value: Any) -> Any:
    """Made of Python's own types, by their own methods: a class may say something else of itself."""
    match value:
        case bool():
            return value
        case str():
            return str.__str__(value)
        case int():
            return int.__int__(value)
        case float():
            number = float.__float__(value)
            return int(number) if abs(number) >= EXACT else number
        case list() | tuple():
            return [_plain(item) for item in value]
        case dict():
            return {str.__str__(key): _plain(item) for key, item in value.items()}
        case _:
            return value


def _check_length(value: Sized, where: str, limits: Limits) -> None:
    """Every character and every item takes a byte: what is far too large is refused before it is written."""
    if len(value) > limits.variable_bytes:
        raise InvalidInputError(
            f"{where} has at least {len(value)} bytes of JSON; {limits.variable_bytes} are allowed"
        )


def _check_text(value: str, where: str) -> None:
    if found := _UNTRUE_TEXT.search(value):
        raise InvalidInputError(
            f"{where} contains the character U+{ord(found.group()):04X}, which cannot be stored"
        )
