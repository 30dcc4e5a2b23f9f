"""Dates, times and durations: their arithmetic and their parts.

Times of day without a zone are compared as UTC. A date plus a duration stays a date; parts smaller than
a day are dropped, as FEEL defines it.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal

from bpm_engine.bpmn.expressions.durations import Duration, time_limit
from bpm_engine.bpmn.expressions.numbers import is_number
from bpm_engine.bpmn.expressions.values import Number, Value


def arithmetic(symbol: str, left: Value, right: Value) -> Value:
    """The result of an operator on times, or None where it has no meaning for these operands."""
    try:
        return _arithmetic(symbol, left, right)
    except (OverflowError, ValueError):
        raise time_limit("the result leaves the calendar") from None


def _arithmetic(symbol: str, left: Value, right: Value) -> Value:
    match symbol, left, right:
        case "+", Duration(), Duration():
            return _sum(left, right)
        case "-", Duration(), Duration():
            return _sum(left, right.times(-1))
        case "+", Duration(), date() | time():
            return shifted(right, left)
        case "+", date() | time(), Duration():
            return shifted(left, right)
        case "-", date() | time(), Duration():
            return shifted(left, right.times(-1))
        case "-", time(), time():
            return Duration(rest=_since_midnight(left) - _since_midnight(right))
        case "-", date(), date():
            return Duration(rest=moment(left) - moment(right))
        case "*" | "/" | "//", _, _:
            return _scaled(symbol, left, right)
        case _:
            return None


def _sum(left: Duration, right: Duration) -> Value:
    """Months and days are never mixed with opposite signs: what one means depends on the calendar."""
    total = Duration(left.months + right.months, left.rest + right.rest)
    return None if total.months * total.rest.total_seconds() < 0 else total


def _scaled(symbol: str, left: Value, right: Value) -> Value:
    if symbol == "*" and is_number(left):
        left, right = right, left
    if not isinstance(left, Duration):
        return None
    if isinstance(right, Duration):
        return _ratio(symbol, left, right)
    if not is_number(right):
        return None
    factor = float(right)  # type: ignore[arg-type]
    if symbol == "*":
        return Duration(int(left.months * factor), left.rest * factor)
    if not factor or symbol == "//":
        return None
    return Duration(int(left.months / factor), left.rest / factor)


def _ratio(symbol: str, left: Duration, right: Duration) -> Value:
    if symbol == "*" or right.is_zero or ((left.months or right.months) and (left.rest or right.rest)):
        return None
    if right.months:
        ratio = Decimal(left.months) / Decimal(right.months)
    else:
        ratio = Decimal(left.rest // timedelta(microseconds=1)) / Decimal(
            right.rest // timedelta(microseconds=1)
        )
    return ratio if symbol == "/" else int(ratio // 1)


def shifted(start: date | time, duration: Duration) -> Value:
    match start:
        case datetime():
            return duration.add(start)
        case date():
            return duration.add(moment(start)).date()
        case time():
            if duration.months:
                return None
            day = datetime.combine(date(2000, 1, 2), start) + timedelta(seconds=duration.rest.seconds)
            return day.timetz()


def moment(day: date) -> datetime:
    """A date as its first moment in UTC; a date-time as it is."""
    return day if isinstance(day, datetime) else datetime.combine(day, time(), tzinfo=UTC)


def zoned(clock: time) -> time:
    return clock if clock.utcoffset() is not None else clock.replace(tzinfo=UTC)


def _since_midnight(clock: time) -> timedelta:
    offset = clock.utcoffset() or timedelta()
    return timedelta(hours=clock.hour, minutes=clock.minute, seconds=clock.second) - offset


def months_between(start: date, end: date) -> Duration:
    """Whole months from start to end, as FEEL's `years and months duration` counts them."""
    first, last = moment(start), moment(end)
    sign = 1
    if last < first:
        first, last, sign = last, first, -1
    months = (last.year - first.year) * 12 + last.month - first.month
    if (last.day, last.timetz().replace(tzinfo=None)) < (first.day, first.timetz().replace(tzinfo=None)):
        months -= 1
    return Duration(sign * months)


def part(value: Value, name: str) -> Value:
    """`date.year`, `time.hour`, `duration.days`, `range.start` …; None where there is no such part."""
    table = _PARTS.get(type(value))
    read = table.get(name) if table else None
    return read(value) if read else None


def _second(clock: time | datetime) -> Number:
    return clock.second + Decimal(clock.microsecond) / 1_000_000 if clock.microsecond else clock.second


def _offset(clock: time | datetime) -> Value:
    offset = clock.utcoffset()
    return None if offset is None else Duration(rest=offset)


def _zone(clock: time | datetime) -> Value:
    return None if clock.tzinfo is None else str(clock.tzinfo)


def _of_rest(read: Callable[[timedelta], Number]) -> Callable[[Duration], Value]:
    def signed(duration: Duration) -> Value:
        amount = read(abs(duration.rest))
        return -amount if duration.rest < timedelta() else amount

    return signed


_DATE_PARTS = {
    "year": lambda d: d.year,
    "month": lambda d: d.month,
    "day": lambda d: d.day,
    "weekday": lambda d: d.isoweekday(),
}
_TIME_PARTS = {
    "hour": lambda t: t.hour,
    "minute": lambda t: t.minute,
    "second": _second,
    "time offset": _offset,
    "timezone": _zone,
}
_DURATION_PARTS = {
    "years": lambda d: int(d.months / 12),
    "months": lambda d: d.months - 12 * int(d.months / 12),
    "days": _of_rest(lambda rest: rest.days),
    "hours": _of_rest(lambda rest: rest.seconds // 3600),
    "minutes": _of_rest(lambda rest: rest.seconds % 3600 // 60),
    "seconds": _of_rest(lambda rest: rest.seconds % 60),
    "total_seconds": lambda d: None if d.months else d.rest.total_seconds(),
}
_PARTS: dict[type, dict[str, Callable[..., Value]]] = {
    date: _DATE_PARTS,
    time: _TIME_PARTS,
    datetime: {**_DATE_PARTS, **_TIME_PARTS},
    Duration: _DURATION_PARTS,
}
