"""References lead to something, and to the right kind of thing."""

from __future__ import annotations

from bpm_engine.bpmn.constraints.facts import Element, Facts, Scrutiny, a, name_of, named
from bpm_engine.bpmn.document import XSD
from bpm_engine.bpmn.schema import Reference
from bpm_engine.problems import error, warning

DANGLING_REFERENCE = error(
    "DANGLING_REFERENCE",
    "A reference leads to an element of the file.",
    "Correct the reference, or add the element it means.",
)
WRONG_REFERENCE = error(
    "WRONG_REFERENCE",
    "A reference leads to an element of the kind that the specification names.",
    "Refer to an element of the right kind.",
)
EMPTY_REFERENCE = warning(
    "EMPTY_REFERENCE", "An empty reference counts as absent.", "Remove it, or name the element it means."
)
UNCHECKED_REFERENCE = warning(
    "UNCHECKED_REFERENCE",
    "A reference into an imported file cannot be checked.",
    "Nothing, if the imported file holds the element.",
)

_NAMED_TARGETS = 4  # longer lists of kinds help nobody in a message


def check_reference(facts: Facts, element: Element, name: str, value: str, reference: Reference) -> None:
    """`name` is the attribute, or the element itself when its text refers."""
    value = value.strip()
    if not value:
        facts.report(EMPTY_REFERENCE, element, f"{_owner(element, name)}: {name} is empty")
        return
    target = facts.resolve(value)
    if target is None:
        _report_dangling(facts, element, name, value, reference)
    elif reference.targets and name_of(target) not in reference.targets:
        _report_wrong(facts, element, name, value, target, reference)


def _owner(element: Element, name: str) -> str:
    parent = element.getparent()
    return named(element if parent is None or name in element.attrib else parent)


def _report_dangling(facts: Facts, element: Element, name: str, value: str, reference: Reference) -> None:
    message = f"{_owner(element, name)}: {name} refers to {value!r}, which is not in the file"
    if reference.dangling == "allowed" or _is_built_in_type(facts, value, reference):
        return
    if value.partition(":")[0] in facts.document.foreign_prefixes:
        facts.report(
            UNCHECKED_REFERENCE, element, f"{_owner(element, name)}: {name} refers to the imported {value!r}"
        )
    elif reference.dangling == "warning":
        facts.warn(DANGLING_REFERENCE, element, message)
    else:
        facts.report(DANGLING_REFERENCE, element, message)


def _is_built_in_type(facts: Facts, value: str, reference: Reference) -> bool:
    """Several engines write `itemSubjectRef="xsd:string"` instead of an item definition for it."""
    prefix = value.partition(":")[0]
    return "itemDefinition" in reference.targets and facts.document.root.nsmap.get(prefix) == XSD


def _report_wrong(
    facts: Facts, element: Element, name: str, value: str, target: Element, reference: Reference
) -> None:
    kinds = sorted(reference.targets)
    wanted = f", not to {a(' or '.join(kinds))}" if len(kinds) <= _NAMED_TARGETS else ""
    message = f"{_owner(element, name)}: {name} refers to the {name_of(target)} {value!r}{wanted}"
    if reference.mistaken == "warning" or (
        reference.mistaken == "executable" and _is_around(target, element)
    ):
        facts.warn(WRONG_REFERENCE, element, message)
    else:
        scrutiny = Scrutiny.EXECUTABLE if reference.mistaken == "executable" else Scrutiny.ALWAYS
        facts.report(WRONG_REFERENCE, element, message, scrutiny)


def _is_around(target: Element, element: Element) -> bool:
    """Several tools let a data association end at the activity itself, not at its data."""
    return any(each is target for each in element.iterancestors())
