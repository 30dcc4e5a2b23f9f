"""What the operators mean in the plain and JUEL notations: strict types, no coercion, no truthiness.

Arithmetic works on numbers, on texts (`+`), lists (`+`) and times; comparison on two numbers, two texts
or two times of one kind. Values of different kinds are never equal, and ordering them is an error.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from datetime import date, datetime, time
from decimal import Decimal

from bpm_engine.bpmn.expressions import limits, numbers, temporal
from bpm_engine.bpmn.expressions.durations import Duration
from bpm_engine.bpmn.expressions.errors import ExpressionError
from bpm_engine.bpmn.expressions.values import NUMBER_TYPES, Range, Value, admitted, kind, mismatch

Operation = Callable[[Value, Value], Value]

ORDERINGS: dict[str, Callable[[Value, Value], bool]] = {
    "<": operator.lt,  # type: ignore[dict-item]
    "<=": operator.le,  # type: ignore[dict-item]
    ">": operator.gt,  # type: ignore[dict-item]
    ">=": operator.ge,  # type: ignore[dict-item]
}
_DIRECTLY_COMPARABLE = frozenset({int, float, Decimal, str, date, datetime})
_DIRECTLY_EQUAL = _DIRECTLY_COMPARABLE | {bool, type(None), Duration}


def arithmetic(symbol: str, on_numbers: numbers.Operation) -> Operation:
    def operate(left: Value, right: Value) -> Value:
        if type(left) in NUMBER_TYPES and type(right) in NUMBER_TYPES:
            return on_numbers(left, right)  # type: ignore[arg-type]
        return combine(symbol, left, right, on_numbers)

    return operate


def combine(symbol: str, left: Value, right: Value, on_numbers: numbers.Operation) -> Value:
    """Operands that are not both numbers: texts, lists, times."""
    if symbol == "+" and isinstance(left, str) and isinstance(right, str):
        return limits.checked_text(left + right)
    if symbol == "+" and isinstance(left, list) and isinstance(right, list):
        return checked_list(left + right)
    result = temporal.arithmetic(symbol, left, right)
    if result is None:
        raise mismatch(_cannot(symbol, left, right))
    return result


def checked_list(items: list[Value]) -> list[Value]:
    if len(items) > limits.LIST_ITEMS:
        raise limits.exceeded(f"a list grows beyond {limits.LIST_ITEMS} items")
    return items


def equal(left: Value, right: Value) -> bool:
    """Equality of values: numbers by amount, a boolean is no number, containers item by item."""
    left_type, right_type = type(left), type(right)
    if left_type is right_type:
        if left_type in _DIRECTLY_EQUAL:
            return left == right
        return _equal_inside(left, right)
    if left_type in NUMBER_TYPES and right_type in NUMBER_TYPES:
        first, second = numbers.same_type(left, right)  # type: ignore[arg-type]
        return first == second
    return False


def java_equal(left: Value, right: Value) -> bool:
    """JUEL: Java would convert `'5'` or `'true'` before comparing; rather than answer otherwise, refuse."""
    if left is None or right is None or kind(left) == kind(right):
        return equal(left, right)
    raise mismatch(f"{_cannot('==', left, right)}; convert one of them, as in number(x) or string(x)")


def _equal_inside(left: Value, right: Value) -> bool:
    match left, right:
        case list(), list():
            return len(left) == len(right) and all(map(equal, left, right))
        case dict(), dict():
            return left.keys() == right.keys() and all(
                equal(value, right[key]) for key, value in left.items()
            )
        case time(), time():
            return temporal.zoned(left) == temporal.zoned(right)
        case Range(), Range():
            return (
                equal(left.low, right.low)
                and equal(left.high, right.high)
                and (left.includes_low, left.includes_high) == (right.includes_low, right.includes_high)
            )
        case _:
            return False


def ordering(symbol: str) -> Callable[[Value, Value], bool]:
    compare = ORDERINGS[symbol]

    def ordered(left: Value, right: Value) -> bool:
        left_type = type(left)
        if left_type is type(right) and left_type in _DIRECTLY_COMPARABLE:
            return compare(left, right)
        return compare(*comparable(symbol, left, right))

    return ordered


def comparable(symbol: str, left: Value, right: Value) -> tuple[Value, Value]:
    """The operands in a form Python can order, or an error that names both kinds."""
    if type(left) in NUMBER_TYPES and type(right) in NUMBER_TYPES:
        return numbers.same_type(left, right)  # type: ignore[arg-type]
    match left, right:
        case time(), time():
            return temporal.zoned(left), temporal.zoned(right)
        case Duration(), Duration() if not left.months and not right.months:
            return left.rest.total_seconds(), right.rest.total_seconds()
        case Duration(), Duration() if not left.rest and not right.rest:
            return left.months, right.months
        case Duration(), Duration():
            raise mismatch("durations with months compare only with durations of months alone")
        case _:
            raise mismatch(_cannot(symbol, left, right))


def contains(container: Value, item: Value) -> bool:
    """`item in container`: an item of a list, a part of a text, a key of a context, inside a range."""
    match container:
        case list():
            return any(equal(item, candidate) for candidate in container)
        case dict():
            return item in container if isinstance(item, str) else False
        case str() if isinstance(item, str):
            return item in container
        case Range():
            return in_range(container, item)
        case _:
            raise mismatch(_cannot("in", item, container))


def in_range(bounds: Range, item: Value) -> bool:
    above = bounds.low is None or ordering(">=" if bounds.includes_low else ">")(item, bounds.low)
    return above and (
        bounds.high is None or ordering("<=" if bounds.includes_high else "<")(item, bounds.high)
    )


def truth(value: Value) -> bool:
    if value is True or value is False:
        return value
    raise ExpressionError("NOT_BOOLEAN", f"true or false is needed here, not a {kind(value)}")


def is_empty(value: Value) -> bool:
    return value is None or value == "" or value == [] or value == {}


def strict_key(target: Value, key: str) -> Value:
    if isinstance(target, dict):
        if key in target:
            return admitted(target[key])
        raise ExpressionError("UNKNOWN_KEY", f"there is no key {key!r} in the context")
    part = temporal.part(target, key)
    if part is None:
        raise mismatch(f"a {kind(target)} has no {key!r}")
    return part


def strict_item(target: Value, index: Value) -> Value:
    match target, index:
        case dict(), str():
            return strict_key(target, index)
        case list() | str(), _:
            place = numbers.whole(index)
            if -len(target) <= place < len(target):
                return admitted(target[place])
            raise ExpressionError(
                "UNKNOWN_KEY", f"there is no item {place} in a {kind(target)} of {len(target)}"
            )
        case _:
            raise mismatch(f"a {kind(target)} has no [{kind(index)}]")


def forgiving_key(target: Value, key: str) -> Value:
    """JUEL: what a map does not hold is null, and so is anything of null."""
    if target is None or (isinstance(target, dict) and key not in target):
        return None
    return strict_key(target, key)


def forgiving_item(target: Value, index: Value) -> Value:
    if target is None or index is None:
        return None
    if isinstance(target, dict) and isinstance(index, str):
        return forgiving_key(target, index)
    if isinstance(target, list) and not 0 <= numbers.whole(index) < len(target):
        return None
    return strict_item(target, index)


def negated(value: Value) -> Value:
    if isinstance(value, Duration):
        return value.times(-1)
    return numbers.negate(numbers.number(value))


def _cannot(symbol: str, left: Value, right: Value) -> str:
    return f"{symbol!r} does not work between {kind(left)} and {kind(right)}"


_ARITHMETIC: dict[str, Operation] = {
    "+": arithmetic("+", numbers.add),
    "-": arithmetic("-", numbers.subtract),
    "*": arithmetic("*", numbers.multiply),
    "/": arithmetic("/", numbers.divide),
}
_COMPARISON: dict[str, Operation] = {
    **{symbol: ordering(symbol) for symbol in ORDERINGS},
    "==": equal,
    "!=": lambda left, right: not equal(left, right),
    "in": lambda item, container: contains(container, item),
    "not in": lambda item, container: not contains(container, item),
}
PLAIN_OPERATORS: dict[str, Operation] = {
    **_ARITHMETIC,
    **_COMPARISON,
    "//": arithmetic("//", numbers.floor_divide),
    "%": arithmetic("%", numbers.modulo),
    "**": arithmetic("**", numbers.power),
}
JUEL_OPERATORS: dict[str, Operation] = {
    **_ARITHMETIC,
    **_COMPARISON,
    "==": java_equal,
    "!=": lambda left, right: not java_equal(left, right),
    "%": arithmetic("%", numbers.remainder),
}
