"""Durations and points in time, as BPMN timers and expressions write them.

ISO 8601 durations keep months and days apart, so that `P1M` added to 31 January is the last day of
February. Short texts such as `2s` or `250ms` are accepted for settings. Points in time are always
aware; a text without an offset means UTC. Nothing here reads a clock.
"""

from __future__ import annotations

import calendar
import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo

from bpm_engine.bpmn.expressions.errors import ExpressionError

LONGEST_YEARS = 100
LONGEST = timedelta(days=36_525)
TEXT_CHARACTERS = 200

_ISO_DURATION = re.compile(
    r"(?P<sign>[-+]?)P(?!$)"
    r"(?:(?P<years>\d{1,9})Y)?(?:(?P<months>\d{1,9})M)?(?:(?P<weeks>\d{1,9})W)?(?:(?P<days>\d{1,9})D)?"
    r"(?:T(?=\d)(?:(?P<hours>\d{1,9})H)?(?:(?P<minutes>\d{1,9})M)?"
    r"(?:(?P<seconds>\d{1,12})(?:[.,](?P<fraction>\d{1,9}))?S)?)?",
    re.ASCII,
)
_SHORT_DURATION = re.compile(r"(\d{1,12})\s?(ms|s|m|h|d)", re.ASCII)
_SHORT_UNITS = {
    "ms": timedelta(milliseconds=1),
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
}
_DATE = re.compile(r"(\d{4})-(\d{2})-(\d{2})", re.ASCII)
_TIME = re.compile(
    r"(\d{2}):(\d{2})(?::(\d{2})(?:[.,](\d{1,9}))?)?"
    r"(?:(?P<utc>[Zz])|(?P<offset>[-+]\d{2}(?::?\d{2})?)(?:\[[\w/+-]+\])?|@(?P<named>[\w/+-]+)|\[(?P<bracketed>[\w/+-]+)\])?",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class Duration:
    """A span of time: calendar months plus an exact remainder. Both have the same sign."""

    months: int = 0
    rest: timedelta = timedelta()

    @property
    def is_zero(self) -> bool:
        return not self.months and not self.rest

    @property
    def is_negative(self) -> bool:
        return self.months < 0 or self.rest < timedelta()

    def add(self, moment: datetime) -> datetime:
        """The moment this long after `moment`, in the time zone of `moment`."""
        try:
            return add_months(moment, self.months) + self.rest
        except (OverflowError, ValueError):
            raise time_limit(f"{moment.isoformat()} plus {self} leaves the calendar") from None

    def times(self, factor: int) -> Duration:
        try:
            return Duration(self.months * factor, self.rest * factor)
        except OverflowError:
            raise time_limit(f"{factor} times {self} is too long") from None

    def __str__(self) -> str:
        return _duration_text(self)


def parse_duration(text: str, *, allow_negative: bool = False) -> Duration:
    """`P1Y2M3DT4H5M6.5S`, `P2W`, or short: `250ms`, `2s`, `5m`, `1h`, `3d`. At most 100 years."""
    stripped = _bounded(text).strip()
    if short := _SHORT_DURATION.fullmatch(stripped):
        return _in_range(_short_duration(short), text)
    iso = _ISO_DURATION.fullmatch(stripped)
    if iso is None:
        raise time_format(f"{text!r} is not a duration; write it like PT10S, P1D, P1M or 30s")
    duration = _iso_duration(iso, text)
    if duration.is_negative and not allow_negative:
        raise time_limit(f"the duration {text!r} is negative")
    return duration


def parse_datetime(text: str) -> datetime:
    """`2026-01-31T09:30:00+01:00`; without an offset UTC; a date alone is its first moment in UTC."""
    day_text, separator, time_text = _bounded(text).strip().replace("t", "T", 1).partition("T")
    day = parse_date(day_text)
    moment = parse_time(time_text) if separator else time()
    return aware(datetime.combine(day, moment))


def aware(moment: datetime) -> datetime:
    """The moment with its zone, UTC if it has none; refused where it leaves the calendar in UTC."""
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    try:
        moment.astimezone(UTC)
    except OverflowError:
        raise time_limit(f"{moment.isoformat()} leaves the calendar in UTC") from None
    return moment


def parse_date(text: str) -> date:
    found = _DATE.fullmatch(_bounded(text).strip())
    if found is None:
        raise time_format(f"{text!r} is not a date like 2026-01-31")
    try:
        return date(*(int(part) for part in found.groups()))
    except ValueError:
        raise time_format(f"there is no day {text!r} in the calendar") from None


def parse_time(text: str) -> time:
    """`09:30`, `09:30:15.5`, with `Z`, `+01:00`, `@Europe/Berlin` or nothing as its zone."""
    found = _TIME.fullmatch(_bounded(text).strip())
    if found is None:
        raise time_format(f"{text!r} is not a time like 09:30:00 or 09:30:00+01:00")
    hour, minute, second, fraction = found.group(1, 2, 3, 4)
    microsecond = int((fraction or "0").ljust(6, "0")[:6])
    try:
        return time(int(hour), int(minute), int(second or 0), microsecond, tzinfo=_zone_of(found))
    except ValueError:
        raise time_format(f"there is no time of day {text!r}") from None


@lru_cache(maxsize=256)
def time_zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, KeyError):
        raise time_format(f"there is no time zone {name!r}; write it like Europe/Berlin") from None


