"""What the operators mean in FEEL: null instead of a type error, and three-valued logic.

DMN 1.4, 10.3.2: an operation on operands it is not defined for gives null. Limits are never turned
into null, so a bomb stays an error.
"""

from __future__ import annotations

from decimal import Decimal

from bpm_engine.bpmn.expressions import numbers, operators, temporal
from bpm_engine.bpmn.expressions.errors import ExpressionError
from bpm_engine.bpmn.expressions.operators import Operation
from bpm_engine.bpmn.expressions.values import Range, Value, admitted

FORGIVEN = frozenset(
    {
        "TYPE_MISMATCH",
        "ARGUMENT",
        "DIVISION_BY_ZERO",
        "NOT_BOOLEAN",
        "TIME_FORMAT",
        "UNKNOWN_KEY",
        "TIME_LIMIT",
    }
)


def or_null(operate: Operation) -> Operation:
    def forgiving(left: Value, right: Value) -> Value:
        if left is None or right is None:
            return None
        try:
            return operate(left, right)
        except ExpressionError as error:
            if error.code in FORGIVEN:
                return None
            raise

    return forgiving


def equal(left: Value, right: Value) -> Value:
    """Null equals null only; values of different kinds compare to null (DMN 10.3.2.13)."""
    if left is None or right is None:
        return left is right
    if type(left) is type(right) or (numbers.is_number(left) and numbers.is_number(right)):
        return operators.equal(left, right)
    return None


def unequal(left: Value, right: Value) -> Value:
    return negation(equal(left, right))


def negation(value: Value) -> Value:
    return not value if isinstance(value, bool) else None


def both(left: Value, right: Value) -> Value:
    if left is False or right is False:
        return False
    return True if left is True and right is True else None


def either(left: Value, right: Value) -> Value:
    if left is True or right is True:
        return True
    return False if left is False and right is False else None


def key(target: Value, name: str) -> Value:
    """`a.b`: null where there is none; on a list, the list of all its items' values."""
    match target:
        case dict():
            return admitted(target.get(name))
        case list():
            return [key(item, name) for item in target]
        case Range():
            return _range_part(target, name)
        case _:
            return temporal.part(target, name)


def _range_part(bounds: Range, name: str) -> Value:
    parts: dict[str, Value] = {
        "start": bounds.low,
        "end": bounds.high,
        "start included": bounds.includes_low,
        "end included": bounds.includes_high,
    }
    return parts.get(name)


def item(target: Value, index: Value) -> Value:
    """The item at a position counted from 1, or from the end when negative; null outside."""
    items = target if isinstance(target, list) else [target]
    try:
        place = numbers.whole(index)
    except ExpressionError:
        return None
    if 1 <= place <= len(items):
        return admitted(items[place - 1])
    return admitted(items[place]) if -len(items) <= place <= -1 else None


def satisfies(value: Value, expected: Value) -> Value:
    """`value in expected`: inside a range, among the items of a list, or equal."""
    match expected:
        case Range():
            return or_null(lambda bounds, inside: operators.contains(bounds, inside))(expected, value)
        case list():
            return any(satisfies(value, candidate) is True for candidate in expected)
        case _:
            return equal(value, expected)


def exact_number(value: Value) -> Value:
    """Numbers enter FEEL as integers or decimals, never as floats."""
    return numbers.to_decimal(value) if type(value) is float else value


def _exactly(symbol: str, on_numbers: numbers.Operation) -> Operation:
    return or_null(operators.arithmetic(symbol, numbers.exact(on_numbers)))


def negated(value: Value) -> Value:
    return None if value is None else or_null(lambda item, _: operators.negated(item))(value, Decimal(0))


FEEL_OPERATORS: dict[str, Operation] = {
    "+": _exactly("+", numbers.add),
    "-": _exactly("-", numbers.subtract),
    "*": _exactly("*", numbers.multiply),
    "/": _exactly("/", numbers.divide),
    "**": _exactly("**", numbers.power),
    **{symbol: or_null(operators.ordering(symbol)) for symbol in operators.ORDERINGS},
    "=": equal,
    "!=": unequal,
}
