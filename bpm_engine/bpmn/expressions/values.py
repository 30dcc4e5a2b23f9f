"""What a value may be, and how it becomes a process variable.

Values are JSON values plus Decimal, date, time, datetime and Duration, and the ranges of FEEL. Nothing
else ever enters an evaluation, so no operator of a foreign class is ever called.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Protocol, TypeAlias, Union

from bpm_engine.bpmn.expressions import limits
from bpm_engine.bpmn.expressions.durations import Duration, aware
from bpm_engine.bpmn.expressions.errors import ExpressionError

Number: TypeAlias = int | float | Decimal
Temporal: TypeAlias = date | time | datetime | Duration
Value: TypeAlias = Union[
    bool,
    int,
    float,
    Decimal,
    str,
    date,
    time,
    datetime,
    Duration,
    "Range",
    list["Value"],
    dict[str, "Value"],
    None,
]
Json: TypeAlias = Union[bool, int, float, str, list["Json"], dict[str, "Json"], None]  # noqa: UP007


class Lookup(Protocol):
    """Where variables are read: any mapping, or the local names of a loop over one."""

    def __getitem__(self, name: str, /) -> Value: ...


@dataclass(frozen=True, slots=True)
class Range:
    """A FEEL range such as `[1..5)`; a missing bound is open to that side."""

    low: Value
    high: Value
    includes_low: bool = True
    includes_high: bool = True

    def __hash__(self) -> int:
        return hash((str(self.low), str(self.high), self.includes_low, self.includes_high))

    def __str__(self) -> str:
        left, right = "[" if self.includes_low else "(", "]" if self.includes_high else ")"
        return f"{left}{self.low}..{self.high}{right}"


_KINDS: dict[type, str] = {
    type(None): "null",
    bool: "boolean",
    int: "number",
    float: "number",
    Decimal: "number",
    str: "text",
    list: "list",
    dict: "context",
    date: "date",
    time: "time",
    datetime: "date and time",
    Duration: "duration",
    Range: "range",
}
KNOWN_TYPES = frozenset(_KINDS)
READY_TYPES = KNOWN_TYPES - {datetime}
"""Values of these types are used as they are; a date-time may still lack its zone."""
NUMBER_TYPES = frozenset({int, float, Decimal})


def kind(value: object) -> str:
    """The word error messages use for the type of a value."""
    return _KINDS.get(type(value), type(value).__name__)


def mismatch(message: str) -> ExpressionError:
    return ExpressionError("TYPE_MISMATCH", message)


def admitted(value: Value) -> Value:
    """A value read from outside, if it is of a known type (naive date-times are taken as UTC)."""
    if type(value) in KNOWN_TYPES:
        return aware(value) if type(value) is datetime and value.tzinfo is None else value
    raise mismatch(f"a variable holds a Python {type(value).__name__}, which is not a JSON value")


def to_json(value: Value) -> Json:
    """What may be stored as a variable: times as ISO text, a Decimal as int if whole, else float.

    Money of up to fifteen digits survives the float unchanged; `string(x)` keeps more.
    """
    return _json(value, 0)


def _json(value: Value, depth: int) -> Json:
    if depth > limits.DEPTH:
        raise limits.exceeded(f"a value is nested deeper than {limits.DEPTH}")
    if type(value) is list:
        return [_json(item, depth + 1) for item in value]
    if type(value) is dict:
        return {_json_text(key): _json(item, depth + 1) for key, item in value.items()}
    return _json_scalar(value)


def _json_scalar(value: Value) -> Json:
    match value:
        case None | bool() | int():
            return value
        case str():
            return _json_text(value)
        case float():
            return _finite(value)
        case Decimal():
            return _json_decimal(value)
        case date() | time() | Duration():
            return as_text(value)
        case _:
            raise mismatch(f"a {kind(value)} cannot be stored as a variable")


def _json_decimal(value: Decimal) -> Json:
    if not value.is_finite():
        raise mismatch("a number that is not finite cannot be stored")
    if value == value.to_integral_value() and value.adjusted() < 40:
        return int(value)
    return _finite(float(value))


def _json_text(text: str) -> str:
    if type(text) is not str:
        raise mismatch("the keys of a context must be text")
    if "\x00" in text or (not text.isascii() and any("\ud800" <= c <= "\udfff" for c in text)):
        raise mismatch("a text holds a character that cannot be stored")
    return text


def _finite(number: float) -> float:
    if not math.isfinite(number):
        raise mismatch("a number that is not finite cannot be stored")
    return number


def as_text(value: Value) -> str:
    """The text of a scalar, as `string(x)` and texts with `${…}` inside them write it."""
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case None:
            return "null"
        case int():
            return str(value)
        case float():
            return repr(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
        case Decimal():
            return format(value, "f") if abs(value.adjusted()) < 40 else str(value)
        case datetime() | time():
            return _moment_text(value)
        case date():
            return value.isoformat()
        case Duration() | Range():
            return str(value)
        case _:
            raise mismatch(f"a {kind(value)} is not a text")


def _moment_text(moment: datetime | time) -> str:
    text = moment.isoformat()
    return text[:-6] + "Z" if moment.tzinfo is UTC or text.endswith("+00:00") else text


def check_result(value: Value) -> Value:
    """Refuse a computed value that is too large to keep, or not a value at all."""
    kind_of = type(value)
    if kind_of is str:
        limits.checked_text(value)  # type: ignore[arg-type]
    elif kind_of is list or kind_of is dict:
        measure(value)
    elif kind_of not in KNOWN_TYPES:
        admitted(value)
    return value


def measure(value: Value) -> int:
    """The approximate size of a value in characters; refuses more than the result limit."""
    size, waiting = 0, [value]
    while waiting:
        current = waiting.pop()
        size += 4
        if isinstance(current, str):
            size += len(current)
        elif isinstance(current, list):
            waiting += current
        elif isinstance(current, dict):
            size += sum(map(len, current))
            waiting += current.values()
        else:
            admitted(current)
        if size > limits.RESULT_SIZE or len(waiting) > limits.RESULT_SIZE:
            raise limits.exceeded(f"the result is larger than {limits.RESULT_SIZE} characters")
    return size
