"""Deploying: from a file to immutable, numbered definitions and the events that start them."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import sqlalchemy as sa
from msgspec.structs import replace

from bpm_engine.api.caller import Caller
from bpm_engine.api.sources import read_source
from bpm_engine.api.views import Deployment, definition_view
from bpm_engine.bpmn import load
from bpm_engine.bpmn.document import Limits, decoded
from bpm_engine.bpmn.events import MessageEvent, SignalEvent, TimerEvent
from bpm_engine.bpmn.graph import Graph, Node
from bpm_engine.bpmn.load import Loaded
from bpm_engine.core import timing
from bpm_engine.core.state import SubscriptionKind
from bpm_engine.crash import crash_point, declare
from bpm_engine.errors import ConflictError, DefinitionError
from bpm_engine.problems import Problem, error
from bpm_engine.services.admission import Kind
from bpm_engine.services.step import new_id
from bpm_engine.store import definitions, messages, timers
from bpm_engine.store.definitions import Definition
from bpm_engine.store.messages import StartSubscription
from bpm_engine.store.timers import Schedule
from bpm_engine.store.transaction import Transaction

NOTHING_EXECUTABLE = error(
    "NOTHING_EXECUTABLE",
    "A deployment needs at least one process that can be executed.",
    'Set isExecutable="true" on the process.',
)
WRITTEN = declare("deploy.written", "definitions and what starts them are written, nothing is committed")
ATTEMPTS = 5  # two deployments at once want the same version number


class Deployments:
    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self._runtime = caller.runtime
        self._tenant = caller.tenant

    def deploy(
        self,
        source: str | bytes | Path,
        *,
        actor: str | None = None,
        connection: sa.Connection | None = None,
    ) -> Deployment:
        self._caller.border.names(actor=actor)
        data, name = read_source(source)
        loaded = self._checked(data, name)
        xml = data if isinstance(data, str) else decoded(data)
        for _ in range(ATTEMPTS):
            try:
                with self._caller.turn(Kind.DEPLOYMENT, connection), self._caller.writing(connection) as tx:
                    rows = self._write(tx, loaded, xml, actor)
            except ConflictError:  # another deployment took the version number: read again
                continue
            for row, graph in rows:
                self._runtime.cache.keep(row, graph)
            views = tuple(definition_view(row) for row, _ in rows)
            return Deployment(rows[0][0].deployment_id, views, loaded.problems)
        raise ConflictError("other deployments of the same process are in the way; try again")

    def _checked(self, data: str | bytes, name: str) -> Loaded:
        config = self._caller.config
        mode, limits = (
            config.soundness,
            Limits(max_bytes=config.file_bytes, max_elements=config.file_elements),
        )
        loaded = load(data, source=name, support=True, soundness=mode != "off", limits=limits).require()
        if mode == "refuse" and any(p.trace for p in loaded.problems):
            raise DefinitionError(loaded.problems, name or None)
        if not any(graph.executable for graph in loaded.graphs):
            raise DefinitionError([*loaded.problems, nothing_executable(loaded)], name or None)
        return loaded

    def _write(
        self, tx: Transaction, loaded: Loaded, xml: str, actor: str | None
    ) -> list[tuple[Definition, Graph]]:
        graphs = {graph.key: graph for graph in loaded.graphs if graph.executable}
        latest = definitions.load_latest(tx, self._tenant, graphs)
        content = definitions.content_hash(xml)
        if all(key in latest and latest[key].content_hash == content for key in graphs):
            return [(latest[key], graph) for key, graph in graphs.items()]
        highest = definitions.highest_versions(tx, self._tenant, graphs)
        deployment_id = new_id()
        rows = [
            Definition(
                id=new_id(),
                tenant_id=self._tenant,
                key=key,
                version=highest.get(key, 0) + 1,
                version_tag=graph.version_tag,
                name=graph.name,
                xml=xml,
                content_hash=content,
                deployment_id=deployment_id,
                deployed_by=actor,
                created_at=tx.now(),
            )
            for key, graph in graphs.items()
        ]
        definitions.add_definitions(tx, rows)
        for row in rows:
            open_starts(tx, row, graphs[row.key])
        crash_point(WRITTEN)
        return [(row, graphs[row.key]) for row in rows]


def nothing_executable(loaded: Loaded) -> Problem:
    """At the first process that there is."""
    words = "no process in this file can be executed"
    processes = loaded.definitions.processes if loaded.definitions is not None else ()
    if not processes:
        return NOTHING_EXECUTABLE.at(words, hint='Add a process with isExecutable="true".')
    first = processes[0]
    return NOTHING_EXECUTABLE.at(words, element_id=first.id, line=first.line)


def close_starts(tx: Transaction, tenant_id: str, key: str) -> None:
    """Nothing starts the process any more."""
    messages.replace_start_subscriptions(tx, tenant_id, key, [])
    timers.replace_schedules(tx, tenant_id, key, [])


def open_starts(tx: Transaction, row: Definition, graph: Graph) -> None:
    """What starts the process waits for the latest version only (bpmn.md 15)."""
    waits, schedules = [], []
    for node, index, event in graph.start_events():
        match event:
            case MessageEvent():
                waits.append(_wait(row, node, index, SubscriptionKind.MESSAGE, event))
            case SignalEvent():
                waits.append(_wait(row, node, index, SubscriptionKind.SIGNAL, event))
            case TimerEvent():
                schedules.append(_schedule(row, node, index, event, tx.now()))
    messages.replace_start_subscriptions(tx, row.tenant_id, row.key, waits)
    timers.replace_schedules(tx, row.tenant_id, row.key, schedules)


def _wait(
    row: Definition, node: Node, index: int, kind: SubscriptionKind, event: MessageEvent | SignalEvent
) -> StartSubscription:
    wait = StartSubscription(
        id=new_id(),
        tenant_id=row.tenant_id,
        definition_id=row.id,
        definition_key=row.key,
        node_id=node.id,
        event=index,
        kind=kind,
        name=str(event.name.evaluate({})),
    )
    if isinstance(event, MessageEvent) and event.match:
        return replace(wait, match={path: value.evaluate({}) for path, value in event.match})
    return wait


def _schedule(row: Definition, node: Node, index: int, event: TimerEvent, now: datetime) -> Schedule:
    first = timing.schedule(event, event.expression.evaluate({}, now=now), now)
    return Schedule(
        id=new_id(),
        tenant_id=row.tenant_id,
        definition_id=row.id,
        definition_key=row.key,
        node_id=node.id,
        event=index,
        due_at=first.due_at,
        cycle=first.cycle,
        remaining=first.remaining,
        anchor_at=first.anchor_at,
        catch_up=event.catch_up,
    )
