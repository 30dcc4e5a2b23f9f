"""Lays out what is inside one process or sub-process.

Parts that hang together are laid out each on its own grid and stacked; what has no flow at all (event
sub-processes, tasks of an ad-hoc sub-process) stands on shelves below. With lanes there is one grid,
whose rows belong to the lanes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from bpm_engine.bpmn import model
from bpm_engine.bpmn.draw.labels import outer_name
from bpm_engine.bpmn.draw.layout.hang import Scene, hang_handlers, hang_paths
from bpm_engine.bpmn.draw.layout.items import Item, Placed, moved_edge, moved_shape
from bpm_engine.bpmn.draw.layout.network import Link, Parts, Satellite
from bpm_engine.bpmn.draw.layout.part import EVENT, lay_out_part
from bpm_engine.bpmn.draw.text import block_size

TASK_WIDTH, TASK_HEIGHT = 100.0, 80.0
GATEWAY = 50.0
NOTE_WIDTH = 140.0
PART_GAP = 40.0
SHELF_WIDTH = 700.0
PADDING_SIDE, PADDING_TOP, PADDING_BOTTOM = 30.0, 36.0, 24.0
MARKER_ROOM = 16.0
BOUNDARY_PITCH = 110.0

_FAILURES = (
    model.ErrorDefinition,
    model.CancelDefinition,
    model.TerminateDefinition,
    model.EscalationDefinition,
)


@dataclass(frozen=True, slots=True)
class Extras:
    """What is drawn beside nodes but written elsewhere in the file: notes and lines to them."""

    annotations: Mapping[str, model.Annotation]
    associations: tuple[model.Association, ...]
    joined_below: frozenset[str]  # nodes with a message flow to a pool further down


def lay_out_container(container: model.Container, inner: Mapping[str, Placed], extras: Extras) -> Placed:
    """`inner`: the sub-processes of this container, already laid out."""
    items = _items(container, inner, extras)
    scene = Scene(items, _links(container, items), _satellites(container, extras, items))
    scene = hang_handlers(scene, _handlers(container))
    lane_of = _lanes(container, scene.items)
    if lane_of is None:
        return _stacked(hang_paths(scene))
    loose = {satellite.id for satellite in scene.satellites}
    flowing = [node.id for node in container.nodes if node.id in scene.items and node.id not in loose]
    if not flowing:
        return _stacked(scene)
    return lay_out_part(scene.items, flowing, scene.links, scene.satellites, lane_of)


# ------------------------------------------------------------------ what is to be placed


def _items(container: model.Container, inner: Mapping[str, Placed], extras: Extras) -> dict[str, Item]:
    hosted: dict[str, list[Item]] = {}
    hosts = {node.id for node in container.nodes if isinstance(node, model.Activity)}
    for node in container.nodes:
        if isinstance(node, model.Event) and node.attached_to in hosts and node.tag == "boundaryEvent":
            event = Item(node.id, EVENT, EVENT, EVENT / 2, node.name)
            hosted.setdefault(node.attached_to, []).append(event)
    folded = {event.id for events in hosted.values() for event in events}
    items = {
        node.id: _item(
            node, inner.get(node.id), tuple(hosted.get(node.id, ())), node.id in extras.joined_below
        )
        for node in container.nodes
        if node.id not in folded
    }
    items |= {data.id: _data_item(data) for data in _drawn_data(container)}
    known = {node.id for node in container.nodes} | {flow.id for flow in container.flows}
    for line in extras.associations:
        for note, other in ((line.source, line.target), (line.target, line.source)):
            if note in extras.annotations and other in known:
                items[note] = _note_item(extras.annotations[note])
    return items


def _item(
    node: model.FlowNode, inside: Placed | None, boundaries: tuple[Item, ...], arrives_below: bool
) -> Item:
    match node:
        case model.Event():
            failure = any(isinstance(definition, _FAILURES) for definition in node.definitions)
            return Item(
                node.id, EVENT, EVENT, EVENT / 2, node.name, is_failure=failure, label_above=arrives_below
            )
        case model.Gateway():
            return Item(node.id, GATEWAY, GATEWAY, GATEWAY / 2, node.name, is_gateway=True)
        case model.SubProcess() if inside:
            room = (
                MARKER_ROOM if node.loop or node.tag == "adHocSubProcess" or node.is_for_compensation else 0.0
            )
            width = max(inside.width + 2 * PADDING_SIDE, 160.0, BOUNDARY_PITCH * len(boundaries))
            height = inside.height + PADDING_TOP + PADDING_BOTTOM + room
            return Item(node.id, width, height, PADDING_TOP + inside.line, boundaries=boundaries)
    width = TASK_WIDTH if len(boundaries) < 3 else BOUNDARY_PITCH * (len(boundaries) - 1) + 40
    return Item(node.id, width, TASK_HEIGHT, TASK_HEIGHT / 2, boundaries=boundaries)


def _drawn_data(container: model.Container) -> list[model.DataItem]:
    referred = {item.refers_to for item in container.data if item.kind == "object_reference"}
    return [
        item
        for item in container.data
        if item.kind in ("object_reference", "store_reference")
        or (item.kind == "object" and item.id not in referred)
    ]


def _data_item(data: model.DataItem) -> Item:
    width = 50.0 if data.kind == "store_reference" else 36.0
    return Item(data.id, width, 50.0, 25.0, outer_name(data))


def _note_item(note: model.Annotation) -> Item:
    height = max(30.0, block_size(note.text, NOTE_WIDTH - 12)[1] + 8)
    return Item(note.id, NOTE_WIDTH, height, height / 2)


def _links(container: model.Container, items: Mapping[str, Item]) -> list[Link]:
    hosts = {event.id: item.id for item in items.values() for event in item.boundaries}
    links: list[Link] = []
    flows = {flow.id: flow for flow in container.flows}  # an id used twice is reported elsewhere
    for flow in flows.values():
        boundary = flow.source if flow.source in hosts else None
        source = hosts.get(flow.source, flow.source)
        if source in items and flow.target in items:
            links.append(Link(flow.id, source, flow.target, boundary, flow.name))
    return links


def _satellites(container: model.Container, extras: Extras, items: Mapping[str, Item]) -> list[Satellite]:
    """Each satellite stands beside the first node it is joined to."""
    hosts = {event.id: item.id for item in items.values() for event in item.boundaries}
    handlers = _handler_ids(container)
    flow_source = {flow.id: flow.source for flow in container.flows}
    nodes = {node.id for node in container.nodes}
    loose = handlers | {name for name in items if name not in nodes}
    found: dict[str, Satellite] = {}
    for first, second in _joined(container, extras):
        for name, other in ((first, second), (second, first)):
            owner = flow_source.get(other, other)
            owner = hosts.get(owner, owner)
            if (
                name in loose
                and name in items
                and owner in items
                and owner not in loose
                and name not in found
            ):
                found[name] = Satellite(name, owner, above=name not in handlers)
    return list(found.values())


def _handler_ids(container: model.Container) -> set[str]:
    activities = (node for node in container.nodes if isinstance(node, model.Activity))
    return {node.id for node in activities if node.is_for_compensation}


def _handlers(container: model.Container) -> dict[str, str]:
    """Compensation boundary event -> the activity its association leads to."""
    handlers = _handler_ids(container)
    lines = [(line.source, line.target) for line in container.associations]
    lines += [(target, source) for source, target in lines]
    return {first: second for first, second in lines if second in handlers}


def _joined(container: model.Container, extras: Extras) -> Iterable[tuple[str, str]]:
    for line in (*container.associations, *extras.associations):
        yield line.source, line.target
    for node in container.nodes:
        if isinstance(node, model.Activity | model.Event):
            for association in node.data_associations:
                for end in (*association.sources, association.target):
                    if end:
                        yield end, node.id


def _lanes(container: model.Container, items: Mapping[str, Item]) -> dict[str, int] | None:
    lanes = drawn_lanes(container)
    if not lanes:
        return None
    lane_of = {node: index for index, lane in enumerate(lanes) for node in lane.nodes}
    flows = [(flow.source, flow.target) for flow in container.flows]
    for first, second in (*flows, *((target, source) for source, target in flows)):
        if first in lane_of:
            lane_of.setdefault(second, lane_of[first])
    return {node: lane_of.get(node, 0) for node in items}


def drawn_lanes(container: model.Container) -> list[model.Lane]:
    """The innermost lanes: one that only repeats the nodes of others surrounds them."""
    owner = {node: lane.id for lane in container.lanes for node in lane.nodes}
    return [
        lane
        for lane in container.lanes
        if not lane.nodes or any(owner[node] == lane.id for node in lane.nodes)
    ]


# ------------------------------------------------------------------ parts and shelves


@dataclass(frozen=True, slots=True)
class _Part:
    nodes: list[str]
    links: list[Link]
    satellites: list[Satellite]


def _parts(scene: Scene) -> list[_Part]:
    groups = Parts()
    for link in scene.links:
        groups.join(link.source, link.target)
    for satellite in scene.satellites:
        groups.join(satellite.owner, satellite.id)
    loose = {satellite.id for satellite in scene.satellites}
    parts: dict[str, _Part] = {}
    for node in scene.items:
        part = parts.setdefault(groups.find(node), _Part([], [], []))
        if node not in loose:
            part.nodes.append(node)
    for link in scene.links:
        parts[groups.find(link.source)].links.append(link)
    for satellite in scene.satellites:
        parts[groups.find(satellite.owner)].satellites.append(satellite)
    return list(parts.values())


def _stacked(scene: Scene) -> Placed:
    result = Placed()
    parts = _parts(scene)
    flowing = [part for part in parts if part.links or part.satellites]
    single = [part for part in parts if not part.links and not part.satellites]
    for part in flowing:
        _put(result, _laid_out(part, scene), 0.0, _next_y(result))
    _fill_shelves(result, [_laid_out(part, scene) for part in single])
    if not result.shapes:
        result.width, result.height, result.line = 100.0, 60.0, 30.0
    return result


def _laid_out(part: _Part, scene: Scene) -> Placed:
    lane_of = dict.fromkeys(part.nodes, 0)
    return lay_out_part(scene.items, part.nodes, part.links, part.satellites, lane_of)


def _next_y(result: Placed) -> float:
    return result.height + PART_GAP if result.shapes else 0.0


def _fill_shelves(result: Placed, singles: Sequence[Placed]) -> None:
    limit = max(SHELF_WIDTH, result.width)
    x, top = 0.0, _next_y(result)
    for placed in singles:
        if x and x + placed.width > limit:
            x, top = 0.0, _next_y(result)
        _put(result, placed, x, top)
        x += placed.width + PART_GAP


def _put(result: Placed, placed: Placed, x: float, y: float) -> None:
    if not result.shapes:
        result.line = placed.line + y
    result.shapes.extend(moved_shape(shape, x, y) for shape in placed.shapes)
    result.edges.extend(moved_edge(edge, x, y) for edge in placed.edges)
    result.width = max(result.width, x + placed.width)
    result.height = max(result.height, y + placed.height)
