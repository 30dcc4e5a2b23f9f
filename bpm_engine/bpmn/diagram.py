"""The diagram interchange of a file: where its elements were drawn."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Point:
    x: float
    y: float


@dataclass(frozen=True, slots=True)
class Box:
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Shape:
    element: str
    box: Box
    label: Box | None = None
    horizontal: bool = True  # pools and lanes
    expanded: bool = True  # sub-processes
    marker_visible: bool = True  # exclusive gateways


@dataclass(frozen=True, slots=True)
class Edge:
    element: str
    points: tuple[Point, ...]
    label: Box | None = None


@dataclass(frozen=True, slots=True)
class Diagram:
    """One BPMNDiagram of the diagram interchange."""

    plane: str  # element the plane shows: a process, collaboration or sub-process
    shapes: tuple[Shape, ...]
    edges: tuple[Edge, ...]
