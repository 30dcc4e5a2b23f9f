"""Diagram interchange: where things are drawn (12). Nothing here influences execution."""

from __future__ import annotations

import math
from collections.abc import Iterator

from lxml import etree

from bpm_engine.bpmn.diagram import Box, Diagram, Edge, Point, Shape
from bpm_engine.bpmn.document import BPMNDI, DC, DI
from bpm_engine.bpmn.model import Annotation
from bpm_engine.bpmn.parsing.activities import SUB_PROCESS_TAGS
from bpm_engine.bpmn.parsing.reading import (
    Reading,
    bpmn_children,
    child_text,
    flag,
    optional_flag,
    tag_of,
)

_BOUNDS = f"{{{DC}}}Bounds"
_LABEL = f"{{{BPMNDI}}}BPMNLabel"


def diagrams(reading: Reading) -> tuple[Diagram, ...]:
    planes = (
        plane
        for found in reading.document.root.iterchildren(f"{{{BPMNDI}}}BPMNDiagram")
        for plane in found.iterchildren(f"{{{BPMNDI}}}BPMNPlane")
    )
    return tuple(_diagram(reading, plane) for plane in planes)


def _diagram(reading: Reading, plane: etree._Element) -> Diagram:
    drawn = list(plane.iterchildren(f"{{{BPMNDI}}}BPMNShape"))
    shown = {reading.name_of(shape.get("bpmnElement")) for shape in drawn}
    shapes = (_shape(reading, shape, shown) for shape in drawn)
    edges = (_edge(reading, edge) for edge in plane.iterchildren(f"{{{BPMNDI}}}BPMNEdge"))
    return Diagram(
        plane=reading.name_of(plane.get("bpmnElement")),
        shapes=tuple(shape for shape in shapes if shape is not None),
        edges=tuple(edges),
    )


def _shape(reading: Reading, shape: etree._Element, shown: set[str]) -> Shape | None:
    bounds = next(shape.iterchildren(_BOUNDS), None)
    if bounds is None:
        return None
    return Shape(
        element=reading.name_of(shape.get("bpmnElement")),
        box=_box(bounds),
        label=_label(shape),
        horizontal=flag(shape, "isHorizontal", default=True),
        expanded=_expanded(reading, shape, shown),
        marker_visible=flag(shape, "isMarkerVisible", default=True),
    )


def _expanded(reading: Reading, shape: etree._Element, shown: set[str]) -> bool:
    """Where the file does not say, a sub-process is expanded if the plane shows what is inside it."""
    stated = optional_flag(shape, "isExpanded")
    if stated is not None:
        return stated
    element = reading.document.resolve(shape.get("bpmnElement"))
    if element is None or tag_of(element) not in SUB_PROCESS_TAGS:
        return True
    return any(inner.get("id") in shown for inner in bpmn_children(element))


def _edge(reading: Reading, edge: etree._Element) -> Edge:
    points = (
        Point(_number(point, "x"), _number(point, "y")) for point in edge.iterchildren(f"{{{DI}}}waypoint")
    )
    return Edge(reading.name_of(edge.get("bpmnElement")), tuple(points), _label(edge))


def _label(drawn: etree._Element) -> Box | None:
    label = next(drawn.iterchildren(_LABEL), None)
    bounds = None if label is None else next(label.iterchildren(_BOUNDS), None)
    return None if bounds is None else _box(bounds)


def _box(bounds: etree._Element) -> Box:
    return Box(*(_number(bounds, name) for name in ("x", "y", "width", "height")))


def _number(element: etree._Element, name: str) -> float:
    try:
        number = float(element.get(name) or 0)
    except ValueError:
        return 0.0
    return number if math.isfinite(number) else 0.0


# ------------------------------------------------------------------ annotations


def notes(reading: Reading, found: Iterator[etree._Element]) -> Iterator[Annotation]:
    for element in found:
        identifier = reading.identities.of(element)
        if tag_of(element) == "textAnnotation":
            yield Annotation(identifier, child_text(element, "text") or "")
        else:
            category = reading.document.resolve(element.get("categoryValueRef"))
            text = (element.get("name") or "") if category is None else category.get("value") or ""
            yield Annotation(identifier, text.strip(), "group")
