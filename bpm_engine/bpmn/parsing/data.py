"""Data: objects, stores, properties, input/output specifications and the associations between them (10.4)."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Literal

from lxml import etree

from bpm_engine.bpmn.dialects.flowable import ACTIVITI, FLOWABLE
from bpm_engine.bpmn.document import JBPM, text_of
from bpm_engine.bpmn.model import (
    DataAssignment,
    DataAssociation,
    DataItem,
    DataSet,
    DataStore,
    IoSpecification,
    ItemDefinition,
)
from bpm_engine.bpmn.parsing.reading import (
    Reading,
    child,
    child_text,
    children,
    flag,
    optional_number,
    tag_of,
)
from bpm_engine.bpmn.text import OWN_LANGUAGE, TEMPLATE, Text

_VALUES = tuple(
    f"{{{namespace}}}value" for dialect in (FLOWABLE, ACTIVITI) for namespace in dialect.namespaces
)
_LITERALS = frozenset({"boolean", "int", "integer", "long", "short", "double", "float", "decimal"})
_LITERAL = re.compile(r"true|false|-?[0-9]+(?:\.[0-9]+)?", re.IGNORECASE)

DataKind = Literal["object", "object_reference", "store_reference", "property", "input", "output"]

DATA_KINDS: dict[str, DataKind] = {
    "dataObject": "object",
    "dataObjectReference": "object_reference",
    "dataStoreReference": "store_reference",
    "property": "property",
    "dataInput": "input",
    "dataOutput": "output",
}


def data_item(reading: Reading, element: etree._Element) -> DataItem:
    state = child(element, "dataState")
    return DataItem(
        **reading.facts(element),
        kind=DATA_KINDS[tag_of(element)],
        refers_to=reading.reference(element.get("dataObjectRef") or element.get("dataStoreRef")),
        item=reading.reference(element.get("itemSubjectRef")),
        is_collection=flag(element, "isCollection", default=False),
        state="" if state is None else state.get("name") or "",
        initial=_initial_value(reading, element),
    )


def _initial_value(reading: Reading, element: etree._Element) -> Text | None:
    """Flowable and Activiti give a data object a value of its type, which is one of XML Schema."""
    extensions = child(element, "extensionElements")
    values = extensions.iterchildren(*_VALUES) if extensions is not None else ()
    for found in values:
        written = text_of(found).strip()
        is_literal = (element.get("itemSubjectRef") or "").rpartition(":")[2] in _LITERALS
        source = written.lower() if is_literal and _LITERAL.fullmatch(written) else repr(written)
        return Text(source, OWN_LANGUAGE, reading.document.line_of(found))
    return None


def data_items(reading: Reading, element: etree._Element, *names: str) -> tuple[DataItem, ...]:
    return tuple(data_item(reading, found) for found in children(element, *names))


def io_specification(reading: Reading, owner: etree._Element) -> IoSpecification | None:
    element = child(owner, "ioSpecification")
    if element is None:
        return None
    return IoSpecification(
        inputs=data_items(reading, element, "dataInput"),
        outputs=data_items(reading, element, "dataOutput"),
        input_sets=_sets(reading, element, "Input"),
        output_sets=_sets(reading, element, "Output"),
    )


def _sets(reading: Reading, element: etree._Element, what: Literal["Input", "Output"]) -> tuple[DataSet, ...]:
    """What is optional is listed twice: among the members, and once more as optional (10.4.2)."""
    sets = []
    for found in children(element, f"{what.lower()}Set"):
        optional = _members(reading, found, f"optional{what}Refs")
        members = _members(reading, found, f"data{what}Refs")
        sets.append(DataSet(tuple(name for name in members if name not in optional), optional))
    return tuple(sets)


def _members(reading: Reading, found: etree._Element, name: str) -> tuple[str, ...]:
    return tuple(reading.name_of(text_of(member)) for member in children(found, name))


def data_associations(reading: Reading, owner: etree._Element) -> tuple[DataAssociation, ...]:
    found = children(owner, "dataInputAssociation", "dataOutputAssociation")
    return tuple(_association(reading, element) for element in found)


def _association(reading: Reading, element: etree._Element) -> DataAssociation:
    assignments = (_assignment(reading, element, found) for found in children(element, "assignment"))
    return DataAssociation(
        **reading.facts(element),
        direction="input" if tag_of(element) == "dataInputAssociation" else "output",
        sources=tuple(
            source
            for found in children(element, "sourceRef")
            if (source := reading.reference(text_of(found))) is not None
        ),
        target=reading.reference(child_text(element, "targetRef")),
        transformation=reading.text_in(element, "transformation"),
        assignments=tuple(assignment for assignment in assignments if assignment is not None),
    )


def _assignment(
    reading: Reading, association: etree._Element, element: etree._Element
) -> DataAssignment | None:
    source, target = reading.text_in(element, "from"), reading.text_in(element, "to")
    if source is None and target is None:
        return None
    if source is not None and not source.language and _assigns_literals(reading, association):
        source = replace(source, language=TEMPLATE)
    line = reading.document.line_of(element)
    return DataAssignment(source or Text("", line=line), target or Text("", line=line))


def _assigns_literals(reading: Reading, association: etree._Element) -> bool:
    """What jBPM assigns to an input is a text, `Review the order`, that may hold expressions: `#{…}`."""
    root = reading.document.root
    if tag_of(association) != "dataInputAssociation" or JBPM not in root.nsmap.values():
        return False
    # Tools that only declare the namespace say that their expressions are FEEL.
    return "feel" not in (root.get("expressionLanguage") or "").lower()


# ------------------------------------------------------------------ root elements


def item_definition(reading: Reading, element: etree._Element) -> ItemDefinition:
    return ItemDefinition(
        **reading.facts(element),
        structure=(element.get("structureRef") or "").strip(),
        is_collection=flag(element, "isCollection", default=False),
    )


def data_store(reading: Reading, element: etree._Element) -> DataStore:
    return DataStore(
        **reading.facts(element),
        capacity=optional_number(element, "capacity"),
        is_unlimited=flag(element, "isUnlimited", default=True),
        item=reading.reference(element.get("itemSubjectRef")),
    )
