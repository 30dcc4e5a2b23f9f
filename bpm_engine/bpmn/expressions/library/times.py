"""Functions on dates, times and durations."""

from __future__ import annotations

import calendar
from collections.abc import Callable
from datetime import date, datetime, time, timedelta, timezone

from bpm_engine.bpmn.expressions import durations, temporal
from bpm_engine.bpmn.expressions.durations import Duration, aware
from bpm_engine.bpmn.expressions.library.functions import argument_error, text
from bpm_engine.bpmn.expressions.numbers import number, whole
from bpm_engine.bpmn.expressions.values import Value, kind, mismatch

_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)


def to_date(*parts: Value) -> Value:
    """`date("2026-01-31")`, `date(2026, 1, 31)`, or the date of a date-time."""
    match parts:
        case [str() as value]:
            return durations.parse_date(value) if "T" not in value else durations.parse_datetime(value).date()
        case [datetime() as value]:
            return value.date()
        case [date() as value]:
            return value
        case [year, month, day]:
            return _built(lambda: date(whole(year), whole(month), whole(day)))
        case _:
            raise argument_error("it is date(text), date(date and time) or date(year, month, day)")


def to_time(*parts: Value) -> Value:
    """`time("09:30:00")`, `time(9, 30, 0, offset?)`, or the time of a date-time."""
    match parts:
        case [str() as value]:
            return durations.parse_time(value.rpartition("T")[2])
        case [datetime() as value]:
            return value.timetz()
        case [time() as value]:
            return value
        case [hour, minute, second, *rest] if len(rest) < 2:
            zone = timezone(rest[0].rest) if rest and isinstance(rest[0], Duration) else None
            return _built(lambda: time(whole(hour), whole(minute), int(number(second)), tzinfo=zone))
        case _:
            raise argument_error(
                "it is time(text), time(date and time) or time(hour, minute, second, offset?)"
            )


def to_datetime(*parts: Value) -> Value:
    """`datetime("2026-01-31T09:30:00Z")`, or a date and a time; without a zone it is UTC."""
    match parts:
        case [str() as value]:
            return durations.parse_datetime(value)
        case [datetime() as value]:
            return value
        case [date() as value]:
            return temporal.moment(value)
        case [datetime() as day, str() as zone]:
            return day.astimezone(durations.time_zone(zone))
        case [date() as day, time() as clock]:
            return aware(datetime.combine(day, clock))
        case _:
            raise argument_error("it is datetime(text), datetime(date) or datetime(date, time)")


def to_duration(value: Value) -> Value:
    return (
        value if isinstance(value, Duration) else durations.parse_duration(text(value), allow_negative=True)
    )


def to_cycle(*values: Value) -> Value:
    """The text of a timer's cycle, as Camunda 8 has it: `cycle(period)` or `cycle(repetitions, period)`; null
    repeats without end."""
    match values:
        case [Duration() as period] | [None, Duration() as period]:
            return f"R/{period}"
        case [repetitions, Duration() as period]:
            return f"R{whole(repetitions)}/{period}"
        case _:
            raise argument_error("it is cycle(duration) or cycle(number, duration)")


def months_between(start: Value, end: Value) -> Value:
    return temporal.months_between(_date(start), _date(end))


def weekday(value: Value) -> Value:
    """1 for Monday to 7 for Sunday."""
    return _date(value).isoweekday()


def day_name(value: Value) -> Value:
    return _DAYS[_date(value).weekday()]


def month_name(value: Value) -> Value:
    return _MONTHS[_date(value).month - 1]


def day_of_year(value: Value) -> Value:
    return _date(value).timetuple().tm_yday


def week_of_year(value: Value) -> Value:
    return _date(value).isocalendar().week


def last_day_of_month(value: Value) -> Value:
    day = _date(value)
    return date(day.year, day.month, calendar.monthrange(day.year, day.month)[1])


def seconds(value: Value) -> Value:
    """The length of a duration in seconds; one with months has none."""
    if not isinstance(value, Duration) or value.months:
        raise mismatch("a duration without months is needed here")
    return value.rest // timedelta(seconds=1) if not value.rest.microseconds else value.rest.total_seconds()


def absolute(value: Value) -> Value:
    return value.times(-1) if isinstance(value, Duration) and value.is_negative else value


def _date(value: Value) -> date:
    if isinstance(value, date):
        return value
    raise mismatch(f"a date is needed here, not a {kind(value)}")


def _built(build: Callable[[], Value]) -> Value:
    try:
        return build()
    except (ValueError, OverflowError):
        raise durations.time_format("there is no such date or time") from None
