"""What happened to an instance: the journal as it was written, and one row per run of a node (R47)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from bpm_engine.api.caller import Caller
from bpm_engine.api.views import HistoryEntry, Page, StepView, history_entry
from bpm_engine.core.state import LogEntry, LogKind
from bpm_engine.store import search, statistics
from bpm_engine.store.pages import MAX_LIMIT

Visit = tuple[str, int]  # token, activation: one visit, though a migration may rename its node meanwhile


class History:
    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def find(self, instance_id: str, *, limit: int = 500, cursor: str | None = None) -> Page[HistoryEntry]:
        """In the order in which it happened."""
        limit = self._caller.border.limit(limit)
        with self._caller.searching() as tx:
            instance = self._caller.instance(tx, instance_id)
            page = search.find_log(tx, self._caller.tenant, instance.id, limit=limit, cursor=cursor)
        return Page(tuple(history_entry(each) for each in page.items), page.cursor)

    def steps(self, instance_id: str) -> tuple[StepView, ...]:
        """Each run of each node in order of entry: when, how long, how often tried, with what result."""
        return tuple(_counted(step) for step in _steps(self._entries(instance_id)).values())

    def count(self, *, definition: str | None = None) -> dict[str, dict[str, int]]:
        """How many entries of each kind there are per node: `count()["ship"]["completed"]`.

        Entries about instances as a whole stand under "". The whole history is read: for summaries.
        """
        self._caller.border.names(definition=definition)
        with self._caller.searching() as tx:
            counted = statistics.count_log(tx, self._caller.tenant, definition)
        nodes: dict[str, dict[str, int]] = {}
        for (node, kind), number in counted.items():
            nodes.setdefault(node, {})[kind] = number
        return nodes

    def _entries(self, instance_id: str) -> Iterator[LogEntry]:
        cursor: str | None = None
        with self._caller.searching() as tx:
            instance = self._caller.instance(tx, instance_id)
            while True:
                page = search.find_log(tx, self._caller.tenant, instance.id, limit=MAX_LIMIT, cursor=cursor)
                yield from page.items
                cursor = page.cursor
                if cursor is None:
                    return


def _steps(entries: Iterable[LogEntry]) -> dict[Visit, StepView]:
    steps: dict[Visit, StepView] = {}
    for entry in entries:
        if entry.token_id is None or entry.node_id is None or entry.activation is None:
            continue
        visit = (entry.token_id, entry.activation)
        step = steps.get(visit)
        if step is None and entry.kind in (LogKind.ENTERED, LogKind.COMPLETED):
            step = _entered(entry)
        if step is not None:
            steps[visit] = _told(step, entry)
    return steps


def _entered(entry: LogEntry) -> StepView:
    return StepView(
        node_id=entry.node_id or "",
        token_id=entry.token_id or "",
        activation=entry.activation or 0,
        status="running",
        started_at=entry.at,
        ended_at=None,
        duration=None,
        attempts=0,  # those that failed or threw an error, until all is told
        input=entry.data if entry.kind is LogKind.ENTERED else None,
        output=None,
        error=None,
    )


def _told(step: StepView, entry: LogEntry) -> StepView:
    data = entry.data or {}
    match entry.kind:
        case LogKind.COMPLETED:
            status = "skipped" if step.status == "skipped" else "completed"
            named = replace(step, node_id=entry.node_id or step.node_id, output=data.get("output"))
            return _ended(named, status, entry)
        case LogKind.CANCELLED:
            return _ended(step, "cancelled", entry)
        case LogKind.FAILED:
            return replace(step, attempts=step.attempts + 1, error=data)
        case LogKind.THROWN if "error" in data:  # an answer as well: no other entry tells of the attempt
            error = {"code": data["error"], "message": data.get("message", "")}
            return replace(step, attempts=step.attempts + 1, error=error)
        case LogKind.INCIDENT:
            return replace(step, status="failed", error=data)
        case LogKind.RETRIED:
            return replace(step, status="running")
        case LogKind.RESOLVED:
            return replace(step, status="skipped")
        case _:
            return step


def _ended(step: StepView, status: str, entry: LogEntry) -> StepView:
    return replace(step, status=status, ended_at=entry.at, duration=entry.at - step.started_at)


def _counted(step: StepView) -> StepView:
    """The attempt that is being made, or that succeeded, counts as well."""
    return replace(step, attempts=step.attempts + (step.status in ("running", "completed")))
