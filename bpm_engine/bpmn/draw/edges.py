"""Draws one edge of a diagram: sequence flow, message flow, association, data association.

Arrow heads are plain polygons at the end of the line, not SVG markers: every viewer draws them alike,
and an edge in another colour keeps its head in that colour.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from bpm_engine.bpmn import model
from bpm_engine.bpmn.diagram import Point
from bpm_engine.bpmn.draw.shapes import Style
from bpm_engine.bpmn.draw.svg import INK, PAPER, circle, data, group, path, polygon, polyline_data, tag
from bpm_engine.bpmn.draw.text import escaped

Line = model.SequenceFlow | model.MessageFlow | model.Association | model.DataAssociation


@dataclass(frozen=True, slots=True)
class FlowMarks:
    """What stands at the start of a sequence flow, which depends on where it comes from (10.3.1, 8.4.13)."""

    start: Literal["", "conditional", "default"] = ""


def draw_edge(line: Line, points: tuple[Point, ...], marks: FlowMarks, style: Style) -> str:
    colour = style.stroke or INK
    match line:
        case model.SequenceFlow():
            content = _sequence_flow(points, marks, colour)
        case model.MessageFlow():
            content = _message_flow(points, colour)
        case model.Association():
            content = _association(points, line.direction, colour)
        case model.DataAssociation():
            content = _association(points, "One", colour)
    kind = type(line).__name__
    name = f"bpm-edge bpm-{kind[0].lower()}{kind[1:]}"
    return group([tag("title", escaped(_title(line))), *content], class_=name, data_element=line.id)


def _title(line: Line) -> str:
    name = "" if isinstance(line, model.Association) else line.name
    return f"{name} ({line.id})" if name else line.id


def _sequence_flow(points: tuple[Point, ...], marks: FlowMarks, colour: str) -> list[str]:
    parts = [
        path(polyline_data(points, 6), fill="none", stroke=colour, stroke_width=1.6, stroke_linejoin="round"),
        _head(points, colour),
    ]
    if marks.start == "default":
        parts.append(_slash(points, colour))
    elif marks.start == "conditional":
        parts.append(_diamond(points, colour))
    return parts


def _message_flow(points: tuple[Point, ...], colour: str) -> list[str]:
    line = polyline_data(points, 6)
    start = points[0]
    return [
        path(line, fill="none", stroke=colour, stroke_width=1.4, stroke_dasharray="8 5"),
        circle(
            start.x, start.y, 3.5, fill=PAPER, stroke=colour, stroke_width=1.3, class_="bpm-message-start"
        ),
        _head(points, colour, fill=PAPER),
    ]


def _association(points: tuple[Point, ...], direction: str, colour: str) -> list[str]:
    line = polyline_data(points, 4)
    parts = [
        path(
            line,
            fill="none",
            stroke=colour,
            stroke_width=1.6,
            stroke_dasharray="0.5 4.5",
            stroke_linecap="round",
        )
    ]
    if direction in ("One", "Both"):
        parts.append(_open_head(points, colour))
    if direction == "Both":
        parts.append(_open_head(points[::-1], colour))
    return parts


def _direction(start: Point, end: Point) -> tuple[float, float]:
    dx, dy = end.x - start.x, end.y - start.y
    length = math.hypot(dx, dy) or 1.0
    return dx / length, dy / length


def _last_direction(points: tuple[Point, ...]) -> tuple[float, float]:
    """Where the line points at its end; equal points in a file must not blur it."""
    end = points[-1]
    for point in reversed(points):
        if point != end:
            return _direction(point, end)
    return 1.0, 0.0


def _head(points: tuple[Point, ...], colour: str, fill: str | None = None) -> str:
    ux, uy = _last_direction(points)
    tip = points[-1]
    back = Point(tip.x - ux * 10, tip.y - uy * 10)
    corners = [(tip.x, tip.y), (back.x - uy * 4.5, back.y + ux * 4.5), (back.x + uy * 4.5, back.y - ux * 4.5)]
    return polygon(
        corners,
        fill=fill or colour,
        stroke=colour,
        stroke_width=1.2,
        stroke_linejoin="round",
        class_="bpm-head",
    )


def _open_head(points: tuple[Point, ...], colour: str) -> str:
    ux, uy = _last_direction(points)
    tip = points[-1]
    back = Point(tip.x - ux * 8, tip.y - uy * 8)
    line = data(
        "M", back.x - uy * 5, back.y + ux * 5, "L", tip.x, tip.y, "L", back.x + uy * 5, back.y - ux * 5
    )
    return path(line, fill="none", stroke=colour, stroke_width=1.4, class_="bpm-open-head")


def _slash(points: tuple[Point, ...], colour: str) -> str:
    ux, uy = _last_direction(points[1::-1])
    ux, uy = -ux, -uy
    x, y = points[0].x + ux * 11, points[0].y + uy * 11
    # a stroke across the line, leaning back by 30 degrees
    dx, dy = -uy * 5.5 + ux * 3, ux * 5.5 + uy * 3
    line = data("M", x - dx, y - dy, "L", x + dx, y + dy)
    return path(line, fill="none", stroke=colour, stroke_width=1.6, class_="bpm-default")


def _diamond(points: tuple[Point, ...], colour: str) -> str:
    ux, uy = _last_direction(points[1::-1])
    ux, uy = -ux, -uy
    start = points[0]
    middle = Point(start.x + ux * 8, start.y + uy * 8)
    corners = [
        (start.x, start.y),
        (middle.x - uy * 5, middle.y + ux * 5),
        (start.x + ux * 16, start.y + uy * 16),
        (middle.x + uy * 5, middle.y - ux * 5),
    ]
    return polygon(corners, fill=PAPER, stroke=colour, stroke_width=1.3, class_="bpm-conditional")
