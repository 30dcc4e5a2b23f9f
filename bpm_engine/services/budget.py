"""The retry budget: while a worker is busy, retries are about a tenth of what it runs (reliability 9.2).

A token whose attempt failed comes back older than everything that waits, and the oldest go first. So many
failures would crowd out first attempts. What is decided here is when a failed attempt comes back: in a busy
worker retries have a pace, as many per second as their share of its runs allows, and who would go faster
waits. A worker with room to spare delays none.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from time import monotonic

FREE = 50  # retries in a row that need not wait: they are no crowd
LEAST = 1.0  # retries per second, however little is run
LONGEST = 300.0  # seconds until a retry at most
MOMENT = 1.0  # seconds over which the runs are counted at least


class RetryBudget:
    """Thread-safe. `percent` of the runs may be retries; 0: any number."""

    def __init__(self, percent: int, now: Callable[[], float] = monotonic) -> None:
        self._share = percent / 100
        self._now = now
        self._lock = threading.Lock()
        self._runs = 0  # since the mark
        self._mark = now()
        self._rate = 0.0  # runs per second, when last counted
        self._credit = float(FREE)  # retries that need not wait; below zero: those that do
        self._at = now()  # when it was last looked at

    def ran(self, number: int) -> None:
        """Told once per commit, not per run."""
        with self._lock:
            self._runs += number

    def delay(self) -> timedelta | None:
        """How long the retry of an attempt that has just failed waits at least; None: as its policy says."""
        if not self._share:
            return None
        with self._lock:
            now = self._now()
            pace = max(self._runs_per_second(now) * self._share, LEAST)
            self._credit = min(self._credit + (now - self._at) * pace, FREE)
            self._credit = max(self._credit - 1, -LONGEST * pace)
            self._at = now
            seconds = -self._credit / pace
        return timedelta(seconds=seconds) if seconds > 0 else None

    def _runs_per_second(self, now: float) -> float:
        elapsed = now - self._mark
        if elapsed >= MOMENT:
            self._rate = self._runs / elapsed
            self._mark, self._runs = now, 0
        return max(self._rate, self._runs / MOMENT)
