"""What a scenario left in an engine's database, read row by row and told as a `Report`.

History counts per instance; where one instance called another, the history of the called one is put in
front of what its caller did next at the call.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa
from support.scenarios.core_driver import OF_THE_ENGINE
from support.scenarios.driver import Report, Seen

from bpm_engine.bpmn.graph import Graph
from bpm_engine.core.state import (
    Instance,
    LogEntry,
    LogKind,
    OutboxEvent,
    Scope,
    Subscription,
    SubscriptionStatus,
    Timer,
    TimerStatus,
    Token,
    TokenState,
    Waiting,
)
from bpm_engine.store import records, schema
from bpm_engine.store.records import Shape
from bpm_engine.store.store import Store
from bpm_engine.store.transaction import Transaction

GONE = (TokenState.COMPLETED, TokenState.CANCELLED)


@dataclass(slots=True)
class Rows:
    """Everything the instances of a database have, oldest first."""

    instances: dict[str, Instance]
    tokens: list[Token]
    scopes: dict[str, Scope]
    timers: list[Timer]
    subscriptions: list[Subscription]
    log: dict[str, list[LogEntry]] = field(default_factory=dict)  # by instance
    outbox: list[OutboxEvent] = field(default_factory=list)

    @property
    def live(self) -> list[Token]:
        return [token for token in self.tokens if token.state not in GONE]

    def open_waits(self) -> list[str]:
        timers = [timer.node_id for timer in self.timers if timer.status is TimerStatus.SCHEDULED]
        waits = [wait.node_id for wait in self.subscriptions if wait.status is SubscriptionStatus.OPEN]
        return sorted(timers + waits)


def read_rows(store: Store) -> Rows:
    with store.reading() as tx:
        rows = Rows(
            instances={row.id: row for row in _all(tx, records.INSTANCE)},
            tokens=_all(tx, records.TOKEN),
            scopes={row.id: row for row in _all(tx, records.SCOPE)},
            timers=_all(tx, records.TIMER),
            subscriptions=_all(tx, records.SUBSCRIPTION, schema.subscription.c.instance_id.is_not(None)),
            outbox=_all(tx, records.OUTBOX),
        )
        order = (schema.execution_log.c.instance_id, schema.execution_log.c.seq)
        for row in records.LOG.read(tx.execute(sa.select(*records.LOG.columns).order_by(*order))):
            rows.log.setdefault(row.instance_id, []).append(row)
        return rows


def _all(tx: Transaction, shape: Shape[Any], *conditions: sa.ColumnElement[bool]) -> list[Any]:
    query = sa.select(*shape.columns).where(*conditions).order_by(shape.table.c.id)
    return shape.read(tx.execute(query))


def report(rows: Rows, root: str, graphs: Iterable[Graph], seen: Sequence[Seen]) -> Report:
    tree = {row.id for row in rows.instances.values() if row.root_instance_id == root}
    log = list(_history(rows, root))
    live = [token for token in rows.live if token.instance_id in tree]
    done = [entry.node_id or "" for entry in log if entry.kind is LogKind.COMPLETED]
    undo = {node.id for graph in graphs for node in graph.nodes.values() if node.is_undo}
    return Report(
        status=str(rows.instances[root].status),
        variables=dict(rows.scopes[root].variables),
        done=done,
        withdrawn=list(_withdrawn(rows, log)),
        incidents=[
            f"{(token.error or {}).get('code')}@{token.node_id}"
            for token in live
            if token.state is TokenState.FAILED
        ],
        resting=[token.node_id for token in live if token.waiting_for is not Waiting.TURN],
        undone=[node for node in done if node in undo],
        emitted=list(_emitted(rows, tree)),
        seen=list(seen),
        left_behind=[] if rows.live else rows.open_waits(),
    )


def _history(rows: Rows, instance_id: str) -> Iterator[LogEntry]:
    """The entries of an instance and, at the calls, of what it called."""
    called: dict[str | None, list[str]] = {}
    for child in rows.instances.values():
        if child.parent_instance_id == instance_id:
            called.setdefault(child.parent_token_id, []).append(child.id)
    for entry in rows.log.get(instance_id, ()):
        if entry.kind is not LogKind.ENTERED:
            for child_id in called.pop(entry.token_id, ()):
                yield from _history(rows, child_id)
        yield entry
    for children in called.values():
        for child_id in children:
            yield from _history(rows, child_id)


def _withdrawn(rows: Rows, log: list[LogEntry]) -> Iterator[str]:
    """Items of a sequential repetition whose turn never came were never there."""
    items = {token.id for token in rows.tokens if token.loop_index is not None}
    entered = {entry.token_id for entry in log if entry.kind is LogKind.ENTERED}
    for entry in log:
        never_there = entry.token_id in items and entry.token_id not in entered
        if entry.kind is LogKind.CANCELLED and entry.token_id is not None and not never_there:
            yield entry.node_id or ""


def _emitted(rows: Rows, tree: set[str]) -> Iterator[str]:
    for event in rows.outbox:
        if event.instance_id not in tree or event.type.startswith(OF_THE_ENGINE):
            continue
        yield event.data["message"] if event.type == "message.thrown" else event.type
