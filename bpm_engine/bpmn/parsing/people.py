"""Who does a user task, said in standard BPMN: performers and potential owners (10.3.4.1).

An assignment expression lists users and groups as `user(anna), group(sales)`, a habit of the engines
that descend from Activiti; a bare name is a group for a potential owner and a user for a performer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from lxml import etree

from bpm_engine.bpmn.document import text_of
from bpm_engine.bpmn.parsing.reading import Reading, child, child_text, children
from bpm_engine.bpmn.settings import Settings
from bpm_engine.bpmn.text import TEMPLATE, Text

_MEMBER = re.compile(r"(user|group)\s*\(([^()]*)\)")


def with_people(reading: Reading, element: etree._Element, settings: Settings) -> Settings:
    """Settings of a user task, completed by its resource roles. What a dialect says comes first."""
    performers = [
        text for role in children(element, "humanPerformer", "performer") for text in _names(reading, role)
    ]
    owners = [text for role in children(element, "potentialOwner") for text in _names(reading, role)]
    if not performers and not owners:
        return settings
    users, groups = _members(owners)
    return replace(
        settings,
        assignee=settings.assignee or _first(performers),
        candidate_users=settings.candidate_users or users,
        candidate_groups=settings.candidate_groups or groups,
    )


def _names(reading: Reading, role: etree._Element) -> Iterator[Text]:
    assignment = child(role, "resourceAssignmentExpression")
    if assignment is not None:
        expression = next(children(assignment, "formalExpression", "expression"), assignment)
        source = text_of(expression).strip()
    else:
        resource = reading.document.resolve(child_text(role, "resourceRef"))
        source = "" if resource is None else (resource.get("name") or resource.get("id") or "").strip()
    if source:
        yield Text(source, TEMPLATE, reading.document.line_of(role))


def _first(performers: list[Text]) -> Text | None:
    if not performers:
        return None
    member = _MEMBER.fullmatch(performers[0].source)
    return replace(performers[0], source=member.group(2).strip()) if member else performers[0]


def _members(owners: list[Text]) -> tuple[Text | None, Text | None]:
    found: dict[str, list[str]] = {"user": [], "group": []}
    for owner in owners:
        members = _MEMBER.findall(owner.source)
        for kind, name in members:
            found[kind].append(name.strip())
        if members:
            rest = _MEMBER.sub("", owner.source).split(",")
            found["group"] += [name.strip() for name in rest if name.strip()]
        else:
            found["group"].append(owner.source)
    line = owners[0].line if owners else 0
    users, groups = (
        Text(", ".join(names), TEMPLATE, line) if names else None for names in (found["user"], found["group"])
    )
    return users, groups
