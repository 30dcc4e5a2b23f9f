"""How Python runs while the services of an engine do: when it looks for garbage, how threads take turns.

These settings belong to the process, not to an engine. So the first engine that starts its services sets
them, and the last one that stops restores what was there.
"""

from __future__ import annotations

import gc
import sys
import threading


class Interpreter:
    """Thread-safe. Every `attune` has its `release`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._before = gc.get_threshold(), sys.getswitchinterval()

    def attune(self, *, collector_threshold: int, switch_interval: float) -> None:
        """0: leave it alone.

        A batch makes thousands of objects that die with it; with the collector's default of 700 each is
        looked at again and again, a quarter of the time. A thread that comes back from the database waits for
        the one that computes until its turn is over, 5 ms by default, several times in a transaction.
        """
        with self._lock:
            self._users += 1
            if self._users > 1:
                return
            thresholds, interval = self._before = gc.get_threshold(), sys.getswitchinterval()
            if collector_threshold:
                gc.set_threshold(collector_threshold, *thresholds[1:])
            if switch_interval:
                sys.setswitchinterval(min(switch_interval, interval))

    def release(self) -> None:
        with self._lock:
            self._users -= 1
            if not self._users:
                thresholds, interval = self._before
                gc.set_threshold(*thresholds)
                sys.setswitchinterval(interval)


INTERPRETER = Interpreter()
