"""Functions on numbers, and on lists of numbers."""

from __future__ import annotations

import decimal
import math
from collections import Counter
from collections.abc import Callable
from decimal import Decimal

from bpm_engine.bpmn.expressions import limits, numbers
from bpm_engine.bpmn.expressions.library.functions import argument_error
from bpm_engine.bpmn.expressions.library.strings import parse_number
from bpm_engine.bpmn.expressions.numbers import EXACT, number, to_decimal, whole
from bpm_engine.bpmn.expressions.operators import combine, ordering
from bpm_engine.bpmn.expressions.values import Number, Value, kind, mismatch

MOST_DIGITS = 6_000


def absolute(value: Value) -> Value:
    found = number(value)
    return numbers.negate(found) if found < 0 else found


def round_python(value: Value, digits: Value = None) -> Value:
    """As in Python, half to even; a decimal stays a decimal."""
    found = number(value)
    if isinstance(found, Decimal):
        return _quantized(found, 0 if digits is None else whole(digits), decimal.ROUND_HALF_EVEN)
    return numbers.calculated(lambda: round(found, None if digits is None else _digits(digits)))


def rounding(mode: str) -> Callable[..., Value]:
    """A FEEL rounding function: `(n, scale?)`, exact."""

    def rounded(value: Value, scale: Value = None) -> Value:
        return _quantized(to_decimal(number(value)), 0 if scale is None else whole(scale), mode)

    return rounded


def _quantized(value: Decimal, scale: int, mode: str) -> Number:
    if abs(scale) > MOST_DIGITS:
        raise argument_error(f"a scale lies between -{MOST_DIGITS} and {MOST_DIGITS}")
    exponent = Decimal(1).scaleb(-scale, EXACT)
    try:
        result = value.quantize(exponent, mode, EXACT)
    except decimal.InvalidOperation:
        return value
    return int(result) if scale <= 0 else result


def _digits(digits: Value) -> int:
    wanted = whole(digits)
    if abs(wanted) > 300:
        raise argument_error("too many digits")
    return wanted


def floor(value: Value) -> Value:
    return numbers.calculated(math.floor, number(value))


def ceiling(value: Value) -> Value:
    return numbers.calculated(math.ceil, number(value))


def to_integer(value: Value) -> Value:
    """A whole number from a number (cut towards zero) or a text."""
    if isinstance(value, bool):
        return int(value)
    found = parse_number(value)
    if found is None:
        raise mismatch(f"a {kind(value)} is not a number")
    return numbers.calculated(int, number(found))


def to_float(value: Value) -> Value:
    found = parse_number(value)
    if found is None:
        raise mismatch(f"a {kind(value)} is not a number")
    return numbers.calculated(float, number(found))


def to_exact(value: Value, scale: Value = None) -> Value:
    """`decimal("1.10")` is the exact decimal; `decimal(n, scale)` rounds half to even."""
    found = parse_number(value)
    if found is None:
        raise mismatch(f"a {kind(value)} is not a number")
    exact = to_decimal(number(found))
    if scale is None:
        return exact
    rounded = _quantized(exact, whole(scale), decimal.ROUND_HALF_EVEN)
    return to_decimal(rounded)


def spread(*values: Value) -> list[Value]:
    """Aggregates take one list or several arguments."""
    if len(values) == 1 and isinstance(values[0], list):
        return values[0]
    return list(values)


def minimum(*values: Value) -> Value:
    return _extreme(spread(*values), ordering("<"))


def maximum(*values: Value) -> Value:
    return _extreme(spread(*values), ordering(">"))


def _extreme(values: list[Value], better: Callable[[Value, Value], bool]) -> Value:
    if not values:
        raise argument_error("an empty list has no smallest or largest item")
    best = values[0]
    for value in values[1:]:
        if better(value, best):
            best = value
    return best


def total(*values: Value) -> Value:
    """The sum of numbers (0 if there are none) or of durations."""
    found = spread(*values)
    if {type(value) for value in found} <= {int}:
        return numbers.checked(sum(found))  # type: ignore[arg-type]
    result: Value = found[0]
    for value in found[1:]:
        if numbers.is_number(result) and numbers.is_number(value):
            result = numbers.add(number(result), number(value))
        else:
            result = combine("+", _summand(result), _summand(value), numbers.add)
    return _summand(result)


def _summand(value: Value) -> Value:
    if isinstance(value, str | list):
        raise mismatch(f"a {kind(value)} cannot be summed")
    return value


def feel_total(*values: Value) -> Value:
    found = spread(*values)
    return total([to_decimal(v) if isinstance(v, float) else v for v in found]) if found else None


def mean(*values: Value) -> Value:
    found = spread(*values)
    if not found:
        raise argument_error("an empty list has no mean")
    return numbers.divide(number(total(found)), len(found))


def feel_mean(*values: Value) -> Value:
    return numbers.divide(to_decimal(number(feel_total(*values))), len(spread(*values)))


def _exact_numbers(values: tuple[Value, ...]) -> list[Decimal]:
    return [to_decimal(number(value)) for value in spread(*values)]


def product(*values: Value) -> Value:
    found = _exact_numbers(values)
    if not found:
        return None
    result: Number = Decimal(1)
    for value in found:
        result = numbers.multiply(result, value)
    return result


def median(*values: Value) -> Value:
    found = sorted(_exact_numbers(values))
    if not found:
        return None
    middle = len(found) // 2
    return (
        found[middle] if len(found) % 2 else numbers.divide(numbers.add(found[middle - 1], found[middle]), 2)
    )


def deviation(*values: Value) -> Value:
    """The standard deviation of a sample."""
    found = _exact_numbers(values)
    if len(found) < 2:
        return None
    average = numbers.divide(numbers.number(total(list[Value](found))), len(found))
    squares: list[Value] = [numbers.power(numbers.subtract(value, average), 2) for value in found]
    return square_root(numbers.divide(number(total(squares)), len(found) - 1))


def mode(*values: Value) -> Value:
    found = _exact_numbers(values)
    counts = Counter(found)
    most = max(counts.values(), default=0)
    return [value for value in sorted(counts) if counts[value] == most]


def square_root(value: Value) -> Value:
    exact = to_decimal(number(value))
    return numbers.calculated(EXACT.sqrt, exact)


def logarithm(value: Value) -> Value:
    exact = to_decimal(number(value))
    if exact <= 0:
        raise argument_error("there is no logarithm of zero or less")
    return numbers.calculated(EXACT.ln, exact)


def exponential(value: Value) -> Value:
    exact = to_decimal(number(value))
    if abs(exact) > 1_000:
        raise limits.exceeded("an exponent is larger than 1000")
    return numbers.calculated(EXACT.exp, exact)


def modulo(dividend: Value, divisor: Value) -> Value:
    return numbers.exact(numbers.modulo)(number(dividend), number(divisor))


def odd(value: Value) -> Value:
    return whole(value) % 2 == 1


def even(value: Value) -> Value:
    return whole(value) % 2 == 0
