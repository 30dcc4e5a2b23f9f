"""Collaborations: participants, message flows and correlation (8.4.2, 9)."""

from __future__ import annotations

from collections.abc import Iterator

from lxml import etree

from bpm_engine.bpmn.document import text_of
from bpm_engine.bpmn.frozen import FrozenDict
from bpm_engine.bpmn.model import (
    Collaboration,
    CorrelationKey,
    CorrelationProperty,
    CorrelationSubscription,
    MessageFlow,
    Participant,
)
from bpm_engine.bpmn.parsing.reading import Reading, children
from bpm_engine.bpmn.text import Text

COLLABORATION_TAGS = ("collaboration", "choreography", "globalConversation")


def collaboration(reading: Reading, element: etree._Element) -> Collaboration:
    return Collaboration(
        **reading.facts(element),
        participants=tuple(_participant(reading, found) for found in children(element, "participant")),
        message_flows=tuple(_message_flow(reading, found) for found in children(element, "messageFlow")),
        correlation_keys=tuple(_correlation_keys(reading, element)),
    )


def _participant(reading: Reading, element: etree._Element) -> Participant:
    return Participant(**reading.facts(element), process=reading.reference(element.get("processRef")))


def _message_flow(reading: Reading, element: etree._Element) -> MessageFlow:
    return MessageFlow(
        **reading.facts(element),
        source=reading.name_of(element.get("sourceRef")),
        target=reading.name_of(element.get("targetRef")),
        message=reading.reference(element.get("messageRef")),
    )


# ------------------------------------------------------------------ correlation


def _correlation_keys(reading: Reading, element: etree._Element) -> Iterator[CorrelationKey]:
    """Of the collaboration, and of the conversations in it."""
    for found in children(element, "correlationKey"):
        yield _correlation_key(reading, found)
    for conversation in children(element, "conversation", "subConversation", "callConversation"):
        yield from _correlation_keys(reading, conversation)


def _correlation_key(reading: Reading, element: etree._Element) -> CorrelationKey:
    return CorrelationKey(
        id=reading.identities.of(element),
        name=(element.get("name") or "").strip(),
        properties=tuple(
            reading.name_of(text_of(found)) for found in children(element, "correlationPropertyRef")
        ),
    )


def correlation_property(reading: Reading, element: etree._Element) -> CorrelationProperty:
    paths: dict[str, Text] = {}
    for expression in children(element, "correlationPropertyRetrievalExpression"):
        message = reading.reference(expression.get("messageRef"))
        path = reading.text_in(expression, "messagePath") or reading.text_in(expression, "formalExpression")
        if message is not None and path is not None:
            paths.setdefault(message, path)
    name = (element.get("name") or "").strip()
    return CorrelationProperty(id=reading.identities.of(element), name=name, paths=FrozenDict(paths))


def correlation_subscription(reading: Reading, element: etree._Element) -> CorrelationSubscription:
    bindings: dict[str, Text] = {}
    for binding in children(element, "correlationPropertyBinding"):
        path = reading.text_in(binding, "dataPath")
        if path is not None:
            bindings[reading.name_of(binding.get("correlationPropertyRef"))] = path
    return CorrelationSubscription(
        key=reading.name_of(element.get("correlationKeyRef")), bindings=FrozenDict(bindings)
    )
