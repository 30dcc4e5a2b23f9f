"""Outbox events for tests, and receivers that write down what reaches them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta

import sqlalchemy as sa
from support import rows

from bpm_engine.core.changes import Changes
from bpm_engine.core.state import Instance, OutboxEvent
from bpm_engine.publishers import CloudEvent
from bpm_engine.services.outbox import OutboxConfig, OutboxDispatcher
from bpm_engine.store import changes as changing
from bpm_engine.store.outbox import OUTBOX, OutboxRow
from bpm_engine.store.schema import event_outbox
from bpm_engine.store.store import Store


def write_events(store: Store, instances: int, events: int) -> list[Instance]:
    """Instances with `events` events each, numbered from 1."""
    owners = [rows.instance(business_key=f"A-{n}", correlation_id=f"c-{n}") for n in range(instances)]
    changes = rows.started(*owners, tokens=0)
    for owner in owners:
        changes.outbox += [rows.event(owner, seq, data={"number": seq}) for seq in range(1, events + 1)]
    with store.transaction() as tx:
        changing.apply(tx, changes)
        tx.wake()
    return owners


def add_events(store: Store, events: list[OutboxEvent]) -> None:
    changes = Changes()
    changes.outbox += events
    with store.transaction() as tx:
        changing.apply(tx, changes)


def outbox_rows(store: Store, instance_id: str | None = None) -> list[OutboxRow]:
    query = sa.select(*OUTBOX.columns).order_by(event_outbox.c.instance_id, event_outbox.c.seq)
    if instance_id is not None:
        query = query.where(event_outbox.c.instance_id == instance_id)
    with store.reading() as tx:
        return OUTBOX.read(tx.execute(query))


def accept(event: CloudEvent) -> None:
    """Takes every event."""


@dataclass
class Receiver:
    """A publisher that keeps what it got. `answer` may raise, or wait, before an event counts as received."""

    answer: Callable[[CloudEvent], None] = accept
    received: list[CloudEvent] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def publish(self, event: CloudEvent) -> None:
        self.answer(event)
        with self.lock:
            self.received.append(event)

    def close(self) -> None:
        pass

    @property
    def ids(self) -> list[str]:
        return [event.id for event in self.received]

    def first_deliveries(self) -> dict[str, list[int]]:
        """Per instance the numbers of its events in the order in which each was received first."""
        seen: set[str] = set()
        numbers: dict[str, list[int]] = {}
        for event in self.received:
            if event.id not in seen:
                seen.add(event.id)
                numbers.setdefault(event.subject, []).append(int(event.extensions["sequence"]))
        return numbers


def dispatcher(store: Store, publisher: Receiver, **settings: object) -> OutboxDispatcher:
    values: dict[str, object] = {"owner": rows.new_id(), "threads": 8, "lease": timedelta(seconds=30)}
    return OutboxDispatcher(store, publisher, OutboxConfig(**values | settings))  # type: ignore[arg-type]


def run_until_idle(service: OutboxDispatcher) -> None:
    while service.run_once():
        pass
