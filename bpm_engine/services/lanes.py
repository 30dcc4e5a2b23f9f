"""Publishing side by side: one lane per instance, its events in order, lanes in threads.

A lane ends with its last event, with the first that fails, when its lease comes to an end, or on request.
A call that does not return by then is given up: it counts as failed, its thread is written off and another
takes the place. Threads start when they are needed.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic

from bpm_engine.store.outbox import OutboxRow


@dataclass(slots=True, eq=False)
class Lane:
    """Leased events of one instance in order. The first `published` of them are out."""

    events: list[OutboxRow]
    last_begin: float  # by the monotonic clock: no event is begun later
    give_up_at: float
    published: int = 0
    under_way: bool = False  # the event after the published ones
    error: str | None = None  # why that one failed
    given_up: bool = False

    @property
    def done(self) -> list[OutboxRow]:
        return self.events[: self.published]

    @property
    def failed(self) -> OutboxRow | None:
        return self.events[self.published] if self.error is not None else None

    @property
    def untried(self) -> list[OutboxRow]:
        return self.events[self.published + (self.error is not None) :]


class Lanes:
    """At most `threads` lanes at once; `publish` raises if it fails."""

    def __init__(self, publish: Callable[[OutboxRow], None], threads: int) -> None:
        self._publish = publish
        self._threads = threads
        self._changed = threading.Condition()
        self._waiting: deque[Lane] = deque()
        self._running: set[Lane] = set()
        self._finished: list[Lane] = []
        self._idle = 0
        self._workers = 0
        self._closed = False

    @property
    def waiting(self) -> int:
        with self._changed:
            return len(self._waiting)

    @property
    def under_way(self) -> int:
        """Lanes that are not collected."""
        with self._changed:
            return len(self._waiting) + len(self._running) + len(self._finished)

    def submit(self, lanes: list[Lane]) -> None:
        with self._changed:
            self._waiting.extend(lanes)
            self._staff()
            self._changed.notify_all()

    def collect(self, timeout: float) -> list[Lane]:
        """What has finished or is overdue, once nothing is left under way or the time is up."""
        with self._changed:
            self._changed.wait_for(lambda: not self._waiting and not self._running, timeout)
            self._give_up_overdue()
            finished, self._finished = self._finished, []
            return finished

    def halt(self) -> None:
        """Begin no further event; what runs may end."""
        with self._changed:
            for lane in (*self._waiting, *self._running):
                lane.last_begin = 0.0

    def close(self) -> None:
        """The threads end, those with a call under way after it."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _staff(self) -> None:
        while self._idle < len(self._waiting) and self._workers < self._threads:
            self._workers += 1
            self._idle += 1  # so that one thread per lane is started, not more
            threading.Thread(target=self._work, name="bpm-publish", daemon=True).start()

    def _give_up_overdue(self) -> None:
        now = monotonic()
        for lane in [lane for lane in self._running if lane.give_up_at <= now]:
            lane.given_up = True
            if lane.under_way:
                lane.error = "no answer before the lease was over"
            self._running.discard(lane)
            self._finished.append(lane)
            self._workers -= 1
        self._staff()

    def _work(self) -> None:
        while (lane := self._take()) is not None:
            while self._begin(lane):
                self._end(lane, self._attempt(lane.events[lane.published]))
            if not self._finish(lane):
                return

    def _take(self) -> Lane | None:
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closed)
            if not self._waiting:
                self._idle -= 1
                self._workers -= 1
                return None
            self._idle -= 1
            lane = self._waiting.popleft()
            self._running.add(lane)
            return lane

    def _begin(self, lane: Lane) -> bool:
        with self._changed:
            left = lane.published < len(lane.events) and lane.error is None
            lane.under_way = left and not lane.given_up and monotonic() < lane.last_begin
            return lane.under_way

    def _attempt(self, event: OutboxRow) -> str | None:
        try:
            self._publish(event)
        except BaseException as error:  # noqa: BLE001 - also SystemExit of a user's function is only a failure
            return f"{type(error).__name__}: {error}"
        return None

    def _end(self, lane: Lane, error: str | None) -> None:
        with self._changed:
            lane.under_way = False
            if lane.given_up:
                return
            lane.error = error
            lane.published += error is None

    def _finish(self, lane: Lane) -> bool:
        """False: the lane was given up, and this thread with it."""
        with self._changed:
            if lane.given_up:
                return False
            self._running.discard(lane)
            self._finished.append(lane)
            self._idle += 1
            if not self._waiting and not self._running:
                self._changed.notify_all()
            return True
