"""Where tokens can get from where, over all processes of a file: the map that a search goes by.

More than the sequence flows: into sub-processes and called processes and out of them, along boundary events
and event sub-processes, from whoever may throw an error or an escalation to whoever catches it, from a
compensation to its handlers. What is on the map may still be impossible; what is not, surely is.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from bpm_engine.bpmn import graph as bpmn
from bpm_engine.bpmn.events import (
    CancelEvent,
    CompensationEvent,
    ConditionEvent,
    ErrorEvent,
    EscalationEvent,
    EventSpec,
    MessageEvent,
    SignalEvent,
    TimerEvent,
)
from bpm_engine.bpmn.graph import Graph, Kind, Node

FAR = 1_000_000
ANY_ERROR = "ERROR"  # thrown where every code is caught
FROM_OUTSIDE = (MessageEvent, TimerEvent, SignalEvent, ConditionEvent)


class Place(NamedTuple):
    process: str
    node: str


class Catcher(NamedTuple):
    place: Place
    event: EventSpec


class Terrain:
    def __init__(self, graphs: Sequence[Graph]) -> None:
        self.graphs = {graph.key: graph for graph in graphs}
        self._callers: dict[str, list[Place]] = {}
        for place, node in self.places():
            for key in self._called(node):
                self._callers.setdefault(key, []).append(place)
        self.events = {place: list(self._events_around(place)) for place, _ in self.places()}
        self.errors = {place: self._codes(place) for place, node in self.places() if node.kind is Kind.WORK}
        self.ways = {place: list(dict.fromkeys(self._ways(place, node))) for place, node in self.places()}

    def is_called(self, process: str) -> bool:
        return bool(self._callers.get(process))

    def node(self, place: Place) -> Node:
        return self.graphs[place.process].nodes[place.node]

    def places(self) -> Iterator[tuple[Place, Node]]:
        for graph in self.graphs.values():
            for node in graph.nodes.values():
                yield Place(graph.key, node.id), node

    # -------------------------------------------------------------- distances

    def distances(self, goals: Sequence[Place]) -> dict[Place, int]:
        """How many steps each place is away from the nearest goal; places that reach none are left out."""
        backwards: dict[Place, list[Place]] = {}
        for place, ahead in self.ways.items():
            for following in ahead:
                backwards.setdefault(following, []).append(place)
        found = dict.fromkeys(goals, 0)
        queue = deque(goals)
        while queue:
            place = queue.popleft()
            for before in backwards.get(place, ()):
                if before not in found:
                    found[before] = found[place] + 1
                    queue.append(before)
        return found

    def resting_distance(self, place: Place, distances: dict[Place, int]) -> int:
        """Of a token that waits around what it contains: only events get it away from there."""
        return min((distances.get(event, FAR) + 1 for event in self.events[place]), default=FAR)

    def ends(self) -> list[Place]:
        """Where instances end, unless another process has called them."""
        return [
            place
            for place, node in self.places()
            if node.kind is Kind.END and node.scope == place.process and not self.is_called(place.process)
        ]

    # -------------------------------------------------------------- one step

    def contents(self, place: Place, node: Node) -> list[Place]:
        """Where tokens begin inside a sub-process, a repetition or a call."""
        graph = self.graphs[place.process]
        match node.spec:
            case bpmn.Scope(starts=starts):
                return [Place(graph.key, start) for start in starts]
            case bpmn.Repeat(inner=inner):
                return [Place(graph.key, inner)]
            case bpmn.Selection(enabled=enabled):
                return [Place(graph.key, start) for _, start in enabled]
            case _:
                return [
                    Place(key, start) for key in self._called(node) for start in self.graphs[key].root.starts
                ]

    def absent(self) -> Iterator[tuple[Place, str]]:
        """The calls of processes that are not here, each with what it calls."""
        for place, node in self.places():
            key = _called_key(node)
            if key is not None and key not in self.graphs:
                yield place, key

    def _called(self, node: Node) -> list[str]:
        key = _called_key(node)
        return [key] if key in self.graphs else []

    def _ways(self, place: Place, node: Node) -> Iterator[Place]:
        yield from self.contents(place, node) or self._exits(place, node)
        yield from self.events[place]
        for event in getattr(node.spec, "events", ()) if node.kind in (Kind.END, Kind.THROW) else ():
            yield from self._thrown(place, event)
        if node.kind is Kind.WORK:
            yield from (catcher.place for catcher in self._catchers(place) if _is_error(catcher))

    def _exits(self, place: Place, node: Node, seen: frozenset[Place] = frozenset()) -> list[Place]:
        """Where a token goes when it is done here; `seen`: processes may call themselves."""
        graph = self.graphs[place.process]
        if node.is_undo:  # when it is done, whoever has asked for the compensation goes on
            return list(_compensating(graph))
        if node.outgoing:
            return [Place(graph.key, flow.target) for flow in node.outgoing]
        return [
            way
            for outside in self._around(place, node)
            if outside not in seen
            for way in self._exits(outside, self.node(outside), seen | {outside})
        ]

    def _around(self, place: Place, node: Node) -> list[Place]:
        """The sub-process that a node is in, or the activities that call its process."""
        if node.scope != place.process:
            return [Place(place.process, node.scope)]
        return self._callers.get(place.process, [])

    def _events_around(self, place: Place) -> Iterator[Place]:
        """Events from outside that may take a token from here: at its own boundary, or in its scope."""
        graph, node = self.graphs[place.process], self.node(place)
        waiting = [*node.boundary, *_starts(graph, graph.scopes[node.scope].handlers)]
        for node_id in waiting:
            if any(isinstance(event, FROM_OUTSIDE) for event in _events(graph, node_id)):
                yield Place(graph.key, node_id)

    # -------------------------------------------------------------- throwing and catching

    def _thrown(self, place: Place, event: EventSpec) -> Iterator[Place]:
        match event:
            case ErrorEvent() | EscalationEvent():
                for catcher in self._catchers(place):
                    can_catch = event.computed is not None or _catches(catcher.event, event.code)
                    if type(catcher.event) is type(event) and can_catch:
                        yield catcher.place
            case CancelEvent():
                for catcher in self._catchers(place):
                    if isinstance(catcher.event, CancelEvent):
                        yield catcher.place
                yield from self._undoing(place)
            case CompensationEvent():
                yield from self._undoing(place)

    def _undoing(self, place: Place) -> Iterator[Place]:
        graph = self.graphs[place.process]
        handlers = [scope.compensation_handler for scope in graph.scopes.values()]
        undone = [node.id for node in graph.nodes.values() if node.is_undo]
        for node_id in (*undone, *(handler for handler in handlers if handler)):
            yield Place(graph.key, node_id)

    def _catchers(self, place: Place, seen: frozenset[Place] = frozenset()) -> Iterator[Catcher]:
        """Everything that may catch what is thrown at a place, from the inside out."""
        graph, node = self.graphs[place.process], self.node(place)
        for node_id in (*node.boundary, *_starts(graph, graph.scopes[node.scope].handlers)):
            yield from (Catcher(Place(graph.key, node_id), event) for event in _events(graph, node_id))
        for outside in self._around(place, node):
            if outside not in seen:
                yield from self._catchers(outside, seen | {outside})

    def _codes(self, place: Place) -> list[str]:
        """The codes of errors that work at a place could raise to some effect."""
        codes = [
            catcher.event.code or ANY_ERROR
            for catcher in self._catchers(place)
            if isinstance(catcher.event, ErrorEvent)
        ]
        return list(dict.fromkeys(codes))


def _called_key(node: Node) -> str | None:
    return node.spec.constant if isinstance(node.spec, bpmn.Call) else None


def _compensating(graph: Graph) -> Iterator[Place]:
    for node in graph.nodes.values():
        if node.kind in (Kind.END, Kind.THROW):
            events: Sequence[EventSpec] = getattr(node.spec, "events", ())
            if any(isinstance(event, CancelEvent | CompensationEvent) for event in events):
                yield Place(graph.key, node.id)


def _is_error(catcher: Catcher) -> bool:
    return isinstance(catcher.event, ErrorEvent)


def _catches(event: EventSpec, code: str | None) -> bool:
    wanted = getattr(event, "code", None)
    return wanted is None or wanted == code


def _starts(graph: Graph, handlers: Sequence[str]) -> list[str]:
    """The start events of event sub-processes."""
    return [start for handler in handlers for start in graph.scopes[handler].starts]


def _events(graph: Graph, node_id: str) -> Sequence[EventSpec]:
    events: Sequence[EventSpec] = getattr(graph.nodes[node_id].spec, "events", ())
    return events
