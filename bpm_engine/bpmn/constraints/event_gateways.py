"""Event-based gateways: the gateway waits, its targets catch (BPMN 2.0.2, 10.6.6)."""

from __future__ import annotations

from bpm_engine.bpmn.constraints.facts import (
    LOOPS,
    Element,
    Facts,
    Scrutiny,
    child,
    children,
    is_true,
    name_of,
    named,
)
from bpm_engine.problems import error

EVENT_GATEWAY_TOO_FEW = error(
    "EVENT_GATEWAY_TOO_FEW",
    "An event-based gateway has two or more outgoing flows.",
    "Add the alternative, or remove the gateway.",
)
EVENT_GATEWAY_CONDITION = error(
    "EVENT_GATEWAY_CONDITION",
    "Flows out of an event-based gateway carry no condition: the event decides.",
    "Remove the condition.",
)
EVENT_GATEWAY_TARGET = error(
    "EVENT_GATEWAY_TARGET",
    "An event-based gateway leads to receive tasks and message, signal, timer or conditional catches.",
    "Put a catching event between the gateway and this node.",
)
EVENT_GATEWAY_MIXED = error(
    "EVENT_GATEWAY_MIXED",
    "An event-based gateway waits for messages by catch events or by receive tasks, not by both.",
    "Use message catch events throughout.",
)
EVENT_GATEWAY_TARGET_BOUNDARY = error(
    "EVENT_GATEWAY_TARGET_BOUNDARY",
    "A receive task behind an event-based gateway has no boundary events.",
    "Use another branch of the gateway instead of the boundary event.",
)
EVENT_GATEWAY_TARGET_REPEATED = error(
    "EVENT_GATEWAY_TARGET_REPEATED",
    "A receive task behind an event-based gateway receives one message: it is not repeated.",
    "Remove the loop marker, or repeat a sub-process around the gateway.",
)
EVENT_GATEWAY_TARGET_SHARED = error(
    "EVENT_GATEWAY_TARGET_SHARED",
    "A target of an event-based gateway has no other incoming flow.",
    "Lead the other flow to the gateway.",
)
EVENT_GATEWAY_PARALLEL = error(
    "EVENT_GATEWAY_PARALLEL",
    "An event-based gateway that waits for all of its events begins a process: it is marked instantiate.",
    "Set instantiate, or fork by a parallel gateway and catch the events in its branches.",
)

_CATCHABLE = frozenset({"message", "signal", "timer", "conditional"})


def check_event_gateways(facts: Facts) -> None:
    for gateway in facts.by_name["eventBasedGateway"]:
        flows = facts.outgoing.get(gateway, [])
        if len(flows) < 2:
            message = f"{named(gateway)} has {len(flows)} outgoing flows"
            facts.report(EVENT_GATEWAY_TOO_FEW, gateway, message, Scrutiny.EXECUTABLE)
        if gateway.get("eventGatewayType") == "Parallel" and not is_true(gateway, "instantiate"):
            message = f"{named(gateway)} is parallel and does not begin the process"
            facts.report(EVENT_GATEWAY_PARALLEL, gateway, message, Scrutiny.RUNNABLE)
        for flow in flows:
            _check_flow(facts, gateway, flow)
        _check_mixture(facts, gateway, flows)


def _check_flow(facts: Facts, gateway: Element, flow: Element) -> None:
    if child(flow, "conditionExpression") is not None:
        message = f"{named(flow)} leaves {named(gateway)} and has a condition"
        facts.report(EVENT_GATEWAY_CONDITION, flow, message, Scrutiny.EXECUTABLE)
    target = facts.ends(flow)[1]
    if target is None:
        return
    if not _catches(facts, target):
        message = f"{named(gateway)} leads to {named(target)}, which does not catch an event"
        facts.report(EVENT_GATEWAY_TARGET, target, message, Scrutiny.RUNNABLE)
    if len(facts.incoming[target]) > 1:
        message = f"{named(target)} is a target of {named(gateway)} and has another incoming flow"
        facts.report(EVENT_GATEWAY_TARGET_SHARED, target, message, Scrutiny.EXECUTABLE)
    if facts.boundaries.get(target):
        message = f"{named(target)} is a target of {named(gateway)} and has a boundary event"
        facts.report(EVENT_GATEWAY_TARGET_BOUNDARY, target, message, Scrutiny.RUNNABLE)
    if children(target, *LOOPS):
        message = f"{named(target)} is a target of {named(gateway)} and has a loop marker"
        facts.report(EVENT_GATEWAY_TARGET_REPEATED, target, message, Scrutiny.RUNNABLE)


def _catches(facts: Facts, target: Element) -> bool:
    if name_of(target) == "receiveTask":
        return True
    triggers = facts.triggers(target)
    return name_of(target) == "intermediateCatchEvent" and bool(triggers) and _CATCHABLE.issuperset(triggers)


def _check_mixture(facts: Facts, gateway: Element, flows: list[Element]) -> None:
    targets = [target for flow in flows if (target := facts.ends(flow)[1]) is not None]
    tasks = any(name_of(target) == "receiveTask" for target in targets)
    messages = any(
        "message" in facts.triggers(target) for target in targets if name_of(target) != "receiveTask"
    )
    if tasks and messages:
        message = f"{named(gateway)} leads to receive tasks and to message events"
        facts.report(EVENT_GATEWAY_MIXED, gateway, message, Scrutiny.EXECUTABLE)
