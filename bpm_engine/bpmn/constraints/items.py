"""Item definitions: when two pieces of data are of the same kind (BPMN 2.0.2, 8.4.11)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable

from bpm_engine.bpmn.constraints.facts import Element, Facts, name_of
from bpm_engine.bpmn.document import JBPM


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
    if has_classes(facts):
        return True
    return _key(first) == _key(second)


def same_items(facts: Facts, first: Iterable[Element | None], second: Iterable[Element | None]) -> bool:
    """Whether each item of one side finds its own equal on the other; unknown items match any."""
    left, right = Counter(map(_key, first)), Counter(map(_key, second))
    if left.total() != right.total():
        return False
    if has_classes(facts):
        return True
    unknown_left, unknown_right = left.pop(None, 0), right.pop(None, 0)
    return (left - right).total() <= unknown_right and (right - left).total() <= unknown_left


def _key(item: Element | None) -> Hashable:
    return None if item is None else item.get("structureRef") or id(item)


def has_classes(facts: Facts) -> bool:
    """The structureRefs of jBPM are Java classes, with or without typeLanguage."""
    root = facts.document.root
    return "java" in (root.get("typeLanguage") or "").lower() or JBPM in root.nsmap.values()
