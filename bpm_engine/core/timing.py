"""When a timer event is due, first and again.

The next due time of a cycle comes from the previous one, never from now. After downtime the missed
times follow the catch-up policy: `once` fires for all of them together, `all` fires for each, `skip`
fires for none. A cycle is a fixed set of times: what is passed over counts as used.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Literal

from msgspec.structs import replace

from bpm_engine.bpmn.events import TimerEvent
from bpm_engine.bpmn.expressions import Cycle, Duration, Value, parse_cycle, parse_datetime, parse_duration
from bpm_engine.core.effects import Fault
from bpm_engine.core.state import Timer, TimerStatus

CatchUp = Literal["once", "all", "skip"]


@dataclass(frozen=True, slots=True)
class Schedule:
    due_at: datetime
    cycle: str | None = None
    remaining: int | None = None
    anchor_at: datetime | None = None


def schedule(event: TimerEvent, value: Value, now: datetime) -> Schedule:
    """The first due time of an event whose expression gave `value`."""
    match event.kind:
        case "date":
            return Schedule(moment(value, now))
        case "duration":
            return Schedule(_span(value).add(now))
        case "cycle":
            return _first_of_cycle(value, now)


def moment(value: Value, now: datetime) -> datetime:
    """A point in time; a duration counts from now."""
    match value:
        case datetime():
            return value if value.tzinfo else value.replace(tzinfo=UTC)
        case date():
            return datetime(value.year, value.month, value.day, tzinfo=UTC)
        case Duration():
            return value.add(now)
        case str() if value.lstrip().upper().startswith("P"):
            return parse_duration(value).add(now)
        case str():
            return parse_datetime(value)
        case _:
            raise Fault("TIMER_VALUE", f"a timer needs a date or a duration, not {value!r:.80}")


def next_firing(timer: Timer, policy: CatchUp, now: datetime) -> Timer:
    """The timer of a cycle after it fired: due again, or used up."""
    cycle = parse_cycle(timer.cycle or "")
    due, remaining = _following(timer, cycle, timer.due_at, timer.remaining)
    if policy != "all":
        due, remaining = _passed_over(timer, cycle, due, remaining, now)
    fired = replace(timer, fired=timer.fired + 1, remaining=remaining)
    if due is None:
        return replace(fired, status=TimerStatus.FIRED)
    return replace(fired, due_at=due)


def is_missed(timer: Timer, policy: CatchUp, now: datetime) -> bool:
    """Under `skip`, a time is missed when the next one has come as well."""
    if policy != "skip" or timer.cycle is None:
        return False
    following, _ = _following(timer, parse_cycle(timer.cycle), timer.due_at, timer.remaining)
    return following is not None and following <= now


def _first_of_cycle(value: Value, now: datetime) -> Schedule:
    if not isinstance(value, str):
        raise Fault("TIMER_VALUE", f"a cycle is a text like R3/PT10S, not {value!r:.80}")
    cycle = parse_cycle(value)
    due = cycle.next_after(None, now)
    if due is None:
        raise Fault("TIMER_VALUE", f"the cycle {value!r} is over before it begins")
    remaining = None if cycle.repetitions is None else cycle.repetitions - 1
    return Schedule(due, cycle.text, remaining, now)


def _span(value: Value) -> Duration:
    match value:
        case Duration():
            return value
        case str():
            return parse_duration(value)
        case _:
            raise Fault("TIMER_VALUE", f"a duration is a text like PT10S, not {value!r:.80}")


def _following(
    timer: Timer, cycle: Cycle, due: datetime, remaining: int | None
) -> tuple[datetime | None, int | None]:
    if remaining == 0:
        return None, 0
    following = cycle.next_after(due, timer.anchor_at or due)
    return following, None if remaining is None else remaining - 1


def _passed_over(
    timer: Timer, cycle: Cycle, due: datetime | None, remaining: int | None, now: datetime
) -> tuple[datetime | None, int | None]:
    """The first time after now, without those that were missed: a million of them are counted, not walked."""
    if due is None or due > now:
        return due, remaining
    anchor = timer.anchor_at or due
    if remaining is not None:
        remaining -= cycle.passed(due, now, anchor)
        if remaining < 0:
            return None, 0
    return cycle.next_after(now, anchor), remaining