def add_months(moment: datetime, months: int) -> datetime:
    """Calendar arithmetic: the same day of the month, or its last day where the month is shorter."""
    if not months:
        return moment
    count = moment.year * 12 + moment.month - 1 + months
    year, month = count // 12, count % 12 + 1
    if not 1 <= year <= 9999:
        raise OverflowError
    day = min(moment.day, calendar.monthrange(year, month)[1])
    return moment.replace(year=year, month=month, day=day)


def time_format(message: str) -> ExpressionError:
    return ExpressionError("TIME_FORMAT", message)


def time_limit(message: str) -> ExpressionError:
    return ExpressionError("TIME_LIMIT", message)


def _bounded(text: str) -> str:
    if len(text) > TEXT_CHARACTERS:
        raise time_format(f"a time text of {len(text)} characters is too long")
    return text


def _short_duration(found: re.Match[str]) -> Duration:
    try:
        return Duration(rest=int(found[1]) * _SHORT_UNITS[found[2]])
    except OverflowError:
        raise time_limit(f"the duration {found[0]!r} is longer than {LONGEST_YEARS} years") from None


def _iso_duration(found: re.Match[str], text: str) -> Duration:
    part = {
        name: int(value) for name, value in found.groupdict("0").items() if name not in ("sign", "fraction")
    }
    microseconds = int((found["fraction"] or "0").ljust(6, "0")[:6])
    months = part["years"] * 12 + part["months"]
    try:
        rest = timedelta(
            weeks=part["weeks"],
            days=part["days"],
            hours=part["hours"],
            minutes=part["minutes"],
            seconds=part["seconds"],
            microseconds=microseconds,
        )
    except OverflowError:
        raise time_limit(f"the duration {text!r} is longer than {LONGEST_YEARS} years") from None
    duration = _in_range(Duration(months, rest), text)
    return duration.times(-1) if found["sign"] == "-" else duration


def _in_range(duration: Duration, text: str) -> Duration:
    if duration.months > LONGEST_YEARS * 12 or duration.rest > LONGEST:
        raise time_limit(f"the duration {text!r} is longer than {LONGEST_YEARS} years")
    return duration


def _zone_of(found: re.Match[str]) -> tzinfo | None:
    if found["utc"]:
        return UTC
    if name := found["named"] or found["bracketed"]:
        return time_zone(name)
    if not (offset := found["offset"]):
        return None
    digits = offset[1:].replace(":", "")
    hours, minutes = int(digits[:2]), int(digits[2:] or 0)
    if hours > 18 or minutes > 59:
        raise time_format(f"there is no offset {offset!r}")
    span = timedelta(hours=hours, minutes=minutes)
    return timezone(-span if offset[0] == "-" else span)


def _duration_text(duration: Duration) -> str:
    if duration.is_zero:
        return "PT0S"
    sign = "-" if duration.is_negative else ""
    years, months = divmod(abs(duration.months), 12)
    rest = abs(duration.rest)
    hours, left = divmod(rest.seconds, 3600)
    minutes, seconds = divmod(left, 60)
    exact = f"{seconds}.{rest.microseconds:06d}".rstrip("0") if rest.microseconds else str(seconds)
    days = _units((years, "Y"), (months, "M"), (rest.days, "D"))
    clock = _units((hours, "H"), (minutes, "M")) + (f"{exact}S" if exact != "0" else "")
    return f"{sign}P{days}" + (f"T{clock}" if clock else "")


def _units(*amounts: tuple[int, str]) -> str:
    return "".join(f"{amount}{unit}" for amount, unit in amounts if amount)
