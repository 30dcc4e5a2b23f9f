"""What the layout places, and what it gives back."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from bpm_engine.bpmn.diagram import Box, Edge, Point, Shape
from bpm_engine.bpmn.draw.layout.network import Link


@dataclass(slots=True)
class Placed:
    """A laid out part: shapes and edges relative to its origin."""

    shapes: list[Shape] = field(default_factory=list)
    edges: list[Edge] = field(default_factory=list)
    width: float = 0.0
    height: float = 0.0
    line: float = 0.0  # height of the main row's line
    lanes: dict[int, tuple[float, float]] = field(default_factory=dict)  # lane -> top, bottom


@dataclass(frozen=True, slots=True)
class Hanging:
    """What hangs below a host from one of its boundary events: a handler, or a path that ends there."""

    boundary: str
    block: Placed
    x: float  # of the block, from the left of the host
    y: float  # of the block, from the top of the host
    boundary_x: float  # middle of the event, from the left of the host
    entry: Link | None = None


@dataclass(frozen=True, slots=True)
class Item:
    """A node as the layout sees it."""

    id: str
    width: float
    height: float
    line: float  # from its top to the line of its row
    label: str = ""  # outside the shape
    is_gateway: bool = False
    is_failure: bool = False  # an end that the main path avoids
    label_above: bool = False  # something arrives from below
    boundaries: tuple[Item, ...] = ()
    hanging: tuple[Hanging, ...] = ()

    @property
    def full_width(self) -> float:
        return max([self.width, *(hung.x + hung.block.width for hung in self.hanging)])

    @property
    def full_height(self) -> float:
        return max([self.height, *(hung.y + hung.block.height for hung in self.hanging)])


def moved(box: Box, x: float, y: float) -> Box:
    return replace(box, x=box.x + x, y=box.y + y)


def moved_shape(shape: Shape, x: float, y: float) -> Shape:
    return replace(shape, box=moved(shape.box, x, y), label=shape.label and moved(shape.label, x, y))


def moved_edge(edge: Edge, x: float, y: float) -> Edge:
    points = tuple(Point(point.x + x, point.y + y) for point in edge.points)
    return replace(edge, points=points, label=edge.label and moved(edge.label, x, y))
