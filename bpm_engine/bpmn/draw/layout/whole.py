"""A diagram for a whole file: processes below each other, pools and lanes around them, lines between them.

Sub-processes are laid out from the inside out, without recursion: nesting is limited by the file only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from bpm_engine.bpmn import model
from bpm_engine.bpmn.diagram import Box, Diagram, Edge, Point, Shape
from bpm_engine.bpmn.draw.layout.container import (
    PADDING_SIDE,
    PADDING_TOP,
    Extras,
    drawn_lanes,
    lay_out_container,
)
from bpm_engine.bpmn.draw.layout.items import Placed, moved_edge, moved_shape
from bpm_engine.bpmn.draw.layout.lines import joining, message_edge

ORIGIN = 150.0, 90.0
BAND_HEADER = 30.0
BAND_PADDING = 25.0
POOL_GAP = 70.0
CLOSED_POOL_HEIGHT = 60.0
EMPTY_LANE = 20.0


def lay_out(definitions: model.Definitions) -> Diagram:
    """A diagram of all processes and pools of a file."""
    return _Drawing(definitions).diagram()


def lay_out_each(definitions: model.Definitions) -> tuple[Diagram, ...]:
    """One diagram for the pools and one for each process in none of them: what editors can open."""
    pooled = {p.process for c in definitions.collaborations for p in c.participants}
    shared = tuple(process for process in definitions.processes if process.id in pooled)
    alone = [process for process in definitions.processes if process.id not in pooled]
    parts = [replace(definitions, processes=(process,), collaborations=()) for process in alone]
    if definitions.collaborations:
        parts.insert(0, replace(definitions, processes=shared))
    return tuple(map(lay_out, parts))


@dataclass(slots=True)
class _Drawing:
    definitions: model.Definitions
    shapes: list[Shape] = field(default_factory=list)
    edges: list[Edge] = field(default_factory=list)
    placed: dict[int, Placed] = field(default_factory=dict)  # id() of a container -> its inside
    y: float = ORIGIN[1]

    def diagram(self) -> Diagram:
        definitions = self.definitions
        pooled = {p.process: p for c in definitions.collaborations for p in c.participants if p.process}
        contents = {process.id: process.content for process in definitions.processes}
        for participant in self._participants():
            content = contents.get(participant.process or "")
            self._pool(participant, content)
        for process in definitions.processes:
            if process.id not in pooled:
                self._process(process.content)
        self._lines()
        plane = definitions.collaborations[0].id if definitions.collaborations else None
        first = definitions.processes[0].id if definitions.processes else definitions.id
        return Diagram(plane or first, tuple(self.shapes), tuple(self.edges))

    def _participants(self) -> Iterator[model.Participant]:
        for collaboration in self.definitions.collaborations:
            yield from collaboration.participants

    # -------------------------------------------------------------- processes and pools

    def _process(self, content: model.Container) -> None:
        inside = self._inside(content)
        lanes = drawn_lanes(content)
        left = ORIGIN[0] + (BAND_HEADER + BAND_PADDING if lanes else 0.0)
        top = self.y + (BAND_PADDING if lanes else 0.0)
        right = left + inside.width + BAND_PADDING
        bottom = top + inside.height + BAND_PADDING
        if lanes:
            self._lane_bands(lanes, inside, Box(ORIGIN[0], self.y, right - ORIGIN[0], bottom - self.y), top)
        self._add(content, inside, left, top)
        self.y = bottom + POOL_GAP

    def _pool(self, participant: model.Participant, content: model.Container | None) -> None:
        if content is None:
            self.shapes.append(Shape(participant.id, Box(ORIGIN[0], self.y, 0.0, CLOSED_POOL_HEIGHT)))
            self.y += CLOSED_POOL_HEIGHT + POOL_GAP
            self._equal_widths()
            return
        inside = self._inside(content)
        lanes = drawn_lanes(content)
        left = ORIGIN[0] + BAND_HEADER * (2 if lanes else 1) + BAND_PADDING
        top = self.y + BAND_PADDING
        frame = Box(
            ORIGIN[0],
            self.y,
            left + inside.width + BAND_PADDING - ORIGIN[0],
            inside.height + 2 * BAND_PADDING,
        )
        self.shapes.append(Shape(participant.id, frame))
        if lanes:
            band = Box(frame.x + BAND_HEADER, frame.y, frame.width - BAND_HEADER, frame.height)
            self._lane_bands(lanes, inside, band, top)
        self._add(content, inside, left, top)
        self.y = frame.y + frame.height + POOL_GAP
        self._equal_widths()

    def _equal_widths(self) -> None:
        """All pools end at the same right edge."""
        bands = {participant.id for participant in self._participants()}
        lanes = {lane.id for process in self.definitions.processes for lane in process.content.lanes}
        frames = [shape for shape in self.shapes if shape.element in bands]
        right = max(400.0, *(shape.box.x + shape.box.width for shape in frames))
        for position, shape in enumerate(self.shapes):
            if shape.element in bands or shape.element in lanes:
                box = Box(shape.box.x, shape.box.y, right - shape.box.x, shape.box.height)
                self.shapes[position] = Shape(shape.element, box, shape.label)

    def _lane_bands(self, lanes: list[model.Lane], inside: Placed, frame: Box, top: float) -> None:
        """Bands without a gap: each reaches halfway to the rows of the next."""
        tops = {lane: top + extent[0] for lane, extent in inside.lanes.items()}
        bottoms = {lane: top + extent[1] for lane, extent in inside.lanes.items()}
        y = frame.y
        for index, lane in enumerate(lanes):
            following = min((tops[other] for other in tops if other > index), default=None)
            bottom = frame.y + frame.height
            if index < len(lanes) - 1 and following is not None:
                bottom = (bottoms[index] + following) / 2 if index in bottoms else y + EMPTY_LANE
            self.shapes.append(Shape(lane.id, Box(frame.x, y, frame.width, bottom - y)))
            y = bottom

    def _inside(self, outermost: model.Container) -> Placed:
        """Lay out a container, its sub-processes first."""
        extras = Extras(
            {note.id: note for note in self.definitions.annotations if note.kind == "text"},
            self.definitions.associations,
            frozenset(_joined_below(self.definitions)),
        )
        for container in reversed(list(_containers(outermost))):
            inner = {
                node.id: self.placed[id(node.content)]
                for node in container.nodes
                if isinstance(node, model.SubProcess)
            }
            self.placed[id(container)] = lay_out_container(container, inner, extras)
        return self.placed[id(outermost)]

    def _add(self, outermost: model.Container, inside: Placed, x: float, y: float) -> None:
        """Shapes and edges of a container and of all containers in it, at their final place."""
        pending = [(outermost, inside, x, y)]
        while pending:
            container, placed, left, top = pending.pop()
            boxes: dict[str, Box] = {}
            for shape in placed.shapes:
                final = moved_shape(shape, left, top)
                boxes[shape.element] = final.box
                self.shapes.append(final)
            self.edges.extend(moved_edge(edge, left, top) for edge in placed.edges)
            for node in container.nodes:
                if isinstance(node, model.SubProcess):
                    box = boxes[node.id]
                    inner = self.placed[id(node.content)]
                    pending.append((node.content, inner, box.x + PADDING_SIDE, box.y + PADDING_TOP))

    # -------------------------------------------------------------- lines that are no sequence flows

    def _lines(self) -> None:
        boxes = {shape.element: shape.box for shape in self.shapes}
        middles = {edge.element: _middle(edge.points) for edge in self.edges}
        drawn: set[str] = set()
        for name, source, target in _other_lines(self.definitions):
            ends = [boxes.get(end) or middles.get(end) for end in (source, target)]
            if name not in drawn and ends[0] and ends[1]:
                drawn.add(name)
                self.edges.append(Edge(name, joining(ends[0], ends[1])))
        pools = {participant.id for participant in self._participants()}
        lanes = {lane.id for process in self.definitions.processes for lane in process.content.lanes}
        obstacles = [shape for shape in self.shapes if shape.element not in pools | lanes]
        for collaboration in self.definitions.collaborations:
            for flow in collaboration.message_flows:
                if flow.source in boxes and flow.target in boxes:
                    self.edges.append(message_edge(flow, boxes, obstacles))


def _containers(outermost: model.Container) -> Iterator[model.Container]:
    """Outer before inner."""
    pending = [outermost]
    while pending:
        container = pending.pop()
        yield container
        pending.extend(node.content for node in container.nodes if isinstance(node, model.SubProcess))


def _joined_below(definitions: model.Definitions) -> Iterator[str]:
    """Ends of message flows whose other end is drawn further down."""
    contents = {process.id: process.content for process in definitions.processes}
    for collaboration in definitions.collaborations:
        place: dict[str, int] = {}
        for position, participant in enumerate(collaboration.participants):
            place[participant.id] = position
            for container in _containers(contents.get(participant.process or "", model.Container())):
                place.update((node.id, position) for node in container.nodes)
        for flow in collaboration.message_flows:
            source, target = place.get(flow.source, 0), place.get(flow.target, 0)
            if source != target:
                yield flow.source if source < target else flow.target


def _other_lines(definitions: model.Definitions) -> Iterator[tuple[str, str, str]]:
    yield from _association_lines(definitions.associations)
    for process in definitions.processes:
        for container in _containers(process.content):
            yield from _association_lines(container.associations)
            for node in container.nodes:
                if isinstance(node, model.Activity | model.Event):
                    yield from _data_lines(node.id, node.data_associations)


def _association_lines(lines: Iterable[model.Association]) -> Iterator[tuple[str, str, str]]:
    return ((line.id, line.source, line.target) for line in lines)


def _data_lines(node: str, lines: Iterable[model.DataAssociation]) -> Iterator[tuple[str, str, str]]:
    for line in lines:
        if line.direction == "input" and line.sources:
            yield line.id, line.sources[0], node
        elif line.direction == "output" and line.target:
            yield line.id, node, line.target


def _middle(points: tuple[Point, ...]) -> Box:
    first, second = points[len(points) // 2 - 1], points[len(points) // 2]
    return Box((first.x + second.x) / 2, (first.y + second.y) / 2, 0.0, 0.0)
