"""Hangs below a host what leaves its boundary events and never comes back.

A compensation handler stands right below its activity. An exceptional path that ends without touching
any other node is laid out on its own and put below a sub-process that is wide enough for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from bpm_engine.bpmn.diagram import Box, Shape
from bpm_engine.bpmn.draw.layout.items import Hanging, Item, Placed
from bpm_engine.bpmn.draw.layout.network import Link, Satellite
from bpm_engine.bpmn.draw.layout.part import BOUNDARY_INSET, EVENT, lay_out_part

HANDLER_GAP = 50.0
PATH_GAP = EVENT / 2 + 26.0
WIDE_HOST = 240.0
SIDE = 40.0
PITCH = 110.0
SPILL = 60.0  # how far a path may stand out to the right of its host


@dataclass(frozen=True, slots=True)
class Scene:
    """What is to be placed in one container."""

    items: Mapping[str, Item]
    links: Sequence[Link]
    satellites: Sequence[Satellite]


def hang_handlers(scene: Scene, handler_of: Mapping[str, str]) -> Scene:
    """`handler_of`: compensation boundary event -> its handler."""
    items = dict(scene.items)
    gone: set[str] = set()
    for host in scene.items.values():
        event = next((event for event in host.boundaries if event.id in handler_of), None)
        if event is None or handler_of[event.id] not in items or handler_of[event.id] in gone:
            continue
        handler = items[handler_of[event.id]]
        block = Placed([Shape(handler.id, Box(0, 0, handler.width, handler.height))])
        block.width, block.height = handler.width, handler.height
        hung = Hanging(
            event.id, block, (host.width - handler.width) / 2, host.height + HANDLER_GAP, BOUNDARY_INSET
        )
        items[host.id] = replace(host, hanging=(*host.hanging, hung))
        gone.add(handler.id)
    return _without(Scene(items, scene.links, scene.satellites), gone)


def hang_paths(scene: Scene) -> Scene:
    """Paths of boundary events below their hosts, as many as find room from left to right."""
    items = dict(scene.items)
    gone: set[str] = set()
    for host in scene.items.values():
        if host.width < WIDE_HOST or not host.boundaries or host.hanging:
            continue
        hung = tuple(_hung_paths(host, Scene(items, scene.links, scene.satellites)))
        items[host.id] = replace(host, hanging=hung)
        gone.update(shape.element for hanging in hung for shape in hanging.block.shapes)
    return _without(Scene(items, scene.links, scene.satellites), gone)


def _hung_paths(host: Item, scene: Scene) -> Iterator[Hanging]:
    paths = [path for event in host.boundaries if (path := _path(event.id, scene)) is not None]
    others = len(host.boundaries) - len(paths)
    limit = host.width - PITCH * others + (0.0 if others else SPILL)
    x = SIDE
    for entry, nodes in paths:
        block = _block(nodes, scene)
        left = x + EVENT / 2 + 22
        if left + block.width > limit:
            continue
        assert entry.boundary
        yield Hanging(entry.boundary, block, left, host.height + PATH_GAP, x, entry)
        x = max(left + block.width + SIDE, x + PITCH)


def _path(event: str, scene: Scene) -> tuple[Link, list[str]] | None:
    """The only link of a boundary event and the nodes behind it, when nothing else leads there."""
    entries = [link for link in scene.links if link.boundary == event]
    if len(entries) != 1:
        return None
    inside = _reachable(entries[0].target, scene.links)
    arriving = [link for link in scene.links if link.target in inside and link.source not in inside]
    if arriving != entries or entries[0].source in inside:
        return None
    return entries[0], [node for node in scene.items if node in inside]


def _reachable(start: str, links: Sequence[Link]) -> set[str]:
    outgoing: dict[str, list[str]] = {}
    for link in links:
        outgoing.setdefault(link.source, []).append(link.target)
    found = {start}
    pending = [start]
    while pending:
        for target in outgoing.get(pending.pop(), ()):
            if target not in found:
                found.add(target)
                pending.append(target)
    return found


def _block(nodes: Sequence[str], scene: Scene) -> Placed:
    inside = set(nodes)
    links = [link for link in scene.links if link.source in inside]
    satellites = [satellite for satellite in scene.satellites if satellite.owner in inside]
    return lay_out_part(scene.items, nodes, links, satellites, dict.fromkeys(nodes, 0))


def _without(scene: Scene, gone: set[str]) -> Scene:
    hung = {hanging.entry.id for item in scene.items.values() for hanging in item.hanging if hanging.entry}
    return Scene(
        {name: item for name, item in scene.items.items() if name not in gone},
        [link for link in scene.links if link.source not in gone and link.id not in hung],
        [s for s in scene.satellites if s.id not in gone and s.owner not in gone],
    )
