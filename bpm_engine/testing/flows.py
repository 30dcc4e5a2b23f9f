"""Which sequence flows an instance has taken, concluded from its history.

The history names nodes, not flows. A token that goes on keeps its identity, so two visits in a row are joined
by a flow. A token whose last node is done has forked, or has gone into a join that another token speaks for,
or has come to an end; where several flows lead on, those count whose targets were visited afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple, Protocol

from bpm_engine.bpmn.graph import Flow, Graph, Kind
from bpm_engine.core.state import LogKind

MADE = ">"  # in the ids of flows that compilation made; no file has them


class Entry(Protocol):
    """A row of the history, as the core writes it and as the engine shows it."""

    @property
    def seq(self) -> int: ...
    @property
    def kind(self) -> str: ...
    @property
    def node_id(self) -> str | None: ...
    @property
    def token_id(self) -> str | None: ...
    @property
    def activation(self) -> int | None: ...


class Visit(NamedTuple):
    """A token at a node."""

    token_id: str
    activation: int
    node_id: str


def modelled(graph: Graph) -> dict[str, Flow]:
    """The flows that the file has."""
    return {flow.id: flow for flow in graph.flows.values() if MADE not in flow.id}


def visited(entries: Iterable[Entry]) -> set[str]:
    return {visit.node_id for visit in _visits(entries)[0]}


def taken(graph: Graph, entries: Iterable[Entry]) -> set[str]:
    """The ids of the flows that tokens have gone along."""
    begun, done = _visits(entries)
    by_token: dict[str, list[Visit]] = {}
    for visit in begun:
        by_token.setdefault(visit.token_id, []).append(visit)
    found: set[str] = set()
    for visits in by_token.values():
        for before, after in pairwise(visits):
            found |= {flow.id for flow in _between(graph, before.node_id, after.node_id)}
        last = visits[-1]
        if last in done and last.node_id in graph.nodes:
            found |= set(_left_by(graph, last.node_id, done[last], begun))
    return found


def _visits(entries: Iterable[Entry]) -> tuple[dict[Visit, int], dict[Visit, int]]:
    """The visits with the numbers of their beginnings, and those that are done with those of their ends."""
    begun: dict[Visit, int] = {}
    done: dict[Visit, int] = {}
    for entry in entries:
        if entry.token_id is None or entry.node_id is None or entry.activation is None:
            continue
        visit = Visit(entry.token_id, entry.activation, entry.node_id)
        match entry.kind:
            case LogKind.ENTERED:
                begun.setdefault(visit, entry.seq)
            case LogKind.COMPLETED:
                begun.setdefault(visit, entry.seq)
                done[visit] = entry.seq
            case LogKind.INCIDENT:
                done.pop(visit, None)
    return begun, done


def _between(graph: Graph, source: str, target: str) -> Iterator[Flow]:
    if source in graph.nodes:
        yield from (flow for flow in graph.nodes[source].outgoing if flow.target == target)


def _left_by(graph: Graph, node_id: str, since: int, begun: dict[Visit, int]) -> Iterator[str]:
    node = graph.nodes[node_id]
    certain = node.kind is Kind.PARALLEL or len(node.outgoing) == 1
    later = {visit.node_id for visit, seq in begun.items() if seq > since}
    yield from (flow.id for flow in node.outgoing if certain or flow.target in later)
