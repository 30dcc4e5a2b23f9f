"""What an advance did: for each table the rows to insert and the rows to update.

The store applies a `Changes` with one statement per table and kind, whatever the number of rows.
Updates carry the whole new record; for tokens the store checks that the row still has the version
the core saw (`token.version` is the new one, raised by exactly one). Variables of a scope are written as a
merge patch of the keys that were written, not as the whole object.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic, TypeVar

from bpm_engine.core.state import (
    CompensationRecord,
    HumanTask,
    Instance,
    Join,
    LogEntry,
    OutboxEvent,
    Scope,
    Subscription,
    ThrownMessage,
    ThrownSignal,
    Timer,
    Token,
    Variables,
)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Applied:
    """The stimulus took effect, be it as an incident."""


@dataclass(frozen=True, slots=True)
class Stale:
    """Late or repeated: nothing changed, and nobody has to do anything."""

    reason: str


@dataclass(frozen=True, slots=True)
class Refused:
    """Nothing changed, and the caller must know: a conflict or a bad request."""

    code: str
    message: str


Outcome = Applied | Stale | Refused


@dataclass(slots=True)
class Rows(Generic[T]):
    inserted: list[T] = field(default_factory=list)
    updated: list[T] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.inserted or self.updated)


@dataclass(slots=True)
class Changes:
    instances: Rows[Instance] = field(default_factory=Rows)
    scopes: Rows[Scope] = field(default_factory=Rows)
    patches: dict[str, Variables] = field(default_factory=dict)  # scope id -> written keys, updated scopes
    tokens: Rows[Token] = field(default_factory=Rows)
    joins: Rows[Join] = field(default_factory=Rows)
    timers: Rows[Timer] = field(default_factory=Rows)
    subscriptions: Rows[Subscription] = field(default_factory=Rows)
    tasks: Rows[HumanTask] = field(default_factory=Rows)
    compensations: Rows[CompensationRecord] = field(default_factory=Rows)
    log: list[LogEntry] = field(default_factory=list)
    outbox: list[OutboxEvent] = field(default_factory=list)
    messages: list[ThrownMessage] = field(default_factory=list)
    signals: list[ThrownSignal] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)  # one per stimulus, in their order
