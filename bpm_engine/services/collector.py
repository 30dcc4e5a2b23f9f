"""How often Python looks for garbage while the services of an engine run.

That is a setting of the process, not of an engine. So the first engine that starts its services sets it, and
the last one that stops restores what was there.
"""

from __future__ import annotations

import gc
import threading


class Collector:
    """Thread-safe. Every `slow_down` has its `restore`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._before = gc.get_threshold()

    def slow_down(self, threshold: int) -> None:
        """A batch makes thousands of objects that die with it; with the default of 700 each is looked at
        again and again, a quarter of the time. 0: leave it alone.
        """
        with self._lock:
            self._users += 1
            if self._users > 1:
                return
            self._before = gc.get_threshold()
            if threshold:
                gc.set_threshold(threshold, *self._before[1:])

    def restore(self) -> None:
        with self._lock:
            self._users -= 1
            if not self._users:
                gc.set_threshold(*self._before)


COLLECTOR = Collector()
