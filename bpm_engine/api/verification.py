"""Verifying an instance: its history replayed against its definition must give its live tokens (R48)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from bpm_engine.api.caller import Caller
from bpm_engine.bpmn.graph import Graph
from bpm_engine.core.replay import verify
from bpm_engine.core.state import Instance, LogEntry, LogKind
from bpm_engine.store import definitions, search
from bpm_engine.store.pages import MAX_LIMIT
from bpm_engine.store.transaction import Transaction


@dataclass(frozen=True, slots=True)
class Verification:
    """`findings` say what contradicts what; none: history, definition and tokens agree."""

    instance_id: str
    findings: tuple[str, ...]

    @property
    def is_sound(self) -> bool:
        return not self.findings

    def __str__(self) -> str:
        if self.is_sound:
            return f"instance {self.instance_id}: history, definition and tokens agree"
        return "\n".join([f"instance {self.instance_id} contradicts its history:", *self.findings])


def verify_instance(caller: Caller, tx: Transaction, instance: Instance) -> Verification:
    graphs = dict(_graphs(caller, tx, instance))
    tokens = search.load_tokens(tx, [instance.id], live=False)
    scopes = {scope.id: scope for scope in search.load_scopes(tx, instance.id)}
    entries = _entries(tx, caller.tenant, instance.id)
    return Verification(instance.id, tuple(verify(instance, graphs, entries, tokens, scopes)))


def _graphs(caller: Caller, tx: Transaction, instance: Instance) -> Iterator[tuple[int, Graph]]:
    """Of every version that the instance has had."""
    versions = {instance.definition_version}
    for entry in search.find_entries(tx, instance.id, (LogKind.STARTED, LogKind.MIGRATED)):
        versions |= {v for v in (entry.data or {}).values() if isinstance(v, int)}
    for version in sorted(versions):
        found = definitions.load_version(tx, caller.tenant, instance.definition_key, version)
        if found is not None:
            yield version, caller.runtime.cache.compiled(found).graph


def _entries(tx: Transaction, tenant: str, instance_id: str) -> Iterator[LogEntry]:
    cursor: str | None = None
    while True:
        page = search.find_log(tx, tenant, instance_id, limit=MAX_LIMIT, cursor=cursor)
        yield from page.items
        cursor = page.cursor
        if cursor is None:
            return
