"""Writing the history and the events for the outside world, numbered without a gap per instance.

A node where a token rests has two rows, ENTERED and COMPLETED; a node that it only passes has the one
row COMPLETED. (token, activation) names one visit. An outbox event has the number of the row that tells
of the same fact, so both are read in one order. `path` gives back the nodes in order of entry.

Outbox types: instance.started, instance.completed, instance.failed, instance.suspended,
instance.cancelled, instance.migrated, activity.completed, incident.created, message.thrown,
signal.thrown, and whatever `bpm:emit` names.
"""

from __future__ import annotations

from collections.abc import Iterable

from bpm_engine.core.context import Context
from bpm_engine.core.draft import Draft
from bpm_engine.core.state import Instance, LogEntry, LogKind, OutboxEvent, Token, Variables


class Journal:
    __slots__ = ("_actor", "_context", "_draft", "_log", "_now", "_outbox", "_tallies", "_undo")

    def __init__(self, draft: Draft, context: Context) -> None:
        self._draft = draft
        self._log = draft.log
        self._outbox = draft.outbox
        self._tallies = draft.tallies
        self._undo = draft.undo
        self._context = context
        self._now = context.now
        self._actor = context.actor

    def log(
        self, kind: LogKind, token: Token, data: Variables | None = None, node_id: str | None = None
    ) -> LogEntry:
        """A fact about a token at its node, or at another node on its behalf."""
        instance_id = token.instance_id
        tally = self._tallies.get(instance_id) or self._draft.tally(instance_id)
        tally.seq = seq = tally.seq + 1
        entry = LogEntry(
            token.tenant_id,
            instance_id,
            token.root_instance_id,
            seq,
            kind,
            self._now,
            node_id or token.node_id,
            token.id,
            token.scope_id,
            token.activation,
            self._actor,
            data,
        )
        self._undo.append(self._log)  # as `next_seq` and `append` do: every step writes two of these
        self._log.append(entry)
        return entry

    def log_instance(self, kind: LogKind, instance: Instance, data: Variables | None = None) -> LogEntry:
        entry = LogEntry(
            tenant_id=instance.tenant_id,
            instance_id=instance.id,
            root_instance_id=instance.root_instance_id,
            seq=self._draft.next_seq(instance.id),
            kind=kind,
            at=self._now,
            actor=self._actor,
            data=data,
        )
        self._draft.append(self._draft.log, entry)
        return entry

    def publish(self, entry: LogEntry, event_type: str, data: Variables) -> None:
        event = OutboxEvent(
            id=self._context.new_id(),
            tenant_id=entry.tenant_id,
            instance_id=entry.instance_id,
            root_instance_id=entry.root_instance_id,
            seq=entry.seq,
            type=event_type,
            data=data,
            at=entry.at,
        )
        self._undo.append(self._outbox)
        self._outbox.append(event)


def path(entries: Iterable[LogEntry]) -> list[str]:
    """The nodes in order of entry."""
    seen: set[tuple[str | None, int | None, str]] = set()
    nodes: list[str] = []
    for entry in entries:
        if entry.kind not in (LogKind.ENTERED, LogKind.COMPLETED) or entry.node_id is None:
            continue
        visit = (entry.token_id, entry.activation, entry.node_id)
        if visit not in seen:
            seen.add(visit)
            nodes.append(entry.node_id)
    return nodes
