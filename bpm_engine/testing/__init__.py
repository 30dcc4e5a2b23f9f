"""For the tests of applications that embed the engine: a whole engine in memory, and time under control.

    engine = TestEngine("processes/order.bpmn")
    charge = engine.stub("payment.charge", returns={"receipt": "r-1"})
    order = engine.start("order", {"total": 120})
    engine.run_until_idle()
    engine.expect(order).waiting_at("ship").variables(receipt="r-1")
    engine.clock.advance("P3D")             # only time passes; what is due happens in run_until_idle
    engine.run_until_idle()

Nothing runs in the background, so a test sees the same thing every time. Each name is loaded when it is first
used: pytest imports the plugin beside this file in every run, also of those who never test a process.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bpm_engine.testing.clock import ManualClock
    from bpm_engine.testing.coverage import Coverage
    from bpm_engine.testing.engine import TestEngine
    from bpm_engine.testing.expectation import Expectation
    from bpm_engine.testing.permutation import Incoming, Permutation, permute
    from bpm_engine.testing.scenarios import Cover, Scenario, Uncovered, cover
    from bpm_engine.testing.stubs import Stub, StubCall

__all__ = [
    "Cover",
    "Coverage",
    "Expectation",
    "Incoming",
    "ManualClock",
    "Permutation",
    "Scenario",
    "Stub",
    "StubCall",
    "TestEngine",
    "Uncovered",
    "cover",
    "permute",
]

_HOME_OF = {
    "Cover": "scenarios",
    "Coverage": "coverage",
    "Expectation": "expectation",
    "Incoming": "permutation",
    "ManualClock": "clock",
    "Permutation": "permutation",
    "Scenario": "scenarios",
    "Uncovered": "scenarios",
    "cover": "scenarios",
    "permute": "permutation",
    "Stub": "stubs",
    "StubCall": "stubs",
    "TestEngine": "engine",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'bpm_engine.testing' has no attribute {name!r}")
    value = getattr(import_module(f"bpm_engine.testing.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*globals(), *__all__]
