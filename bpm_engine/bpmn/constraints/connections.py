"""Which nodes must, may and must not have sequence flows in and out."""

from __future__ import annotations

from bpm_engine.bpmn.constraints.facts import Element, Facts, Scrutiny, children, is_true, name_of, named
from bpm_engine.bpmn.schema import GROUPS
from bpm_engine.problems import error, warning

START_EVENT_HAS_INCOMING = error(
    "START_EVENT_HAS_INCOMING",
    "A start event is not the target of a sequence flow (BPMN 2.0.2, 10.5.2).",
    "Lead the flow to the node after the start event.",
)
END_EVENT_HAS_OUTGOING = error(
    "END_EVENT_HAS_OUTGOING",
    "An end event is not the source of a sequence flow (10.5.3).",
    "Use an intermediate event, or remove the flow.",
)
BOUNDARY_EVENT_HAS_INCOMING = error(
    "BOUNDARY_EVENT_HAS_INCOMING",
    "A boundary event is not the target of a sequence flow (10.5.4).",
    "Remove the flow; the activity triggers its boundary events.",
)
BOUNDARY_EVENT_WITHOUT_OUTGOING = error(
    "BOUNDARY_EVENT_WITHOUT_OUTGOING",
    "A boundary event is the source of a sequence flow, unless it compensates (10.5.4).",
    "Connect it to what shall happen then, if only to an end event.",
)
COMPENSATION_HAS_FLOW = error(
    "COMPENSATION_HAS_FLOW",
    "Compensation happens outside the normal flow: no sequence flow leads to or from it (10.7.1).",
    "Connect the boundary event and the handler by an association.",
)
INSTANTIATING_NODE_HAS_INCOMING = error(
    "INSTANTIATING_NODE_HAS_INCOMING",
    "A receive task or event-based gateway that instantiates has no incoming flow (10.3.3, 10.6.6).",
    "Clear `instantiate`, or remove the flow.",
)
INSTANTIATING_NODE_INSIDE = error(
    "INSTANTIATING_NODE_INSIDE",
    "A receive task or event-based gateway that instantiates starts a process, not a sub-process (10.6.6).",
    "Clear `instantiate`, or move it out of the sub-process.",
)
NODE_WITHOUT_INCOMING = error(
    "NODE_WITHOUT_INCOMING",
    "Where a start event is used, every other node is the target of a flow (10.5.2).",
    "Connect the node; no token can ever reach it.",
)
NODE_WITHOUT_OUTGOING = warning(
    "NODE_WITHOUT_OUTGOING",
    "Where end events are used, every path leads to one (10.5.3); here the path just ends.",
    "Connect the node to an end event.",
)
INTERMEDIATE_EVENT_WITHOUT_OUTGOING = error(
    "INTERMEDIATE_EVENT_WITHOUT_OUTGOING",
    "An intermediate event is the source of a sequence flow, unless it throws a link (10.5.4).",
    "Connect it, or make it an end event.",
)
NO_START_EVENT = error(
    "NO_START_EVENT",
    "Where an end event is used, there is a start event on the same level (10.5.3).",
    "Add a start event.",
)
NO_END_EVENT = error(
    "NO_END_EVENT",
    "Where a start event is used, there is an end event on the same level (10.5.2).",
    "Add an end event.",
)

_INTERMEDIATE = frozenset({"intermediateCatchEvent", "intermediateThrowEvent"})


def check_connections(facts: Facts) -> None:
    for node in facts.each("FlowNode"):
        _check_forbidden(facts, node)
    for scope in facts.each("process", "Subprocess"):
        _check_scope(facts, scope)


def _check_forbidden(facts: Facts, node: Element) -> None:
    into, out = facts.incoming.get(node), facts.outgoing.get(node)
    match name_of(node):
        case "startEvent" if into:
            facts.report(START_EVENT_HAS_INCOMING, node, f"{named(into[0])} leads to {named(node)}")
        case "endEvent" if out:
            facts.report(END_EVENT_HAS_OUTGOING, node, f"{named(out[0])} leaves {named(node)}")
        case "boundaryEvent":
            _check_boundary(facts, node)
        case "receiveTask" | "eventBasedGateway" if is_true(node, "instantiate"):
            _check_instantiating(facts, node, into)
        case _ if is_true(node, "isForCompensation") and (into or out):
            message = f"{named(node)} is a compensation handler and has a sequence flow"
            facts.report(COMPENSATION_HAS_FLOW, node, message, Scrutiny.EXECUTABLE)
        case _:
            pass


