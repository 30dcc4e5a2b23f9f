"""From a read document to the typed model: `parse(document) -> (definitions, problems)`.

The vocabulary and the constraints of the specification are checked elsewhere; the problems found here are
those of the dialects: what another engine's attribute means here, or that it means nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from lxml import etree

from bpm_engine.bpmn.dialects.implied import implied
from bpm_engine.bpmn.dialects.reading import ExtensionReader
from bpm_engine.bpmn.dialects.spiff import NAMESPACE as SPIFF
from bpm_engine.bpmn.dialects.survey import survey
from bpm_engine.bpmn.document import BPMN, Document
from bpm_engine.bpmn.frozen import FrozenDict
from bpm_engine.bpmn.model import (
    Association,
    CorrelationProperty,
    Definitions,
    Element,
    Error,
    Escalation,
    EventDefinition,
    Message,
    Process,
    Signal,
)
from bpm_engine.bpmn.parsing.activities import GLOBAL_TASK_TAGS, global_task
from bpm_engine.bpmn.parsing.collaboration import (
    COLLABORATION_TAGS,
    collaboration,
    correlation_property,
    correlation_subscription,
)
from bpm_engine.bpmn.parsing.containers import association, container
from bpm_engine.bpmn.parsing.data import data_items, data_store, io_specification, item_definition
from bpm_engine.bpmn.parsing.diagram import diagrams, notes
from bpm_engine.bpmn.parsing.events import DEFINITIONS, event_definition
from bpm_engine.bpmn.parsing.identities import Identities
from bpm_engine.bpmn.parsing.reading import Reading, children, optional_flag, tag_of
from bpm_engine.bpmn.text import TEMPLATE, Text
from bpm_engine.problems import Findings, Problem

Parsed = TypeVar("Parsed", bound="Element | CorrelationProperty")

_ERROR_MESSAGE = "{http://camunda.org/schema/1.0/bpmn}errorMessage"


def parse(document: Document) -> tuple[Definitions, list[Problem]]:
    """The whole file as values, and what its extensions leave to say. Never raises on a read document."""
    reading = Reading(document, ExtensionReader(document), Identities(document))
    definitions = _definitions(reading)
    findings = Findings([*survey(document), *implied(document), *reading.extensions.problems])
    return definitions, list(findings.in_order())


def _definitions(reading: Reading) -> Definitions:
    root = reading.document.root
    return Definitions(
        id=(root.get("id") or "").strip(),
        name=(root.get("name") or "").strip(),
        target_namespace=(root.get("targetNamespace") or "").strip(),
        exporter=" ".join(filter(None, (root.get("exporter"), root.get("exporterVersion")))),
        expression_language=_expression_language(root),
        processes=tuple(_process(reading, found) for found in children(root, "process")),
        collaborations=tuple(collaboration(reading, found) for found in children(root, *COLLABORATION_TAGS)),
        messages=_by_id(reading, _message, "message"),
        signals=_by_id(reading, _signal, "signal"),
        errors=_by_id(reading, _error, "error"),
        escalations=_by_id(reading, _escalation, "escalation"),
        items=_by_id(reading, item_definition, "itemDefinition"),
        data_stores=_by_id(reading, data_store, "dataStore"),
        global_tasks=_by_id(reading, global_task, *sorted(GLOBAL_TASK_TAGS)),
        correlation_properties=_by_id(reading, correlation_property, "correlationProperty"),
        event_definitions=_event_definitions(reading),
        annotations=tuple(notes(reading, root.iter(*_tags("textAnnotation", "group")))),
        associations=_drawn_associations(reading),
        diagrams=diagrams(reading),
    )


def _expression_language(root: etree._Element) -> str:
    """What the file declares, or else what the engine it is written for takes for granted."""
    declared = (root.get("expressionLanguage") or "").strip()
    return declared or ("python" if SPIFF in root.nsmap.values() else "")


def _tags(*names: str) -> tuple[str, ...]:
    return tuple(f"{{{BPMN}}}{name}" for name in names)


def _by_id(
    reading: Reading, read: Callable[[Reading, etree._Element], Parsed], *names: str
) -> Mapping[str, Parsed]:
    parsed = (read(reading, found) for found in children(reading.document.root, *names))
    return FrozenDict({value.id: value for value in parsed})


# ------------------------------------------------------------------ processes


def _process(reading: Reading, element: etree._Element) -> Process:
    return Process(
        **reading.facts(element),
        content=container(reading, element),
        executable=optional_flag(element, "isExecutable"),
        kind=(element.get("processType") or "None").strip(),
        properties=data_items(reading, element, "property"),
        io=io_specification(reading, element),
        correlation_subscriptions=tuple(
            correlation_subscription(reading, found) for found in children(element, "correlationSubscription")
        ),
        settings=reading.extensions.settings(element),
    )


# ------------------------------------------------------------------ what processes refer to


def _message(reading: Reading, element: etree._Element) -> Message:
    settings = reading.extensions.settings(element)
    return Message(
        **reading.facts(element),
        item=reading.reference(element.get("itemRef")),
        correlation_key=settings.correlation_key,
        payload_variable=settings.payload_variable,
    )


def _signal(reading: Reading, element: etree._Element) -> Signal:
    return Signal(**reading.facts(element), item=reading.reference(element.get("structureRef")))


def _error(reading: Reading, element: etree._Element) -> Error:
    message = (element.get(_ERROR_MESSAGE) or "").strip()
    return Error(
        **reading.facts(element),
        code=(element.get("errorCode") or "").strip() or None,
        message=Text(message, TEMPLATE, reading.document.line_of(element)) if message else None,
    )


def _escalation(reading: Reading, element: etree._Element) -> Escalation:
    return Escalation(**reading.facts(element), code=(element.get("escalationCode") or "").strip() or None)


def _event_definitions(reading: Reading) -> Mapping[str, EventDefinition]:
    """Those at the root of the file, and all that were met inside events."""
    for found in children(reading.document.root, *DEFINITIONS):
        event_definition(reading, found)
    return FrozenDict({found.id: found for found in reading.event_definitions.values()})


def _drawn_associations(reading: Reading) -> tuple[Association, ...]:
    """Associations that tie a note to what it explains, and all that stand around the processes."""
    return tuple(
        association(reading, found)
        for found in reading.document.root.iter(*_tags("association"))
        if _is_around(found) or any(_is_note(reading, found.get(end)) for end in ("sourceRef", "targetRef"))
    )


def _is_around(found: etree._Element) -> bool:
    """A collaboration has artifacts of its own, such as the line to a compensation handler (9.2)."""
    parent = found.getparent()
    return parent is not None and tag_of(parent) in ("collaboration", "globalConversation", "choreography")


def _is_note(reading: Reading, reference: str | None) -> bool:
    found = reading.document.resolve(reference)
    return found is not None and tag_of(found) in ("textAnnotation", "group")
