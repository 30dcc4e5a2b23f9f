"""Data: input and output sets, data associations, and the item definitions both ends agree on."""

from __future__ import annotations

from collections.abc import Iterable

from bpm_engine.bpmn.constraints.facts import (
    Element,
    Facts,
    Scrutiny,
    child,
    children,
    is_true,
    name_of,
    named,
    text_in,
)
from bpm_engine.bpmn.constraints.items import has_classes, item_of, same_item
from bpm_engine.bpmn.document import JBPM
from bpm_engine.bpmn.schema import GROUPS
from bpm_engine.problems import error, warning

COLLECTION_MISMATCH = error(
    "COLLECTION_MISMATCH",
    "isCollection of a data element agrees with its item definition (BPMN 2.0.2, 10.4.1).",
    "Set isCollection alike on both.",
)
DATA_NOT_IN_SET = error(
    "DATA_NOT_IN_SET",
    "Every data input belongs to an input set, every data output to an output set (10.4.2).",
    "List the data in the set.",
)
DATA_SET_INCONSISTENT = error(
    "DATA_SET_INCONSISTENT",
    "Optional and while-executing data belong to their set; sets name each other mutually (10.4.2).",
    "List the data in dataInputRefs or dataOutputRefs as well, or the set on both sides.",
)
DATA_ASSOCIATION_SOURCES = error(
    "DATA_ASSOCIATION_SOURCES",
    "A data association without transformation has one source (10.4.2).",
    "Use one association per source, or add a transformation.",
)
DATA_ASSOCIATION_DIRECTION = error(
    "DATA_ASSOCIATION_DIRECTION",
    "Data flows from inputs and to outputs: a process's input is no target, its output no source (10.4.2).",
    "Turn the association around, or use a data object.",
)
ITEM_MISMATCH = error(
    "ITEM_MISMATCH",
    "The ends of a data association, and data and its message, have the same item definition (10.4).",
    "Use one item definition, or add a transformation.",
)
DATA_REFERENCE_NAME = error(
    "DATA_REFERENCE_NAME",
    "A data object reference with a state is named after its object: `Order [approved]` (10.4.1).",
    "Name it so, or leave the name out.",
)
DATA_STATE_UNNAMED = warning(
    "DATA_STATE_UNNAMED", "A data state has a name (10.4.1).", "Name the state, or remove it."
)

_COLLECTABLE = ("dataInput", "dataOutput", "dataObject")


def check_data(facts: Facts) -> None:
    for element in facts.each(*_COLLECTABLE):
        _check_collection(facts, element)
    for holder in facts.each("ioSpecification", "Event"):
        _check_sets(facts, holder)
    for association in facts.each("dataInputAssociation", "dataOutputAssociation"):
        _check_association(facts, association)
    for reference in facts.by_name["dataObjectReference"]:
        _check_reference_name(facts, reference)


def _check_collection(facts: Facts, element: Element) -> None:
    """Data is no collection unless it says so (10.4.1). Several tools say it there alone, jBPM nowhere."""
    item = facts.resolve(element.get("itemSubjectRef"))
    if item is None or not item.get("isCollection"):
        return
    if not element.get("isCollection") and has_classes(facts):
        return
    if is_true(element, "isCollection") != is_true(item, "isCollection"):
        message = f"{named(element)} and {named(item)} differ in isCollection"
        facts.report(COLLECTION_MISMATCH, element, message, Scrutiny.EXECUTABLE)


def _check_reference_name(facts: Facts, reference: Element) -> None:
    state = child(reference, "dataState")
    name, target = reference.get("name"), facts.resolve(reference.get("dataObjectRef"))
    if state is None or not name or target is None or not target.get("name"):
        return
    if not state.get("name"):
        facts.report(DATA_STATE_UNNAMED, reference, f"{named(reference)} has a state without a name")
        return
    wanted = f"{target.get('name')} [{state.get('name')}]"
    if name != wanted and name != target.get("name"):
        message = f"{named(reference)} is named {name!r} instead of {wanted!r}"
        facts.report(DATA_REFERENCE_NAME, reference, message, Scrutiny.EXECUTABLE)


