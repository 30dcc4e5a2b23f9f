"""What the vocabulary table demands: known elements in known places, attributes and counts.

The order of children is never enforced and ids may be missing where nothing refers to the element:
tools differ there, and the meaning does not.
"""

from __future__ import annotations

import re
from typing import cast

from bpm_engine.bpmn.constraints.facts import Element, Facts, Scrutiny, a, is_true, name_of, named
from bpm_engine.bpmn.constraints.references import check_reference
from bpm_engine.bpmn.document import BPMN, BPMNDI, XINCLUDE, text_of
from bpm_engine.bpmn.schema import ELEMENTS, GROUPS, NAMES, Attribute, Child, ElementType
from bpm_engine.problems import error, warning

UNKNOWN_ELEMENT = error(
    "UNKNOWN_ELEMENT",
    "Elements of the BPMN namespace are those of BPMN 2.0.2, and stand where it allows them.",
    "Correct the name or move the element; vendor content belongs into extensionElements.",
)
MISPLACED_ELEMENT = warning(
    "MISPLACED_ELEMENT",
    "This element has no meaning in this place and is ignored.",
    "Remove it.",
)
FOREIGN_ELEMENT = warning(
    "FOREIGN_ELEMENT",
    "Elements of other namespaces stand inside extensionElements (8.2.3); elsewhere they are ignored.",
    "Move the element into extensionElements.",
)
UNKNOWN_ATTRIBUTE = warning(
    "UNKNOWN_ATTRIBUTE",
    "Attributes without a namespace are those of BPMN 2.0.2; others are ignored.",
    "Correct the name, or give a vendor's attribute its namespace prefix.",
)
MISSING_ATTRIBUTE = error(
    "MISSING_ATTRIBUTE", "Attributes that the element needs are there.", "Add the attribute."
)
MISSING_CHILD = warning(
    "MISSING_CHILD",
    "The specification demands this child element; the engine does without.",
    "Add the element.",
)
TOO_MANY = error(
    "TOO_MANY", "A child element occurs no more often than allowed.", "Keep one, remove the others."
)
BAD_VALUE = error(
    "BAD_VALUE",
    "A value has its type: boolean, whole number, URI, media type, or one of a list.",
    "Write one of the allowed values.",
)
MULTIPLE_LOOP_MARKERS = error(
    "MULTIPLE_LOOP_MARKERS",
    "An activity has at most one loop marker: standard or multi-instance (BPMN 2.0.2, 10.3.8).",
    "Keep one of them, or put the inner loop into a sub-process.",
)

_PREFIX = f"{{{BPMN}}}"
# Harmless wherever they stand: they say nothing that execution could get wrong.
_IGNORABLE = frozenset({"incoming", "outgoing", "documentation", "extensionElements", "categoryValueRef"})
_INTEGER = re.compile(r"[+-]?\d{1,18}")
_MEDIA_TYPE = re.compile(r"[^\s/]+/[^\s/]+(\s*;.*)?")
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")


def check_structure(facts: Facts) -> None:
    stack: list[tuple[Element, ElementType]] = [(facts.document.root, ELEMENTS["definitions"])]
    while stack:
        element, kind = stack.pop()
        _check_attributes(facts, element, kind)
        if not kind.open:
            stack.extend(_check_children(facts, element, kind))
    for include in facts.document.root.iter(f"{{{XINCLUDE}}}*"):
        facts.report(UNKNOWN_ELEMENT, include, "XInclude is not processed: a definition is one file")


# ------------------------------------------------------------------ children


def _check_children(facts: Facts, element: Element, kind: ElementType) -> list[tuple[Element, ElementType]]:
    descend: list[tuple[Element, ElementType]] = []
    counts: dict[str, int] = {}
    for below in element.iterchildren():
        name = name_of(below)
        if not name:
            _check_foreign(facts, below, kind)
            continue
        allowed = kind.children.get(name)
        if allowed is None:
            _report_misplaced(facts, below, name, kind)
            continue
        counts[name] = counts.get(name, 0) + 1
        if allowed.reference is not None:
            check_reference(facts, below, name, text_of(below), allowed.reference)
        else:
            descend.append((below, ELEMENTS[allowed.type]))
    _check_counts(facts, element, kind, counts)
    return descend


def _check_foreign(facts: Facts, element: Element, parent: ElementType) -> None:
    namespace = str(element.tag)[1:].partition("}")[0]
    if namespace == XINCLUDE or (parent.name == "definitions" and namespace == BPMNDI):
        return
    facts.report(FOREIGN_ELEMENT, element, f"<{element.tag}> inside {parent.name} is ignored")


