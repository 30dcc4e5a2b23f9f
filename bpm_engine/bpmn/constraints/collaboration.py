"""Collaborations: message flows between pools, participants, conversations and choreographies."""

from __future__ import annotations

from bpm_engine.bpmn.constraints.activities import whole_number
from bpm_engine.bpmn.constraints.facts import Element, Facts, Scrutiny, children, name_of, named
from bpm_engine.bpmn.schema import GROUPS
from bpm_engine.problems import error, warning

MESSAGE_FLOW_WITHIN_POOL = error(
    "MESSAGE_FLOW_WITHIN_POOL",
    "A message flow connects two different pools (BPMN 2.0.2, 9.4).",
    "Use a sequence flow inside a pool.",
)
MESSAGE_FLOW_END = error(
    "MESSAGE_FLOW_END",
    "Messages leave throwing events and reach catching ones (10.5.2 to 10.5.4).",
    "Connect the message flow to an activity, a pool or a message event.",
)
MESSAGE_FLOW_WITHOUT_MESSAGE = warning(
    "MESSAGE_FLOW_WITHOUT_MESSAGE",
    "An event that a message flow connects to is a message event (10.5.2, 10.5.3).",
    "Make it a message event, if the message shall trigger it.",
)
PARTICIPANT_MULTIPLICITY = error(
    "PARTICIPANT_MULTIPLICITY",
    "A participant occurs at least 0 times, at most 1 or more, and at most no less than at least (9.3.1).",
    "Correct minimum and maximum.",
)
CHOREOGRAPHY_REFERENCE = error(
    "CHOREOGRAPHY_REFERENCE",
    "A choreography or global conversation does not refer to a choreography (9.1).",
    "Remove choreographyRef.",
)
GLOBAL_CONVERSATION_CONTENT = error(
    "GLOBAL_CONVERSATION_CONTENT",
    "A global conversation contains no conversation nodes (9.5.4).",
    "Use a collaboration.",
)


def check_collaboration(facts: Facts) -> None:
    for flow in facts.by_name["messageFlow"]:
        _check_message_flow(facts, flow)
    for multiplicity in facts.by_name["participantMultiplicity"]:
        _check_multiplicity(facts, multiplicity)
    for collaboration in facts.each("choreography", "globalConversation"):
        if children(collaboration, "choreographyRef"):
            facts.report(
                CHOREOGRAPHY_REFERENCE, collaboration, f"{named(collaboration)} refers to a choreography"
            )
    for conversation in facts.by_name["globalConversation"]:
        for node in children(conversation, *GROUPS["ConversationNode"]):
            facts.report(GLOBAL_CONVERSATION_CONTENT, node, f"{named(node)} stands in {named(conversation)}")


def _check_message_flow(facts: Facts, flow: Element) -> None:
    source, target = facts.ends(flow)
    if source is None or target is None:
        return
    if _pool(facts, source) is _pool(facts, target):
        message = f"{named(flow)} connects {named(source)} and {named(target)} of the same pool"
        if source is target:
            facts.report(MESSAGE_FLOW_WITHIN_POOL, flow, message)
        else:
            judged = _process(facts, source)
            facts.report(MESSAGE_FLOW_WITHIN_POOL, flow, message, Scrutiny.EXECUTABLE, judged)
    _check_end(facts, flow, source, GROUPS["ThrowEvent"], GROUPS["CatchEvent"], "starts at")
    _check_end(facts, flow, target, GROUPS["CatchEvent"], GROUPS["ThrowEvent"], "leads to")


def _check_end(
    facts: Facts, flow: Element, end: Element, right: frozenset[str], wrong: frozenset[str], verb: str
) -> None:
    message = f"{named(flow)} {verb} {named(end)}"
    if name_of(end) in wrong:
        facts.report(MESSAGE_FLOW_END, flow, message, Scrutiny.EXECUTABLE, end)
    elif name_of(end) in right and "message" not in facts.triggers(end):
        facts.report(MESSAGE_FLOW_WITHOUT_MESSAGE, flow, f"{message}, which is no message event")


def _process(facts: Facts, end: Element) -> Element | None:
    if name_of(end) == "participant":
        return facts.resolve(end.get("processRef"))
    return facts.process_of.get(end)


def _pool(facts: Facts, end: Element) -> Element:
    """The process stands for its pool; a black box stands for itself."""
    process = _process(facts, end)
    return end if process is None else process


def _check_multiplicity(facts: Facts, multiplicity: Element) -> None:
    minimum = whole_number(multiplicity.get("minimum"))
    maximum = whole_number(multiplicity.get("maximum"))
    too_few = minimum is not None and minimum < 0
    too_many = maximum is not None and maximum < max(1, minimum or 0)
    if too_few or too_many:
        message = f"a participant occurs {minimum or 0} to {maximum if maximum is not None else 1} times"
        facts.report(PARTICIPANT_MULTIPLICITY, multiplicity, message)
