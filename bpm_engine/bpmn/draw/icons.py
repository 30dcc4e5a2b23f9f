"""The small signs of BPMN: event definitions, task types, activity markers, gateway markers.

Event and gateway signs are drawn around the origin for a circle of radius 18 or a diamond of 50;
task signs and activity markers from the origin to the right and down. A throwing event shows its sign
filled, a catching one in outline (BPMN 2.0.2, 10.5.1).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from bpm_engine.bpmn import model
from bpm_engine.bpmn.diagram import Box
from bpm_engine.bpmn.draw.svg import INK, PAPER, circle, path, polygon, rectangle

Sign = Callable[[str, bool], str]  # colour, filled


def _ring(radius: float, count: int, turn: float = -math.pi / 2) -> list[tuple[float, float]]:
    steps = [turn + 2 * math.pi * index / count for index in range(count)]
    return [(radius * math.cos(angle), radius * math.sin(angle)) for angle in steps]


def _outline(data: str, colour: str, filled: bool) -> str:
    return path(
        data, fill=colour if filled else PAPER, stroke=colour, stroke_width=1.2, stroke_linejoin="round"
    )


def envelope(colour: str, filled: bool) -> str:
    flap = PAPER if filled else colour
    return _outline("M-9-6.5H9V6.5H-9Z", colour, filled) + path(
        "M-9-6.5L0 1L9-6.5", fill="none", stroke=flap, stroke_width=1.2, stroke_linejoin="round"
    )


def _clock(colour: str, filled: bool) -> str:
    del filled  # a timer only catches
    ticks = "".join(f"M{x * 8.6:.2f} {y * 8.6:.2f}L{x * 10.6:.2f} {y * 10.6:.2f}" for x, y in _ring(1, 12))
    return (
        circle(0, 0, 10.6, fill=PAPER, stroke=colour, stroke_width=1.2)
        + path(ticks, fill="none", stroke=colour, stroke_width=0.9)
        + path("M1.6-7.2L0 0L5.4 1.4", fill="none", stroke=colour, stroke_width=1.3, stroke_linecap="round")
    )


def _document(colour: str, filled: bool) -> str:
    del filled  # a condition only catches
    return _outline("M-7-9H7V9H-7Z", colour, False) + path(
        "M-4.5-6H4.5M-4.5-2H4.5M-4.5 2H4.5M-4.5 6H4.5", fill="none", stroke=colour, stroke_width=1.2
    )


def _shape(data: str) -> Sign:
    return lambda colour, filled: _outline(data, colour, filled)


def _terminate(colour: str, filled: bool) -> str:
    del filled  # only an end event terminates
    return circle(0, 0, 10.5, fill=colour, stroke=colour)


def _pentagon(radius: float) -> Sign:
    corners = _ring(radius, 5)
    return lambda colour, filled: polygon(
        corners, fill=colour if filled else PAPER, stroke=colour, stroke_width=1.2, stroke_linejoin="round"
    )


_CROSS = "M-9.5-2.6H-2.6V-9.5H2.6V-2.6H9.5V2.6H2.6V9.5H-2.6V2.6H-9.5Z"
_TURNED_CROSS = (
    "M-7.9-5.2L-5.2-7.9L0-2.7L5.2-7.9L7.9-5.2L2.7 0L7.9 5.2L5.2 7.9L0 2.7L-5.2 7.9L-7.9 5.2L-2.7 0Z"
)

EVENT_SIGNS: Mapping[str, Sign] = {
    "message": envelope,
    "timer": _clock,
    "error": _shape("M-9 9.5L-3.4-9.2L3 2.2L9-9.5L3.4 9.2L-3-2.2Z"),
    "escalation": _shape("M0-10L7.5 8.5L0 2L-7.5 8.5Z"),
    "cancel": _shape(_TURNED_CROSS),
    "compensation": _shape("M-10 0L-0.8-7V7ZM-0.8 0L8.4-7V7Z"),
    "conditional": _document,
    "link": _shape("M-10-3.6H2V-8.4L10.5 0L2 8.4V3.6H-10Z"),
    "signal": _shape("M0-10L9.4 6.4H-9.4Z"),
    "terminate": _terminate,
    "multiple": _pentagon(10.5),
    "parallel-multiple": _shape(_CROSS),
}

_DEFINITION_NAMES: Mapping[type[model.EventDefinition], str] = {
    model.MessageDefinition: "message",
    model.TimerDefinition: "timer",
    model.ErrorDefinition: "error",
    model.EscalationDefinition: "escalation",
    model.CancelDefinition: "cancel",
    model.CompensateDefinition: "compensation",
    model.ConditionalDefinition: "conditional",
    model.LinkDefinition: "link",
    model.SignalDefinition: "signal",
    model.TerminateDefinition: "terminate",
}


def event_trigger(event: model.Event) -> str:
    """The name of the sign an event carries; empty for a none event."""
    if len(event.definitions) > 1:
        return "parallel-multiple" if event.parallel_multiple else "multiple"
    return _DEFINITION_NAMES[type(event.definitions[0])] if event.definitions else ""


# ------------------------------------------------------------------ gateways (diamond of 50)


def _strokes(data: str, width: float) -> Callable[[str], str]:
    return lambda colour: path(data, fill="none", stroke=colour, stroke_width=width)


def _event_gateway(inner: Callable[[str], str], rings: int) -> Callable[[str], str]:
    def draw(colour: str) -> str:
        circles = "".join(
            circle(0, 0, radius, fill="none", stroke=colour, stroke_width=1)
            for radius in (13.5, 11.0)[:rings]
        )
        return circles + inner(colour)

    return draw


def _small_pentagon(colour: str) -> str:
    return polygon(_ring(7.5, 5), fill="none", stroke=colour, stroke_width=1.2)


def _small_cross(colour: str) -> str:
    return path("M-7-2H-2V-7H2V-2H7V2H2V7H-2V2H-7Z", fill="none", stroke=colour, stroke_width=1.2)


GATEWAY_SIGNS: Mapping[str, Callable[[str], str]] = {
    "exclusive": _strokes("M-7-8.5L7 8.5M7-8.5L-7 8.5", 3.2),
    "parallel": _strokes("M-11 0H11M0-11V11", 3.4),
    "inclusive": lambda colour: circle(0, 0, 10.5, fill="none", stroke=colour, stroke_width=2.8),
    "complex": _strokes("M-11 0H11M0-11V11M-8-8L8 8M8-8L-8 8", 3.0),
    "event": _event_gateway(_small_pentagon, 2),
    "event-instantiating": _event_gateway(_small_pentagon, 1),
    "event-parallel": _event_gateway(_small_cross, 1),
}


def gateway_sign(gateway: model.Gateway) -> str:
    if gateway.tag != "eventBasedGateway":
        return gateway.tag.removesuffix("Gateway")
    if gateway.instantiate and gateway.event_type == "Parallel":
        return "event-parallel"
    return "event-instantiating" if gateway.instantiate else "event"


# ------------------------------------------------------------------ task types (20 by 16, from the corner)


def _gear(x: float, y: float, size: float) -> str:
    teeth: list[tuple[float, float]] = []
    for index in range(8):
        middle = 2 * math.pi * index / 8
        for reach, offset in ((0.76, -0.24), (1.0, -0.15), (1.0, 0.15), (0.76, 0.24)):
            teeth.append(
                (x + size * reach * math.cos(middle + offset), y + size * reach * math.sin(middle + offset))
            )
    return polygon(teeth, fill=PAPER, stroke=INK, stroke_width=1, stroke_linejoin="round") + circle(
        x, y, size * 0.36, fill=PAPER, stroke=INK, stroke_width=1
    )


def _person() -> str:
    return (
        path(
            "M1.5 17C1.5 11.6 4.2 9.6 8.5 9.6S15.5 11.6 15.5 17Z",
            fill=PAPER,
            stroke=INK,
            stroke_width=1,
            stroke_linejoin="round",
        )
        + circle(8.5, 5.4, 4.2, fill=PAPER, stroke=INK, stroke_width=1)
        + path("M4.4 4.6C6 2 10.5 1.6 12.6 4.6C12 0.2 5 0.2 4.4 4.6Z", fill=INK)
    )


def _script() -> str:
    return path(
        "M4 1H15C11.5 4.5 11.5 6.5 13.5 9S15.5 14.5 12 17H1C4.5 14 4 11.5 2.5 9S1 4 4 1Z",
        fill=PAPER,
        stroke=INK,
        stroke_width=1,
        stroke_linejoin="round",
    ) + path("M4.8 4.6H10.5M4.4 7.6H10.6M6 10.6H12M6 13.6H11.6", fill="none", stroke=INK, stroke_width=1)


def _table() -> str:
    return (
        rectangle(Box(0.5, 1.5, 18, 14), fill=PAPER, stroke=INK, stroke_width=1)
        + rectangle(Box(0.5, 1.5, 18, 4), fill="#b9bec8", stroke=INK, stroke_width=1)
        + path("M0.5 10.5H18.5M6.5 5.5V15.5", fill="none", stroke=INK, stroke_width=1)
    )


def _hand() -> str:
    return path(
        "M1 5.2C2.6 3.2 4.4 1.8 6 1.8H11C12.6 1.8 12.6 4.2 11 4.2H8.2M9 4.4H17.2C19 4.4 19 7 17.2 7H10.6"
        "M17.2 7C18.8 7 18.8 9.6 17 9.6H10.8M16.2 9.6C17.8 9.6 17.8 12.2 16 12.2H10.6"
        "M15 12.2C16.6 12.2 16.4 14.6 14.8 14.6H4.6L1 12.6Z",
        fill="none",
        stroke=INK,
        stroke_width=1,
        stroke_linejoin="round",
    )


def _letter(filled: bool) -> str:
    flap = PAPER if filled else INK
    return path("M0.5 2.5H18.5V14.5H0.5Z", fill=INK if filled else PAPER, stroke=INK, stroke_width=1) + path(
        "M0.5 2.5L9.5 9.5L18.5 2.5", fill="none", stroke=flap, stroke_width=1.1
    )


def _instantiating_letter() -> str:
    return circle(9, 9, 9.5, fill=PAPER, stroke=INK, stroke_width=1) + path(
        "M3.5 5.5H14.5V12.5H3.5ZM3.5 5.5L9 9.5L14.5 5.5", fill="none", stroke=INK, stroke_width=1
    )


TASK_SIGNS: Mapping[str, Callable[[], str]] = {
    "service": lambda: _gear(7.2, 6.8, 6.8) + _gear(12.6, 12.0, 6.2),
    "user": _person,
    "script": _script,
    "send": lambda: _letter(True),
    "receive": lambda: _letter(False),
    "receive-instantiating": _instantiating_letter,
    "manual": _hand,
    "business-rule": _table,
}

_TASK_NAMES: Mapping[str, str] = {
    "serviceTask": "service",
    "globalTask": "",
    "userTask": "user",
    "scriptTask": "script",
    "sendTask": "send",
    "receiveTask": "receive",
    "manualTask": "manual",
    "businessRuleTask": "business-rule",
}


def task_sign(task: model.Task) -> str:
    """The name of the sign of a task's type; empty for an abstract task."""
    if task.tag == "receiveTask" and task.instantiate:
        return "receive-instantiating"
    return _TASK_NAMES.get(task.tag, "")


