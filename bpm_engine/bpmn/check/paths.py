"""Paths: every node can be reached, every scope can begin, no token turns in a circle for ever."""

from __future__ import annotations

from collections.abc import Iterator

import networkx as nx

from bpm_engine.bpmn.compiling.lookahead import AUTOMATIC
from bpm_engine.bpmn.graph import Catch, EventChoice, Graph, Kind, Node, Scope, Start
from bpm_engine.problems import Problem, error, warning

UNREACHABLE_NODE = warning(
    "UNREACHABLE_NODE",
    "Every node can be reached from a start.",
    "Connect the node, or remove it.",
)
SCOPE_WITHOUT_START = error(
    "SCOPE_WITHOUT_START",
    "A process or sub-process begins at a start event, or at a node without incoming flow (10.5.2).",
    "Add a start event.",
)
LOOP_WITHOUT_REST = warning(
    "LOOP_WITHOUT_REST",
    "A loop has a way out, or a node at which its token rests.",
    "Add a condition that leaves the loop, or a task, timer or message in it.",
)


def check_paths(graph: Graph) -> Iterator[Problem]:
    yield from _unstartable(graph)
    yield from _unreachable(graph)
    yield from _restless(graph)


def _unstartable(graph: Graph) -> Iterator[Problem]:
    for scope in graph.scopes.values():
        if scope.nodes and not scope.starts and not _is_triggered(graph, scope):
            element = graph.nodes[scope.id].element if scope.id in graph.nodes else graph.key
            line = graph.nodes[scope.id].line if scope.id in graph.nodes else graph.line
            message = f"nothing in {element!r} can begin"
            yield SCOPE_WITHOUT_START.at(message, element_id=element, line=line)


def _is_triggered(graph: Graph, scope: Scope) -> bool:
    if scope.kind != "process":
        return scope.kind == "event"
    return any(begins_instance(graph.nodes[node]) for node in scope.nodes)


def begins_instance(node: Node) -> bool:
    """A start event with a trigger, an instantiating receive task or event-based gateway."""
    match node.spec:
        case Start(events=events):
            return bool(events)
        case Catch(instantiate=True) | EventChoice(instantiate=True):
            return not node.incoming
        case _:
            return False


def _unreachable(graph: Graph) -> Iterator[Problem]:
    """Nodes to which flows lead, but none from a beginning. A node without any is not valid BPMN anyway."""
    reached = _reached(graph)
    for node in graph.nodes.values():
        if node.id not in reached and node.incoming and "#" not in node.id:
            message = f"no path leads to {node.element!r}"
            yield UNREACHABLE_NODE.at(message, element_id=node.element, line=node.line)


def _reached(graph: Graph) -> set[str]:
    entries = [
        node.id for node in graph.nodes.values() if not node.incoming and node.kind is not Kind.BOUNDARY
    ]
    reached: set[str] = set(entries)
    pending = entries
    while pending:
        for following in graph.network.successors(pending.pop()):
            if following not in reached:
                reached.add(following)
                pending.append(following)
    return reached


def _restless(graph: Graph) -> Iterator[Problem]:
    automatic = {node.id for node in graph.nodes.values() if _passes(node)}
    flows: nx.DiGraph[str] = nx.DiGraph()
    flows.add_edges_from(
        (flow.source, flow.target)
        for flow in graph.flows.values()
        if flow.source in automatic and flow.target in automatic
    )
    for loop in nx.strongly_connected_components(flows):
        if _is_closed(graph, flows, loop):
            first = min((graph.nodes[node] for node in loop), key=lambda node: (node.line, node.id))
            message = f"once in it, a token never leaves the loop around {first.element!r} and never rests"
            yield LOOP_WITHOUT_REST.at(message, element_id=first.element, line=first.line)


def _passes(node: Node) -> bool:
    return node.kind in AUTOMATIC and not (node.async_before or node.async_after)


def _is_closed(graph: Graph, flows: nx.DiGraph[str], loop: set[str]) -> bool:
    turns = len(loop) > 1 or any(flows.has_edge(node, node) for node in loop)
    return turns and all(flow.target in loop for node in loop for flow in graph.nodes[node].outgoing)
