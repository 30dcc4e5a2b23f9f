"""Compensation: a boundary event, an association, and a handler that is marked as one (10.7)."""

from __future__ import annotations

from collections import defaultdict

from bpm_engine.bpmn.constraints.facts import (
    Element,
    Facts,
    Scrutiny,
    children,
    is_true,
    name_of,
    named,
)
from bpm_engine.bpmn.schema import GROUPS
from bpm_engine.problems import error

COMPENSATION_HANDLER_MISSING = error(
    "COMPENSATION_HANDLER_MISSING",
    "A compensation boundary event is associated with one compensation activity (BPMN 2.0.2, 10.7.1).",
    "Draw an association from the boundary event to its handler.",
)
COMPENSATION_HANDLER_UNMARKED = error(
    "COMPENSATION_HANDLER_UNMARKED",
    "The activity that a compensation boundary event leads to is marked isForCompensation (10.7.1).",
    "Set isForCompensation on the handler.",
)
COMPENSATION_HANDLED_TWICE = error(
    "COMPENSATION_HANDLED_TWICE",
    "A sub-process is undone from inside, by an event sub-process, or by a handler at its boundary (10.7.1).",
    "Remove one of the two; only the handler at the boundary would ever run.",
)


def check_compensation(facts: Facts) -> None:
    partners = _partners(facts)
    for event in facts.by_name["boundaryEvent"]:
        if "compensate" in facts.triggers(event):
            _check_handler(facts, event, partners[event])
            _check_inside(facts, event)


def _partners(facts: Facts) -> dict[Element, list[Element]]:
    """What associations connect to each element, whichever way they were drawn."""
    found: dict[Element, list[Element]] = defaultdict(list)
    for association in facts.by_name["association"]:
        source, target = facts.ends(association)
        if source is not None and target is not None:
            found[source].append(target)
            found[target].append(source)
    return found


def _check_handler(facts: Facts, event: Element, partners: list[Element]) -> None:
    handlers = [partner for partner in partners if name_of(partner) in GROUPS["Activity"]]
    if not handlers and not facts.outgoing.get(event):
        message = f"{named(event)} is associated with no activity"
        facts.report(COMPENSATION_HANDLER_MISSING, event, message, Scrutiny.RUNNABLE)
    for handler in handlers:
        if not is_true(handler, "isForCompensation"):
            message = f"{named(handler)} compensates for {named(event)} and is not marked isForCompensation"
            facts.report(COMPENSATION_HANDLER_UNMARKED, handler, message, Scrutiny.RUNNABLE)


def _check_inside(facts: Facts, event: Element) -> None:
    host = facts.resolve(event.get("attachedToRef"))
    if host is None:
        return
    for inside in children(host, *GROUPS["Subprocess"]):
        starts = children(inside, "startEvent") if is_true(inside, "triggeredByEvent") else ()
        if any("compensate" in facts.triggers(start) for start in starts):
            message = (
                f"{named(event)} has a handler for {named(host)}, which undoes itself in {named(inside)}"
            )
            facts.report(COMPENSATION_HANDLED_TWICE, event, message, Scrutiny.RUNNABLE)
