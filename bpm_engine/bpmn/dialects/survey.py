"""What the tables say about every extension of a file: unknown, ignored, read differently, not run.

The survey looks at all BPMN elements, also at those whose settings nobody reads, so that nothing is
dropped in silence. Values are checked where they are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches

from lxml import etree

from bpm_engine.bpmn.dialects.bpm import NAMESPACE
from bpm_engine.bpmn.dialects.draft import (
    BAD_EXTENSION_VALUE,
    DIALECT_DIFFERENT,
    DIALECT_IGNORED,
    DIALECT_NOT_RUN,
    DIALECT_NOT_UNDERSTOOD,
    UNKNOWN_EXTENSION,
)
from bpm_engine.bpmn.dialects.reading import EXTENSION_ELEMENTS, attributes_of, dialect_of, nearest_id
from bpm_engine.bpmn.dialects.rows import AnyRow, AttributeRow, Dialect, ElementRow, Treatment
from bpm_engine.bpmn.dialects.structures import local
from bpm_engine.bpmn.dialects.table import BY_NAMESPACE
from bpm_engine.bpmn.document import BPMN, Document, bpmn_elements
from bpm_engine.problems import Problem

_BPMN = f"{{{BPMN}}}"
_RULES = {
    Treatment.DIFFERENT: DIALECT_DIFFERENT,
    Treatment.IGNORED: DIALECT_IGNORED,
    Treatment.NOT_RUN: DIALECT_NOT_RUN,
}
# Scripts and structures of other engines nest freely inside these; their own row says how they are read.
_OPEN = frozenset({"list", "map", "string", "expression", "connectorId", "failedJobRetryTimeCycle"})


def survey(document: Document) -> list[Problem]:
    elements = [found for found in bpmn_elements(document.root) if found.tag != EXTENSION_ELEMENTS]
    return [
        *_misspelt_namespaces(document, elements),
        *(problem for element in elements for problem in _survey_element(document, element)),
    ]


def _misspelt_namespaces(document: Document, elements: Iterable[etree._Element]) -> Iterator[Problem]:
    """Settings in a namespace that is nearly ours would all be skipped, as a stranger's are. Told once."""
    told: set[str] = set()
    for element in elements:
        for namespace in _namespaces_of(element) - told:
            told.add(namespace)
            if namespace not in BY_NAMESPACE and get_close_matches(namespace, [NAMESPACE], cutoff=0.8):
                yield UNKNOWN_EXTENSION.at(
                    f"the namespace {namespace!r} is not known",
                    element_id=nearest_id(element),
                    line=document.line_of(element) or None,
                    hint=f"Write xmlns:bpm={NAMESPACE!r}, and the settings are read.",
                )


def _namespaces_of(element: etree._Element) -> set[str]:
    extended = (
        child.tag for found in element.iterchildren(EXTENSION_ELEMENTS) for child in found.iterchildren("*")
    )
    names = (*(key for key, _ in attributes_of(element)), *extended)
    return {name[1:].partition("}")[0] for name in names if name.startswith("{")}


@dataclass(frozen=True, slots=True)
class _Site:
    """Where something was found."""

    document: Document
    owner: etree._Element  # the BPMN element
    dialect: Dialect
    place: str  # how a message calls it: "<serviceTask>", "<zeebe:ioMapping>"
    at: etree._Element

    def problem(self, row: AnyRow, subject: str) -> Problem:
        message = f"{subject} on {self.place}: {row.note}"
        return _RULES[row.treatment].at(message, element_id=nearest_id(self.owner), line=self.line)

    def unknown(self, subject: str, name: str, known: set[str], advice: str = "") -> Problem:
        rule = UNKNOWN_EXTENSION if self.dialect.own else DIALECT_NOT_UNDERSTOOD
        near = get_close_matches(name, sorted(known), n=1)
        hint = advice or (f"Did you mean {self.dialect.prefix}:{near[0]}?" if near else None)
        message = f"{subject} is not known on {self.place}"
        return rule.at(message, element_id=nearest_id(self.owner), line=self.line, hint=hint)

    @property
    def line(self) -> int | None:
        return self.document.line_of(self.at) or None