def _check_instantiating(facts: Facts, node: Element, into: list[Element] | None) -> None:
    if into:
        message = f"{named(node)} starts instances, and {named(into[0])} leads to it"
        facts.report(INSTANTIATING_NODE_HAS_INCOMING, node, message, Scrutiny.RUNNABLE)
    scope = node.getparent()
    if scope is not None and name_of(scope) in GROUPS["Subprocess"]:
        message = f"{named(node)} starts instances, and lies in {named(scope)}"
        facts.report(INSTANTIATING_NODE_INSIDE, node, message, Scrutiny.RUNNABLE)


def _check_boundary(facts: Facts, event: Element) -> None:
    if into := facts.incoming.get(event):
        facts.report(BOUNDARY_EVENT_HAS_INCOMING, event, f"{named(into[0])} leads to {named(event)}")
    compensates = "compensate" in facts.triggers(event)
    out = facts.outgoing.get(event)
    if compensates and out:
        message = f"{named(event)} compensates and has the flow {out[0].get('id')!r}"
        facts.report(COMPENSATION_HAS_FLOW, event, message, Scrutiny.RUNNABLE)
    elif not compensates and not out:
        message = f"no flow leaves {named(event)}"
        facts.report(BOUNDARY_EVENT_WITHOUT_OUTGOING, event, message, Scrutiny.EXECUTABLE)


# ------------------------------------------------------------------ the nodes of one scope together


def _check_scope(facts: Facts, scope: Element) -> None:
    if name_of(scope) == "adHocSubProcess":
        return  # its activities run in any order, connected or not (10.3.5)
    starts, ends = children(scope, "startEvent"), children(scope, "endEvent")
    for node in children(scope, *GROUPS["FlowNode"]):
        if _stands_apart(node):
            continue
        _check_reached(facts, node, bool(starts))
        _check_left(facts, node, bool(ends))
    if ends and not starts:
        _check_start(facts, scope, ends[0])
    if starts and not ends:
        _check_end(facts, scope, starts[0])


def _check_start(facts: Facts, scope: Element, end: Element) -> None:
    if any(is_true(node, "instantiate") for node in children(scope, "receiveTask", "eventBasedGateway")):
        return
    message = f"{named(scope)} has an end event and no start event"
    if name_of(scope) == "process":
        # It starts at its nodes without incoming flow: the author's wish is clear enough.
        facts.warn(NO_START_EVENT, end, message)
    else:
        facts.report(NO_START_EVENT, end, message, Scrutiny.EXECUTABLE)


def _check_end(facts: Facts, scope: Element, start: Element) -> None:
    message = f"{named(scope)} has a start event and no end event"
    if name_of(scope) == "process" or is_true(scope, "triggeredByEvent"):
        # Many files leave it out there; the scope ends with its last token all the same.
        facts.warn(NO_END_EVENT, start, message)
    else:
        facts.report(NO_END_EVENT, start, message, Scrutiny.EXECUTABLE)


def _stands_apart(node: Element) -> bool:
    """Handlers, boundary events and links are entered another way than by a flow."""
    return (
        name_of(node) == "boundaryEvent"
        or is_true(node, "triggeredByEvent")
        or is_true(node, "isForCompensation")
        or is_true(node, "instantiate")
    )


def _check_reached(facts: Facts, node: Element, starts: bool) -> None:
    if facts.incoming.get(node) or name_of(node) == "startEvent":
        return
    if name_of(node) == "intermediateCatchEvent" and "link" in facts.triggers(node):
        return
    if starts or name_of(node) in {*_INTERMEDIATE, "endEvent"}:
        facts.report(NODE_WITHOUT_INCOMING, node, f"no flow leads to {named(node)}", Scrutiny.EXECUTABLE)


def _check_left(facts: Facts, node: Element, ends: bool) -> None:
    if facts.outgoing.get(node) or name_of(node) == "endEvent":
        return
    if name_of(node) == "intermediateThrowEvent" and "link" in facts.triggers(node):
        return
    if name_of(node) in _INTERMEDIATE:
        message = f"no flow leaves {named(node)}"
        facts.report(INTERMEDIATE_EVENT_WITHOUT_OUTGOING, node, message, Scrutiny.EXECUTABLE)
    elif ends:
        facts.report(NODE_WITHOUT_OUTGOING, node, f"no flow leaves {named(node)}")
