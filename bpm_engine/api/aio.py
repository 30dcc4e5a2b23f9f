"""The same calls for async callers: each runs the sync call in a thread. No second implementation.

Calls that only register or that hand out context managers (`handler`, `begin`, `running`) stay with the
engine itself, and so does `run`, which never comes back. A type checker reads `aio.pyi`, which `make docs`
writes from the synchronous classes.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from weakref import WeakKeyDictionary

MOST = 256  # calls of one event loop at the same time
_POOLS: WeakKeyDictionary[asyncio.AbstractEventLoop, ThreadPoolExecutor] = WeakKeyDictionary()
SYNC_ONLY = frozenset({"aio", "begin", "data_store", "drain_timeout", "handler", "observe", "run", "running"})


class Asynchronous:
    """Wraps an engine, or one of its subjects such as `instances`."""

    def __init__(self, subject: object) -> None:
        self._subject = subject

    def tenant(self, name: str) -> Asynchronous:
        return Asynchronous(self._subject.tenant(name))  # type: ignore[attr-defined]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name in SYNC_ONLY:
            raise AttributeError(f"{name} has no async form; call it on the engine itself")
        value = getattr(self._subject, name)
        return _in_thread(value) if callable(value) else Asynchronous(value)

    def __dir__(self) -> list[str]:
        return [name for name in dir(self._subject) if not name.startswith("_") and name not in SYNC_ONLY]


def _threads(loop: asyncio.AbstractEventLoop) -> ThreadPoolExecutor:
    """Of their own: a call may wait for work for an hour, and asyncio's few are for everybody. They end with
    the loop."""
    if loop not in _POOLS:
        _POOLS[loop] = ThreadPoolExecutor(MOST, "bpm-aio")
    return _POOLS[loop]


def _in_thread(function: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
    @functools.wraps(function)
    async def call(*arguments: Any, **named: Any) -> Any:
        run = functools.partial(contextvars.copy_context().run, function, *arguments, **named)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(_threads(loop), run)

    return call
