"""Events: definitions (what happens) apart from positions (where it is thrown or caught), as in 10.5.

A definition may stand inside an event or at the root of the file, referred to by `eventDefinitionRef`; both
give the same value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Literal

from lxml import etree

from bpm_engine.bpmn.dialects.flowable import ACTIVITI, FLOWABLE
from bpm_engine.bpmn.document import text_of
from bpm_engine.bpmn.model import (
    CancelDefinition,
    CompensateDefinition,
    ConditionalDefinition,
    ErrorDefinition,
    EscalationDefinition,
    Event,
    EventDefinition,
    LinkDefinition,
    MessageDefinition,
    SignalDefinition,
    TerminateDefinition,
    TimerDefinition,
)
from bpm_engine.bpmn.parsing.data import data_associations, data_items
from bpm_engine.bpmn.parsing.reading import (
    Reading,
    bpmn_children,
    child,
    child_text,
    children,
    flag,
    tag_of,
)
from bpm_engine.bpmn.text import TEMPLATE, Text

EVENT_TAGS = frozenset(
    {"startEvent", "endEvent", "intermediateCatchEvent", "intermediateThrowEvent", "boundaryEvent"}
)
_TIMERS: tuple[tuple[str, Literal["date", "duration", "cycle"]], ...] = (
    ("timeDate", "date"),
    ("timeDuration", "duration"),
    ("timeCycle", "cycle"),
)


def event(reading: Reading, element: etree._Element) -> Event:
    definitions = tuple(definition_elements(reading, element))
    return Event(
        **reading.facts(element),
        tag=tag_of(element),
        settings=reading.extensions.settings(element, *definitions),
        definitions=tuple(event_definition(reading, found) for found in definitions),
        parallel_multiple=flag(element, "parallelMultiple", default=False),
        attached_to=reading.reference(element.get("attachedToRef")),
        interrupting=_interrupting(element),
        data_associations=data_associations(reading, element),
        data_items=data_items(reading, element, "dataInput", "dataOutput"),
        properties=data_items(reading, element, "property"),
    )


def _interrupting(element: etree._Element) -> bool:
    name = "cancelActivity" if tag_of(element) == "boundaryEvent" else "isInterrupting"
    return flag(element, name, default=True)


def definition_elements(reading: Reading, element: etree._Element) -> Iterator[etree._Element]:
    """The definitions of an event in document order, references resolved."""
    for found in bpmn_children(element):
        tag = tag_of(found)
        if tag in DEFINITIONS:
            yield found
        elif tag == "eventDefinitionRef":
            root = reading.document.resolve(text_of(found))
            if root is not None and tag_of(root) in DEFINITIONS:
                yield root


def event_definition(reading: Reading, element: etree._Element) -> EventDefinition:
    known = reading.event_definitions.get(element)
    if known is None:
        known = reading.event_definitions[element] = DEFINITIONS[tag_of(element)](reading, element)
    return known


# ------------------------------------------------------------------ one function per definition


def _message(reading: Reading, element: etree._Element) -> EventDefinition:
    operation = child_text(element, "operationRef") or element.get("operationRef")
    return MessageDefinition(
        **reading.facts(element),
        message=reading.reference(element.get("messageRef")) or operation_message(reading, operation),
        operation=reading.reference(operation),
        expression=_computed_name(reading, element, "messageExpression"),
    )


def operation_message(reading: Reading, operation: str | None) -> str | None:
    """The message an operation takes: what is sent to it, and what its provider receives (8.4.3)."""
    found = reading.document.resolve(operation)
    return None if found is None else reading.reference(child_text(found, "inMessageRef"))


def _timer(reading: Reading, element: etree._Element) -> EventDefinition:
    for name, kind in _TIMERS:
        found = child(element, name)
        text = reading.text(found)
        if found is not None and text is not None:
            return TimerDefinition(**reading.facts(element), kind=kind, text=_until(found, text))
    return TimerDefinition(**reading.facts(element))


def _until(element: etree._Element, text: Text) -> Text:
    """Flowable and Activiti write the end of a cycle beside it, ISO 8601 behind it: `R/PT5M/2030-01-01`."""
    end = dialect_attribute(element, "endDate")
    return replace(text, source=f"{text.source}/{end}") if end else text


def _signal(reading: Reading, element: etree._Element) -> EventDefinition:
    signal = reading.name_of(element.get("signalRef"))
    return SignalDefinition(
        **reading.facts(element),
        signal=signal or None,
        expression=_computed_name(reading, element, "signalExpression"),
    )


def _computed_name(reading: Reading, element: etree._Element, attribute: str) -> Text | None:
    """Flowable and Activiti compute the name of an event beside the reference, which is then left out."""
    written = dialect_attribute(element, attribute)
    return Text(written, TEMPLATE, reading.document.line_of(element)) if written else None


def dialect_attribute(element: etree._Element, name: str) -> str:
    """An attribute of Flowable or Activiti; empty if there is none."""
    namespaces = (*FLOWABLE.namespaces, *ACTIVITI.namespaces)
    return next(filter(None, ((element.get(f"{{{each}}}{name}") or "").strip() for each in namespaces)), "")


def _error(reading: Reading, element: etree._Element) -> EventDefinition:
    error = reading.name_of(element.get("errorRef"))
    return ErrorDefinition(**reading.facts(element), error=error or None)


def _escalation(reading: Reading, element: etree._Element) -> EventDefinition:
    escalation = reading.reference(element.get("escalationRef"))
    return EscalationDefinition(**reading.facts(element), escalation=escalation)


def _conditional(reading: Reading, element: etree._Element) -> EventDefinition:
    return ConditionalDefinition(**reading.facts(element), condition=reading.text_in(element, "condition"))


def _compensate(reading: Reading, element: etree._Element) -> EventDefinition:
    return CompensateDefinition(
        **reading.facts(element),
        activity=reading.reference(element.get("activityRef")),
        wait_for_completion=flag(element, "waitForCompletion", default=True),
    )


def _link(reading: Reading, element: etree._Element) -> EventDefinition:
    sources = (reading.reference(text_of(found)) for found in children(element, "source"))
    return LinkDefinition(
        **reading.facts(element),
        target=reading.reference(child_text(element, "target")),
        sources=tuple(source for source in sources if source is not None),
    )


def _terminate(reading: Reading, element: etree._Element) -> EventDefinition:
    return TerminateDefinition(**reading.facts(element))


def _cancel(reading: Reading, element: etree._Element) -> EventDefinition:
    return CancelDefinition(**reading.facts(element))


DEFINITIONS: dict[str, Callable[[Reading, etree._Element], EventDefinition]] = {
    "messageEventDefinition": _message,
    "timerEventDefinition": _timer,
    "signalEventDefinition": _signal,
    "errorEventDefinition": _error,
    "escalationEventDefinition": _escalation,
    "conditionalEventDefinition": _conditional,
    "compensateEventDefinition": _compensate,
    "linkEventDefinition": _link,
    "terminateEventDefinition": _terminate,
    "cancelEventDefinition": _cancel,
}
