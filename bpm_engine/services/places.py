"""How much work this process takes on: places for tokens, by kind of handler and by topic.

A place is taken from the claim, or the hand-off, until the handler has ended. Then its result goes to the
committer, and most tokens come back at once with their next step. So a place whose result is on its way
counts as taken for claims, but as free for hand-offs: claims would otherwise fill the place before the token
is back, and every step of every instance would go through a claim.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable

from bpm_engine.handlers import Handler

AHEAD = 0.25  # seconds of work that threads hold beyond what they run
SHORTEST = 0.0001  # seconds: a handler counts as no shorter
SHARE = 4  # the part of the places that is a portion: worth the statement of a claim, and left to claims
LEAST = 64  # tokens that are claimed at once, if there is room for them
WEIGHT = 0.1  # of the latest handler in the moving average


class Places:
    """Thread-safe. `threads` run sync handlers, with at most `most` tokens held; `tasks` run async ones."""

    def __init__(self, *, threads: int, tasks: int, most: int) -> None:
        self._threads = threads
        self._tasks = tasks
        self._most = most
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)  # notified when a place is free for claims
        self._taken: Counter[bool] = Counter()  # by handler.is_async
        self._returning: Counter[bool] = Counter()  # ended, the result is not committed
        self._topics: Counter[str] = Counter()
        self._duration = AHEAD  # of sync handlers, a moving average in seconds

    def wait(self, timeout: float, *, has_async: bool) -> int:
        """How many places are free for claims, once they are worth a statement, or the time is up."""
        with self._changed:
            self._changed.wait_for(lambda: self._free(has_async) >= self._portion(), timeout)
            return self._free(has_async)

    def portion(self) -> int:
        """How many tokens to claim at once: what comes together stays together from task to task, and those
        who commit would wait while all are claimed anew."""
        with self._lock:
            return max(LEAST, self._portion())

    def _portion(self) -> int:
        return max(1, self._window() // SHARE)

    def has(self, handler: Handler) -> bool:
        with self._lock:
            return self._has(handler, self._window())

    def take(self, handler: Handler, *, is_new: bool = False) -> bool:
        """False: there is none. What a commit has made (`is_new`) leaves some to claims: the many items of
        one instance would otherwise take them all, and whoever comes beside them would wait for a wave.
        """
        with self._lock:
            return self._take(handler, self._window(), is_new=is_new)

    def take_each(self, wanted: Iterable[tuple[Handler, bool]]) -> list[bool]:
        """The same for each of these handlers, and whether its work is new."""
        with self._lock:
            window = self._window()
            return [self._take(handler, window, is_new=is_new) for handler, is_new in wanted]

    def _take(self, handler: Handler, window: int, *, is_new: bool) -> bool:
        if not self._has(handler, window, is_new=is_new):
            return False
        self._taken[handler.is_async] += 1
        self._topics[handler.topic] += 1
        return True

    def leave(self, handlers: Iterable[Handler], *, returning: bool = False) -> None:
        """`returning`: until `returned` is told."""
        with self._lock:
            for handler in handlers:
                self._taken[handler.is_async] -= 1
                self._topics[handler.topic] -= 1
                if returning:
                    self._returning[handler.is_async] += 1
            if not returning:
                self._changed.notify_all()

    def returned(self, handlers: Iterable[Handler]) -> None:
        with self._lock:
            for handler in handlers:
                self._returning[handler.is_async] -= 1
            self._changed.notify_all()

    def note_duration(self, seconds: float) -> None:
        self._duration += (seconds - self._duration) * WEIGHT

    def _free(self, has_async: bool) -> int:
        threads = self._window() - self._taken[False] - self._returning[False]
        tasks = self._tasks - self._taken[True] - self._returning[True] if has_async else 0
        return max(threads, 0) + max(tasks, 0)

    def _has(self, handler: Handler, window: int, *, is_new: bool = False) -> bool:
        capacity = self._tasks if handler.is_async else window
        taken = self._taken[handler.is_async]
        if is_new:
            capacity -= capacity // SHARE
            taken += self._returning[handler.is_async]
        below_limit = handler.limit is None or self._topics[handler.topic] < handler.limit
        return taken < capacity and below_limit

    def _window(self) -> int:
        """How many tokens to hold for the threads: what they do in a quarter of a second, so that quick
        handlers fill large transactions while slow ones leave the work to other workers."""
        ahead = self._threads * AHEAD / max(self._duration, SHORTEST)
        return int(min(max(self._threads, ahead), self._most))
