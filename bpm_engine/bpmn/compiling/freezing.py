"""The last pass: the draft, complete by now, becomes the immutable graph."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

from bpm_engine.bpmn import graph
from bpm_engine.bpmn.compiling.canonical import content_hash
from bpm_engine.bpmn.compiling.compensation import compensable_scopes
from bpm_engine.bpmn.compiling.draft import Draft, NodeDraft, frozen_scope
from bpm_engine.bpmn.compiling.flows import outgoing_by_source
from bpm_engine.bpmn.compiling.lookahead import look_ahead
from bpm_engine.bpmn.compiling.network import network_of
from bpm_engine.bpmn.compiling.reachability import JOINS, Reach, reaches
from bpm_engine.bpmn.compiling.texts import Texts
from bpm_engine.bpmn.events import ConditionEvent
from bpm_engine.bpmn.frozen import FrozenDict
from bpm_engine.bpmn.graph import Flow, Graph, Kind, Node, Scope, Spec


def freeze(draft: Draft, texts: Texts) -> Graph:
    process, settings = draft.process, draft.process.settings
    scopes = _scopes(draft)
    nodes = _nodes(draft, scopes)
    flows = FrozenDict(draft.flows)
    frozen = Graph(
        key=process.id,
        name=process.name,
        line=process.line,
        documentation=process.documentation,
        version_tag=settings.version_tag,
        executable=process.executable is not False,
        retention=texts.duration_setting(settings.retention, "retention", process),
        deadline=texts.deadline(settings.deadline, process),
        max_tokens=settings.max_tokens,
        nodes=nodes,
        scopes=scopes,
        flows=flows,
        ahead=look_ahead(nodes, scopes),
        watched=_watched(nodes, process.id),
        network=network_of(nodes, flows, scopes),
    )
    return replace(frozen, content_hash=content_hash(frozen))


def _watched(nodes: FrozenDict[str, Node], root: str) -> frozenset[str]:
    """A condition that starts the process itself is looked at by whoever starts it."""
    conditions = frozenset(
        name
        for node in nodes.values()
        if isinstance(node.spec, graph.Catch | graph.Boundary | graph.Start)
        and not (node.kind is Kind.START and node.scope == root)
        for event in node.spec.events
        if isinstance(event, ConditionEvent)
        for name in event.condition.reads
    )
    return conditions.union(*(node.data_reads for node in nodes.values() if node.is_activity))


def _scopes(draft: Draft) -> FrozenDict[str, Scope]:
    compensable = compensable_scopes(draft)
    return FrozenDict(
        {
            scope.id: frozen_scope(
                scope,
                inclusives=tuple(node.id for node in draft.in_scope(scope) if node.kind in JOINS),
                compensable=scope.id in compensable,
            )
            for scope in draft.scopes.values()
        }
    )


def _nodes(draft: Draft, scopes: FrozenDict[str, Scope]) -> FrozenDict[str, Node]:
    outgoing = outgoing_by_source(draft)
    incoming: defaultdict[str, list[Flow]] = defaultdict(list)
    for flow in draft.flows.values():
        incoming[flow.target].append(flow)
    boundaries: defaultdict[str, list[str]] = defaultdict(list)
    for node in draft.nodes.values():
        if isinstance(node.spec, graph.Boundary):
            boundaries[node.spec.host].append(node.id)
    reach = reaches(draft, incoming)
    return FrozenDict(
        {
            node.id: Node(
                id=node.id,
                kind=node.kind,
                scope=node.scope,
                element=node.element,
                tag=node.tag,
                name=node.name,
                line=node.line,
                spec=_spec(node, scopes, outgoing.get(node.id, []), reach.get(node.id)),
                incoming=tuple(flow.id for flow in incoming.get(node.id, ())),
                outgoing=tuple(outgoing.get(node.id, ())),
                boundary=tuple(boundaries.get(node.id, ())),
                inputs=node.inputs,
                outputs=node.outputs,
                data=node.data,
                undo=node.undo,
                is_undo=node.is_undo,
                emit=node.emit,
                async_before=node.async_before,
                async_after=node.async_after,
                deadline=node.deadline,
                completion_quantity=node.completion_quantity,
                is_activity=node.is_activity,
            )
            for node in draft.nodes.values()
        }
    )


def _spec(
    node: NodeDraft, scopes: FrozenDict[str, Scope], outgoing: list[Flow], reach: Reach | None
) -> Spec | None:
    match node.spec:
        case None if node.kind is Kind.SCOPE:
            return scopes[node.id]
        case graph.EventChoice() as choice:
            return replace(choice, targets=tuple(flow.target for flow in outgoing))
        case graph.Inclusive() | graph.Complex() as gateway if reach is not None:
            return replace(gateway, reach=reach)
        case spec:
            return spec
