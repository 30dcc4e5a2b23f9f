"""FEEL's range functions: how points and ranges lie to each other (DMN 1.4, table 78)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import date, timedelta

from bpm_engine.bpmn.expressions import limits
from bpm_engine.bpmn.expressions.library.functions import argument_error
from bpm_engine.bpmn.expressions.numbers import whole
from bpm_engine.bpmn.expressions.operators import equal, in_range, ordering
from bpm_engine.bpmn.expressions.values import Range, Value

_less = ordering("<")


def as_range(value: Value) -> Range:
    return value if isinstance(value, Range) else Range(value, value)


def items_of(bounds: Range) -> Iterator[Value]:
    """The whole numbers or days from one bound to the other, downwards if need be."""
    if isinstance(bounds.low, date) and isinstance(bounds.high, date):
        first, last = bounds.low.toordinal(), bounds.high.toordinal()
        for ordinal in _walk(first, last):
            yield bounds.low + timedelta(days=ordinal - first)
        return
    yield from _walk(whole(bounds.low), whole(bounds.high))


def _walk(first: int, last: int) -> range:
    if abs(last - first) >= limits.LIST_ITEMS:
        raise limits.exceeded(f"a range runs over more than {limits.LIST_ITEMS} items")
    return range(first, last + 1) if first <= last else range(first, last - 1, -1)


def before(left: Value, right: Value) -> Value:
    a, b = as_range(left), as_range(right)
    return _less(a.high, b.low) or (equal(a.high, b.low) and not (a.includes_high and b.includes_low))


def after(left: Value, right: Value) -> Value:
    return before(right, left)


def meets(left: Value, right: Value) -> Value:
    a, b = _both(left, right)
    return a.includes_high and b.includes_low and equal(a.high, b.low)


def overlaps(left: Value, right: Value) -> Value:
    _both(left, right)
    return not before(left, right) and not before(right, left)


def includes(left: Value, right: Value) -> Value:
    outer, inner = _range(left), as_range(right)
    low_in = in_range(outer, inner.low) or (equal(outer.low, inner.low) and not inner.includes_low)
    return low_in and (
        in_range(outer, inner.high) or (equal(outer.high, inner.high) and not inner.includes_high)
    )


def during(left: Value, right: Value) -> Value:
    return includes(right, left)


def starts(left: Value, right: Value) -> Value:
    a, b = as_range(left), _range(right)
    return equal(a.low, b.low) and a.includes_low == b.includes_low and includes(b, a)


def finishes(left: Value, right: Value) -> Value:
    a, b = as_range(left), _range(right)
    return equal(a.high, b.high) and a.includes_high == b.includes_high and includes(b, a)


def coincides(left: Value, right: Value) -> Value:
    return equal(as_range(left), as_range(right))


def overlaps_before(left: Value, right: Value) -> Value:
    a, b = _both(left, right)
    return bool(overlaps(a, b)) and _less(a.low, b.low) and _less(a.high, b.high)


def swapped(relation: Callable[[Value, Value], Value]) -> Callable[[Value, Value], Value]:
    return lambda left, right: relation(right, left)


def _range(value: Value) -> Range:
    if isinstance(value, Range):
        return value
    raise argument_error("a range is needed here")


def _both(left: Value, right: Value) -> tuple[Range, Range]:
    return _range(left), _range(right)
