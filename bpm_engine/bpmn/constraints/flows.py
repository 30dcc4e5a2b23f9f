"""Sequence flows: where they may lead, when they carry a condition, and what gateways do with them."""

from __future__ import annotations

from bpm_engine.bpmn.constraints.facts import (
    Element,
    Facts,
    Scrutiny,
    child,
    is_true,
    name_of,
    named,
)
from bpm_engine.bpmn.schema import GROUPS
from bpm_engine.problems import error, warning

FLOW_CROSSES_SCOPE = error(
    "FLOW_CROSSES_SCOPE",
    "A sequence flow stays inside its process or sub-process (BPMN 2.0.2, 7.6.1 and 10.3.5).",
    "Connect to the sub-process itself, or use a message flow between pools.",
)
FLOW_NOT_IMMEDIATE = error(
    "FLOW_NOT_IMMEDIATE",
    "Nothing happens between the ends of a flow that is executed: isImmediate is not false (8.4.13).",
    "Leave isImmediate out.",
)
FLOW_TO_EVENT_SUBPROCESS = error(
    "FLOW_TO_EVENT_SUBPROCESS",
    "An event sub-process has no sequence flow in or out: its start event triggers it (10.3.5).",
    "Remove the flow, or clear triggeredByEvent.",
)
DEFAULT_FLOW_NOT_OWN = error(
    "DEFAULT_FLOW_NOT_OWN",
    "The default flow of a node is one of its outgoing flows (8.4.13).",
    "Name an outgoing flow of the node.",
)
CONDITIONAL_FLOW_ALONE = error(
    "CONDITIONAL_FLOW_ALONE",
    "A condition chooses between flows: the only flow out of an activity or event carries none (8.4.13).",
    "Remove the condition, or add a gateway with a second flow.",
)
FLOW_NOT_LISTED = warning(
    "FLOW_NOT_LISTED",
    "`incoming` and `outgoing` agree with the sequence flows; the flows' own ends count.",
    "Save the file with a modeller that keeps both in step.",
)
FLOW_LISTING_CONTRADICTS = error(
    "FLOW_LISTING_CONTRADICTS",
    "A node that lists a flow which does not exist, and not the flow it has, contradicts the flows (8.4.13).",
    "Correct the node's `incoming` and `outgoing`, or remove them.",
)
GATEWAY_DIRECTION = error(
    "GATEWAY_DIRECTION",
    "The flows of a gateway agree with its gatewayDirection (8.4.9).",
    "Correct the attribute, or leave it out.",
)
GATEWAY_UNCONNECTED = error(
    "GATEWAY_UNCONNECTED",
    "A gateway splits or joins: it has several flows in or several flows out (10.6.1).",
    "Connect the gateway, or remove it.",
)
GATEWAY_POINTLESS = warning(
    "GATEWAY_POINTLESS",
    "A gateway with one flow in and one out decides nothing (10.6.1).",
    "Remove the gateway, or add the flow that is missing.",
)


def check_flows(facts: Facts) -> None:
    for flow in facts.by_name["sequenceFlow"]:
        _check_ends(facts, flow)
        if flow.get("isImmediate") in ("false", "0"):
            message = f"{named(flow)} lets other activities happen in between"
            facts.report(FLOW_NOT_IMMEDIATE, flow, message, Scrutiny.EXECUTABLE)
        if child(flow, "conditionExpression") is not None:
            _check_condition(facts, flow)
    _check_listings(facts)
    for node in facts.each("Activity", "Gateway"):
        if node.get("default"):
            _check_default(facts, node)
    for gateway in facts.each("Gateway"):
        _check_direction(facts, gateway)
        _check_connection(facts, gateway)


def _check_ends(facts: Facts, flow: Element) -> None:
    source, target = facts.ends(flow)
    if source is None or target is None:
        return
    if source.getparent() is not target.getparent():
        message = f"{named(flow)} leads from {_place(source)} to {_place(target)}"
        facts.report(FLOW_CROSSES_SCOPE, flow, message)
    elif flow.getparent() is not source.getparent() and facts.process_of[flow] is facts.process_of[source]:
        facts.warn(FLOW_CROSSES_SCOPE, flow, f"{named(flow)} stands in another scope than its ends")
    for end in (source, target):
        if is_true(end, "triggeredByEvent"):
            facts.report(
                FLOW_TO_EVENT_SUBPROCESS,
                flow,
                f"{named(flow)} connects to the event sub-process {end.get('id')!r}",
            )


def _place(node: Element) -> str:
    parent = node.getparent()
    return f"{named(node)} in {named(parent)}" if parent is not None else named(node)


def _check_listings(facts: Facts) -> None:
    for node in facts.each("FlowNode"):
        _check_listing(facts, node, "outgoing", facts.outgoing.get(node, []))
        _check_listing(facts, node, "incoming", facts.incoming.get(node, []))


def _check_listing(facts: Facts, node: Element, listing: str, flows: list[Element]) -> None:
    listed = facts.references(node, listing)
    if not listed:
        return
    stale = next((entry for entry in sorted(listed) if facts.resolve(entry) is None), None)
    for flow in flows:
        identifier = flow.get("id")
        if not identifier or identifier in listed:
            continue
        message = f"{named(node)} does not list {identifier!r} as {listing}"
        if stale is None:
            facts.report(FLOW_NOT_LISTED, flow, message)
        else:
            message = f"{message}, but {stale!r}, which does not exist"
            facts.report(FLOW_LISTING_CONTRADICTS, node, message, Scrutiny.EXECUTABLE)


def _check_condition(facts: Facts, flow: Element) -> None:
    source, _ = facts.ends(flow)
    if source is None or name_of(source) in GROUPS["Gateway"]:
        return
    if len(facts.outgoing[source]) == 1:
        message = f"{named(flow)} is the only flow out of {named(source)} and has a condition"
        facts.report(CONDITIONAL_FLOW_ALONE, flow, message, Scrutiny.EXECUTABLE)


def _check_default(facts: Facts, node: Element) -> None:
    flow = facts.resolve(node.get("default"))
    if flow is not None and name_of(flow) == "sequenceFlow" and facts.ends(flow)[0] is not node:
        facts.report(DEFAULT_FLOW_NOT_OWN, node, f"{named(flow)} does not leave {named(node)}")


def _check_direction(facts: Facts, gateway: Element) -> None:
    into, out = len(facts.incoming[gateway]), len(facts.outgoing[gateway])
    direction = gateway.get("gatewayDirection") or "Unspecified"
    broken = {
        "Converging": out > 1,
        "Diverging": into > 1,
        "Mixed": into < 2 or out < 2,
    }
    if broken.get(direction, False):
        message = f"{named(gateway)} is {direction} and has {into} flows in and {out} out"
        facts.report(GATEWAY_DIRECTION, gateway, message, Scrutiny.EXECUTABLE)


def _check_connection(facts: Facts, gateway: Element) -> None:
    into, out = len(facts.incoming[gateway]), len(facts.outgoing[gateway])
    if into + out == 0 or (out == 0 and into < 2):
        message = f"{named(gateway)} has {into} flows in and {out} out"
        facts.report(GATEWAY_UNCONNECTED, gateway, message, Scrutiny.EXECUTABLE)
    elif into < 2 and out < 2:
        facts.report(GATEWAY_POINTLESS, gateway, f"{named(gateway)} has {into} flow in and {out} out")
