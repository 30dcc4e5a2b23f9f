"""Arithmetic on numbers: exact integers up to 256 bits, floats as in Python, decimals of 34 digits.

An integer meets a float as a float and a decimal as a decimal. A float meets a decimal by its shortest
decimal text, so that 0.1 from JSON is the decimal 0.1 and not its binary neighbour.
"""

from __future__ import annotations

import decimal
import math
import operator
from collections.abc import Callable
from decimal import Decimal

from bpm_engine.bpmn.expressions import limits
from bpm_engine.bpmn.expressions.errors import ExpressionError
from bpm_engine.bpmn.expressions.values import NUMBER_TYPES, Number, Value, kind, mismatch

EXACT = decimal.Context(
    prec=34,
    rounding=decimal.ROUND_HALF_EVEN,
    Emin=-6143,
    Emax=6144,
    traps=[decimal.InvalidOperation, decimal.DivisionByZero, decimal.Overflow],
)

Operation = Callable[[Number, Number], Number]


def is_number(value: Value) -> bool:
    return type(value) in NUMBER_TYPES


def number(value: Value) -> Number:
    if type(value) in NUMBER_TYPES:
        return value  # type: ignore[return-value]
    raise mismatch(f"a number is needed here, not a {kind(value)}")


def whole(value: Value) -> int:
    """An integer argument; a float or decimal without a fraction is one."""
    found = number(value)
    if isinstance(found, int):
        return found
    if -(10**15) < found < 10**15 and found == int(found):
        return int(found)
    raise ExpressionError("ARGUMENT", f"a whole number is needed here, not {found}")


def to_decimal(value: Number) -> Decimal:
    if isinstance(value, Decimal):
        return value
    try:
        return EXACT.create_decimal(value if isinstance(value, int) else repr(value))
    except decimal.DecimalException:
        raise mismatch(f"{value} is not a finite number") from None


def calculated(operate: Callable[..., Number], *operands: Number) -> Number:
    """Run one arithmetic operation; whatever the number types raise becomes an ExpressionError."""
    try:
        return checked(operate(*operands))
    except (ZeroDivisionError, decimal.DivisionByZero, decimal.DivisionUndefined):
        raise ExpressionError("DIVISION_BY_ZERO", "division by zero") from None
    except (OverflowError, decimal.Overflow):
        raise limits.exceeded("a number grows too large") from None
    except (decimal.InvalidOperation, ValueError):
        raise ExpressionError("ARGUMENT", "there is no such number") from None


def checked(result: Number) -> Number:
    if type(result) is int:
        return limits.checked_integer(result)
    if type(result) is float and not math.isfinite(result):
        raise limits.exceeded("a number grows too large")
    if type(result) is complex:
        raise ExpressionError("ARGUMENT", "the result is not a real number")
    return result


def operation(on_decimals: Callable[[Decimal, Decimal], Decimal], on_others: Operation) -> Operation:
    """One operator for all numbers: decimals if either operand is one, else as Python does it."""

    def operate(left: Number, right: Number) -> Number:
        if isinstance(left, Decimal) or isinstance(right, Decimal):
            return calculated(on_decimals, to_decimal(left), to_decimal(right))
        return calculated(on_others, left, right)

    return operate


def same_type(left: Number, right: Number) -> tuple[Number, Number]:
    """Both as decimals if either is one; then Python compares them as we mean it."""
    if isinstance(left, Decimal) or isinstance(right, Decimal):
        return to_decimal(left), to_decimal(right)
    return left, right


def negate(value: Number) -> Number:
    return EXACT.minus(value) if isinstance(value, Decimal) else -value


def power(left: Number, right: Number) -> Number:
    if not -limits.EXPONENT <= right <= limits.EXPONENT:
        raise limits.exceeded(f"an exponent is larger than {limits.EXPONENT}")
    return _power(left, right)


def exact(operate: Operation) -> Operation:
    """The same operation as FEEL wants it: no floats; what could leave 34 digits becomes a decimal."""
    keeps_integers = operate not in (divide, power)

    def operate_exactly(left: Number, right: Number) -> Number:
        small = type(left) is int and type(right) is int and max(abs(left), abs(right)) < 10**17
        if small and keeps_integers:
            return operate(left, right)
        return operate(to_decimal(left), to_decimal(right))

    return operate_exactly


def _floor_quotient(left: Decimal, right: Decimal) -> Decimal:
    return EXACT.divide(left, right).to_integral_value(decimal.ROUND_FLOOR, EXACT)


def _modulo(left: Decimal, right: Decimal) -> Decimal:
    return EXACT.subtract(left, EXACT.multiply(right, _floor_quotient(left, right)))


def _java_remainder(left: Number, right: Number) -> Number:
    if isinstance(left, int) and isinstance(right, int):
        rest = abs(left) % abs(right)
        return -rest if left < 0 else rest
    if not right:
        raise ZeroDivisionError
    return math.fmod(left, right)


add = operation(EXACT.add, operator.add)
subtract = operation(EXACT.subtract, operator.sub)
multiply = operation(EXACT.multiply, operator.mul)
divide = operation(EXACT.divide, operator.truediv)
floor_divide = operation(_floor_quotient, operator.floordiv)
modulo = operation(_modulo, operator.mod)
"""The remainder with the sign of the divisor, as in Python and FEEL."""
remainder = operation(EXACT.remainder, _java_remainder)
"""The remainder with the sign of the dividend, as in Java and so in JUEL."""
_power = operation(EXACT.power, operator.pow)
