"""Gives one connected part its measures: columns and rows become coordinates, routes become points.

The part stands at the origin. Every segment has a line on which its nodes sit (a sub-process sits on it
with its own main row, so that the main path stays straight through it).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from bpm_engine.bpmn.diagram import Box, Edge, Point, Shape
from bpm_engine.bpmn.draw.layout.chains import cut_into_chains
from bpm_engine.bpmn.draw.layout.grid import Grid, Segment
from bpm_engine.bpmn.draw.layout.items import Item, Placed, moved_edge, moved_shape
from bpm_engine.bpmn.draw.layout.network import Link, Network, Satellite
from bpm_engine.bpmn.draw.layout.routes import Route, Tracks, Traits, Turn, assign_tracks, plan_routes
from bpm_engine.bpmn.draw.layout.rows import (
    Contours,
    Lines,
    Reach,
    compact_lines,
    segment_reach,
    uniform_lines,
)
from bpm_engine.bpmn.draw.text import block_size

COLUMN_GAP = 50.0
TRACK = 12.0
TRACK_MARGIN = 20.0
EVENT = 36.0
LABEL_WIDTH = 90.0
FLOW_LABEL_WIDTH = 84.0
BOUNDARY_INSET = 26.0
WIDE = 250.0  # in a wider column small nodes stand near its left edge, not in its middle
NEAR_LEFT = 60.0


def lay_out_part(
    items: Mapping[str, Item],
    nodes: Sequence[str],
    links: Sequence[Link],
    satellites: Sequence[Satellite],
    lane_of: Mapping[str, int],
) -> Placed:
    traits = Traits(lambda node: items[node].is_gateway, lambda node: bool(items[node].hanging))
    network = Network.of(nodes, links)
    grid = Grid(network, lane_of, traits.is_gateway)
    grid.place(cut_into_chains(network, lane_of, lambda node: items[node].is_failure, satellites))
    routes = plan_routes(grid, network.links, traits)
    return _Measuring(items, grid, routes, assign_tracks(routes), satellites).placed()


@dataclass(slots=True)
class _Measuring:
    items: Mapping[str, Item]
    grid: Grid
    routes: Sequence[Route]
    tracks: Tracks
    satellites: Sequence[Satellite]
    column_x: dict[int, float] = field(default_factory=dict)  # left of the column
    column_width: dict[int, float] = field(default_factory=dict)
    lines: Lines = field(default_factory=dict)
    along: dict[str, Segment] = field(default_factory=dict)  # link -> the segment it runs along
    labels: dict[str, str] = field(default_factory=dict)  # link -> its name
    paths: dict[str, Route] = field(default_factory=dict)  # boundary event -> the way that leaves it
    arriving: Counter[str] = field(default_factory=Counter)  # node -> number of links
    used_sides: dict[str, set[str]] = field(default_factory=dict)
    boxes: dict[str, Box] = field(default_factory=dict)  # nodes and boundary events

    def placed(self) -> Placed:
        for segment in self.grid.segments:
            self.along.update(dict.fromkeys(segment.links, segment))
        for route in self.routes:
            link = route.link
            self.labels[link.id] = link.label
            self.arriving[link.target] += 1
            self.used_sides.setdefault(link.target, set()).add(route.arrive)
            if link.boundary:
                self.paths.setdefault(link.boundary, route)
            else:
                self.used_sides.setdefault(link.source, set()).add(route.leave)
        for satellite in self.satellites:
            above = self.grid.row_of[satellite.id] < self.grid.row_of[satellite.owner]
            self.used_sides.setdefault(satellite.owner, set()).add("top" if above else "bottom")
        result = Placed()
        result.width = self._measure_columns()
        self._measure_rows(result)
        for node in self.grid.row_of:
            self._put(node, result)
        result.edges.extend(self._edge(route) for route in self.routes)
        result.line = self._line(next(iter(self.grid.row_of)))
        return _with_overhang(result)

    def _line(self, node: str) -> float:
        return self.lines[id(self.grid.segment_of[node])]

    # -------------------------------------------------------------- columns

    def _measure_columns(self) -> float:
        for node, column in self.grid.column_of.items():
            width = self.items[node].full_width
            self.column_width[column] = max(self.column_width.get(column, 0.0), width)
        last = max(self.column_width)
        gaps = {gap: self._gap_width(gap, COLUMN_GAP) for gap in range(last)}
        gaps[-1] = self._gap_width(-1, 0.0)
        gaps[last] = self._gap_width(last, 0.0)
        for route in self.routes:
            self._widen_for_label(gaps, route)
        x = gaps[-1]
        for column in range(last + 1):
            self.column_x[column] = x
            x += self.column_width[column] + gaps[column]
        return x

    def _gap_width(self, gap: int, least: float) -> float:
        tracks = self.tracks.width(gap)
        return max(least, TRACK * (tracks - 1) + 2 * TRACK_MARGIN if tracks else 0.0)

    def _widen_for_label(self, gaps: dict[int, float], route: Route) -> None:
        """The first stretch of a named flow is long enough for its name."""
        if not route.link.label or route.link.id in self.grid.network.backward:
            return
        width, _ = block_size(route.link.label, FLOW_LABEL_WIDTH)
        column = self.grid.column_of[route.link.source]
        item = self.items[route.link.source]
        if route.first_turn:
            spare = -TRACK_MARGIN - TRACK * self.tracks.count[column, True]
        elif route.link.boundary:
            spare = 0.0
        else:
            middle = self._middle(item, column)
            spare = self.column_width[column] - middle - (item.width / 2 if route.leave == "right" else 0.0)
        if route.second_turn and route.second_turn.gap == column:
            spare -= TRACK_MARGIN + TRACK * (self.tracks.count[column, False] - 1)
        gaps[column] = max(gaps[column], width + 30 - spare)

    def _middle(self, item: Item, column: int) -> float:
        """Where the middle of a node lies in its column."""
        width = self.column_width[column]
        if width <= WIDE or item.full_width > width / 2:
            return (width - item.full_width) / 2 + item.width / 2
        return max(NEAR_LEFT, item.width / 2)

    def _turn_x(self, link: str, turn: Turn) -> float:
        distance = TRACK_MARGIN + TRACK * self.tracks.of[link, turn]
        if turn.leaving:
            return self.column_x[turn.gap] + self.column_width[turn.gap] + distance
        return self.column_x[turn.gap + 1] - distance

    # -------------------------------------------------------------- rows

    def _measure_rows(self, result: Placed) -> None:
        segments = self.grid.segments
        if len({segment.row[0] for segment in segments}) > 1 or any(segment.row[0] for segment in segments):
            reaches = {
                id(segment): segment_reach(segment, self._reach, self._label_height) for segment in segments
            }
            self.lines, result.lanes, result.height = uniform_lines(segments, reaches)
            return
        contours = Contours(self.grid.column_of, self._reach, self._label_height)
        self.lines, result.height = compact_lines(segments, contours)
        result.lanes = {0: (0.0, result.height)}

    def _label_height(self, link: str) -> float:
        name = self.labels.get(link, "")
        return block_size(name, FLOW_LABEL_WIDTH)[1] + 4 if name else 0.0

    def _reach(self, node: str) -> Reach:
        """How far a node and its labels reach above and below the line of its row."""
        item = self.items[node]
        up, down = item.line, item.full_height - item.line
        if item.label:
            height = block_size(item.label, LABEL_WIDTH)[1] + 6
            up, down = (up + height, down) if self._label_above(item) else (up, down + height)
        for event in item.boundaries:
            label = block_size(event.label, FLOW_LABEL_WIDTH)[1]
            down = max(down, item.height - item.line + EVENT / 2 + max(6.0, label - 12))
        return up, down

    def _label_above(self, item: Item) -> bool:
        used = self.used_sides.get(item.id, set())
        if item.is_gateway:
            return "top" not in used
        return item.label_above or ("bottom" in used and "top" not in used)

    # -------------------------------------------------------------- shapes

    def _put(self, node: str, result: Placed) -> None:
        item = self.items[node]
        column = self.grid.column_of[node]
        x = self._beside_predecessor(node)
        if x is None:
            x = self.column_x[column] + self._middle(item, column) - item.width / 2
        box = Box(x, self._line(node) - item.line, item.width, item.height)
        self.boxes[node] = box
        result.shapes.append(Shape(node, box, self._outer_label(item, box)))
        self._put_boundaries(item, box, result)
        for hung in item.hanging:
            left, top = box.x + hung.x, box.y + hung.y
            result.shapes.extend(moved_shape(shape, left, top) for shape in hung.block.shapes)
            result.edges.extend(moved_edge(edge, left, top) for edge in hung.block.edges)
            if hung.entry:
                result.edges.append(self._hanging_entry(hung.entry, top + hung.block.line, result))

    def _beside_predecessor(self, node: str) -> float | None:
        """An end event joins a small node in a wide column instead of standing in the next one, far off."""
        nodes = self.grid.segment_of[node].nodes
        position = nodes.index(node) if node == nodes[-1] else 0
        item = self.items[node]
        if position == 0 or item.width != EVENT or self.grid.network.outgoing[node]:
            return None
        before = self.boxes[nodes[position - 1]]
        column = self.grid.column_of[nodes[position - 1]]
        x = before.x + before.width + COLUMN_GAP
        end = self.column_x[column] + self.column_width[column]
        leaving = [link for link in self.grid.network.outgoing[nodes[position - 1]] if not link.boundary]
        alone = len(leaving) == self.arriving[node] == 1
        return x if x + EVENT + LABEL_WIDTH / 2 <= end and alone else None

    def _outer_label(self, item: Item, box: Box) -> Box | None:
        if not item.label:
            return None
        width, height = block_size(item.label, LABEL_WIDTH)
        x = box.x + box.width / 2 - width / 2
        if self._label_above(item):
            return Box(x, box.y - height - 4, width, height)
        if item.is_gateway and "bottom" in self.used_sides.get(item.id, set()):
            x = box.x - width + 14  # lines leave upwards and downwards: stand aside
            return Box(x, box.y + box.height - 6, width, height)
        return Box(x, box.y + box.height + 5, width, height)

    def _put_boundaries(self, item: Item, host: Box, result: Placed) -> None:
        """Hanging ones where their path needs them, the others from the right, lowest path leftmost."""
        hung = {hanging.boundary: hanging.boundary_x for hanging in item.hanging}
        free = sorted((event for event in item.boundaries if event.id not in hung), key=self._path_order)
        inset = BOUNDARY_INSET if host.width <= 130 else 40.0
        pitch = min(110.0, (host.width - 2 * inset) / max(1, len(item.boundaries) - 1))
        for position, event in enumerate(reversed(free)):
            hung[event.id] = host.width - inset - pitch * position
        leftmost = min(hung.values(), default=0.0)
        for event in item.boundaries:
            middle = host.x + hung[event.id]
            box = Box(middle - EVENT / 2, host.y + host.height - EVENT / 2, EVENT, EVENT)
            self.boxes[event.id] = box
            result.shapes.append(
                Shape(event.id, box, _boundary_label(event, box, hung[event.id] == leftmost))
            )

    def _path_order(self, event: Item) -> tuple[int, int]:
        path = self.paths.get(event.id)
        return (-path.via[0], -path.via[1]) if path else (-1_000_000, 0)

    # -------------------------------------------------------------- edges

    def _hanging_entry(self, link: Link, line: float, result: Placed) -> Edge:
        assert link.boundary
        start = self.boxes[link.boundary]
        target = next(shape.box for shape in result.shapes if shape.element == link.target)
        x = start.x + EVENT / 2
        points = (Point(x, start.y + EVENT), Point(x, line), Point(target.x, line))
        return Edge(link.id, points, _label_on(points, link.label, line) if link.label else None)

    def _edge(self, route: Route) -> Edge:
        link = route.link
        line = self.lines[id(self.along[link.id])]
        points = _without_idle([*self._leaving(route, line), *self._arriving(route, line)])
        return Edge(link.id, points, _label_on(points, link.label, line) if link.label else None)

    def _leaving(self, route: Route, line: float) -> list[Point]:
        link = route.link
        box = self.boxes[link.boundary or link.source]
        own_line = self._line(link.source)
        middle = box.x + box.width / 2
        if route.leave == "right":
            start = Point(box.x + box.width, own_line)
        else:
            start = Point(middle, box.y if route.leave == "top" else box.y + box.height)
        if route.first_turn is None:
            return [start, Point(start.x, line)]
        x = self._turn_x(link.id, route.first_turn)
        if not link.boundary:
            return [start, Point(x, own_line), Point(x, line)]
        under = box.y + box.height + 8
        return [start, Point(middle, under), Point(x, under), Point(x, line)]

    def _arriving(self, route: Route, line: float) -> list[Point]:
        box = self.boxes[route.link.target]
        own_line = self._line(route.link.target)
        middle = box.x + box.width / 2
        if route.arrive != "left":
            end = Point(middle, box.y if route.arrive == "top" else box.y + box.height)
            return [Point(middle, line), end]
        end = Point(box.x, own_line)
        if route.second_turn is None:
            return [end]
        x = self._turn_x(route.link.id, route.second_turn)
        return [Point(x, line), Point(x, own_line), end]


def _boundary_label(event: Item, box: Box, leftmost: bool) -> Box | None:
    """Beside the event, on the side where no path passes."""
    if not event.label:
        return None
    width, height = block_size(event.label, FLOW_LABEL_WIDTH)
    x = box.x - width - 1 if leftmost else box.x + EVENT + 1
    return Box(x, box.y + EVENT / 2 + 5, width, height)


def _without_idle(points: Sequence[Point]) -> tuple[Point, ...]:
    """Without repeated points and points in the middle of a straight line."""
    kept: list[Point] = []
    for point in points:
        if kept and kept[-1] == point:
            continue
        if len(kept) > 1 and _straight(kept[-2], kept[-1], point):
            kept.pop()
        kept.append(point)
    return tuple(kept)


def _straight(first: Point, second: Point, third: Point) -> bool:
    return (first.x == second.x == third.x) or (first.y == second.y == third.y)


def _label_on(points: tuple[Point, ...], text: str, line: float) -> Box:
    """Above the part of the link that runs along its row, near where it begins."""
    width, height = block_size(text, FLOW_LABEL_WIDTH)
    parts = list(pairwise(points))
    along = [part for part in parts if part[0].y == part[1].y == line] or parts
    start, end = along[0]
    distance = 14 if start == points[0] else 7  # leave room for the slash of a default flow
    x = start.x + distance if end.x >= start.x else start.x - distance - width
    return Box(x, start.y - height - 3, width, height)


def _with_overhang(part: Placed) -> Placed:
    """Labels and lines may reach beyond the outer columns: make room for them."""
    boxes = [box for shape in part.shapes for box in (shape.box, shape.label) if box]
    boxes += [edge.label for edge in part.edges if edge.label]
    xs = [point.x for edge in part.edges for point in edge.points]
    left = min([*xs, *(box.x for box in boxes)])
    right = max([*xs, *(box.x + box.width for box in boxes), part.width])
    part.shapes = [moved_shape(shape, -left, 0.0) for shape in part.shapes]
    part.edges = [moved_edge(edge, -left, 0.0) for edge in part.edges]
    part.width = right - left
    return part
