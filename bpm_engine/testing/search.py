"""Finds runs that take a certain sequence flow, and from there to an end.

Best first: of all positions known so far, the one goes on whose tokens are nearest to the flow by the map
(`terrain`). Positions that look the same are gone on from once. The number of moves is bounded.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import count

from bpm_engine.bpmn.graph import Flow
from bpm_engine.core.state import LogKind, Token, TokenState, Waiting
from bpm_engine.testing.board import Position
from bpm_engine.testing.flows import taken
from bpm_engine.testing.robots import Robots
from bpm_engine.testing.terrain import FAR, Place, Terrain

AROUND = (Waiting.SCOPE, Waiting.CALL)
MOST_MOVES = 3_000  # to find one flow
MOST_MOVES_TO_END = 1_000
STUCK = 1_000  # how bad a failed token is on the way to an end

Score = Callable[[Position], int]


@dataclass(frozen=True, slots=True)
class Target:
    """A flow to take, or a node to enter."""

    place: Place
    flow: Flow | None = None


@dataclass(slots=True)
class Found:
    """A run, or the nearest that the search has come."""

    position: Position | None
    nearest: Position | None = None
    moves: int = 0


def flows_of(terrain: Terrain, position: Position) -> set[tuple[str, str]]:
    """The flows that a run has taken, each with its process."""
    found: set[tuple[str, str]] = set()
    for instance in position.snapshot.instances.values():
        graph = terrain.graphs[instance.definition_key]
        entries = [entry for entry in position.log if entry.instance_id == instance.id]
        found |= {(graph.key, flow) for flow in taken(graph, entries)}
    return found


def nodes_of(position: Position) -> set[Place]:
    """The nodes that a run has entered."""
    return {
        Place(position.instance(entry.instance_id).definition_key, entry.node_id)
        for entry in position.log
        if entry.node_id is not None and entry.kind in (LogKind.ENTERED, LogKind.COMPLETED)
    }


@dataclass(slots=True)
class Search:
    robots: Robots
    terrain: Terrain
    _beginnings: list[list[Position]] = field(default_factory=list)

    def find(self, target: Target) -> Found:
        """A run that takes the flow, or enters the node; if possible of a process that others do not call."""
        flow, place = target.flow, target.place
        distances = self.terrain.distances([self._goal(target)])

        def reached(position: Position) -> bool:
            if flow is not None:
                return (place.process, flow.id) in flows_of(self.terrain, position)
            return place in nodes_of(position)

        def score(position: Position) -> int:
            return min((self._distance(position, token, distances) for token in position.tokens), default=FAR)

        nearest, moves = None, 0
        for beginnings in self._begin():
            found = self._best_first(beginnings, score, reached, MOST_MOVES)
            if found.position is not None:
                return found
            nearest, moves = nearest or found.nearest, moves + found.moves
        return Found(None, nearest, moves)

    def _goal(self, target: Target) -> Place:
        """Where to go. What is inside an activity leaves it for the node behind, not for the activity."""
        node = self.terrain.node(target.place)
        if target.flow is not None and self.terrain.contents(target.place, node):
            return Place(target.place.process, target.flow.target)
        return target.place

    def end(self, position: Position) -> Position:
        """From a position to where everything has ended; itself, if no way is found."""
        distances = self.terrain.distances(self.terrain.ends())

        def score(position: Position) -> int:
            away = [self._distance(position, token, distances) for token in position.tokens]
            return sum(min(each, STUCK) for each in away)

        found = self._best_first([position], score, lambda each: each.is_over, MOST_MOVES_TO_END)
        return found.position or position

    def _begin(self) -> list[list[Position]]:
        """First of the processes that start by themselves, then of those that others call."""
        if not self._beginnings:
            graphs = self.terrain.graphs.values()
            for called in (False, True):
                wanted = [graph for graph in graphs if self.terrain.is_called(graph.key) is called]
                self._beginnings.append([each for graph in wanted for each in self.robots.begin(graph)])
        return self._beginnings

    def _distance(self, position: Position, token: Token, distances: dict[Place, int]) -> int:
        place = Place(position.instance(token.instance_id).definition_key, token.node_id)
        if token.state is TokenState.FAILED or token.waiting_for is Waiting.JOIN:
            return FAR
        if token.waiting_for in AROUND:
            return self.terrain.resting_distance(place, distances)
        return distances.get(place, FAR)

    def _best_first(
        self, beginnings: Iterable[Position], score: Score, reached: Callable[[Position], bool], most: int
    ) -> Found:
        numbers = count()
        heap: list[tuple[int, int, int, Position]] = []
        seen: set[object] = set()
        begun = self.robots.board.moves
        nearest: tuple[int, Position] | None = None

        def look_at(position: Position) -> bool:
            nonlocal nearest
            if reached(position):
                return True
            looks = _looks(position)
            away = score(position)
            if looks not in seen and away < FAR:
                seen.add(looks)
                heapq.heappush(heap, (away, len(position.steps), next(numbers), position))
                if nearest is None or away < nearest[0]:
                    nearest = (away, position)
            return False

        for position in beginnings:
            if look_at(position):
                return Found(position)
        while heap and self.robots.board.moves - begun < most:
            _, _, _, position = heapq.heappop(heap)
            for after in self.robots.moves(position):
                if look_at(after):
                    return Found(after, moves=self.robots.board.moves - begun)
        return Found(None, nearest[1] if nearest else None, self.robots.board.moves - begun)


def _looks(position: Position) -> object:
    """Two positions that look the same go on in the same ways."""
    tokens = sorted(
        (token.node_id, token.state, token.waiting_for or "", token.attempt, token.loop_index or 0)
        for token in position.tokens
    )
    scopes = sorted(
        (scope.node_id, repr(sorted(scope.variables.items(), key=lambda item: item[0])))
        for scope in position.snapshot.scopes.values()
        if scope.live
    )
    timers = sorted((timer.node_id, timer.event, timer.fired) for timer in position.timers)
    awaited = sorted((each.node_id, each.event, each.name) for each in position.subscriptions)
    return (tuple(tokens), tuple(scopes), tuple(timers), tuple(awaited))
