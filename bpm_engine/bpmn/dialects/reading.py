"""From the extension attributes and elements of a BPMN element to its `Settings`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import cast

from lxml import etree

from bpm_engine.bpmn.dialects.draft import Draft
from bpm_engine.bpmn.dialects.rows import Dialect
from bpm_engine.bpmn.dialects.structures import local
from bpm_engine.bpmn.dialects.table import BY_NAMESPACE, PRECEDENCE
from bpm_engine.bpmn.document import BPMN, Document
from bpm_engine.bpmn.settings import NO_SETTINGS, Settings
from bpm_engine.bpmn.text import Text
from bpm_engine.problems import Problem

EXTENSION_ELEMENTS = f"{{{BPMN}}}extensionElements"


@dataclass(frozen=True, slots=True)
class Extensions:
    """What the extensions of one element say."""

    settings: Settings = NO_SETTINGS
    called_element: Text | None = None  # zeebe names the called process here, not in the BPMN attribute


NOTHING = Extensions()


@dataclass(slots=True)
class ExtensionReader:
    """Reads the settings of elements of one document and collects problems with their values."""

    document: Document
    problems: list[Problem] = field(default_factory=list)

    def read(self, owner: etree._Element, *definitions: etree._Element) -> Extensions:
        """Settings of `owner`. An event's definitions count as part of it: dialects write on both."""
        found = [item for element in (owner, *definitions) for item in _extensions(element)]
        if not found:
            return NOTHING
        draft = Draft(self.document, self.problems, owner, nearest_id(owner))
        for carrier, dialect, item in sorted(found, key=lambda item: PRECEDENCE[item[1].namespaces[0]]):
            _read_item(draft, carrier, dialect, item)
        return Extensions(draft.settings(), draft.called_element)

    def settings(self, owner: etree._Element, *definitions: etree._Element) -> Settings:
        return self.read(owner, *definitions).settings


@dataclass(frozen=True, slots=True)
class Attribute:
    """An attribute of an extension namespace."""

    name: str
    value: str


Item = tuple[etree._Element, Dialect, "Attribute | etree._Element"]


def _extensions(element: etree._Element) -> Iterator[Item]:
    for key, value in attributes_of(element):
        if key[0] == "{":
            namespace, _, name = key[1:].partition("}")
            dialect = BY_NAMESPACE.get(namespace)
            if dialect is not None:
                yield element, dialect, Attribute(name, value)
    for container in element.iterchildren(EXTENSION_ELEMENTS):
        for child in container.iterchildren("*"):
            dialect = dialect_of(child)
            if dialect is not None:
                yield element, dialect, child


def _read_item(
    draft: Draft, carrier: etree._Element, dialect: Dialect, item: Attribute | etree._Element
) -> None:
    tag = local(carrier)
    draft.own = dialect.own
    if isinstance(item, Attribute):
        draft.subject, draft.line = f"{dialect.prefix}:{item.name}", draft.document.line_of(carrier)
        attribute = dialect.attribute(item.name, tag)
        if attribute is not None and attribute.read is not None:
            attribute.read(draft, item.value)
        return
    name = local(item)
    draft.subject, draft.line = f"<{dialect.prefix}:{name}>", draft.document.line_of(item)
    row = dialect.element(name, tag)
    if row is not None and row.read is not None:
        row.read(draft, item)


def dialect_of(element: etree._Element) -> Dialect | None:
    """The dialect an extension element belongs to; None for one of a namespace we do not know."""
    return BY_NAMESPACE.get(element.tag[1:].partition("}")[0])


def attributes_of(element: etree._Element) -> list[tuple[str, str]]:
    """lxml's stubs allow bytes; a parsed document has none."""
    return cast("list[tuple[str, str]]", element.items())


def nearest_id(element: etree._Element) -> str | None:
    """The id of the element, or of the closest one around it that has one."""
    current: etree._Element | None = element
    while current is not None:
        if current.get("id"):
            return current.get("id")
        current = current.getparent()
    return None
