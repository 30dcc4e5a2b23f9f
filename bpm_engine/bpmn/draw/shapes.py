"""Draws one shape of a diagram: what stands in its box, by the kind of its element.

Labels that stand outside a shape (events, gateways, data) are drawn by `labels`, above everything.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from bpm_engine.bpmn import model
from bpm_engine.bpmn.diagram import Box, Shape
from bpm_engine.bpmn.draw import icons
from bpm_engine.bpmn.draw.svg import (
    INK,
    PAPER,
    at,
    circle,
    data,
    group,
    number,
    path,
    polygon,
    rectangle,
    tag,
    text_lines,
)
from bpm_engine.bpmn.draw.text import LINE_HEIGHT, escaped, wrapped

LANE_HEADER = 30.0
MARKER_PITCH = 18.0


@dataclass(frozen=True, slots=True)
class Style:
    """How one element stands out: colours of its body and border, and a short text such as a count."""

    fill: str | None = None
    stroke: str | None = None
    badge: str = ""


PLAIN = Style()

Drawable = (
    model.FlowNode | model.Participant | model.Lane | model.DataItem | model.DataStore | model.Annotation
)


def draw_shape(element: Drawable, shape: Shape, style: Style) -> str:
    """The group of one element, with its id as `data-element`."""
    content = [tag("title", escaped(_title(element))), *_body(element, shape, style)]
    if style.badge:
        content.append(_badge(shape.box, style))
    return group(content, class_=f"bpm-node bpm-{_class(element)}", data_element=element.id)


def _body(element: Drawable, shape: Shape, style: Style) -> list[str]:
    match element:
        case model.Event():
            return _event(element, shape.box, style)
        case model.Gateway():
            return _gateway(element, shape, style)
        case model.SubProcess():
            return _sub_process(element, shape, style)
        case model.Activity():
            return _task(element, shape.box, style)
        case model.Participant() | model.Lane():
            return _band(element, shape, style)
        case model.DataItem(kind="store_reference") | model.DataStore():
            return _data_store(shape.box, style)
        case model.DataItem():
            return _data_object(element, shape.box, style)
        case model.Annotation():
            return _annotation(element, shape.box)
        case model.FlowNode():
            return [rectangle(shape.box, radius=10, **_paint(style))]
        case _:
            assert_never(element)


def _class(element: Drawable) -> str:
    match element:
        case model.FlowNode():
            return element.tag
        case model.DataItem():
            return f"data-{element.kind.replace('_', '-')}"
        case model.Annotation():
            return "group" if element.kind == "group" else "textAnnotation"
        case model.DataStore():
            return "data-store-reference"
        case _:
            return type(element).__name__.lower()


def _title(element: Drawable) -> str:
    if isinstance(element, model.Annotation):
        return element.id
    return f"{element.name} ({element.id})" if element.name else element.id


def _paint(style: Style, width: float = 2.0) -> dict[str, str | float]:
    return {"fill": style.fill or PAPER, "stroke": style.stroke or INK, "stroke_width": width}


def _badge(box: Box, style: Style) -> str:
    lines = wrapped(style.badge, 60, 1)
    width = max(22.0, 8.0 * len("".join(lines)) + 10)
    x = box.x + box.width - width / 2
    pill = rectangle(Box(x, box.y - 10, width, 20), radius=10, fill=style.stroke or INK, stroke=PAPER)
    return group([pill, text_lines(lines, x + width / 2, box.y - 6, fill=PAPER)], class_="bpm-badge")


# ------------------------------------------------------------------ events and gateways


def _event(event: model.Event, box: Box, style: Style) -> list[str]:
    x, y = box.x + box.width / 2, box.y + box.height / 2
    scale = min(box.width, box.height) / 36
    trigger = icons.event_trigger(event)
    throws = event.tag in ("endEvent", "intermediateThrowEvent")
    parts = [group(_event_rings(event, x, y, 18 * scale, style), class_=_event_class(event))]
    if trigger:
        sign = icons.EVENT_SIGNS[trigger](style.stroke or INK, throws)
        kind = f"bpm-event-{trigger} bpm-{'throw' if throws else 'catch'}"
        parts.append(at(x, y, sign, scale=scale, class_=kind))
    return parts


def _event_class(event: model.Event) -> str:
    rings = {"startEvent": "thin", "endEvent": "thick"}.get(event.tag, "double")
    return f"bpm-ring-{rings}" if event.interrupting else f"bpm-ring-{rings} bpm-non-interrupting"


def _event_rings(event: model.Event, x: float, y: float, radius: float, style: Style) -> list[str]:
    dashes = None if event.interrupting else "5 3"
    stroke = style.stroke or INK
    fill = style.fill or PAPER
    if event.tag == "endEvent":
        return [circle(x, y, radius - 1, fill=fill, stroke=stroke, stroke_width=4)]
    width = 1.6 if event.tag == "startEvent" else 1.3
    rings = [circle(x, y, radius, fill=fill, stroke=stroke, stroke_width=width, stroke_dasharray=dashes)]
    if event.tag != "startEvent":
        rings.append(
            circle(
                x, y, radius - 3.2, fill="none", stroke=stroke, stroke_width=width, stroke_dasharray=dashes
            )
        )
    return rings


def _gateway(gateway: model.Gateway, shape: Shape, style: Style) -> list[str]:
    box = shape.box
    x, y = box.x + box.width / 2, box.y + box.height / 2
    corners = [(x, box.y), (box.x + box.width, y), (x, box.y + box.height), (box.x, y)]
    parts = [polygon(corners, stroke_linejoin="round", **_paint(style))]
    sign = icons.gateway_sign(gateway)
    if sign != "exclusive" or shape.marker_visible:
        drawn = icons.GATEWAY_SIGNS[sign](style.stroke or INK)
        scale = min(box.width, box.height) / 50
        parts.append(at(x, y, drawn, scale=scale, class_=f"bpm-gateway-{sign}"))
    return parts


# ------------------------------------------------------------------ activities


def _task(task: model.Activity, box: Box, style: Style) -> list[str]:
    call = isinstance(task, model.CallActivity)
    parts = [rectangle(box, radius=10, **_paint(style, 5.0 if call else 2.0))]
    sign = icons.task_sign(task) if isinstance(task, model.Task) else ""
    if sign:
        parts.append(at(box.x + 6, box.y + 5, icons.TASK_SIGNS[sign](), class_=f"bpm-task-{sign}"))
    markers = icons.activity_markers(task, collapsed=call)
    name = _centred(task.name, box, below=18.0 if markers else 0.0, above=24.0 if sign else 0.0)
    return [*parts, name, *_markers(markers, box)]


def _sub_process(scope: model.SubProcess, shape: Shape, style: Style) -> list[str]:
    box = shape.box
    dashes = "2 5" if scope.triggered_by_event else None
    caps = "round" if dashes else None
    parts = [rectangle(box, radius=10, stroke_dasharray=dashes, stroke_linecap=caps, **_paint(style))]
    if scope.tag == "transaction":
        inner = Box(box.x + 4, box.y + 4, box.width - 8, box.height - 8)
        parts.append(
            rectangle(
                inner, radius=7, fill="none", stroke=style.stroke or INK, stroke_width=1.5, class_="bpm-inner"
            )
        )
    markers = icons.activity_markers(scope, collapsed=not shape.expanded)
    if shape.expanded:
        lines = wrapped(scope.name, box.width - 24, 2)
        parts.append(text_lines(lines, box.x + box.width / 2, box.y + 10))
    else:
        parts.append(_centred(scope.name, box, below=18.0))
        parts.extend(_hidden_trigger(scope, box) if scope.triggered_by_event else ())
    return [*parts, *_markers(markers, box)]


def _hidden_trigger(scope: model.SubProcess, box: Box) -> list[str]:
    """A collapsed event sub-process shows in its corner what starts it (10.3.5)."""
    starts = [
        node for node in scope.content.nodes if isinstance(node, model.Event) and node.tag == "startEvent"
    ]
    if not starts:
        return []
    corner = Box(box.x + 5, box.y + 5, 22, 22)
    return [group(_event(starts[0], corner, PLAIN), class_="bpm-hidden-trigger")]


def _centred(name: str, box: Box, *, below: float, above: float = 0.0) -> str:
    """The name in the middle; a long one keeps clear of the sign above and the markers below."""
    space = box.height - below - 6
    lines = wrapped(name, box.width - 16, max(1, int(space // LINE_HEIGHT)))
    height = LINE_HEIGHT * len(lines)
    top = box.y + 3 + (space - height) / 2
    if len(lines) > 2:
        top = max(top, min(box.y + above + 3, box.y + box.height - below - 3 - height))
    return text_lines(lines, box.x + box.width / 2, top)


def _markers(names: list[str], box: Box) -> list[str]:
    start = box.x + box.width / 2 - (len(names) * MARKER_PITCH - 4) / 2
    return [
        at(
            start + index * MARKER_PITCH,
            box.y + box.height - 18,
            icons.MARKERS[name](),
            class_=f"bpm-marker bpm-marker-{name}",
        )
        for index, name in enumerate(names)
    ]


# ------------------------------------------------------------------ pools, lanes, data, artifacts


def _band(band: model.Participant | model.Lane, shape: Shape, style: Style) -> list[str]:
    box = shape.box
    lane = isinstance(band, model.Lane)
    frame = rectangle(box, radius=0.0, **_paint(style, 1.0 if lane else 1.5))
    black_box = isinstance(band, model.Participant) and band.process is None
    if black_box:
        return [frame, _centred(band.name, box, below=0.0)]
    if not shape.horizontal:
        line = data("M", box.x, box.y + LANE_HEADER, "H", box.x + box.width)
        title = text_lines(wrapped(band.name, box.width - 8, 1), box.x + box.width / 2, box.y + 8)
    else:
        line = data("M", box.x + LANE_HEADER, box.y, "V", box.y + box.height)
        title = _rotated(band.name, box)
    return [frame, path(line, stroke=style.stroke or INK, fill="none") if not lane else "", title]


def _rotated(name: str, box: Box) -> str:
    lines = wrapped(name, box.height - 8, 2)
    x, y = box.x + LANE_HEADER / 2, box.y + box.height / 2
    turned = text_lines(lines, 0, -LINE_HEIGHT * len(lines) / 2)
    return group(turned, transform=f"translate({number(x)} {number(y)}) rotate(-90)", class_="bpm-band-name")


def _data_store(box: Box, style: Style) -> list[str]:
    rim = box.height * 0.14
    right, bottom = box.x + box.width, box.y + box.height
    left, top = box.x, box.y
    lid = data("C", left, top - rim, right, top - rim, right, top + rim)
    floor = data("C", right, bottom + rim, left, bottom + rim, left, bottom - rim)
    body = data("M", left, top + rim, lid, "V", bottom - rim, floor, "Z")
    rings = "".join(
        data("M", left, y, "C", left, y + 2 * rim, right, y + 2 * rim, right, y)
        for y in (top + rim, top + rim + 5, top + rim + 10)
    )
    return [path(body, **_paint(style, 1.5)), path(rings, fill="none", stroke=style.stroke or INK)]


def _data_object(item: model.DataItem, box: Box, style: Style) -> list[str]:
    fold = min(box.width, box.height) * 0.28
    right, bottom = box.x + box.width, box.y + box.height
    sheet = data("M", box.x, box.y, "H", right - fold, "L", right, box.y + fold, "V", bottom, "H", box.x, "Z")
    corner = data("M", right - fold, box.y, "V", box.y + fold, "H", right)
    parts = [
        path(sheet, stroke_linejoin="round", **_paint(style, 1.5)),
        path(corner, fill="none", stroke=style.stroke or INK),
    ]
    if item.kind in ("input", "output"):
        fill = PAPER if item.kind == "input" else INK
        arrow = path("M0 4H8V0.5L14 7L8 13.5V10H0Z", fill=fill, stroke=INK)
        parts.append(at(box.x + 3, box.y + 3, arrow, class_=f"bpm-data-{item.kind}-arrow"))
    if item.is_collection:
        parts.extend(_markers(["parallel-instances"], box))
    return parts


def _annotation(annotation: model.Annotation, box: Box) -> list[str]:
    if annotation.kind == "group":
        dashes = "8 4 2 4"
        frame = rectangle(box, radius=10, fill="none", stroke=INK, stroke_width=1.5, stroke_dasharray=dashes)
        title = wrapped(annotation.text, box.width - 10, 2)
        return [frame, text_lines(title, box.x + box.width / 2, box.y + 5)]
    bracket = data("M", box.x + 10, box.y, "H", box.x, "V", box.y + box.height, "H", box.x + 10)
    lines = wrapped(annotation.text, box.width - 12, max(1, int(box.height // LINE_HEIGHT)))
    top = box.y + max(2.0, (box.height - LINE_HEIGHT * len(lines)) / 2)
    return [
        path(bracket, fill="none", stroke=INK, stroke_width=1.5),
        text_lines(lines, box.x + 7, top, anchor="start"),
    ]
