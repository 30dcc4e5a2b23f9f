"""The compiled process as a frozen networkx MultiDiGraph, for analysis and export."""

from __future__ import annotations

from collections.abc import Mapping

import networkx as nx

from bpm_engine.bpmn.graph import Flow, Kind, Node, Scope


def network_of(
    nodes: Mapping[str, Node], flows: Mapping[str, Flow], scopes: Mapping[str, Scope]
) -> nx.MultiDiGraph[str]:
    network: nx.MultiDiGraph[str] = nx.MultiDiGraph()
    for node in nodes.values():
        network.add_node(node.id, node=node)
    for flow in flows.values():
        network.add_edge(flow.source, flow.target, flow.id, flow=flow)
    for node in nodes.values():
        for boundary in node.boundary:
            network.add_edge(node.id, boundary, "boundary")
        for start in scopes[node.id].starts if node.kind in (Kind.SCOPE, Kind.REPEAT) else ():
            network.add_edge(node.id, start, "inside")
    nx.freeze(network)
    return network
