"""Item definitions: when two pieces of data are of the same kind (BPMN 2.0.2, 8.4.11)."""

from __future__ import annotations

from collections.abc import Sequence

from bpm_engine.bpmn.constraints.facts import Element, Facts, name_of

_JBPM = "http://www.jboss.org/drools"  # its structureRefs are Java classes, with or without typeLanguage


def item_of(facts: Facts, element: Element) -> Element | None:
    """The item definition of a data element, message, signal, error or escalation; None if unknown."""
    match name_of(element):
        case "dataObjectReference" if not element.get("itemSubjectRef"):
            behind = facts.resolve(element.get("dataObjectRef"))
        case "dataStoreReference" if not element.get("itemSubjectRef"):
            behind = facts.resolve(element.get("dataStoreRef"))
        case "message":
            return _definition(facts, element.get("itemRef"))
        case "signal" | "error" | "escalation":
            return _definition(facts, element.get("structureRef"))
        case _:
            return _definition(facts, element.get("itemSubjectRef"))
    return None if behind is None else item_of(facts, behind)


def _definition(facts: Facts, reference: str | None) -> Element | None:
    found = facts.resolve(reference)
    return found if found is not None and name_of(found) == "itemDefinition" else None


def same_item(facts: Facts, first: Element | None, second: Element | None) -> bool:
    """Unknown items agree with everything, and so do classes: a subtype is as good as its type."""
    if first is None or second is None or first is second:
        return True
    if _types_are_classes(facts):
        return True
    structures = (first.get("structureRef"), second.get("structureRef"))
    return bool(structures[0]) and structures[0] == structures[1]


def same_items(facts: Facts, first: Sequence[Element | None], second: Sequence[Element | None]) -> bool:
    """Whether each item of one side finds its own equal on the other."""
    if len(first) != len(second):
        return False
    left = list(second)
    for item in first:
        position = next((at for at, other in enumerate(left) if same_item(facts, item, other)), None)
        if position is None:
            return False
        del left[position]
    return True


def _types_are_classes(facts: Facts) -> bool:
    root = facts.document.root
    return "java" in (root.get("typeLanguage") or "").lower() or _JBPM in root.nsmap.values()
