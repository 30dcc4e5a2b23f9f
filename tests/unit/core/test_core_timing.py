"""Cycles after a downtime: what was missed is counted as if it had been walked, and at no cost."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from time import monotonic

import pytest
from msgspec.structs import replace

from bpm_engine.bpmn.expressions.cycles import parse_cycle
from bpm_engine.core.state import Timer, TimerPurpose, TimerStatus
from bpm_engine.core.timing import next_firing

BEGIN = datetime(2026, 1, 31, 8, 30, tzinfo=UTC)


def timer(cycle: str) -> Timer:
    """As it is when it was opened."""
    parsed = parse_cycle(cycle)
    due = parsed.next_after(None, BEGIN)
    assert due is not None
    return Timer(
        id="t",
        tenant_id="acme",
        instance_id="i",
        root_instance_id="i",
        scope_id="i",
        node_id="n",
        purpose=TimerPurpose.EVENT,
        due_at=due,
        cycle=cycle,
        anchor_at=BEGIN,
        remaining=None if parsed.repetitions is None else parsed.repetitions - 1,
    )


def walked(given: Timer, now: datetime) -> Timer:
    """One firing after the other, until none is due: those between are not fired."""
    fired = next_firing(given, "all", now)
    while fired.status is TimerStatus.SCHEDULED and fired.due_at <= now:
        fired = next_firing(fired, "all", now)
    return replace(fired, fired=1)


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize(
    "cycle",
    [
        "R3/PT7S",
        "R50/PT90M",
        "R9/P1M",
        "R5/2026-03-29T01:00:00+01:00/P1DT1H",
        "R20/P1D/2026-02-09T00:00:00Z",
        "R/P1M",
    ],
)
def test_what_was_missed_is_counted_as_if_each_had_been_fired(cycle: str, seed: int) -> None:
    given = timer(cycle)
    following = next_firing(given, "all", given.due_at).due_at - given.due_at
    late = random.Random(seed).choice([0, 1, 2, 5, 30]) * following + timedelta(seconds=seed % 3 - 1)
    now = given.due_at + max(late, timedelta())
    caught_up, expected = next_firing(given, "once", now), walked(given, now)
    assert caught_up.status is expected.status
    if expected.status is TimerStatus.SCHEDULED:
        assert (caught_up.due_at, caught_up.remaining) == (expected.due_at, expected.remaining)


def test_a_million_missed_times_are_not_walked() -> None:
    given = timer("R1000000/PT1S")
    begun = monotonic()
    fired = next_firing(given, "once", BEGIN + timedelta(seconds=900_000.5))
    assert monotonic() - begun < 1
    assert fired.due_at == BEGIN + timedelta(seconds=900_001)
    assert fired.remaining == 99_999
