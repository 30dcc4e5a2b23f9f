"""Who watches the engine at work: metrics, traces, log lines. Nothing is called while nobody watches.

What was committed is told after the commit, so an observer counts facts, not attempts. An observer must be
quick and must not raise; if it does, the engine goes on and says so in the log.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import Any, Protocol

from bpm_engine.core.changes import Changes
from bpm_engine.core.state import Instance
from bpm_engine.errors import InvalidInputError
from bpm_engine.handlers import HandlerFunction, Work
from bpm_engine.store.statistics import Load

logger = logging.getLogger("bpm_engine.observer")


class Observer(Protocol):
    def attached(self, load: Callable[[], Load]) -> None:
        """Called once, first: `load` reads what waits in the database."""

    def committed(self, changes: Sequence[Changes], instances: Mapping[str, Instance]) -> None:
        """What one transaction of this process has changed: instances, tokens, history. `instances`: those
        that it is about, by id, as it left them."""

    def swept(self, what: str, number: int) -> None:
        """Retention has removed so many of these."""

    def refused(self, kind: str) -> None:
        """A call was refused because too much is under way: list, deployment, start or message."""

    def paused(self, topic: str, is_paused: bool) -> None:
        """This worker leaves a topic alone because its runs keep failing, or takes it up again."""

    def running(self, work: Work) -> AbstractContextManager[None]:
        """Entered around each run of a handler, in its thread or task; sees what it raises."""


_ASKED = tuple(name for name in vars(Observer) if not name.startswith("_"))


def refuse_strangers(observer: object) -> None:
    """A method that is missing would otherwise be missed in the middle of a commit."""
    missing = [name for name in _ASKED if not callable(getattr(observer, name, None))]
    if missing:
        raise InvalidInputError(
            f"the observer {type(observer).__name__} has no {', '.join(missing)}; "
            f"it must have {', '.join(_ASKED)}"
        )


class Observers:
    """All who watch. Handlers are wrapped when somebody does, so that others pay nothing."""

    def __init__(self) -> None:
        self._all: tuple[Observer, ...] = ()

    def __bool__(self) -> bool:
        return bool(self._all)

    def add(self, observer: Observer) -> None:
        self._all = (*self._all, observer)

    def committed(self, changes: Sequence[Changes], instances: Mapping[str, Instance]) -> None:
        for observer in self._all:
            _safely(observer.committed, changes, instances)

    def swept(self, what: str, number: int) -> None:
        for observer in self._all:
            _safely(observer.swept, what, number)

    def refused(self, kind: str) -> None:
        for observer in self._all:
            _safely(observer.refused, kind)

    def paused(self, topic: str, is_paused: bool) -> None:
        for observer in self._all:
            _safely(observer.paused, topic, is_paused)

    def running(self, work: Work) -> AbstractContextManager[object]:
        if len(self._all) == 1:  # a stack costs more than what is on it
            return self._all[0].running(work)
        stack = ExitStack()
        for observer in self._all:
            stack.enter_context(observer.running(work))
        return stack

    def wrap(self, function: HandlerFunction, is_async: bool) -> HandlerFunction:
        """The same handler, watched."""

        @functools.wraps(function)
        def run(work: Work, *arguments: Any) -> Any:
            with self.running(work):
                return function(work, *arguments)

        @functools.wraps(function)
        async def run_async(work: Work, *arguments: Any) -> Any:
            with self.running(work):
                return await function(work, *arguments)

        return run_async if is_async else run


def _safely(tell: Callable[..., None], *facts: object) -> None:
    try:
        tell(*facts)
    except Exception:
        logger.exception("an observer failed")
