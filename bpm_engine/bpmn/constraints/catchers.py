"""What is thrown has one catcher: the nearest that fits, which no second one in the same place can ever be.

Messages, signals, timers and conditions are not thrown from inside: several events may wait for them.
"""

from __future__ import annotations

from collections.abc import Iterator

from bpm_engine.bpmn.constraints.facts import Element, Facts, Scrutiny, children, is_true, name_of, named
from bpm_engine.bpmn.schema import GROUPS
from bpm_engine.problems import error

CAUGHT_TWICE = error(
    "CAUGHT_TWICE",
    "An error, escalation or cancellation is caught by one event of an activity or scope (10.5.6).",
    "Keep one of the two, or give them different codes.",
)


def check_catchers(facts: Facts) -> None:
    for boundaries in facts.boundaries.values():
        _check_place(facts, boundaries)
    for scope in (*facts.by_name["process"], *facts.each("Subprocess")):
        inside = [
            each for each in children(scope, *GROUPS["Subprocess"]) if is_true(each, "triggeredByEvent")
        ]
        _check_place(facts, [start for each in inside for start in children(each, "startEvent")])


def _check_place(facts: Facts, catchers: list[Element]) -> None:
    first: dict[tuple[str, str], Element] = {}
    for event in catchers:
        for what in set(_caught(facts, event)):
            other = first.setdefault(what, event)
            if other is not event:
                message = f"{named(event)} catches {_told(*what)}, as {named(other)} does"
                facts.report(CAUGHT_TWICE, event, message, Scrutiny.RUNNABLE)


def _caught(facts: Facts, event: Element) -> Iterator[tuple[str, str]]:
    """What kinds of throws the event catches alone, with their codes; "" is any code."""
    if is_true(event, "parallelMultiple"):
        return
    for definition in facts.definitions(event):
        kind = name_of(definition).removesuffix("EventDefinition")
        if kind == "cancel":
            yield kind, ""
        elif kind in ("error", "escalation"):
            yield kind, _code(facts, definition, kind)


def _code(facts: Facts, definition: Element, kind: str) -> str:
    reference = definition.get(f"{kind}Ref") or ""
    target = facts.resolve(reference)
    if target is None or name_of(target) != kind:
        return reference
    return target.get(f"{kind}Code") or reference


def _told(kind: str, code: str) -> str:
    if kind == "cancel":
        return "the cancellation"
    return f"the {kind} {code!r}" if code else f"every {kind}"
