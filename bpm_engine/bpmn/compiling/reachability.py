"""Which nodes can still send a token to which incoming flow of an inclusive join (13.4.3).

Within one scope, following sequence flows, links (flows by now) and boundary events: a token at a host
may leave by any of its boundary events. Sets of nodes are bit masks while they are computed; ancestors
come from one sweep over the condensed scope, so a process with many joins stays near-linear. Only a join
that lies on a cycle needs a search of its own, because paths through the join itself do not count.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import networkx as nx

from bpm_engine.bpmn.compiling.draft import Draft, NodeDraft, ScopeDraft
from bpm_engine.bpmn.frozen import FrozenDict
from bpm_engine.bpmn.graph import Boundary, Flow, Kind

Reach = FrozenDict[str, frozenset[str]]
JOINS = (Kind.INCLUSIVE, Kind.COMPLEX)


def reaches(draft: Draft, incoming: dict[str, list[Flow]]) -> dict[str, Reach]:
    """For each inclusive or complex join its `reach`."""
    found: dict[str, Reach] = {}
    for scope in draft.scopes.values():
        joins = [n for n in draft.in_scope(scope) if n.kind in JOINS and len(incoming.get(n.id, ())) > 1]
        if joins:
            ancestry = Ancestry(draft, scope, incoming)
            found |= {join.id: ancestry.reach(join) for join in joins}
    return found


class Ancestry:
    """The nodes of one scope, numbered, with who can reach whom."""

    def __init__(self, draft: Draft, scope: ScopeDraft, incoming: dict[str, list[Flow]]) -> None:
        self._names = scope.nodes
        self._number = {node: number for number, node in enumerate(scope.nodes)}
        self._incoming = incoming
        self._before = [list(self._predecessors(node, incoming)) for node in draft.in_scope(scope)]
        self._reached_from, self._cyclic = self._sweep()

    def _predecessors(self, node: NodeDraft, incoming: dict[str, list[Flow]]) -> Iterator[int]:
        for flow in incoming.get(node.id, ()):
            yield self._number[flow.source]
        if isinstance(node.spec, Boundary) and node.spec.host in self._number:
            yield self._number[node.spec.host]

    def _sweep(self) -> tuple[list[int], set[int]]:
        """For each node the mask of all that reach it, itself included; and the nodes on cycles."""
        forward: nx.DiGraph[int] = nx.DiGraph()
        forward.add_nodes_from(range(len(self._names)))
        forward.add_edges_from(
            (source, node) for node, before in enumerate(self._before) for source in before
        )
        condensed = nx.condensation(forward)
        masks = [0] * len(self._names)
        cyclic: set[int] = set()
        for component in nx.topological_sort(condensed):
            members: Iterable[int] = condensed.nodes[component]["members"]
            mask = 0
            for member in members:
                mask |= 1 << member
                for source in self._before[member]:
                    mask |= masks[source]
            for member in members:
                masks[member] = mask
            if len(condensed.nodes[component]["members"]) > 1:
                cyclic.update(members)
        return masks, cyclic

    def reach(self, join: NodeDraft) -> Reach:
        gateway = self._number[join.id]
        flows = self._incoming[join.id]
        masks = {flow.id: self._mask(self._number[flow.source], gateway) for flow in flows}
        shared = -1
        for mask in masks.values():
            shared &= mask
        return FrozenDict({flow: self._named(mask & ~shared) for flow, mask in masks.items()})

    def _mask(self, source: int, gateway: int) -> int:
        if source == gateway:
            return 0
        return self._search(source, gateway) if gateway in self._cyclic else self._reached_from[source]

    def _search(self, source: int, gateway: int) -> int:
        found, pending = {source}, [source]
        while pending:
            for before in self._before[pending.pop()]:
                if before != gateway and before not in found:
                    found.add(before)
                    pending.append(before)
        mask = bytearray(len(self._names) // 8 + 1)
        for number in found:
            mask[number >> 3] |= 1 << (number & 7)
        return int.from_bytes(mask, "little")

    def _named(self, mask: int) -> frozenset[str]:
        names = []
        while mask:
            lowest = mask & -mask
            names.append(self._names[lowest.bit_length() - 1])
            mask ^= lowest
        return frozenset(names)
