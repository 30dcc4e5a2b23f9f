"""What other engines mean by elements that carry no extension at all, where we mean something else.

No attribute gives these away, only the engine that the file was made for: its namespace is declared, and ours
is not. So they are warnings and nothing is read differently.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from lxml import etree

from bpm_engine.bpmn.dialects import bpm, camunda, flowable, spiff
from bpm_engine.bpmn.dialects.draft import DIALECT_DIFFERENT
from bpm_engine.bpmn.dialects.reading import EXTENSION_ELEMENTS, attributes_of, nearest_id
from bpm_engine.bpmn.dialects.rows import Dialect
from bpm_engine.bpmn.dialects.structures import local
from bpm_engine.bpmn.document import Document, bpmn_elements
from bpm_engine.problems import Problem

_MAPPINGS = frozenset({"in", "out", "input", "output", "inputOutput"})
_DATA = frozenset({"ioSpecification", "dataInputAssociation", "dataOutputAssociation"})


def _hands_over_nothing(element: etree._Element) -> bool:
    children = {local(child) for child in element.iterchildren("*")}
    extensions = {local(item) for box in element.iterchildren(EXTENSION_ELEMENTS) for item in box.iter("*")}
    inherits = any(key.endswith("}inheritVariables") for key, _ in attributes_of(element))
    return not (children & _DATA or extensions & _MAPPINGS or inherits)


def _always(_: etree._Element) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Meaning:
    """An element that another engine understands differently."""

    dialects: tuple[Dialect, ...]
    tag: str
    when: str  # for the reference page
    applies: Callable[[etree._Element], bool]
    note: str


MEANINGS = (
    Meaning(
        (camunda.DIALECT, flowable.FLOWABLE, flowable.ACTIVITI),
        "callActivity",
        "nothing is mapped",
        _hands_over_nothing,
        "without mappings all variables are handed over and back here, there none are",
    ),
    Meaning(
        (spiff.DIALECT,),
        "manualTask",
        "always",
        _always,
        "a manual task does not wait here (BPMN 2.0.2, 10.3.3); make it a user task",
    ),
)


def implied(document: Document) -> list[Problem]:
    declared = set(document.root.nsmap.values())
    if declared.intersection(bpm.DIALECT.namespaces):
        return []
    meanings = {
        meaning.tag: (meaning, dialect)
        for meaning in MEANINGS
        for dialect in meaning.dialects
        if declared.intersection(dialect.namespaces)
    }
    return list(_found(document, meanings)) if meanings else []


def _found(document: Document, meanings: dict[str, tuple[Meaning, Dialect]]) -> Iterator[Problem]:
    for element in bpmn_elements(document.root):
        meaning, dialect = meanings.get(local(element), (None, None))
        if meaning is not None and dialect is not None and meaning.applies(element):
            message = f"<{meaning.tag}> in a file for {dialect.name}: {meaning.note}"
            yield DIALECT_DIFFERENT.at(
                message, element_id=nearest_id(element), line=document.line_of(element) or None
            )
