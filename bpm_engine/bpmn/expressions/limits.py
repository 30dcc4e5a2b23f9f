"""What an expression may cost. Every limit ends in an `ExpressionError` with the code LIMIT."""

from __future__ import annotations

from datetime import datetime

from bpm_engine.bpmn.expressions.errors import ExpressionError

SOURCE_CHARACTERS = 4_096
SCRIPT_CHARACTERS = 16_384
DEPTH = 32
NODES = 500
STEPS = 10_000
TEXT_CHARACTERS = 65_536
RESULT_SIZE = 65_536
INTEGER_BITS = 256
EXPONENT = 64
LIST_ITEMS = 10_000
BULK_ITEMS_PER_STEP = 8
"""Built-in functions walk a list or a text natively; so many items count as one step."""


def exceeded(message: str, position: int | None = None) -> ExpressionError:
    return ExpressionError("LIMIT", message, position)


def checked_text(text: str) -> str:
    if len(text) > TEXT_CHARACTERS:
        raise exceeded(f"a text grows beyond {TEXT_CHARACTERS} characters")
    return text


def checked_integer(number: int) -> int:
    if number.bit_length() > INTEGER_BITS:
        raise exceeded(f"an integer grows beyond {INTEGER_BITS} bits")
    return number


class Context:
    """What one evaluation knows besides the variables: the time it runs at, and the steps it used.

    `strict` makes a FEEL expression refuse a missing variable instead of reading null: that is how
    conditions are evaluated, where a silent false would send a token down the wrong branch.
    """

    __slots__ = ("now", "steps", "strict")

    def __init__(self, now: datetime | None = None, strict: bool = False) -> None:
        self.now = now
        self.strict = strict
        self.steps = 0

    def charge(self, steps: int) -> None:
        self.steps += steps
        if self.steps > STEPS:
            raise exceeded(f"the evaluation takes more than {STEPS} steps")

    def charge_bulk(self, items: int) -> None:
        self.charge(items // BULK_ITEMS_PER_STEP)

    def charge_value(self, value: object) -> None:
        """Pay for everything inside a value, as comparing it looks at everything."""
        waiting, items = [value], 0
        while waiting:
            current = waiting.pop()
            items += 1
            if isinstance(current, list):
                waiting += current
            elif isinstance(current, dict):
                waiting += current.values()
            if items > STEPS * BULK_ITEMS_PER_STEP:
                break
        self.charge_bulk(items)


class Unmetered(Context):
    """Shared by expressions without loops and calls: their cost is bounded by their own length."""

    __slots__ = ()

    def charge(self, steps: int) -> None:
        pass

    def charge_value(self, value: object) -> None:
        pass


LENIENT = Unmetered()
STRICT = Unmetered(strict=True)
