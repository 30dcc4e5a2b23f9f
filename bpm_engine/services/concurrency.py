"""Where handlers run: a fixed number of threads around one queue, and one event loop in a thread of its own.

Both start with the first work they get, so that an engine that only sends and looks has neither.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar

T = TypeVar("T")
logger = logging.getLogger("bpm_engine.executor")


class Threads(Generic[T]):
    """`run` is called with each item, by one of `size` threads, first come first served."""

    def __init__(self, size: int, run: Callable[[T], None]) -> None:
        self._size = size
        self._run = run
        self._queue: SimpleQueue[T | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()

    def put(self, item: T) -> None:
        self._queue.put(item)
        if len(self._threads) < self._size and self._queue.qsize() > 0:
            self._grow()

    def withdraw(self) -> list[T]:
        """What no thread has begun: it will not be."""
        items: list[T] = []
        while True:
            try:
                item = self._queue.get_nowait()
            except Empty:
                return items
            if item is not None:
                items.append(item)

    def close(self) -> None:
        """The threads end, those at work after it."""
        for _ in self._threads:
            self._queue.put(None)
        self._threads = []

    def _grow(self) -> None:
        with self._lock:
            if len(self._threads) < self._size:
                name = f"bpm-handler-{len(self._threads)}"
                thread = threading.Thread(target=self._work, name=name, daemon=True)
                self._threads.append(thread)
                thread.start()

    def _work(self) -> None:
        while (item := self._queue.get()) is not None:
            try:
                self._run(item)
            except Exception:
                logger.exception("the executor failed around a handler; its lease will run out")


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
        loop.run_forever()
    finally:
        loop.close()


async def _end_all() -> None:
    loop = asyncio.get_running_loop()
    others = asyncio.all_tasks(loop) - {asyncio.current_task(loop)}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    loop.stop()
