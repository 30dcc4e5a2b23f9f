"""An event loop in a thread of its own, for publishers whose client is asynchronous.

Being asynchronous gives them what blocking clients lack: a limit on the whole call, however the other side
spends its time. The loop starts on first use, so constructing a publisher opens nothing.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
BLOCKED = (
    256  # calls that block at the same time, such as look-ups of names: their time limit does not end them
)


class EventLoop:
    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def run(self, call: Coroutine[object, object, T], timeout: float) -> T:
        """The call's result, from any thread; TimeoutError when the time is up, and the call is cancelled."""
        return asyncio.run_coroutine_threadsafe(asyncio.wait_for(call, timeout), self._started()).result()

    @property
    def is_running(self) -> bool:
        return self._loop is not None

    def close(self) -> None:
        with self._lock:
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        if loop is None or thread is None:
            return
        loop.call_soon_threadsafe(loop.stop)
        thread.join()

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=_keep, args=(self._loop,), name=self._name, daemon=True
                )
                self._thread.start()
            return self._loop


def _keep(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    loop.set_default_executor(ThreadPoolExecutor(BLOCKED, "bpm-blocking"))
    loop.run_forever()
    pending = asyncio.all_tasks(loop)
    for task in pending:
        task.cancel()
    loop.run_until_complete(asyncio.gather(*pending, return_exceptions=True))
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()
