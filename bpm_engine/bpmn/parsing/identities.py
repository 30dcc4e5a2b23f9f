"""Ids for elements that have none.

Ids are optional in BPMN (8.3.1) and real tools omit them on sequence flows and event definitions. A
derived id depends only on the file: the two ends of a flow, or the place among its siblings.
"""

from __future__ import annotations

from lxml import etree

from bpm_engine.bpmn.document import BPMN, Document

_SEQUENCE_FLOW = f"{{{BPMN}}}sequenceFlow"


class Identities:
    def __init__(self, document: Document) -> None:
        self._taken: set[str] = set(document.elements)
        self._derived: dict[etree._Element, str] = {}
        self._positions: dict[etree._Element, int] = {}
        self._repetitions: dict[str, int] = {}

    def of(self, element: etree._Element) -> str:
        """The element's own id, or one derived for it; always the same for the same element."""
        own = (element.get("id") or "").strip()
        if own:
            return own
        derived = self._derived.get(element)
        if derived is None:
            derived = self._derived[element] = self._unique(self._base(element))
        return derived

    def _base(self, element: etree._Element) -> str:
        if element.tag == _SEQUENCE_FLOW:
            return f"flow:{element.get('sourceRef') or ''}->{element.get('targetRef') or ''}"
        parent = element.getparent()
        if parent is None:
            return etree.QName(element).localname
        return f"{self.of(parent)}.{etree.QName(element).localname}_{self._position(element, parent)}"

    def _position(self, element: etree._Element, parent: etree._Element) -> int:
        """Place among the siblings of the same name, from 1. All siblings are numbered at once."""
        if element not in self._positions:
            counts: dict[object, int] = {}
            for sibling in parent.iterchildren("*"):
                counts[sibling.tag] = counts.get(sibling.tag, 0) + 1
                self._positions[sibling] = counts[sibling.tag]
        return self._positions[element]

    def _unique(self, base: str) -> str:
        candidate = base
        while candidate in self._taken:
            self._repetitions[base] = self._repetitions.get(base, 1) + 1
            candidate = f"{base}_{self._repetitions[base]}"
        self._taken.add(candidate)
        return candidate
