"""The vocabulary of BPMN 2.0.2, ready for use: what each element may carry and contain.

`table` holds the facts in a short notation; this module reads the notation once, at import, into
`ELEMENTS`. The structural checks know nothing about BPMN but this.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from bpm_engine.bpmn.schema.table import GROUP_MEMBERS, TABLE, Part

Simple: TypeAlias = Literal["text", "boolean", "integer", "uri", "media", "enum", "reference"]
Dangling: TypeAlias = Literal["error", "warning", "allowed"]
Mistaken: TypeAlias = Literal["error", "executable", "warning"]  # "executable": an error where it is run
Presence: TypeAlias = Literal["optional", "expected", "required"]


@dataclass(frozen=True, slots=True)
class Reference:
    targets: frozenset[str]  # local names; empty: any element
    dangling: Dangling
    mistaken: Mistaken = "error"  # when it leads to an element of another kind


@dataclass(frozen=True, slots=True)
class Attribute:
    simple: Simple
    presence: Presence = "optional"
    values: frozenset[str] = frozenset()
    reference: Reference | None = None


@dataclass(frozen=True, slots=True)
class Child:
    type: str  # the key of the child's own entry in ELEMENTS
    at_least: int
    at_most: int | None
    reference: Reference | None = None  # for elements whose text is a reference


@dataclass(frozen=True, slots=True)
class ElementType:
    name: str
    attributes: Mapping[str, Attribute]
    children: Mapping[str, Child]
    open: bool = False  # any content is allowed inside
    needed_attributes: tuple[str, ...] = ()  # not optional
    needed_children: tuple[str, ...] = ()  # at least one


GROUPS: Mapping[str, frozenset[str]] = {name: frozenset(text.split()) for name, text in GROUP_MEMBERS.items()}

_OPEN = frozenset(
    {"documentation", "extensionElements", "text", "script", "rendering", "partitionElement"}
    | {"expression", "formalExpression"}
)

# ------------------------------------------------------------------ reading the notation

_COUNTS: Mapping[str, tuple[int, int | None]] = {"?": (0, 1), "*": (0, None), "+": (1, None)}
_PRESENCE: Mapping[str, Presence] = {"!": "required", "+": "expected"}
_DANGLING: Mapping[str, Dangling] = {"~": "warning", "?": "allowed"}
_MISTAKEN: Mapping[str, Mistaken] = {"~": "executable", "~~": "warning"}


def _members(names: str) -> frozenset[str]:
    found: set[str] = set()
    for name in filter(None, names.split(",")):
        found |= GROUPS.get(name, {name})
    return frozenset(found)


def _reference(text: str) -> Reference:
    dangling = _DANGLING.get(text[:1], "error")
    mistaken = _MISTAKEN.get(text[: text.count("~")], "error")
    return Reference(_members(text.lstrip("~?")), dangling, mistaken)


def _attribute(word: str) -> tuple[str, Attribute]:
    presence: Presence = _PRESENCE.get(word[-1], "optional")
    name, _, kind = word.rstrip("!+").partition(":")
    if kind.startswith("@"):
        return name, Attribute("reference", presence, reference=_reference(kind[1:]))
    if "|" in kind:
        return name, Attribute("enum", presence, frozenset(kind.split("|")))
    match kind:
        case "boolean" | "integer" | "uri" | "media":
            return name, Attribute(kind, presence)
        case _:
            return name, Attribute("text", presence)


def _children(word: str) -> list[tuple[str, Child]]:
    head, at, target = word.partition("@")
    head, _, type_name = head.partition("=")
    least, most = _COUNTS.get(head[-1], (1, 1))
    head = head.rstrip("?*+")
    reference = _reference(target) if at else None
    return [
        (name, Child(type_name or name, least, most, reference))
        for name in GROUPS.get(head, frozenset({head}))
    ]


def _compile(name: str, parts: tuple[Part, ...]) -> ElementType:
    attributes = dict(_attribute(word) for part in parts for word in part[0].split())
    children = dict(pair for part in parts for word in part[1].split() for pair in _children(word))
    return ElementType(
        name,
        attributes,
        children,
        name in _OPEN,
        tuple(key for key, attribute in attributes.items() if attribute.presence != "optional"),
        tuple(key for key, child in children.items() if child.at_least),
    )


ELEMENTS: Mapping[str, ElementType] = {name: _compile(name, parts) for name, parts in TABLE.items()}

# Names that occur as children only, such as `incoming` or `conditionExpression`.
NAMES: frozenset[str] = frozenset(ELEMENTS) | {
    child for element in ELEMENTS.values() for child in element.children
}

# What some reference may lead to: two of these with one id are ambiguous.
REFERABLE: frozenset[str] = frozenset().union(
    *(a.reference.targets for e in ELEMENTS.values() for a in e.attributes.values() if a.reference),
    *(c.reference.targets for e in ELEMENTS.values() for c in e.children.values() if c.reference),
)
