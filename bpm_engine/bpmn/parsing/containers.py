"""The flow elements of processes and sub-processes, with their lanes and associations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from lxml import etree

from bpm_engine.bpmn.document import BPMN, text_of
from bpm_engine.bpmn.model import Association, Container, FlowNode, Gateway, Lane, SequenceFlow
from bpm_engine.bpmn.parsing.activities import (
    SUB_PROCESS_TAGS,
    TASK_TAGS,
    call_activity,
    sub_process,
    task,
)
from bpm_engine.bpmn.parsing.data import data_item
from bpm_engine.bpmn.parsing.events import EVENT_TAGS, event
from bpm_engine.bpmn.parsing.reading import (
    Reading,
    bpmn_children,
    child,
    children,
    flag,
    optional_flag,
    tag_of,
)

_GATEWAY_TAGS = frozenset(
    {"exclusiveGateway", "parallelGateway", "inclusiveGateway", "eventBasedGateway", "complexGateway"}
)
_DATA_TAGS = ("dataObject", "dataObjectReference", "dataStoreReference")


def container(reading: Reading, element: etree._Element) -> Container:
    """Everything in a process or sub-process. Inner sub-processes are read first, without recursion."""
    inner = element.iterdescendants(*(f"{{{BPMN}}}{tag}" for tag in sorted(SUB_PROCESS_TAGS)))
    for found in reversed(list(inner)):
        reading.contents[found] = _content(reading, found)
    return _content(reading, element)


def _content(reading: Reading, element: etree._Element) -> Container:
    nodes = (flow_node(reading, found) for found in bpmn_children(element))
    return Container(
        nodes=tuple(node for node in nodes if node is not None),
        flows=tuple(_sequence_flow(reading, found) for found in children(element, "sequenceFlow")),
        data=tuple(data_item(reading, found) for found in children(element, *_DATA_TAGS)),
        associations=tuple(association(reading, found) for found in children(element, "association")),
        lanes=tuple(_lanes(reading, element)),
    )


def flow_node(reading: Reading, element: etree._Element) -> FlowNode | None:
    tag = tag_of(element)
    if tag in TASK_TAGS:
        return task(reading, element)
    if tag in EVENT_TAGS:
        return event(reading, element)
    if tag in _GATEWAY_TAGS:
        return _gateway(reading, element)
    if tag in SUB_PROCESS_TAGS:
        return sub_process(reading, element)
    return call_activity(reading, element) if tag == "callActivity" else None


def _sequence_flow(reading: Reading, element: etree._Element) -> SequenceFlow:
    return SequenceFlow(
        **reading.facts(element),
        source=reading.name_of(element.get("sourceRef")),
        target=reading.name_of(element.get("targetRef")),
        condition=reading.text_in(element, "conditionExpression"),
        is_immediate=optional_flag(element, "isImmediate"),
    )


# ------------------------------------------------------------------ gateways


def _gateway(reading: Reading, element: etree._Element) -> Gateway:
    return Gateway(
        **reading.facts(element),
        tag=tag_of(element),
        settings=reading.extensions.settings(element),
        direction=_direction(element),
        default=reading.reference(element.get("default")),
        instantiate=flag(element, "instantiate", default=False),
        event_type="Parallel" if element.get("eventGatewayType") == "Parallel" else "Exclusive",
        activation_condition=reading.text_in(element, "activationCondition"),
    )


def _direction(element: etree._Element) -> Literal["Unspecified", "Converging", "Diverging", "Mixed"]:
    match element.get("gatewayDirection"):
        case "Converging" | "Diverging" | "Mixed" as direction:
            return direction
        case _:
            return "Unspecified"


# ------------------------------------------------------------------ associations and lanes


def association(reading: Reading, element: etree._Element) -> Association:
    return Association(
        id=reading.identities.of(element),
        source=reading.name_of(element.get("sourceRef")),
        target=reading.name_of(element.get("targetRef")),
        direction=_association_direction(element),
        line=reading.document.line_of(element),
    )


def _association_direction(element: etree._Element) -> Literal["None", "One", "Both"]:
    match element.get("associationDirection"):
        case "One" | "Both" as direction:
            return direction
        case _:
            return "None"


def _lanes(reading: Reading, element: etree._Element) -> Iterator[Lane]:
    """Outer lanes before inner ones. Tools list a node in all lanes around it; the innermost counts."""
    pending = [(lane, None) for lanes in children(element, "laneSet") for lane in children(lanes, "lane")]
    stack: list[tuple[etree._Element, str | None]] = list(reversed(pending))
    while stack:
        lane, parent = stack.pop()
        nested = child(lane, "childLaneSet")
        inside = [] if nested is None else list(children(nested, "lane"))
        elsewhere = {name for found in inside for name in _all_members(reading, found)}
        identifier = reading.identities.of(lane)
        members = (name for name in _members(reading, lane) if name not in elsewhere)
        yield Lane(identifier, (lane.get("name") or "").strip(), tuple(dict.fromkeys(members)), parent)
        stack.extend((found, identifier) for found in reversed(inside))


def _members(reading: Reading, lane: etree._Element) -> list[str]:
    return [reading.name_of(text_of(found)) for found in children(lane, "flowNodeRef")]


def _all_members(reading: Reading, lane: etree._Element) -> Iterator[str]:
    for found in lane.iter(f"{{{BPMN}}}flowNodeRef"):
        yield reading.name_of(text_of(found))
