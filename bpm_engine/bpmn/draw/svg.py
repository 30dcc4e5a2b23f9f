"""A minimal SVG writer: every value goes through here and is escaped, every number is short.

Only presentation attributes are used, neither style sheets nor scripts nor references to anything
outside the file, so that a picture may be shown under the strictest content security policy.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bpm_engine.bpmn.diagram import Box, Point
from bpm_engine.bpmn.draw.text import FONT_SIZE, LINE_HEIGHT, escaped

Value = str | float | int | None

INK = "#22242a"
PAPER = "#ffffff"


def number(value: float) -> str:
    """At most two decimals, no negative zero: the same picture gives the same bytes."""
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text in ("-0", "") else text


def tag(name: str, content: str | Iterable[str] = "", /, **attributes: Value) -> str:
    """One element. Attribute names are written with `_` for `-`; None leaves an attribute out."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_attribute(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    inside = content if isinstance(content, str) else "".join(content)
    return f"<{name}{written}>{inside}</{name}>" if inside else f"<{name}{written}/>"


def _attribute(value: str | float) -> str:
    return escaped(value) if isinstance(value, str) else number(value)


def group(content: Iterable[str] | str, **attributes: Value) -> str:
    return tag("g", content, **attributes)


def circle(x: float, y: float, radius: float, **attributes: Value) -> str:
    return tag("circle", cx=x, cy=y, r=radius, **attributes)


def rectangle(box: Box, *, radius: float = 0.0, **attributes: Value) -> str:
    return tag("rect", x=box.x, y=box.y, width=box.width, height=box.height, rx=radius or None, **attributes)


def polygon(points: Iterable[tuple[float, float]], **attributes: Value) -> str:
    return tag("polygon", points=" ".join(f"{number(x)},{number(y)}" for x, y in points), **attributes)


def path(data: str, **attributes: Value) -> str:
    return tag("path", d=data, **attributes)


def data(*parts: str | float) -> str:
    """The data of a path, from commands and numbers."""
    return " ".join(part if isinstance(part, str) else number(part) for part in parts)


def at(x: float, y: float, content: Iterable[str] | str, *, scale: float = 1.0, **attributes: Value) -> str:
    """`content`, drawn around or from the origin, moved to a place."""
    moved = f"translate({number(x)} {number(y)})" + (f" scale({number(scale)})" if scale != 1.0 else "")
    return group(content, transform=moved, **attributes)


def text_lines(
    lines: Sequence[str],
    x: float,
    y: float,
    *,
    anchor: str = "middle",
    fill: str = INK,
    halo: bool = False,
    **attributes: Value,
) -> str:
    """Lines below each other, the block starting at height `y`. A halo keeps text on a line readable."""
    if not lines:
        return ""
    rows = [
        tag("tspan", escaped(line), x=x, y=y + LINE_HEIGHT * index + FONT_SIZE * 0.88)
        for index, line in enumerate(lines)
    ]
    text = tag("text", rows, text_anchor=anchor, fill=fill, stroke="none", **attributes)
    return _halo(rows, anchor) + text if halo else text


def _halo(rows: Sequence[str], anchor: str) -> str:
    """The same text below, wider. By `paint-order` on one text alone, a program that does not know it (Qt,
    LibreOffice, CairoSVG) would paint the halo over the letters."""
    return tag(
        "text",
        rows,
        text_anchor=anchor,
        fill=PAPER,
        stroke=PAPER,
        stroke_width=3,
        stroke_linejoin="round",
        aria_hidden="true",
    )


def polyline_data(points: Sequence[Point], radius: float) -> str:
    """A path through `points` with its corners rounded."""
    first, last = points[0], points[-1]
    parts = [f"M{number(first.x)} {number(first.y)}"]
    for before, corner, after in zip(points, points[1:], points[2:], strict=False):
        entry = _towards(corner, before, radius)
        leave = _towards(corner, after, radius)
        parts.append(f"L{number(entry.x)} {number(entry.y)}")
        parts.append(f"Q{number(corner.x)} {number(corner.y)} {number(leave.x)} {number(leave.y)}")
    parts.append(f"L{number(last.x)} {number(last.y)}")
    return "".join(parts)


def _towards(start: Point, goal: Point, distance: float) -> Point:
    """The point `distance` from `start` on the way to `goal`, at most half of the way."""
    dx, dy = goal.x - start.x, goal.y - start.y
    length = (dx * dx + dy * dy) ** 0.5
    if length == 0:
        return start
    share = min(distance, length / 2) / length
    return Point(start.x + dx * share, start.y + dy * share)
