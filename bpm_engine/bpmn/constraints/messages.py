"""What to write where a message event names no message: which element, which attribute, at which ends.

Modellers often join two events by a message flow and believe that to be enough. A message flow carries
nothing here: both ends name one message (10.5.5), by which they find each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from xml.sax.saxutils import quoteattr

from bpm_engine.bpmn.constraints.facts import Element, Facts, has_vendor_content, name_of, named


def how_to_name(facts: Facts, event: Element) -> str:
    """The hint for an event without a message: that of its message flow, of the other end, or a new one."""
    flow, other = _joined(facts, event)
    places = list(_lacking(facts, event))
    if other is not None:
        places += _lacking(facts, other)
    known = _message_of(facts, flow, other)
    said = "" if flow is None else f": {named(flow)} documents that they belong together, and carries nothing"
    where = " and to ".join(places)
    if known is not None:
        return f"Add messageRef={quoteattr(known)} to {where}{said}."
    meant = event if flow is None else flow
    stem = meant.get("id") or name_of(meant)
    identifier, name = f"{stem}_message", meant.get("name") or stem
    declared = f"<message id={quoteattr(identifier)} name={quoteattr(name)}/>"
    return f"Add {declared} to <definitions>, and messageRef={quoteattr(identifier)} to {where}{said}."


def _joined(facts: Facts, event: Element) -> tuple[Element | None, Element | None]:
    """The message flow at the event, and what is at its other end."""
    flow = facts.message_flows.get(event)
    if flow is None:
        return None, None
    source, target = facts.ends(flow)
    return flow, target if event is source else source


def _message_of(facts: Facts, flow: Element | None, other: Element | None) -> str | None:
    if flow is not None and (carried := flow.get("messageRef")):
        return carried
    holders = [] if other is None else [other, *facts.definitions(other)]
    return next((found for holder in holders if (found := holder.get("messageRef"))), None)


def _lacking(facts: Facts, end: Element) -> Iterator[str]:
    if name_of(end) in ("sendTask", "receiveTask"):
        if not end.get("messageRef") and not has_vendor_content(end):
            yield named(end)
        return
    for definition in facts.definitions(end):
        if name_of(definition) == "messageEventDefinition" and not definition.get("messageRef"):
            yield f"the messageEventDefinition of {named(end)}"
