"""Lines that are no sequence flows: associations, and message flows between pools."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from bpm_engine.bpmn import model
from bpm_engine.bpmn.diagram import Box, Edge, Point, Shape
from bpm_engine.bpmn.draw.text import block_size

ASIDE = 22.0  # how far beside a node a message flow passes what stands in its way
UNDER = 18.0


def joining(first: Box, second: Box) -> tuple[Point, ...]:
    """Straight up or down where one stands above the other, else with one step between them."""
    if first.y + first.height <= second.y:
        return _downwards(first, second)
    if second.y + second.height <= first.y:
        return _downwards(second, first)[::-1]
    if first.x <= second.x:
        return _sideways(first, second)
    return _sideways(second, first)[::-1]


def _downwards(upper: Box, lower: Box) -> tuple[Point, ...]:
    left, right = max(upper.x, lower.x), min(upper.x + upper.width, lower.x + lower.width)
    start_y, end_y = upper.y + upper.height, lower.y
    narrow = min(upper, lower, key=lambda box: box.width)
    x = narrow.x + narrow.width / 2
    if left <= x <= right:
        return Point(x, start_y), Point(x, end_y)
    from_x, to_x = upper.x + upper.width / 2, lower.x + lower.width / 2
    middle = (start_y + end_y) / 2
    return Point(from_x, start_y), Point(from_x, middle), Point(to_x, middle), Point(to_x, end_y)


def _sideways(left: Box, right: Box) -> tuple[Point, ...]:
    start = Point(left.x + left.width, left.y + left.height / 2)
    return start, Point(right.x, right.y + right.height / 2)


def message_edge(flow: model.MessageFlow, boxes: Mapping[str, Box], obstacles: Sequence[Shape]) -> Edge:
    """Straight if nothing is in the way, else around it; the name stands near the wider end, the pool."""
    source, target = boxes[flow.source], boxes[flow.target]
    ends = {flow.source, flow.target}
    others = [shape for shape in obstacles if shape.element not in ends]
    boxes_in_way = [box for shape in others for box in (shape.box, shape.label) if box]
    # A sub-process around an end is no obstacle: its border is crossed.
    walls = [box for box in boxes_in_way if not _surrounds(box, source) and not _surrounds(box, target)]
    points = min(_ways(source, target), key=lambda way: (_hits(way, walls), len(way)))
    return Edge(flow.id, points, _label(flow.name, points, source.width > target.width))


def _ways(source: Box, target: Box) -> Iterable[tuple[Point, ...]]:
    yield joining(source, target)
    down = source.y + source.height <= target.y
    upper, lower = (source, target) if down else (target, source)
    for aside in (upper.x - ASIDE, upper.x + upper.width + ASIDE):
        if lower.x <= aside <= lower.x + lower.width:
            middle, under = upper.x + upper.width / 2, upper.y + upper.height + UNDER
            way = (
                Point(middle, upper.y + upper.height),
                Point(middle, under),
                Point(aside, under),
                Point(aside, lower.y),
            )
            yield way if down else way[::-1]
    for aside in (lower.x - ASIDE, lower.x + lower.width + ASIDE):
        if upper.x <= aside <= upper.x + upper.width:
            middle, over = lower.x + lower.width / 2, lower.y - UNDER
            way = (
                Point(aside, upper.y + upper.height),
                Point(aside, over),
                Point(middle, over),
                Point(middle, lower.y),
            )
            yield way if down else way[::-1]


def _surrounds(outer: Box, inner: Box) -> bool:
    return (
        outer.x <= inner.x
        and outer.y <= inner.y
        and outer.x + outer.width >= inner.x + inner.width
        and outer.y + outer.height >= inner.y + inner.height
    )


def _hits(way: tuple[Point, ...], walls: Sequence[Box]) -> int:
    return sum(_crosses(start, end, wall) for start, end in pairwise(way) for wall in walls)


def _crosses(start: Point, end: Point, wall: Box) -> bool:
    left, right = sorted((start.x, end.x))
    top, bottom = sorted((start.y, end.y))
    return left < wall.x + wall.width and right > wall.x and top < wall.y + wall.height and bottom > wall.y


def _label(name: str, points: tuple[Point, ...], at_start: bool) -> Box | None:
    if not name:
        return None
    width, height = block_size(name, 84.0)
    near, following = (points[0], points[1]) if at_start else (points[-1], points[-2])
    y = near.y + (16 if following.y > near.y else -16 - height)
    return Box(near.x + 6, y, width, height)
