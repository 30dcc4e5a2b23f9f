"""What a token that leaves a node may run into before it rests again: `Graph.ahead`.

Every node is two points, entered and left. An automatic node joins its two points; a node where tokens
rest does not. Entering a sub-process goes on inside, its end goes on behind it. What lies ahead is then
plain reachability, computed once over the condensed points with bit masks for the joins met.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import networkx as nx

from bpm_engine.bpmn.events import CancelEvent, ErrorEvent, EscalationEvent, TerminateEvent
from bpm_engine.bpmn.frozen import FrozenDict
from bpm_engine.bpmn.graph import Ahead, Kind, Node, Scope, Throw

JOINS = (Kind.PARALLEL, Kind.INCLUSIVE, Kind.COMPLEX)
ALONE = (Kind.COMPLEX, Kind.GATHER)  # may hold a token back that came by their only flow
AUTOMATIC = (
    Kind.START,
    Kind.PASS,
    Kind.CHOICE,
    Kind.PARALLEL,
    Kind.INCLUSIVE,
    Kind.COMPLEX,
    Kind.GATHER,
    Kind.TURN,
    Kind.DONE,
    Kind.SCRIPT,
    Kind.THROW,
)

Point = tuple[str, bool]  # node id, left


def look_ahead(nodes: Mapping[str, Node], scopes: Mapping[str, Scope]) -> FrozenDict[str, Ahead]:
    steps: nx.DiGraph[Point] = nx.DiGraph()
    for node in nodes.values():
        steps.add_nodes_from([(node.id, False), (node.id, True)])
        steps.add_edges_from(_steps(node, nodes, scopes))
    joins = [
        node.id
        for node in nodes.values()
        if node.kind in ALONE or (node.kind in JOINS and len(node.incoming) > 1)
    ]
    bits = {join: 1 << number for number, join in enumerate(joins)}
    scope_bits = {scope: 1 << number for number, scope in enumerate(scopes)}
    touched = {node.id: _touched(node, scopes, scope_bits) for node in nodes.values()}
    met = _met(steps, bits, touched)
    made: dict[tuple[int, bool], Ahead] = {}
    return FrozenDict(
        {node.id: _ahead(met[node.id, True], scope_bits[node.scope], joins, made) for node in nodes.values()}
    )


def _steps(
    node: Node, nodes: Mapping[str, Node], scopes: Mapping[str, Scope]
) -> Iterator[tuple[Point, Point]]:
    entered, left = (node.id, False), (node.id, True)
    for flow in node.outgoing:
        yield left, (flow.target, False)
    for boundary in node.boundary:
        yield left, (boundary, True)
    if scopes[node.scope].kind == "repeat":
        yield left, (node.id, False)  # the next run
        yield left, (node.scope, True)
    if node.async_before:
        return
    if node.kind in AUTOMATIC and not node.async_after:
        yield entered, left
    elif node.kind is Kind.END:
        for behind in _behind(scopes[node.scope], scopes):
            yield entered, behind
    elif node.kind in (Kind.SCOPE, Kind.REPEAT):
        yield entered, left  # an empty collection, an ad-hoc sub-process with nothing to do
        for start in scopes[node.id].starts:
            yield entered, (start, False)
    if isinstance(node.spec, Throw):
        yield from _thrown(node, node.spec, nodes, scopes)


def _behind(scope: Scope, scopes: Mapping[str, Scope]) -> Iterator[Point]:
    """Where it goes on when a scope has ended. The end of an event sub-process may end its parent."""
    while scope.parent is not None and scope.kind == "event":
        scope = scopes[scope.parent]
    if scope.parent is not None:
        yield scope.id, True


def _thrown(
    node: Node, throw: Throw, nodes: Mapping[str, Node], scopes: Mapping[str, Scope]
) -> Iterator[tuple[Point, Point]]:
    """Errors, escalations and cancels may be caught on any enclosing scope."""
    if not any(isinstance(event, ErrorEvent | EscalationEvent | CancelEvent) for event in throw.events):
        return
    scope = scopes[node.scope]
    while scope.parent is not None:
        for boundary in nodes[scope.id].boundary:
            yield (node.id, False), (boundary, True)
        scope = scopes[scope.parent]
        for handler in scope.handlers:
            yield (node.id, False), (handler, False)


def _met(
    steps: nx.DiGraph[Point], bits: Mapping[str, int], touched: Mapping[str, int]
) -> dict[Point, tuple[int, int]]:
    """For each point the joins entered from it on, and the scopes whose other tokens then matter."""
    condensed = nx.condensation(steps)
    gathered: dict[int, tuple[int, int]] = {}
    for component in reversed(list(nx.topological_sort(condensed))):
        joins, scopes = 0, 0
        for identifier, left in condensed.nodes[component]["members"]:
            if not left:
                joins |= bits.get(identifier, 0)
                scopes |= touched[identifier]
        for following in condensed.successors(component):
            joins |= gathered[following][0]
            scopes |= gathered[following][1]
        gathered[component] = (joins, scopes)
    components: dict[Point, int] = condensed.graph["mapping"]
    return {point: gathered[component] for point, component in components.items()}


def _touched(node: Node, scopes: Mapping[str, Scope], bits: Mapping[str, int]) -> int:
    """The scopes whose other tokens a node looks at or ends: its own, or all around for what it throws."""
    if node.kind in (Kind.INCLUSIVE, Kind.COMPLEX):
        return bits[node.scope] if len(node.incoming) > 1 else 0
    events = node.spec.events if isinstance(node.spec, Throw) else ()
    if any(isinstance(event, ErrorEvent | EscalationEvent | CancelEvent) for event in events):
        return _with_all_around(node.scope, scopes, bits)
    return bits[node.scope] if any(isinstance(event, TerminateEvent) for event in events) else 0


def _with_all_around(scope: str | None, scopes: Mapping[str, Scope], bits: Mapping[str, int]) -> int:
    mask = 0
    while scope is not None:
        mask |= bits[scope]
        scope = scopes[scope].parent
    return mask


def _ahead(
    met: tuple[int, int], own_scope: int, joins: list[str], made: dict[tuple[int, bool], Ahead]
) -> Ahead:
    """Equal prospects are one object: a process has few different ones."""
    mask, siblings = met[0], bool(met[1] & own_scope)
    if (mask, siblings) not in made:
        names, rest = [], mask
        while rest:
            lowest = rest & -rest
            names.append(joins[lowest.bit_length() - 1])
            rest ^= lowest
        made[mask, siblings] = Ahead(frozenset(names), siblings)
    return made[mask, siblings]
