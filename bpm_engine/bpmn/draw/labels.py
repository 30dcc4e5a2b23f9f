"""Labels beside shapes and lines: where the file says, else where a reader expects them."""

from __future__ import annotations

import itertools

from bpm_engine.bpmn import model
from bpm_engine.bpmn.diagram import Box, Edge, Point, Shape
from bpm_engine.bpmn.draw.edges import Line
from bpm_engine.bpmn.draw.shapes import Drawable
from bpm_engine.bpmn.draw.svg import group, text_lines
from bpm_engine.bpmn.draw.text import LINE_HEIGHT, block_size, wrapped

OUTER_WIDTH = 90.0
MAX_LINES = 4


def shape_label(element: Drawable, shape: Shape) -> str:
    """The label of an element whose name stands outside its shape; empty for all others."""
    name = outer_name(element)
    if not name:
        return ""
    box = shape.label or below(shape.box, name)
    return _label(name, box, element.id)


def edge_label(line: Line, edge: Edge) -> str:
    name = "" if isinstance(line, model.Association) else line.name
    if not name or len(edge.points) < 2:
        return ""
    return _label(name, edge.label or _beside(edge.points, name), line.id)


def outer_name(element: Drawable) -> str:
    match element:
        case model.Event() | model.Gateway() | model.DataStore():
            return element.name
        case model.DataItem():
            return f"{element.name} [{element.state}]" if element.state else element.name
        case _:
            return ""


def below(box: Box, name: str) -> Box:
    """Under a shape, in the middle."""
    width, height = block_size(name, OUTER_WIDTH, MAX_LINES)
    return Box(box.x + box.width / 2 - width / 2, box.y + box.height + 5, width, height)


def _beside(points: tuple[Point, ...], name: str) -> Box:
    """Above the first long enough part of the line, or right of it when it is upright."""
    width, height = block_size(name, OUTER_WIDTH, MAX_LINES)
    start, end = max(
        itertools.pairwise(points),
        key=lambda part: abs(part[0].x - part[1].x) + abs(part[0].y - part[1].y),
    )
    x, y = (start.x + end.x) / 2, (start.y + end.y) / 2
    if abs(start.x - end.x) >= abs(start.y - end.y):
        return Box(x - width / 2, y - height - 4, width, height)
    return Box(x + 5, y - height / 2, width, height)


def _label(name: str, box: Box, element_id: str) -> str:
    # Tools measure text with their own fonts: a box that is a little too narrow must not break lines anew.
    lines = wrapped(name, max(box.width + 6, 50.0))
    top = box.y + max(0.0, (box.height - LINE_HEIGHT * len(lines)) / 2)
    text = text_lines(lines, box.x + box.width / 2, top, halo=True)
    return group(text, class_="bpm-label", data_label=element_id)
