"""Repetition: `R3/PT10S`, with a start or an end, and cron in a named time zone.

A cycle is a fixed grid of due times. The next due time is computed from the previous one and the
anchor, never from now, so a late engine does not shift the schedule, and adding `P1M` again and again
does not drift from the 31st to the 28th.

Daylight saving: a local time that does not exist (the clock jumps over it) is due at the first moment
after the gap; a local time that exists twice is due once, the first time. Cron texts whose minute or
hour begins with `*` describe an interval rather than a time of day and follow elapsed time.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from bpm_engine.bpmn.expressions.durations import (
    TEXT_CHARACTERS,
    Duration,
    parse_datetime,
    parse_duration,
    time_format,
    time_limit,
    time_zone,
)

MOST_REPETITIONS = 1_000_000
SHORTEST_PERIOD = Duration(rest=timedelta(seconds=1))
AVERAGE_MONTH = timedelta(days=30.436875)
_REPETITIONS = re.compile(r"R(-1|\d{0,12})", re.ASCII)
_ZONE = re.compile(r"(?:CRON_)?TZ=(\S+)\s+(.*)", re.ASCII | re.DOTALL)
_ALIASES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}


@dataclass(frozen=True, slots=True)
class Cycle:
    """When something is due again and again; `repetitions` is None where it never stops by count.

    Counting how often it fired is the caller's business: after `repetitions` firings it must stop asking.
    """

    text: str
    repetitions: int | None = None
    period: Duration | None = field(default=None, compare=False)
    start: datetime | None = field(default=None, compare=False)
    end: datetime | None = field(default=None, compare=False)
    cron: str | None = field(default=None, compare=False)
    zone: str = field(default="UTC", compare=False)

    def next_after(self, previous_due: datetime | None, anchor: datetime) -> datetime | None:
        """The due time after `previous_due` (None: the first one), or None when the cycle is over.

        `anchor` is the moment the cycle was entered; it is the origin of the grid where the text
        names no start of its own.
        """
        due = self._cron_due(previous_due or anchor) if self.cron else self._grid_due(previous_due, anchor)
        if due is None or (self.end is not None and due > self.end):
            return None
        return due

    def passed(self, due: datetime, now: datetime, anchor: datetime) -> int:
        """How many times of the grid lie from `due`, which is one of them, to now."""
        assert self.period is not None
        origin = self.start or anchor
        return _number_after(origin, self.period, now) - _number_after(origin, self.period, due) + 1

    def _grid_due(self, previous_due: datetime | None, anchor: datetime) -> datetime:
        assert self.period is not None
        origin = self.start or anchor
        if previous_due is None or previous_due < origin:
            return origin if self.start else self.period.add(origin)
        return self.period.times(_number_after(origin, self.period, previous_due)).add(origin)

    def _cron_due(self, previous: datetime) -> datetime | None:
        assert self.cron is not None
        return _next_cron(self.cron, self.zone, previous)


def parse_cycle(text: str) -> Cycle:
    """`R3/PT10S`, `R/start/PT10S`, `R5/PT10S/end`, `R2/start/end`, or cron with 5 or 6 fields."""
    if len(text) > TEXT_CHARACTERS:
        raise time_format(f"a cycle of {len(text)} characters is too long")
    stripped = text.strip()
    parts = stripped.split("/")
    if _REPETITIONS.fullmatch(parts[0]) and len(parts) > 1:
        return _parse_repetition(stripped, parts)
    return _parse_cron(stripped)


def _parse_repetition(text: str, parts: list[str]) -> Cycle:
    repetitions = _repetitions(parts[0])
    match parts[1:]:
        case [period]:
            return Cycle(text, repetitions, _period(period))
        case [first, second] if first[:1] in ("P", "p"):
            return Cycle(text, repetitions, _period(first), end=parse_datetime(second))
        case [first, second] if second[:1] in ("P", "p"):
            return Cycle(text, repetitions, _period(second), start=parse_datetime(first))
        case [first, second]:
            start, until = parse_datetime(first), parse_datetime(second)
            return Cycle(text, repetitions, _checked_period(Duration(rest=until - start)), start=start)
        case [first, second, third]:
            start, end = parse_datetime(first), parse_datetime(third)
            return Cycle(text, repetitions, _period(second), start=start, end=end)
        case _:
            raise time_format(f"{text!r} is not a cycle like R3/PT10S or R/2026-01-01T00:00:00Z/P1D")


def _repetitions(text: str) -> int | None:
    if text in ("R", "R-1"):
        return None
    count = int(text[1:])
    if not 1 <= count <= MOST_REPETITIONS:
        raise time_limit(
            f"a cycle repeats between 1 and {MOST_REPETITIONS} times, not {count}; R alone never ends"
        )
    return count


def _period(text: str) -> Duration:
    return _checked_period(parse_duration(text))


def _checked_period(period: Duration) -> Duration:
    if period.is_negative or (not period.months and period.rest < SHORTEST_PERIOD.rest):
        raise time_limit(f"the period {period} of a cycle is shorter than one second")
    return period


def _number_after(origin: datetime, period: Duration, previous: datetime) -> int:
    """The least k of which `origin + k * period` is after `previous`: estimated, then corrected for calendar
    months."""
    length = period.rest + period.months * AVERAGE_MONTH
    count = max(1, (previous - origin) // length - 1)
    while period.times(count).add(origin) <= previous:
        count += 1
    while count > 1 and period.times(count - 1).add(origin) > previous:
        count -= 1
    return count


def _parse_cron(text: str) -> Cycle:
    zone, fields_text = "UTC", text
    if found := _ZONE.fullmatch(text):
        zone, fields_text = time_zone(found[1]).key, found[2]
    expanded = _ALIASES.get(fields_text.strip().lower(), fields_text)
    fields = ["*" if part == "?" else part for part in expanded.split()]
    if len(fields) == 7 and fields[6] == "*":  # Quartz adds a field for the year
        fields.pop()
    if len(fields) not in (5, 6):
        raise time_format(f"{text!r} is neither a cycle like R3/PT10S nor cron with 5 or 6 fields")
    cron = " ".join(fields)
    try:
        first = _next_cron(cron, "UTC", datetime(2000, 1, 1, tzinfo=UTC))
    except CronSimError as error:
        raise time_format(f"{text!r} is not a cron text: {error}") from None
    if first is None:
        raise time_limit(f"the cron text {text!r} is never due")
    return Cycle(text, cron=cron, zone=zone)


def _next_cron(cron: str, zone_name: str, previous: datetime) -> datetime | None:
    zone = time_zone(zone_name)
    local = previous.astimezone(zone)
    try:
        if _is_interval(cron):
            return next(CronSim(cron, local)).astimezone(UTC)
        times = CronSim(cron, local.replace(tzinfo=None))
        while (due := _existing(next(times), zone)) <= previous:
            continue
        return due
    except (StopIteration, OverflowError, ValueError):
        return None


def _is_interval(cron: str) -> bool:
    minute, hour = cron.split()[-5:-3]
    return minute.startswith("*") or hour.startswith("*")


def _existing(local: datetime, zone: ZoneInfo) -> datetime:
    """The moment of a local time: the first of two, or the end of the gap that swallowed it."""
    moment = local.replace(tzinfo=zone).astimezone(UTC)
    while moment.astimezone(zone).replace(tzinfo=None) != local:
        local = local.replace(second=0) + timedelta(minutes=1)
        moment = local.replace(tzinfo=zone).astimezone(UTC)
    return moment
