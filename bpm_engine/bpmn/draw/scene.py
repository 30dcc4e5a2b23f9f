"""Puts a diagram together: looks up each element, draws from back to front, adds the outer labels.

`draw_svg` is the whole interface. A file without diagram interchange gets one from `layout` first, so
that there is one way from a diagram to a picture.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from bpm_engine.bpmn import model
from bpm_engine.bpmn.diagram import Box, Diagram, Shape
from bpm_engine.bpmn.draw.edges import FlowMarks, Line, draw_edge
from bpm_engine.bpmn.draw.labels import edge_label, shape_label
from bpm_engine.bpmn.draw.layout import lay_out
from bpm_engine.bpmn.draw.shapes import PLAIN, Drawable, Style, draw_shape
from bpm_engine.bpmn.draw.svg import PAPER, group, number, rectangle, tag
from bpm_engine.bpmn.draw.text import FONT_SIZE, escaped

MARGIN = 20.0
FONT = "Arial, Helvetica, Liberation Sans, DejaVu Sans, sans-serif"


def draw_svg(
    definitions: model.Definitions,
    diagram: Diagram | None = None,
    *,
    highlight: Mapping[str, Style] | None = None,
) -> str:
    """The picture of one diagram (the first, or one laid out) as a self-contained SVG document."""
    shown = diagram or (definitions.diagrams[0] if definitions.diagrams else lay_out(definitions))
    catalogue = Catalogue.of(definitions)
    styles = highlight or {}
    content = [
        *_bodies(catalogue, shown, styles),
        *(shape_label(element, shape) for element, shape in _shapes(catalogue, shown)),
        *(
            edge_label(catalogue.lines[edge.element], edge)
            for edge in shown.edges
            if edge.element in catalogue.lines
        ),
    ]
    return _document(definitions, shown, [part for part in content if part])


@dataclass(frozen=True, slots=True)
class Catalogue:
    """Every element that can appear in a diagram, by id."""

    shapes: dict[str, Drawable] = field(default_factory=dict)
    lines: dict[str, Line] = field(default_factory=dict)
    marks: dict[str, FlowMarks] = field(default_factory=dict)
    depth: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, definitions: model.Definitions) -> Catalogue:
        catalogue = cls()
        for process in definitions.processes:
            catalogue._add_container(process.content, 0)
            if process.io:
                catalogue._add_all((*process.io.inputs, *process.io.outputs))
        for collaboration in definitions.collaborations:
            catalogue._add_all(collaboration.participants)
            catalogue.lines.update((flow.id, flow) for flow in collaboration.message_flows)
        catalogue._add_all(definitions.annotations)
        catalogue._add_all(definitions.data_stores.values())
        catalogue.lines.update((line.id, line) for line in definitions.associations)
        return catalogue

    def _add_all(self, elements: Iterable[Drawable]) -> None:
        for element in elements:
            self.shapes.setdefault(element.id, element)

    def _add_container(self, outermost: model.Container, depth: int) -> None:
        pending = [(outermost, depth)]
        while pending:
            container, level = pending.pop()
            self._add_all((*container.nodes, *container.data, *container.lanes))
            self.lines.update((line.id, line) for line in container.associations)
            nodes = {node.id: node for node in container.nodes}
            for flow in container.flows:
                self.lines[flow.id] = flow
                self.marks[flow.id] = _marks(flow, nodes.get(flow.source))
            for node in container.nodes:
                self.depth[node.id] = level
                if isinstance(node, model.Activity | model.Event):
                    self.lines.update((line.id, line) for line in node.data_associations)
                if isinstance(node, model.SubProcess):
                    pending.append((node.content, level + 1))


def _marks(flow: model.SequenceFlow, source: model.FlowNode | None) -> FlowMarks:
    if isinstance(source, model.Activity | model.Gateway) and source.default == flow.id:
        return FlowMarks("default")
    # the diamond stands only where no gateway says already that there is a choice (8.4.13)
    return FlowMarks("conditional" if flow.condition and isinstance(source, model.Activity) else "")


def _shapes(catalogue: Catalogue, diagram: Diagram) -> Iterator[tuple[Drawable, Shape]]:
    for shape in diagram.shapes:
        element = catalogue.shapes.get(shape.element)
        if element is not None:
            yield element, shape


def _bodies(catalogue: Catalogue, diagram: Diagram, styles: Mapping[str, Style]) -> list[str]:
    layers: dict[tuple[int, int], list[str]] = {}
    for element, shape in _shapes(catalogue, diagram):
        drawn = draw_shape(element, shape, styles.get(element.id, PLAIN))
        layers.setdefault(_layer(element, shape, catalogue), []).append(drawn)
    for edge in diagram.edges:
        line = catalogue.lines.get(edge.element)
        if line is not None and len(edge.points) > 1:
            marks = catalogue.marks.get(line.id, FlowMarks())
            drawn = draw_edge(line, edge.points, marks, styles.get(line.id, PLAIN))
            layers.setdefault((3, 0), []).append(drawn)
    return [part for layer in sorted(layers) for part in layers[layer]]


def _layer(element: Drawable, shape: Shape, catalogue: Catalogue) -> tuple[int, int]:
    match element:
        case model.Participant():
            return 0, 0
        case model.Lane():
            return 1, 0
        case model.SubProcess() if shape.expanded:
            return 2, catalogue.depth.get(element.id, 0)
        case model.Event(tag="boundaryEvent"):
            return 5, 0
        case _:
            return 4, 0


def _document(definitions: model.Definitions, diagram: Diagram, content: list[str]) -> str:
    frame = _frame(diagram)
    title = definitions.name or next((p.name or p.id for p in definitions.processes), definitions.id)
    picture = [
        tag("title", escaped(title)),
        rectangle(frame, fill=PAPER),
        group(content, font_family=FONT, font_size=FONT_SIZE),
    ]
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        + tag(
            "svg",
            "\n".join(["", *picture, ""]),
            xmlns="http://www.w3.org/2000/svg",
            viewBox=" ".join(map(number, (frame.x, frame.y, frame.width, frame.height))),
            width=frame.width,
            height=frame.height,
            role="img",
        )
        + "\n"
    )


def _frame(diagram: Diagram) -> Box:
    boxes = [shape.box for shape in diagram.shapes]
    boxes += [shape.label for shape in diagram.shapes if shape.label]
    boxes += [edge.label for edge in diagram.edges if edge.label]
    xs = [x for box in boxes for x in (box.x, box.x + box.width)]
    ys = [y for box in boxes for y in (box.y, box.y + box.height)]
    xs += [point.x for edge in diagram.edges for point in edge.points]
    ys += [point.y for edge in diagram.edges for point in edge.points]
    if not xs:
        return Box(0, 0, 2 * MARGIN, 2 * MARGIN)
    left, top = min(xs) - MARGIN, min(ys) - MARGIN
    return Box(left, top, max(xs) + MARGIN - left, max(ys) + MARGIN + 10 - top)
