"""What an advance did: for each table the rows to insert and the rows to update.

The store applies a `Changes` with one statement per table and kind, whatever the number of rows.
Updates carry the whole new record; for tokens the store checks that the row still has the version
the core saw (`token.version` is the new one, raised by exactly one). Variables of a scope are written as a
merge patch of the keys that were written, not as the whole object.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec

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
APPLIED = Applied()


class Rows(msgspec.Struct, Generic[T]):
    """`before`: the rows that the core has seen, by their keys, those of `updated` among them. Where it is
    empty nobody knows what of a row has changed."""

    inserted: list[T] = []
    updated: list[T] = []
    before: Mapping[Any, T] = {}

    def __bool__(self) -> bool:
        return bool(self.inserted or self.updated)


class Changes(msgspec.Struct):
    instances: Rows[Instance] = msgspec.field(default_factory=Rows)
    scopes: Rows[Scope] = msgspec.field(default_factory=Rows)
    patches: dict[str, Variables] = {}  # scope id -> written keys, updated scopes
    places: dict[str, str] = {}  # scope id -> node id, of scopes that a migration gave another node
    tokens: Rows[Token] = msgspec.field(default_factory=Rows)
    joins: Rows[Join] = msgspec.field(default_factory=Rows)
    timers: Rows[Timer] = msgspec.field(default_factory=Rows)
    subscriptions: Rows[Subscription] = msgspec.field(default_factory=Rows)
    tasks: Rows[HumanTask] = msgspec.field(default_factory=Rows)
    compensations: Rows[CompensationRecord] = msgspec.field(default_factory=Rows)
    log: list[LogEntry] = []
    outbox: list[OutboxEvent] = []
    messages: list[ThrownMessage] = []
    signals: list[ThrownSignal] = []
    outcomes: list[Outcome] = []  # one per stimulus, in their order
