"""What a join still waits for: the flows that are empty, and the tokens that may yet come by them.

Reachability is that of the drawn process, without looking at conditions: a token that is named may still
come, one that is not named cannot. A flow that nobody can come by is missing for good.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import networkx as nx

from bpm_engine.bpmn.graph import Gather, Graph, Kind, Node
from bpm_engine.core.state import Join, Token


@dataclass(frozen=True, slots=True)
class Outlook:
    arrived: tuple[str, ...]  # flows that hold a token
    awaited: tuple[str, ...]  # empty flows by which a token may still come
    missing: tuple[str, ...]  # empty flows by which none can
    coming: tuple[str, ...]  # nodes where the tokens rest that may still come

    @property
    def is_dead(self) -> bool:
        return bool(self.missing) and not self.coming


def outlook(graph: Graph, node: Node, join: Join | None, tokens: Iterable[Token]) -> Outlook:
    """`tokens`: those of the join's own scope that are not parked at it."""
    arrivals = join.arrivals if join is not None else {}
    empty = [flow for flow in node.incoming if not arrivals.get(flow) or node.kind is Kind.GATHER]
    elsewhere = {token.node_id for token in tokens}
    awaited, coming = [], set()
    for flow in empty:
        found = elsewhere & _leads_to(graph, graph.flows[flow].source)
        if found:
            awaited.append(flow)
            coming |= found
    return Outlook(
        arrived=tuple(flow for flow in node.incoming if arrivals.get(flow)),
        awaited=tuple(awaited),
        missing=tuple(flow for flow in empty if flow not in awaited),
        coming=tuple(sorted(coming)),
    )


def _leads_to(graph: Graph, node_id: str) -> set[str]:
    return {node_id, *nx.ancestors(graph.network, node_id)}


def words(graph: Graph, node: Node, join: Join | None, seen: Outlook) -> str:
    """Which flows hold a token, which are awaited, which can never be filled."""
    parts = [f"arrived by {_flows(graph, seen.arrived)}" if seen.arrived else "nothing has arrived"]
    if isinstance(node.spec, Gather):
        counted = 0 if join is None else sum(join.arrivals.values())
        parts = [f"{counted} of {node.spec.quantity} tokens are there"]
    if seen.awaited:
        where = ", ".join(map(repr, seen.coming))
        parts.append(f"may still come by {_flows(graph, seen.awaited)}, from {where}")
    if seen.missing:
        parts.append(f"no token can arrive any more by {_flows(graph, seen.missing)}")
    return "; ".join(parts)


def _flows(graph: Graph, flows: Iterable[str]) -> str:
    return ", ".join(f"{flow!r} (from {graph.flows[flow].source!r})" for flow in flows)