def _report_misplaced(facts: Facts, element: Element, name: str, parent: ElementType) -> None:
    if name not in NAMES:
        facts.report(UNKNOWN_ELEMENT, element, f"<{name}> is not a BPMN element")
    elif name in _IGNORABLE:
        facts.report(MISPLACED_ELEMENT, element, f"<{name}> has no meaning inside {parent.name}")
    else:
        facts.report(UNKNOWN_ELEMENT, element, f"<{name}> may not stand inside {parent.name}")


def _check_counts(facts: Facts, element: Element, kind: ElementType, counts: dict[str, int]) -> None:
    for name in kind.needed_children:
        if name not in counts:
            facts.report(MISSING_CHILD, element, f"{named(element)} has no <{name}>")
    loops = 0
    for name, count in counts.items():
        most = kind.children[name].at_most
        if most is not None and count > most:
            _report_surplus(facts, element, name, count, kind.children[name])
        loops += count if name in GROUPS["Loop"] else 0
    if loops > 1:
        facts.report(MULTIPLE_LOOP_MARKERS, element, f"{named(element)} has {loops} loop markers")


def _report_surplus(facts: Facts, element: Element, name: str, count: int, allowed: Child) -> None:
    message = f"{named(element)} has {count} <{name}>, at most {allowed.at_most} allowed"
    if name == "extensionElements":
        facts.warn(TOO_MANY, element, message)
    else:
        facts.report(TOO_MANY, element, message)


# ------------------------------------------------------------------ attributes


def _check_attributes(facts: Facts, element: Element, kind: ElementType) -> None:
    for key, value in cast("list[tuple[str, str]]", element.items()):
        attribute = kind.attributes.get(key)
        if attribute is None:
            _check_unknown(facts, element, key)
        elif attribute.simple != "text":
            _check_value(facts, element, key, value.strip(), attribute)
    for name in kind.needed_attributes:
        if not (element.get(name) or "").strip():
            _report_missing(facts, element, name, kind.attributes[name])
    if kind.name in GROUPS["FlowNode"] and not element.get("id"):
        _check_node_id(facts, element, kind)


def _check_unknown(facts: Facts, element: Element, key: str) -> None:
    if not key.startswith("{"):
        facts.report(UNKNOWN_ATTRIBUTE, element, f"{named(element)} has the unknown attribute {key!r}")
    elif key.startswith(_PREFIX):
        message = f"{named(element)}: attributes of BPMN have no namespace prefix, {key!r} is ignored"
        facts.report(UNKNOWN_ATTRIBUTE, element, message)


def _check_node_id(facts: Facts, element: Element, kind: ElementType) -> None:
    # Flows find a node by its id (8.3.1). Only what no flow may reach can do without one.
    if kind.name != "implicitThrowEvent" and not is_true(element, "triggeredByEvent"):
        facts.report(MISSING_ATTRIBUTE, element, f"{a(kind.name)} has no id")


def _report_missing(facts: Facts, element: Element, name: str, attribute: Attribute) -> None:
    message = f"{named(element)} has no {name}"
    if attribute.presence == "required":
        facts.report(MISSING_ATTRIBUTE, element, message)
    else:
        facts.warn(MISSING_ATTRIBUTE, element, message)


def _check_value(facts: Facts, element: Element, name: str, value: str, attribute: Attribute) -> None:
    if attribute.reference is not None:
        if value or attribute.presence == "optional":
            check_reference(facts, element, name, value, attribute.reference)
        return
    match attribute.simple:
        case "boolean":
            _check_choice(facts, element, name, value, frozenset({"true", "false", "1", "0"}))
        case "enum":
            _check_choice(facts, element, name, value, attribute.values)
        case "integer" if not _INTEGER.fullmatch(value):
            facts.report(BAD_VALUE, element, f"{named(element)}: {name}={value!r} is not a whole number")
        case "uri" if _BAD_ESCAPE.search(value):
            facts.report(BAD_VALUE, element, f"{named(element)}: {name}={value!r} is not a URI")
        case "media" if value and not _MEDIA_TYPE.fullmatch(value):
            message = f"{named(element)}: {name}={value!r} is not a media type such as text/plain"
            facts.report(BAD_VALUE, element, message, Scrutiny.EXECUTABLE)
        case _:
            pass


def _check_choice(facts: Facts, element: Element, name: str, value: str, values: frozenset[str]) -> None:
    if value in values:
        return
    message = f"{named(element)}: {name}={value!r} is none of {', '.join(sorted(values))}"
    # Empty and wrongly capitalised values leave no doubt about what is meant.
    if not value or value.lower() in {known.lower() for known in values}:
        facts.warn(BAD_VALUE, element, message)
    else:
        facts.report(BAD_VALUE, element, message)
