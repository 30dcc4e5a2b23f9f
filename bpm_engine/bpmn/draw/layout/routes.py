"""How each link runs over the grid, before anything is measured.

A link leaves its node to the right, or straight up or down when it comes from a gateway; it runs along
its own row; it arrives from the left, or from above or below at a gateway. Where nodes stand in the way
of an upright part, that part moves into the gap between two columns, in a track of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from bpm_engine.bpmn.draw.layout.grid import Grid, Row
from bpm_engine.bpmn.draw.layout.network import Link

Side = Literal["left", "right", "top", "bottom"]


@dataclass(frozen=True, slots=True)
class Turn:
    """An upright part of a link in the gap right of a column, on the side of the node it belongs to."""

    gap: int
    leaving: bool
    low: Row
    high: Row


@dataclass(frozen=True, slots=True)
class Route:
    link: Link
    via: Row
    leave: Side
    arrive: Side
    first_turn: Turn | None = None
    second_turn: Turn | None = None


@dataclass(frozen=True, slots=True)
class Traits:
    """What a route must know of nodes: which are gateways, which have something hanging below them."""

    is_gateway: Callable[[str], bool]
    is_hung: Callable[[str], bool]


def plan_routes(grid: Grid, links: Iterable[Link], traits: Traits) -> list[Route]:
    return [_plan(grid, link, traits) for link in links]


def _plan(grid: Grid, link: Link, traits: Traits) -> Route:
    is_gateway = traits.is_gateway
    via = grid.via[link.id]
    start, end = grid.row_of[link.source], grid.row_of[link.target]
    backward = link.id in grid.network.backward
    leave: Side = "right"
    first = second = None
    if via != start or backward or link.boundary:
        column = grid.column_of[link.source]
        if link.boundary:
            upright = via > start and not traits.is_hung(link.source)
        else:
            upright = is_gateway(link.source) or (backward and not traits.is_hung(link.source))
        if upright and grid.passage(column, start, via):
            leave = "bottom" if via > start else "top"
        else:
            leave = "bottom" if link.boundary else "right"
            first = Turn(column, True, min(start, via), max(start, via))
    arrive: Side = "left"
    if via != end or backward:
        column = grid.column_of[link.target]
        upright = is_gateway(link.target) or (backward and not traits.is_hung(link.target))
        if upright and grid.passage(column, end, via):
            arrive = "bottom" if via > end else "top"
        else:
            second = Turn(column - 1, False, min(end, via), max(end, via))
    return Route(link, via, leave, arrive, first, second)


@dataclass(frozen=True, slots=True)
class Tracks:
    """The track of each turn, and how many tracks each side of each gap has."""

    of: dict[tuple[str, Turn], int]
    count: dict[tuple[int, bool], int]

    def width(self, gap: int) -> int:
        return self.count.get((gap, True), 0) + self.count.get((gap, False), 0)


def assign_tracks(routes: Iterable[Route]) -> Tracks:
    """Turns in one gap get different tracks where they would run into each other.

    Links that leave one node together, or arrive at one node together, share a track: they look like
    one line that forks or joins.
    """
    tracks = Tracks({}, {})
    used: dict[tuple[int, bool], list[list[tuple[Row, Row, str]]]] = {}
    for turn, link_id, bundle in sorted(
        _turns(routes), key=lambda item: (item[0].gap, item[0].low, item[0].high)
    ):
        side = turn.gap, turn.leaving
        lanes = used.setdefault(side, [])
        position = next((i for i, lane in enumerate(lanes) if _fits(lane, turn, bundle)), len(lanes))
        if position == len(lanes):
            lanes.append([])
        lanes[position].append((turn.low, turn.high, bundle))
        tracks.of[link_id, turn] = position
        tracks.count[side] = len(lanes)
    return tracks


def _turns(routes: Iterable[Route]) -> Iterable[tuple[Turn, str, str]]:
    for route in routes:
        if route.first_turn:
            yield route.first_turn, route.link.id, f"from {route.link.boundary or route.link.source}"
        if route.second_turn:
            yield route.second_turn, route.link.id, f"to {route.link.target}"


def _fits(lane: list[tuple[Row, Row, str]], turn: Turn, bundle: str) -> bool:
    return all(low > turn.high or high < turn.low or other == bundle for low, high, other in lane)