# ------------------------------------------------------------------ sets


def _check_sets(facts: Facts, holder: Element) -> None:
    for kind in ("Input", "Output"):
        sets = children(holder, f"{kind.lower()}Set")
        if not sets:
            continue
        listed = {ref for each in sets for ref in facts.references(each, f"data{kind}Refs")}
        for element in children(holder, f"data{kind}"):
            identifier = element.get("id")
            if identifier and identifier not in listed:
                message = f"{named(element)} belongs to no {kind.lower()}Set"
                _report_not_in_set(facts, element, message)
        for each in sets:
            _check_members(facts, each, kind)
            _check_partners(facts, each, "Output" if kind == "Input" else "Input", kind)


def _report_not_in_set(facts: Facts, element: Element, message: str) -> None:
    """jBPM keeps no sets: it writes an empty one beside its inputs, and means that there are such inputs."""
    if JBPM in facts.document.root.nsmap.values():
        facts.warn(DATA_NOT_IN_SET, element, message)
    else:
        facts.report(DATA_NOT_IN_SET, element, message, Scrutiny.EXECUTABLE)


def _check_members(facts: Facts, each: Element, kind: str) -> None:
    members = facts.references(each, f"data{kind}Refs")
    for name in (f"optional{kind}Refs", f"whileExecuting{kind}Refs"):
        for identifier in sorted(facts.references(each, name) - members):
            message = f"{identifier!r} is in {name} of {named(each)} and not in data{kind}Refs"
            facts.report(DATA_SET_INCONSISTENT, each, message, Scrutiny.RUNNABLE)


def _check_partners(facts: Facts, each: Element, other: str, own: str) -> None:
    for identifier in sorted(facts.references(each, f"{other.lower()}SetRefs")):
        partner = facts.resolve(identifier)
        if partner is not None and each.get("id") not in facts.references(partner, f"{own.lower()}SetRefs"):
            message = f"{named(each)} names {named(partner)}, which does not name it"
            facts.report(DATA_SET_INCONSISTENT, each, message, Scrutiny.RUNNABLE)


# ------------------------------------------------------------------ associations


def _check_association(facts: Facts, association: Element) -> None:
    sources = [facts.resolve(text_in(each)) for each in children(association, "sourceRef")]
    targets = [facts.resolve(text_in(each)) for each in children(association, "targetRef")]
    if child(association, "transformation") is None and len(sources) > 1:
        message = f"{named(association)} has {len(sources)} sources and no transformation"
        facts.report(DATA_ASSOCIATION_SOURCES, association, message, Scrutiny.RUNNABLE)
    _check_direction(facts, association, sources, "dataOutput", "source", "dataInputAssociation")
    _check_direction(facts, association, targets, "dataInput", "target", "dataOutputAssociation")
    if not children(association, "transformation", "assignment") and len(sources) == len(targets) == 1:
        _check_items(facts, association, sources[0], targets[0])


def _check_direction(
    facts: Facts, association: Element, ends: Iterable[Element | None], wrong: str, role: str, kind: str
) -> None:
    """Only the process's own inputs and outputs: an activity's belong to the activity's associations."""
    for end in ends:
        if end is None or name_of(end) != wrong or name_of(association) != kind:
            continue
        specification = end.getparent()
        holder = specification.getparent() if specification is not None else None
        if holder is not None and name_of(holder) in GROUPS["Callable"]:
            message = f"{named(association)} has {named(end)} of {named(holder)} as its {role}"
            facts.report(DATA_ASSOCIATION_DIRECTION, association, message, Scrutiny.RUNNABLE)


def _check_items(facts: Facts, association: Element, source: Element | None, target: Element | None) -> None:
    if source is None or target is None:
        return
    if not same_item(facts, item_of(facts, source), item_of(facts, target)):
        message = f"{named(source)} and {named(target)} have different item definitions"
        facts.report(ITEM_MISMATCH, association, message, Scrutiny.EXECUTABLE)
