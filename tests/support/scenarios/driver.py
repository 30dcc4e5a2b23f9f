"""What a scenario needs of whatever executes it: the core alone, or an engine on a database.

A driver holds one world: the definitions of a scenario's file, its clock, and all instances that come about.
`report` speaks of the instance that was started and of all it called.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from support.scenarios.format import Answer, Reply, Variables

from bpm_engine.bpmn.expressions.durations import Duration

Handler = Callable[[str, Variables], Answer]  # node id, what it is given


@dataclass(frozen=True, slots=True)
class Seen:
    """A handler was called."""

    node: str
    variables: Variables


@dataclass(slots=True)
class Report:
    """Node ids are those of the compiled graph; lists are in the order in which it happened."""

    status: str
    variables: dict[str, Any]
    done: list[str] = field(default_factory=list)
    withdrawn: list[str] = field(default_factory=list)
    incidents: list[str] = field(default_factory=list)  # code@node, open ones
    resting: list[str] = field(default_factory=list)  # where live tokens are
    undone: list[str] = field(default_factory=list)  # compensation handlers that ran to their end
    emitted: list[str] = field(default_factory=list)  # outbox events that the model asks for
    seen: list[Seen] = field(default_factory=list)
    left_behind: list[str] = field(default_factory=list)  # open waits of what has ended: must be empty


class Driver(Protocol):
    def deploy(self, bpmn: bytes) -> None: ...

    def start(self, process: str | None, at: str | None, variables: Variables) -> str | None:
        """None: started; else the code with which it was refused."""
        ...

    def work(self, handler: Handler, node: str | None = None) -> bool:
        """Lets a handler answer one piece of work, at that node if named. False: there was none."""
        ...

    def claim(self, handler: Handler, node: str) -> None:
        """A worker takes work at the node; its answer is kept for `finish`."""
        ...

    def finish(self, node: str) -> Reply: ...

    def expire(self, node: str) -> Reply: ...

    def advance(self, by: Duration) -> None:
        """Time passes; what falls due fires in order of due time, each before the next is looked for."""
        ...

    def pause(self, by: Duration) -> None:
        """Time passes while nothing runs; then what was missed is looked at."""
        ...

    def message(self, name: str, key: str | None, payload: Variables, message_id: str | None) -> Reply:
        """`stale`: nobody waits for it, or it was consumed before."""
        ...

    def signal(self, name: str, payload: Variables) -> None: ...

    def complete(self, node: str, variables: Variables) -> Reply:
        """A person completes the user task at the node; of several the oldest, of none the last one there
        was."""
        ...

    def cancel(self) -> Reply: ...

    def suspend(self) -> Reply: ...

    def resume(self) -> Reply: ...

    def retry(self, node: str, variables: Variables) -> Reply: ...

    def skip(self, node: str, variables: Variables) -> Reply: ...

    def set_variables(self, variables: Variables) -> Reply: ...

    def activate(self, node: str, variables: Variables) -> Reply:
        """In the activation of the ad-hoc sub-process that is the oldest."""
        ...

    def move(self, source: str, target: str) -> Reply: ...

    def report(self) -> Report: ...
