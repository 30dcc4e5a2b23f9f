"""Ids are unique, and look like what they are."""

from __future__ import annotations

import re

from bpm_engine.bpmn.constraints.facts import Element, Facts, a, name_of
from bpm_engine.bpmn.document import BPMNDI
from bpm_engine.bpmn.schema import GROUPS, REFERABLE
from bpm_engine.problems import error, warning

DUPLICATE_ID = error(
    "DUPLICATE_ID", "An id is used once in a file (BPMN 2.0.2, 8.3.1).", "Give one of them a new id."
)
INVALID_ID = warning(
    "INVALID_ID",
    "An id is an NCName: it starts with a letter or underscore and has no spaces or colons.",
    "Rename the element; other tools may refuse the file.",
)
HOMOGLYPH_ID = warning(
    "HOMOGLYPH_ID",
    "An id that mixes Latin with look-alike Cyrillic or Greek letters can pass for another one.",
    "Write the id in one alphabet.",
)
NO_PROCESS = warning(
    "NO_PROCESS",
    "A file without a process is valid BPMN, but there is nothing to run in it.",
    "Add a process; a collaboration or choreography alone cannot be deployed.",
)

_NCNAME = re.compile(r"[^\W\d][\w.\-·]*")
_LATIN = re.compile(r"[A-Za-z]")
_LOOK_ALIKE = re.compile(r"[\u0370-\u03ff\u0400-\u052f]")
# Nested definitions are told apart by the event that holds them, and variables by their scope: several
# tools write a variable's name as its id.
_SCOPED = GROUPS["EventDefinition"] | {"property", "inputDataItem", "outputDataItem"}
_AMBIGUOUS = REFERABLE - _SCOPED


def check_identifiers(facts: Facts) -> None:
    first: dict[str, Element] = {}
    for element in facts.elements:
        identifier = element.get("id")
        if identifier:
            _check_form(facts, element, identifier)
            earlier = first.setdefault(identifier, element)
            if earlier is not element:
                _report_duplicate(facts, element, earlier, identifier)
    _check_shapes(facts)
    if not facts.by_name["process"]:
        facts.report(NO_PROCESS, facts.document.root, "the file has no process")


def _check_form(facts: Facts, element: Element, identifier: str) -> None:
    if identifier.isascii() and identifier.isidentifier():
        return
    if not _NCNAME.fullmatch(identifier):
        facts.report(INVALID_ID, element, f"{identifier!r} is not an NCName")
    elif _LATIN.search(identifier) and _LOOK_ALIKE.search(identifier):
        facts.report(HOMOGLYPH_ID, element, f"{identifier!r} mixes alphabets")


def _report_duplicate(facts: Facts, element: Element, earlier: Element, identifier: str) -> None:
    where = f"lines {facts.document.line_of(earlier)} and {facts.document.line_of(element)}"
    message = f"the id {identifier!r} is used by {a(name_of(earlier))} and {a(name_of(element))}, {where}"
    if name_of(earlier) in _AMBIGUOUS or name_of(element) in _AMBIGUOUS:
        facts.report(DUPLICATE_ID, element, message)
    else:
        facts.warn(DUPLICATE_ID, element, message)


def _check_shapes(facts: Facts) -> None:
    """Ids of the diagram are never referred to by anything that runs."""
    seen: set[str] = set()
    for shape in facts.document.root.iter(f"{{{BPMNDI}}}*"):
        identifier = shape.get("id")
        if identifier and identifier in seen:
            facts.warn(DUPLICATE_ID, shape, f"the id {identifier!r} is used twice in the diagram")
        elif identifier:
            seen.add(identifier)
