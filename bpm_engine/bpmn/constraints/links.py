"""Link events: each throw has its catch in the same scope, found by reference or by name (10.5.5)."""

from __future__ import annotations

from collections import Counter

from bpm_engine.bpmn.constraints.facts import Element, Facts, Scrutiny, children, name_of, named
from bpm_engine.bpmn.constraints.references import WRONG_REFERENCE
from bpm_engine.bpmn.schema import GROUPS
from bpm_engine.problems import error, warning

LINK_HAS_FLOW = error(
    "LINK_HAS_FLOW",
    "A link replaces a flow: its catch has no flow in, its throw no flow out (BPMN 2.0.2, 10.5.4).",
    "Remove the flow, or the link.",
)
LINK_WITHOUT_PARTNER = error(
    "LINK_WITHOUT_PARTNER",
    "Each throwing link has one catching link of the same name in the same scope (10.5.5).",
    "Give both the same name, and keep them in one scope.",
)
LINK_HALF_REFERENCED = error(
    "LINK_HALF_REFERENCED",
    "Links that refer to each other do so mutually: the throw by `target`, the catch by `source` (10.5.5).",
    "Add the missing reference, or leave both out: the name is enough.",
)
LINK_NEVER_THROWN = warning(
    "LINK_NEVER_THROWN",
    "A catching link is reached by a throwing link of the same name.",
    "Add the throwing link, or remove the catch.",
)


def check_links(facts: Facts) -> None:
    throws = _links(facts, "intermediateThrowEvent")
    catches = _links(facts, "intermediateCatchEvent")
    if not throws and not catches:
        return
    for event in dict.fromkeys(event for event, _ in catches):
        _check_flow(facts, event, facts.incoming.get(event))
    for event in dict.fromkeys(event for event, _ in throws):
        _check_flow(facts, event, facts.outgoing.get(event))
    _check_partners(facts, throws, catches)
    linked = {element for pair in (*throws, *catches) for element in pair}
    for (event, definition), own, other in (
        *((pair, "target", "source") for pair in throws),
        *((pair, "source", "target") for pair in catches),
    ):
        _check_mutual(facts, event, definition, own, other)
        _check_kind(facts, event, definition, own, linked)


def _check_kind(facts: Facts, event: Element, definition: Element, own: str, linked: set[Element]) -> None:
    """That it is a link or an event is known already; here that the event has a link."""
    for reference in sorted(facts.references(definition, own)):
        partner = facts.resolve(reference)
        if partner is not None and name_of(partner) in GROUPS["Event"] and partner not in linked:
            message = f"{named(event)} names {named(partner)} as its {own}, which is no link"
            facts.report(WRONG_REFERENCE, event, message, Scrutiny.EXECUTABLE)


def _check_mutual(facts: Facts, event: Element, definition: Element, own: str, other: str) -> None:
    for reference in sorted(facts.references(definition, own)):
        partner = facts.resolve(reference)
        if partner is None or name_of(partner) != "linkEventDefinition" or not definition.get("id"):
            continue
        if definition.get("id") not in facts.references(partner, other):
            message = f"{named(event)} names {named(partner)} as its {own}, which does not name it as {other}"
            facts.report(LINK_HALF_REFERENCED, event, message, Scrutiny.EXECUTABLE)


def _links(facts: Facts, position: str) -> list[tuple[Element, Element]]:
    return [
        (event, definition)
        for event in facts.by_name[position]
        for definition in facts.definitions(event)
        if name_of(definition) == "linkEventDefinition"
    ]


def _check_flow(facts: Facts, event: Element, flows: list[Element] | None) -> None:
    if flows:
        message = f"{named(event)} is a link and has the flow {flows[0].get('id')!r}"
        facts.report(LINK_HAS_FLOW, event, message, Scrutiny.RUNNABLE)


def _check_partners(
    facts: Facts, throws: list[tuple[Element, Element]], catches: list[tuple[Element, Element]]
) -> None:
    catching = Counter((event.getparent(), _key(event, definition)) for event, definition in catches)
    referred = _referred(facts, throws, catches)
    thrown: set[tuple[Element | None, str]] = set()
    for event, definition in throws:
        key = (event.getparent(), _key(event, definition))
        thrown.add(key)
        if event not in referred and catching[key] != 1:
            message = (
                f"{named(event)} throws the link {key[1]!r}, which {catching[key]} events catch in its scope"
            )
            facts.report(LINK_WITHOUT_PARTNER, event, message, Scrutiny.RUNNABLE)
    for event, definition in catches:
        if event not in referred and (event.getparent(), _key(event, definition)) not in thrown:
            facts.report(LINK_NEVER_THROWN, event, f"nothing throws the link that {named(event)} catches")


def _key(event: Element, definition: Element) -> str:
    return (definition.get("name") or event.get("name") or "").strip()


def _referred(
    facts: Facts, throws: list[tuple[Element, Element]], catches: list[tuple[Element, Element]]
) -> set[Element]:
    """Events that are paired by `source` or `target` instead of by name, within one scope."""
    event_of = {definition: event for event, definition in (*throws, *catches)}
    links = set(event_of.values())
    paired: set[Element] = set()
    for definition, event in event_of.items():
        for reference in children(definition, "source", "target"):
            target = facts.resolve((reference.text or "").strip())
            partner = None if target is None else event_of.get(target, target)
            if partner in links and partner.getparent() is event.getparent():
                paired |= {event, partner}
    return paired
