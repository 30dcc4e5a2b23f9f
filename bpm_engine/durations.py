"""Lengths of time as users give them: ISO 8601 text ("PT2M"), short text ("2m") or a timedelta.

Calls take them as they are; a setting of `Config` may be a number of seconds as well, and is read as seconds.
"""

from __future__ import annotations

from datetime import timedelta

from bpm_engine.bpmn.expressions import ExpressionError, parse_duration
from bpm_engine.errors import InvalidInputError

Duration = str | timedelta
"""ISO 8601 ("PT2M"), short ("2m") or a timedelta, everywhere."""


def span(value: Duration, what: str = "duration") -> timedelta:
    """The length of a duration without calendar parts."""
    if isinstance(value, timedelta):
        length = value
    elif not isinstance(value, str):
        raise InvalidInputError(
            f"{what} must be a duration such as '30s', 'PT5M' or timedelta(seconds=30), not {value!r:.40}"
        )
    else:
        try:
            parsed = parse_duration(value)
        except ExpressionError as error:
            raise InvalidInputError(f"{what}: {error}") from None
        if parsed.months:
            raise InvalidInputError(f"{what}: {value!r} has months or years, whose length is not fixed")
        length = parsed.rest
    if length < timedelta():
        raise InvalidInputError(f"{what} must not be negative")
    return length


class Seconds:
    """The type of a setting that takes a duration or a number of seconds, and is read as seconds.

    Type checkers take both from the two methods. At run time it gives the default only: the slots of a
    dataclass take its place, and whoever has such fields writes the seconds into them.
    """

    def __init__(self, default: Duration) -> None:
        self._default = span(default).total_seconds()

    def __get__(self, instance: object, owner: type) -> float:
        return self._default

    def __set__(self, instance: object, value: Duration | float) -> None:
        raise AttributeError("a setting is given once, to its constructor")
