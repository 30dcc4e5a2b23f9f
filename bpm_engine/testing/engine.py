"""The engine of a test: everything in memory, nothing in the background."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from bpm_engine.api.views import IncidentView, InstanceView
from bpm_engine.config import Config
from bpm_engine.core.state import Waiting
from bpm_engine.engine import Engine
from bpm_engine.errors import ConflictError, InvalidInputError
from bpm_engine.handlers import HandlerFunction
from bpm_engine.publishers import Publisher
from bpm_engine.secrets import Resolver
from bpm_engine.testing.clock import ManualClock
from bpm_engine.testing.expectation import Expectation
from bpm_engine.testing.stubs import Answer, Stub

NO_HANDLER = "no_handler_registered"
UNSEEN = (Waiting.SCOPE, Waiting.TURN)  # what is around others, and what comes later


class Watcher(Protocol):
    """Who wants to know of all engines of a test run."""

    def opened(self, engine: TestEngine) -> None: ...

    def closing(self, engine: TestEngine) -> None:
        """It can still be asked."""


_watchers: list[Watcher] = []


class TestEngine(Engine):
    """An engine on SQLite in memory with a manual clock; the files are deployed, the handlers registered."""

    __test__ = False  # pytest would collect it for its name

    def __init__(
        self,
        *files: str | bytes | Path,
        handlers: Mapping[str, HandlerFunction] | None = None,
        config: Config | None = None,
        url: str = "sqlite://",
        publisher: Publisher | None = None,
        secrets: Resolver | None = None,
    ) -> None:
        self.clock = ManualClock()
        self.stubs: dict[str, Stub] = {}
        self.is_closed = False
        self._whole = self
        super().__init__(
            url, config=config or Config(), clock=self.clock, publisher=publisher, secrets=secrets
        )
        for topic, function in (handlers or {}).items():
            self.handler(topic)(function)
        for file in files:
            self.deploy(file)
        for watcher in _watchers:
            watcher.opened(self)

    def tenant(self, name: str) -> TestEngine:
        """The same engine with the same clock and stubs, seen by one tenant."""
        view = object.__new__(TestEngine)
        view._use(self._runtime, name)
        view.clock, view.stubs, view.is_closed, view._whole = self.clock, self.stubs, False, self._whole
        return view

    def close(self) -> None:
        if self._whole is not self:  # those who watch know the engine, not what a tenant sees of it
            self._whole.close()
            return
        if not self.is_closed:
            for watcher in _watchers:
                watcher.closing(self)
        self.is_closed = True
        super().close()

    # -------------------------------------------------------------- stubs

    def stub(
        self,
        topic: str,
        *,
        returns: Answer = None,
        raises: BaseException | type[BaseException] | None = None,
        then: Sequence[Answer] = (),
    ) -> Stub:
        """Register a handler that returns or raises what is given, then each of `then`; it notes its calls.

        Once more for the same topic: the same stub, with other answers from now on. In an engine with stubs a
        topic that has neither stub nor handler fails the test in `run_until_idle`.
        """
        if raises is not None and not _is_exception(raises):
            raise InvalidInputError(f"raises must be an exception or a class of them, not {raises!r:.40}")
        answers: list[Answer] = [returns if raises is None else raises, *then]
        stub = self.stubs.get(topic)
        if stub is None:
            if topic in self._runtime.handlers:
                raise ConflictError(f"{topic!r} has a real handler in this engine: leave one of the two out")
            stub = self.stubs[topic] = Stub(topic)
            self.handler(topic)(stub)
        stub.answer(answers)
        return stub

    def run_until_idle(self, *, only: Sequence[str] | None = None, types: Sequence[str] = ()) -> int:
        """Do everything that can be done now, in this thread; how many steps were done."""
        steps = super().run_until_idle(only=only, types=types)
        if self.stubs:
            self._refuse_missing_handlers()
        return steps

    def _refuse_missing_handlers(self) -> None:
        __tracebackhide__ = True
        missing = self.incidents.find(code=NO_HANDLER)
        if missing:
            raise AssertionError(_advice(missing.items, sorted(h.topic for h in self._runtime.handlers)))

    # -------------------------------------------------------------- looking

    def expect(self, instance: InstanceView | str) -> Expectation:
        """What must be true of an instance now: `engine.expect(order).waiting_at("ship")`."""
        return Expectation(self, _id(instance))

    def waiting_at(self, instance: InstanceView | str) -> list[str]:
        """The nodes where the instance's tokens rest now, in order of their arrival. A later item of a
        sequential multi-instance has not begun, and rests nowhere."""
        tokens = self.instances.get(_id(instance)).tokens
        return [token.node_id for token in tokens if token.waiting_for not in UNSEEN]

    def path(self, instance: InstanceView | str) -> list[str]:
        """The nodes that were entered, in this order."""
        return [step.node_id for step in self.history.steps(_id(instance))]


def watch(watcher: Watcher) -> Callable[[], None]:
    """Tell it of each engine from now on; what is returned ends that."""
    _watchers.append(watcher)
    return lambda: _watchers.remove(watcher)


def _advice(incidents: Sequence[IncidentView], known: Sequence[str]) -> str:
    lines = [f"{each.node_id} ({each.definition_key}): {each.message}" for each in incidents]
    return "\n".join(
        [
            "work that nothing takes: add engine.stub(topic), or a handler",
            *(f"  {line}" for line in lines),
            f"  known topics: {', '.join(known)}",
        ]
    )


def _is_exception(value: object) -> bool:
    return isinstance(value, BaseException) or (isinstance(value, type) and issubclass(value, BaseException))


def _id(instance: InstanceView | str) -> str:
    return instance if isinstance(instance, str) else instance.id
