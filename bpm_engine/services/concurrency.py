"""Where handlers run: a fixed number of threads around one queue, and one event loop in a thread of its own.

Both start with the first work they get, so that an engine that only sends and looks has neither.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from time import monotonic
from typing import Any, Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")
logger = logging.getLogger("bpm_engine.executor")

PATIENCE = 0.004  # seconds between two looks at how the queue moves
PACE = 40  # items in that time: as many as an interpreter can commit
WATCHER = 1
HANDFUL = 32  # results that are told together at most


class Threads(Generic[T, R]):
    """`run` is called with each item, by one of `size` threads, first come first served; `tell` with what it
    returned.

    Quick handlers need no second thread: the interpreter runs one at a time, and passing the turn around
    takes longer than they do. So while the queue moves at PACE, nobody joins those at work, and results are
    told by the handful. One idle thread watches meanwhile. When the queue has not moved as fast, it tells
    what there is and joins: a handler may be at work for long.
    """

    def __init__(self, size: int, run: Callable[[T], R], tell: Callable[[list[R]], None]) -> None:
        self._size = size
        self._run = run
        self._tell = tell
        self._items: deque[T] = deque()
        self._results: list[R] = []  # not told yet
        self._changed = threading.Condition()
        self._crew = 0  # the number of the threads that belong together: others after each close
        self._idle = 0
        self._at_work = 0
        self._called = 0  # idle threads that are to join those at work
        self._is_watched = False
        self._is_brisk = False  # the queue moved at PACE when last looked at
        self._taken = 0
        self._mark = (0, 0.0)  # how many were taken when, the last time that the pace was looked at

    def put(self, items: Sequence[T]) -> None:
        if not items:  # no thread begins that might never be needed, nor closed
            return
        with self._changed:
            if not self._items:
                self._mark = (self._taken, monotonic())
            self._items.extend(items)
            wanted = max(0, 1 - self._at_work) if self._is_brisk else len(self._items)
            self._grow(wanted + WATCHER)
            self._called = min(wanted, self._idle)
            self._changed.notify(self._called + WATCHER)

    def withdraw(self) -> list[T]:
        """What no thread has begun: it will not be."""
        with self._changed:
            items = list(self._items)
            self._items.clear()
            self._tell_results()
            return items

    def close(self) -> None:
        """The threads end, those at work after it. The next items get others."""
        with self._changed:
            self._crew += 1
            self._idle = self._at_work = self._called = 0
            self._is_watched = False
            self._changed.notify_all()

    def _grow(self, idle: int) -> None:
        """Until so many are idle, if there may be as many."""
        while self._idle < idle and self._idle + self._at_work < self._size:
            name = f"bpm-handler-{self._idle + self._at_work}"
            self._idle += 1
            threading.Thread(target=self._work, args=(self._crew,), name=name, daemon=True).start()

    def _work(self, crew: int) -> None:
        with self._changed:
            while self._is_needed(crew):
                self._idle -= 1
                self._at_work += 1
                self._grow(WATCHER)
                while self._items and crew == self._crew:
                    self._run_next()
                self._tell_results()
                if crew == self._crew:
                    self._at_work -= 1
                    self._idle += 1

    def _run_next(self) -> None:
        """The lock is not held while a handler runs. Nobody would tell what is done before one that may take
        long, if it is the last of the queue, or nobody watches."""
        item = self._take()
        is_watched = self._is_brisk and self._idle and self._items
        if not is_watched or len(self._results) >= HANDFUL:
            self._tell_results()
        result: list[R] = []
        self._changed.release()
        try:
            result.append(self._run(item))
        except Exception:
            logger.exception("the executor failed around a handler; its lease will run out")
        finally:
            self._changed.acquire()
            self._results += result

    def _tell_results(self) -> None:
        if not self._results:
            return
        results, self._results = self._results, []
        self._changed.release()
        try:
            self._tell(results)
        except Exception:
            logger.exception("the executor failed behind a handler; its lease will run out")
        finally:
            self._changed.acquire()

    def _is_needed(self, crew: int) -> bool:
        """Once there is an item for one more thread. False: the thread is to end."""
        while crew == self._crew:
            if self._items and self._called:
                self._called -= 1
                return True
            if self._items and not self._is_watched:
                if self._watch(crew):
                    self._changed.notify(WATCHER)
                    return True
            else:
                self._changed.wait()
        return False

    def _watch(self, crew: int) -> bool:
        """Whether the queue has not moved as it should."""
        self._is_watched = True
        taken = self._taken
        is_over = self._changed.wait_for(
            lambda: not self._items or self._called or crew != self._crew, PATIENCE
        )
        if crew != self._crew:
            return False
        self._is_watched = False
        is_slow = not is_over and self._taken - taken < PACE
        if is_slow:
            self._tell_results()
        self._is_brisk = self._is_brisk and not is_slow
        return is_slow

    def _take(self) -> T:
        self._taken += 1
        taken, at = self._mark
        if self._taken - taken >= PACE:
            now = monotonic()
            self._is_brisk = now - at < PATIENCE
            self._mark = (self._taken, now)
        return self._items.popleft()


class EventLoop:
    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = threading.Lock()

    def run(self, coroutine: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(coroutine, self._started())

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                name = "bpm-async-handlers"
                threading.Thread(target=_run, args=(self._loop,), name=name, daemon=True).start()
            return self._loop

    def close(self) -> None:
        """What still runs is cancelled."""
        with self._lock:
            if self._loop is not None:
                asyncio.run_coroutine_threadsafe(_end_all(), self._loop)
                self._loop = None


def _run(loop: asyncio.AbstractEventLoop) -> None:
    try:
        while not _has_ended(loop):
            logger.warning("a task of an async handler has asked the worker to end; it goes on")
    finally:
        loop.close()


def _has_ended(loop: asyncio.AbstractEventLoop) -> bool:
    """False: asyncio has let SystemExit or KeyboardInterrupt of a task through, which ends the loop of all
    handlers. Whoever waits for the task is told of it, and runs when the loop goes on."""
    try:
        loop.run_forever()
    except (SystemExit, KeyboardInterrupt):
        return False
    return True


async def _end_all() -> None:
    loop = asyncio.get_running_loop()
    others = asyncio.all_tasks(loop) - {asyncio.current_task(loop)}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    loop.stop()
