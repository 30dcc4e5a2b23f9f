"""Methods of texts, lists, contexts, numbers and times: the spelling of Java and Python for the library.

Files of other engines write `${name.startsWith("a")}` and `${order.getTotal()}`. A method is never looked
up on an object: this fixed table is all there is, and what it holds is as pure as the functions. Where it
has no such method, `getTotal()` and `isPaid()` without arguments read the keys `total` and `paid`.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from bpm_engine.bpmn.expressions import limits
from bpm_engine.bpmn.expressions.durations import Duration
from bpm_engine.bpmn.expressions.library import lists, numeric, strings
from bpm_engine.bpmn.expressions.library.functions import Cost, Implementation, Library, context, text
from bpm_engine.bpmn.expressions.numbers import whole
from bpm_engine.bpmn.expressions.operators import contains, equal, is_empty, truth
from bpm_engine.bpmn.expressions.temporal import arithmetic
from bpm_engine.bpmn.expressions.values import Value, kind, mismatch

_ACCESSOR = re.compile(r"(?:get|is)([A-Z]\w*)")
_UNITS = {
    "Seconds": Duration(rest=timedelta(seconds=1)),
    "Minutes": Duration(rest=timedelta(minutes=1)),
    "Hours": Duration(rest=timedelta(hours=1)),
    "Days": Duration(rest=timedelta(days=1)),
    "Weeks": Duration(rest=timedelta(weeks=1)),
    "Months": Duration(months=1),
    "Years": Duration(months=12),
}


def accessed_key(method: str) -> str | None:
    """The key that a Java accessor reads: `getTotal` reads `total`, `getURL` reads `URL`."""
    found = _ACCESSOR.fullmatch(method)
    if found is None:
        return None
    name = found[1]
    return name if name[:2].isupper() and len(name) > 1 else name[0].lower() + name[1:]


def _equals_ignoring_case(value: Value, other: Value) -> Value:
    return isinstance(other, str) and text(value).casefold() == other.casefold()


def _between(value: Value, begin: Value, end: Value = None) -> Value:
    """As in Java: the second position is where the part ends, not how long it is."""
    whole_text, first = text(value), whole(begin)
    last = len(whole_text) if end is None else whole(end)
    if not 0 <= first <= last <= len(whole_text):
        raise mismatch(f"the text has no part from {first} to {last}")
    return whole_text[first:last]


def _joined(value: Value, other: Value) -> Value:
    return limits.checked_text(text(value) + text(other))


def _has_key(value: Value, key: Value) -> Value:
    return text(key) in context(value)


def _same(value: Value) -> Value:
    return value


def _shift(unit: Duration, sign: int) -> Implementation:
    def shifted(start: Value, count: Value) -> Value:
        moved = (
            arithmetic("+", start, unit.times(sign * whole(count))) if isinstance(start, datetime) else None
        )
        if moved is None:
            raise mismatch(f"a date and time is needed here, not a {kind(start)}")
        return moved

    return shifted


def _shared() -> Library:
    table = Library()
    table.add("equals", "value, other", equal, cost=Cost.DEEP)
    table.add("isEmpty", "value", is_empty)
    table.add("size|length", "value", lists.size)
    table.add("contains", "container, part", contains, cost=Cost.DEEP)
    table.add("indexOf", "container, item", lists.position_of, cost=Cost.DEEP)
    table.add("toString", "value", strings.to_text)
    _add_texts(table)
    table.add("get|getOrDefault", "container, key, default?", lists.get)
    table.add("containsKey", "context, key", _has_key)
    table.add("keySet|keys", "context", lists.keys)
    table.add("values", "context", lists.values_of)
    table.add("intValue|longValue", "value", numeric.to_integer)
    table.add("doubleValue|floatValue", "value", numeric.to_float)
    table.add("booleanValue", "value", truth)
    return table


def _add_texts(table: Library) -> None:
    table.add("equalsIgnoreCase", "text, other", _equals_ignoring_case)
    table.add("isBlank", "text", strings.is_blank)
    table.add("startsWith|startswith", "text, part", strings.starts_with)
    table.add("endsWith|endswith", "text, part", strings.ends_with)
    table.add("toLowerCase|lower", "text", strings.lower)
    table.add("toUpperCase|upper", "text", strings.upper)
    table.add("trim|strip", "text", strings.trim)
    table.add("replace", "text, old, new", strings.replace)
    table.add("substring", "text, begin, end?", _between)
    table.add("concat", "text, other", _joined)
    table.add("split", "text, separator", strings.split)


def _juel() -> Library:
    """Java's: texts are split by a pattern; the values of Camunda's Spin and of Joda-Time."""
    table = _shared()
    table.add("split", "text, pattern", strings.split_pattern, cost=Cost.PATTERN)
    table.add("prop", "context, key", lists.get)
    table.add("hasProp", "context, key", _has_key)
    table.add("value|stringValue|numberValue|boolValue|elements|toDate", "value", _same)
    for name, unit in _UNITS.items():
        table.add(f"plus{name}", "time, count", _shift(unit, 1))
        table.add(f"minus{name}", "time, count", _shift(unit, -1))
    return table


PLAIN_METHODS = _shared()
JUEL_METHODS = _juel()
