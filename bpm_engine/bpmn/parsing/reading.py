"""What every part of the parser needs: typed access to attributes, children, texts and references.

Defaults are those of the BPMN schema. Nothing here raises on a strange value: the constraints have been
checked before, and a file that failed them is parsed only to show it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypedDict

from lxml import etree

from bpm_engine.bpmn.dialects.readers import parse_flag, parse_integer
from bpm_engine.bpmn.dialects.reading import ExtensionReader
from bpm_engine.bpmn.document import BPMN, Document, text_of
from bpm_engine.bpmn.model import Container, EventDefinition
from bpm_engine.bpmn.parsing.identities import Identities
from bpm_engine.bpmn.text import Text

_DOCUMENTATION = f"{{{BPMN}}}documentation"


class Facts(TypedDict):
    """What every element of the model carries."""

    id: str
    name: str
    documentation: str
    line: int


@dataclass(slots=True)
class Reading:
    """One document being parsed."""

    document: Document
    extensions: ExtensionReader
    identities: Identities
    # Sub-processes are read innermost first, so that depth costs no recursion.
    contents: dict[etree._Element, Container] = field(default_factory=dict)
    event_definitions: dict[etree._Element, EventDefinition] = field(default_factory=dict)

    def facts(self, element: etree._Element) -> Facts:
        return Facts(
            id=self.identities.of(element),
            name=(element.get("name") or "").strip(),
            documentation=documentation(element),
            line=self.document.line_of(element),
        )

    def text(self, element: etree._Element | None) -> Text | None:
        """An expression. An empty one is none."""
        source = text_of(element).strip() if element is not None else ""
        if element is None or not source:
            return None
        return Text(source, (element.get("language") or "").strip(), self.document.line_of(element))

    def text_in(self, element: etree._Element, name: str) -> Text | None:
        return self.text(child(element, name))

    def reference(self, value: str | None) -> str | None:
        """The id a QName refers to; None if there is no such element in this file."""
        found = self.document.resolve(value)
        return None if found is None else self.identities.of(found)

    def name_of(self, value: str | None) -> str:
        """Like `reference`, but what cannot be resolved stays as it is written, without its prefix."""
        return self.reference(value) or (value or "").strip().rpartition(":")[2]


# ------------------------------------------------------------------ elements


def tag_of(element: etree._Element) -> str:
    return element.tag.rpartition("}")[2]


def children(element: etree._Element, *names: str) -> Iterator[etree._Element]:
    if not len(element):  # most elements are empty, and making an iterator is dear
        return iter(())
    return element.iterchildren(*(f"{{{BPMN}}}{name}" for name in names))


def child(element: etree._Element, name: str) -> etree._Element | None:
    return next(element.iterchildren(f"{{{BPMN}}}{name}"), None) if len(element) else None


def bpmn_children(element: etree._Element) -> Iterator[etree._Element]:
    return element.iterchildren(f"{{{BPMN}}}*")


def child_text(element: etree._Element, name: str) -> str | None:
    found = child(element, name)
    return None if found is None else text_of(found).strip() or None


def documentation(element: etree._Element) -> str:
    texts = [text_of(node).strip() for node in element.iterchildren(_DOCUMENTATION)]
    return "\n\n".join(filter(None, texts)) if texts else ""


# ------------------------------------------------------------------ attributes


def flag(element: etree._Element, name: str, *, default: bool) -> bool:
    written = element.get(name)
    parsed = parse_flag(written) if written else None
    return default if parsed is None else parsed


def optional_flag(element: etree._Element, name: str) -> bool | None:
    return parse_flag(element.get(name) or "")


def number(element: etree._Element, name: str, default: int) -> int:
    written = element.get(name)
    parsed = parse_integer(written) if written else None
    return default if parsed is None else parsed


def optional_number(element: etree._Element, name: str) -> int | None:
    """Negative numbers are kept: what they mean is for the checks to say."""
    return parse_integer(element.get(name) or "", minimum=-sys.maxsize)