# ------------------------------------------------------------------ activity markers (14 by 14)


def _line_marker(data: str) -> Callable[[], str]:
    return lambda: path(data, fill="none", stroke=INK, stroke_width=1.8)


def _loop() -> str:
    return path("M5 12.6A5.6 5.6 0 1 1 9.4 12.7M1.6 12.9H5.4V9.2", fill="none", stroke=INK, stroke_width=1.4)


def _rewind() -> str:
    return path("M0.5 7L6.8 2V12ZM6.8 7L13.1 2V12Z", fill=PAPER, stroke=INK, stroke_width=1.1)


def _tilde() -> str:
    return path("M1 9C3 4 5.5 4.5 7 7S11 9.5 13 5", fill="none", stroke=INK, stroke_width=2)


def _plus_box() -> str:
    return rectangle(Box(0, 0, 14, 14), fill=PAPER, stroke=INK, stroke_width=1) + path(
        "M7 3V11M3 7H11", fill="none", stroke=INK, stroke_width=1.3
    )


MARKERS: Mapping[str, Callable[[], str]] = {
    "loop": _loop,
    "parallel-instances": _line_marker("M3 1V13M7 1V13M11 1V13"),
    "sequential-instances": _line_marker("M1 3H13M1 7H13M1 11H13"),
    "compensation": _rewind,
    "ad-hoc": _tilde,
    "collapsed": _plus_box,
}


def activity_markers(activity: model.Activity, *, collapsed: bool) -> list[str]:
    """Names of the markers at the bottom of an activity, from left to right (10.3.2)."""
    names: list[str] = []
    match activity.loop:
        case model.StandardLoop():
            names.append("loop")
        case model.MultiInstance(sequential=sequential):
            names.append("sequential-instances" if sequential else "parallel-instances")
        case None:
            pass
    if activity.is_for_compensation:
        names.append("compensation")
    if collapsed:
        names.append("collapsed")
    if activity.tag == "adHocSubProcess":
        names.append("ad-hoc")
    return names
