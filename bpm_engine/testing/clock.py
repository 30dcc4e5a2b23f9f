"""Time that moves when a test says so."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from bpm_engine.durations import Duration, span
from bpm_engine.store import clock as clocks


@dataclass(slots=True)
class ManualClock(clocks.ManualClock):
    """A clock that moves only when told to. It begins at the first moment of 2030."""

    def advance(self, by: Duration) -> datetime:
        """Let time pass: "PT1H", "5m" or a timedelta. The new time."""
        return clocks.ManualClock.advance(self, span(by, "advance"))
