"""What drives a process in a scenario: one thing after the other that comes from outside.

A step names nodes, never ids of a run, so a scenario can be played again on any engine. Its text is what a
report shows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from bpm_engine.core.state import Variables


@dataclass(frozen=True, slots=True)
class Begin:
    """An instance starts: by a call, a message, a signal, or because it is time."""

    process: str
    node: str
    by: Literal["call", "message", "signal", "timer"] = "call"
    name: str = ""  # of the message or signal
    variables: Variables = field(default_factory=dict)

    def __str__(self) -> str:
        if self.by == "call":
            return f"start {self.process} with {self.variables}"
        told = {"message": f"message {self.name!r}", "signal": f"signal {self.name!r}", "timer": "time"}
        return f"{told[self.by]} starts {self.process} with {self.variables}"


@dataclass(frozen=True, slots=True)
class Answer:
    """A handler or an external worker returns."""

    process: str
    node: str
    topic: str
    variables: Variables
    external: bool = False
    rank: int = 0  # of several at the same node, in order of their age

    def __str__(self) -> str:
        return f"{self.node} ({self.topic}) returns {self.variables}"


@dataclass(frozen=True, slots=True)
class Throw:
    """A handler or an external worker raises a BpmnError."""

    process: str
    node: str
    topic: str
    code: str
    external: bool = False
    rank: int = 0

    def __str__(self) -> str:
        return f"{self.node} ({self.topic}) raises BpmnError({self.code!r})"


@dataclass(frozen=True, slots=True)
class Complete:
    """A person completes a user task."""

    process: str
    node: str
    variables: Variables
    rank: int = 0

    def __str__(self) -> str:
        return f"{self.node} is completed with {self.variables}"


@dataclass(frozen=True, slots=True)
class Message:
    node: str
    name: str
    key: str | None
    payload: Variables

    def __str__(self) -> str:
        return f"message {self.name!r} for {self.key!r} comes with {self.payload}"


@dataclass(frozen=True, slots=True)
class Signal:
    node: str
    name: str
    payload: Variables

    def __str__(self) -> str:
        return f"signal {self.name!r} comes with {self.payload}"


@dataclass(frozen=True, slots=True)
class Wait:
    """Time passes until the next timer is due."""

    node: str

    def __str__(self) -> str:
        return f"time passes until {self.node}"


@dataclass(frozen=True, slots=True)
class Set:
    """Variables are set from outside, for a condition that waits for them."""

    process: str
    node: str
    variables: Variables

    def __str__(self) -> str:
        return f"variables are set to {self.variables}"


@dataclass(frozen=True, slots=True)
class Activate:
    """Somebody selects an activity of an ad-hoc sub-process."""

    process: str
    node: str
    select: str  # the node where the sub-process waits for that
    rank: int = 0

    def __str__(self) -> str:
        return f"{self.node} is activated"


Step = Begin | Answer | Throw | Complete | Message | Signal | Wait | Set | Activate
