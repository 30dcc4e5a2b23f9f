"""The loop markers of activities: standard loop and multi-instance (10.3.8)."""

from __future__ import annotations

from typing import Literal

from lxml import etree

from bpm_engine.bpmn.model import ComplexBehavior, MultiInstance, StandardLoop
from bpm_engine.bpmn.parsing.events import definition_elements, event_definition
from bpm_engine.bpmn.parsing.reading import Reading, child, child_text, children, flag, optional_number
from bpm_engine.bpmn.text import Text


def loop(reading: Reading, activity: etree._Element) -> StandardLoop | MultiInstance | None:
    standard = child(activity, "standardLoopCharacteristics")
    if standard is not None:
        return StandardLoop(
            condition=reading.text_in(standard, "loopCondition"),
            test_before=flag(standard, "testBefore", default=False),
            maximum=optional_number(standard, "loopMaximum"),
            line=reading.document.line_of(standard),
        )
    marker = child(activity, "multiInstanceLoopCharacteristics")
    return None if marker is None else _multi_instance(reading, marker)


def _multi_instance(reading: Reading, marker: etree._Element) -> MultiInstance:
    return MultiInstance(
        sequential=flag(marker, "isSequential", default=False),
        cardinality=reading.text_in(marker, "loopCardinality"),
        completion_condition=reading.text_in(marker, "completionCondition"),
        input_data=_data_reference(reading, marker, "loopDataInputRef"),
        output_data=_data_reference(reading, marker, "loopDataOutputRef"),
        input_item=_item_name(reading, marker, "inputDataItem"),
        output_item=_item_name(reading, marker, "outputDataItem"),
        input_item_id=_item_id(reading, marker, "inputDataItem"),
        output_item_id=_item_id(reading, marker, "outputDataItem"),
        behavior=_behavior(marker),
        one_event=reading.reference(marker.get("oneBehaviorEventRef")),
        none_event=reading.reference(marker.get("noneBehaviorEventRef")),
        complex_behaviors=tuple(
            _complex_behavior(reading, found) for found in children(marker, "complexBehaviorDefinition")
        ),
        settings=reading.extensions.settings(marker),
        line=reading.document.line_of(marker),
    )


def _data_reference(reading: Reading, marker: etree._Element, name: str) -> str | None:
    # Flowable and Camunda allow the name of a variable here, so what resolves to nothing is kept.
    written = child_text(marker, name)
    return None if written is None else reading.reference(written) or written


def _item_name(reading: Reading, marker: etree._Element, name: str) -> str | None:
    found = child(marker, name)
    return None if found is None else (found.get("name") or "").strip() or reading.identities.of(found)


def _item_id(reading: Reading, marker: etree._Element, name: str) -> str | None:
    found = child(marker, name)
    return None if found is None else reading.identities.of(found)


def _behavior(marker: etree._Element) -> Literal["None", "One", "All", "Complex"]:
    match marker.get("behavior"):
        case "None" | "One" | "Complex" as behavior:
            return behavior
        case _:
            return "All"


def _complex_behavior(reading: Reading, element: etree._Element) -> ComplexBehavior:
    thrown = child(element, "event")
    definition = None if thrown is None else next(definition_elements(reading, thrown), None)
    return ComplexBehavior(
        condition=reading.text_in(element, "condition") or Text("", line=reading.document.line_of(element)),
        event=None if definition is None else event_definition(reading, definition),
    )
