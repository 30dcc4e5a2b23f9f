"""Throughput against one setting, as an SVG picture for light and dark pages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 640, 360
LEFT, RIGHT, TOP, BOTTOM = 70, 20, 40, 50
STYLE = (
    "text{font:12px sans-serif;fill:#57606a}.title{font-size:14px;fill:#24292f}.grid{stroke:#d0d7de}"
    ".line{fill:none;stroke:#0969da;stroke-width:2}.dot{fill:#0969da}.span{stroke:#0969da;opacity:.5}"
    "@media(prefers-color-scheme:dark){text{fill:#8b949e}.title{fill:#c9d1d9}.grid{stroke:#30363d}"
    ".line,.span{stroke:#58a6ff}.dot{fill:#58a6ff}}"
)


@dataclass(frozen=True, slots=True)
class Point:
    label: str
    low: float
    middle: float
    high: float


def line(title: str, across: str, up: str, points: Sequence[Point]) -> str:
    """The points stand at equal distances, each with its label; a thin line shows its spread."""
    top = _round_up(max(point.high for point in points))
    places = [LEFT + (WIDTH - LEFT - RIGHT) * (n + 0.5) / len(points) for n in range(len(points))]

    def height(value: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / top

    parts = [_text(WIDTH / 2, 22, title, "title"), _text(WIDTH / 2, HEIGHT - 10, across), _text(30, 22, up)]
    for fifth in range(6):
        value = top * fifth / 5
        y = height(value)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(_text(LEFT - 8, y + 4, f"{value:,.0f}", anchor="end"))
    for x, point in zip(places, points, strict=True):
        low, middle, high = height(point.low), height(point.middle), height(point.high)
        parts.append(f'<line class="span" x1="{x:.1f}" x2="{x:.1f}" y1="{low:.1f}" y2="{high:.1f}"/>')
        parts.append(f'<circle class="dot" cx="{x:.1f}" cy="{middle:.1f}" r="4"/>')
        parts.append(_text(x, HEIGHT - BOTTOM + 18, point.label))
    path = " ".join(f"{x:.1f},{height(p.middle):.1f}" for x, p in zip(places, points, strict=True))
    parts.append(f'<polyline class="line" points="{path}"/>')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">'
        f"<title>{escape(title)}</title><style>{STYLE}</style>{''.join(parts)}</svg>\n"
    )


def _text(x: float, y: float, words: str, kind: str = "", anchor: str = "middle") -> str:
    named = f' class="{kind}"' if kind else ""
    return f'<text{named} x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'


def _round_up(value: float) -> float:
    """To one, two or five times a power of ten, so that a fifth of it is a round number."""
    power = 10.0 ** max(0, len(str(int(value))) - 1)
    return next(step * power for step in (1, 2, 5, 10) if step * power >= value)
