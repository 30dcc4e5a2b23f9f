"""For the tests of applications that embed the engine: a whole engine in memory, and time under control.

    engine = TestEngine("processes/order.bpmn", handlers={"payment.charge": lambda work: {"receipt": "r-1"}})
    order = engine.start("order", {"total": 120})
    engine.run_until_idle()
    assert engine.waiting_at(order) == ["ship"]
    engine.clock.advance("P3D")             # only time passes; what is due happens in run_until_idle
    engine.run_until_idle()

Nothing runs in the background, so a test sees the same thing every time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from bpm_engine.api.views import InstanceView
from bpm_engine.config import Config
from bpm_engine.core.state import Waiting
from bpm_engine.engine import Engine
from bpm_engine.handlers import Duration, HandlerFunction, span
from bpm_engine.store import clock as clocks

__all__ = ["ManualClock", "TestEngine"]


@dataclass(slots=True)
class ManualClock(clocks.ManualClock):
    """A clock that moves only when told to. It begins at the first moment of 2030."""

    def advance(self, by: Duration) -> datetime:
        """Let time pass: "PT1H", "5m" or a timedelta. The new time."""
        return clocks.ManualClock.advance(self, span(by, "advance"))


class TestEngine(Engine):
    """An engine on SQLite in memory with a manual clock; the files are deployed, the handlers registered."""

    __test__ = False  # pytest would collect it for its name

    def __init__(
        self,
        *files: str | bytes | Path,
        handlers: Mapping[str, HandlerFunction] | None = None,
        config: Config | None = None,
        url: str = "sqlite://",
    ) -> None:
        self.clock = ManualClock()
        super().__init__(url, config=config or Config(), clock=self.clock)
        for topic, function in (handlers or {}).items():
            self.handler(topic)(function)
        for file in files:
            self.deploy(file)

    def waiting_at(self, instance: InstanceView | str) -> list[str]:
        """The nodes where the instance's tokens rest now, in order of their arrival."""
        tokens = self.instances.get(_id(instance)).tokens
        return [token.node_id for token in tokens if token.waiting_for != Waiting.SCOPE]

    def path(self, instance: InstanceView | str) -> list[str]:
        """The nodes that were entered, in this order."""
        return [step.node_id for step in self.history.steps(_id(instance))]


def _id(instance: InstanceView | str) -> str:
    return instance if isinstance(instance, str) else instance.id