def _survey_element(document: Document, element: etree._Element) -> Iterator[Problem]:
    tag = local(element)
    for key, _ in attributes_of(element):
        if key[0] != "{":
            continue
        namespace, _, name = key[1:].partition("}")
        dialect = BY_NAMESPACE.get(namespace)
        if dialect is None:
            continue
        row = dialect.attribute(name, tag)
        if row is None or row.treatment in _RULES:
            yield _top_attribute(_Site(document, element, dialect, f"<{tag}>", element), name, row)
    for child in element.iterchildren("*"):
        if child.tag.startswith(_BPMN):
            continue
        dialect = dialect_of(child)
        if dialect is not None:
            yield _misplaced(_Site(document, element, dialect, f"<{tag}>", child), child)
    for container in element.iterchildren(EXTENSION_ELEMENTS):
        for child in container.iterchildren("*"):
            dialect = dialect_of(child)
            if dialect is not None:
                yield from _top_element(_Site(document, element, dialect, f"<{tag}>", child), child, tag)


def _misplaced(site: _Site, child: etree._Element) -> Problem:
    """BPMN allows foreign elements only inside extensionElements (8.3.3), and only there they are read."""
    name = local(child)
    return site.unknown(f"<{site.dialect.prefix}:{name}>", name, set(), "Put it inside <extensionElements>.")


def _top_attribute(site: _Site, name: str, row: AttributeRow | None) -> Problem:
    subject = f"{site.dialect.prefix}:{name}"
    if row is not None:
        return site.problem(row, subject)
    known = site.dialect.attributes
    return site.unknown(subject, name, set(known) - {name}, _moved(known.get(name)))


def _top_element(site: _Site, child: etree._Element, tag: str) -> Iterator[Problem]:
    name = local(child)
    row = site.dialect.element(name, tag)
    subject = f"<{site.dialect.prefix}:{name}>"
    if _is_remnant(site.dialect, row, child):
        return
    if row is None:
        advice = _moved(site.dialect.elements.get(name))
        yield site.unknown(subject, name, set(site.dialect.elements) - {name}, advice)
        return
    if row.treatment in _RULES:
        yield site.problem(row, subject)
    yield from _parts(site, child, row)


def _is_remnant(dialect: Dialect, row: ElementRow | None, element: etree._Element) -> bool:
    """Editors leave `<formData/>` and `<executionListener class=""/>` behind, which say nothing."""
    unread = local(element) in dialect.elements if row is None else row.treatment is Treatment.NOT_RUN
    values = (*element.values(), element.text or "")
    return unread and not dialect.own and len(element) == 0 and not any(value.strip() for value in values)


def _moved(rows: list[AttributeRow] | list[ElementRow] | None) -> str:
    """Known, but elsewhere: say where."""
    return f"It belongs on: {'; '.join(row.on.label for row in rows)}." if rows else ""


def _parts(site: _Site, element: etree._Element, row: ElementRow) -> Iterator[Problem]:
    """Attributes and children of an extension element. What is ignored as a whole is not looked into."""
    if row.treatment in (Treatment.IGNORED, Treatment.NOT_RUN, Treatment.HARMLESS) or row.name in _OPEN:
        return
    prefix = site.dialect.prefix
    inner = _Site(site.document, site.owner, site.dialect, f"<{prefix}:{row.name}>", element)
    known = {part.name: part for part in row.parts if isinstance(part, AttributeRow)}
    yield from _part_attributes(inner, element, known)
    children = {part.name: part for part in row.parts if isinstance(part, ElementRow)}
    for child in element.iterchildren("*"):
        name = local(child)
        if dialect_of(child) is not site.dialect:
            continue
        part = children.get(name)
        if part is None:
            yield inner.unknown(f"<{prefix}:{name}>", name, set(children))
            continue
        if part.treatment in _RULES:
            yield inner.problem(part, f"<{prefix}:{name}>")
        yield from _parts(inner, child, part)


def _part_attributes(
    site: _Site, element: etree._Element, known: dict[str, AttributeRow]
) -> Iterator[Problem]:
    for key, _ in attributes_of(element):
        if key[0] == "{":
            continue
        row = known.get(key)
        if row is None:
            yield site.unknown(f"attribute {key!r}", key, set(known))
        elif row.treatment in _RULES:
            yield site.problem(row, f"attribute {key!r}")
    for name, row in known.items():
        if row.required and not (element.get(name) or "").strip():
            message = f"{site.place} needs the attribute {name!r}"
            yield BAD_EXTENSION_VALUE.at(message, element_id=nearest_id(site.owner), line=site.line)
