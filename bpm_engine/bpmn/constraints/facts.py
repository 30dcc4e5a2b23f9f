"""What the rules need to know about a document, computed once: who connects to whom, and where.

A rule is a function that takes `Facts` and reports problems through it. Severity has one subtlety:
many files hold processes that nobody means to run. Such a process must still be well-formed, but what
is only wrong about *running* it is a warning there. `Scrutiny` says which case a rule belongs to.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from functools import lru_cache

from lxml import etree

from bpm_engine.bpmn.document import BPMN, OPAQUE, XSI, Document, text_of
from bpm_engine.bpmn.schema import GROUPS
from bpm_engine.problems import Problem, Rule, Severity

Element = etree._Element

_PREFIX = f"{{{BPMN}}}"

TRUE = frozenset({"true", "1"})
LOOPS = ("standardLoopCharacteristics", "multiInstanceLoopCharacteristics")
_VOWELS = frozenset("aeiou")


class Scrutiny(Enum):
    """How strict a rule is about processes that do not declare `isExecutable="true"`."""

    ALWAYS = auto()  # the file is not BPMN then, whatever it is for
    RUNNABLE = auto()  # a warning where `isExecutable="false"` is stated: it could not run
    EXECUTABLE = auto()  # an error only where `isExecutable="true"` is stated: sketches often do this


def name_of(element: Element) -> str:
    """The local name of a BPMN element; "" for foreign ones."""
    return _local_name(element.tag)


@lru_cache(maxsize=4096)
def _local_name(tag: str) -> str:
    return tag[len(_PREFIX) :] if tag.startswith(_PREFIX) else ""


def is_true(element: Element, attribute: str, default: bool = False) -> bool:
    value = element.get(attribute)
    return default if not value else value.strip().lower() in TRUE


def children(element: Element, *names: str) -> list[Element]:
    return list(element.iterchildren(*(_PREFIX + name for name in names)))


def child(element: Element, name: str) -> Element | None:
    return element.find(_PREFIX + name)


def text_in(element: Element) -> str:
    return text_of(element).strip()


def has_vendor_content(element: Element) -> bool:
    """Whether a dialect adds something: attributes with a namespace, or extension elements."""
    return child(element, "extensionElements") is not None or any(
        str(key).startswith("{") and not str(key).startswith(f"{{{XSI}}}") for key in element.attrib
    )


def named(element: Element) -> str:
    """How a message speaks of an element: `task 'check'`."""
    name, identifier = name_of(element), element.get("id")
    if identifier:
        return f"{name} {identifier!r}"
    return a(name)


def a(name: str) -> str:
    """With its article."""
    return f"an {name}" if name[:1] in _VOWELS else f"a {name}"


@dataclass(slots=True)
class Facts:
    document: Document
    problems: list[Problem] = field(default_factory=list)
    elements: list[Element] = field(default_factory=list)  # every BPMN element, in document order
    by_name: dict[str, list[Element]] = field(default_factory=lambda: defaultdict(list))
    process_of: dict[Element, Element | None] = field(default_factory=dict)
    incoming: dict[Element, list[Element]] = field(default_factory=lambda: defaultdict(list))
    outgoing: dict[Element, list[Element]] = field(default_factory=lambda: defaultdict(list))
    boundaries: dict[Element, list[Element]] = field(default_factory=lambda: defaultdict(list))
    message_flows: dict[Element, Element] = field(default_factory=dict)  # the first one at each end
    _triggers: dict[Element, tuple[str, ...]] = field(default_factory=dict)
    _references: dict[tuple[Element, str], frozenset[str]] = field(default_factory=dict)

    @classmethod
    def of(cls, document: Document) -> Facts:
        facts = cls(document)
        facts._collect()
        facts._connect()
        return facts

    def _collect(self) -> None:
        stack: list[tuple[Element, Element | None]] = [(self.document.root, None)]
        while stack:
            element, process = stack.pop()
            name = name_of(element)
            process = element if name == "process" else process
            self.elements.append(element)
            self.by_name[name].append(element)
            self.process_of[element] = process
            if element.tag not in OPAQUE:
                stack.extend((below, process) for below in element.iterchildren(_PREFIX + "*", reversed=True))

    def _connect(self) -> None:
        for flow in self.by_name["sequenceFlow"]:
            source, target = self.ends(flow)
            if source is not None:
                self.outgoing[source].append(flow)
            if target is not None:
                self.incoming[target].append(flow)
        for flow in self.by_name["messageFlow"]:
            for end in self.ends(flow):
                if end is not None:
                    self.message_flows.setdefault(end, flow)
        for boundary in self.by_name["boundaryEvent"]:
            host = self.resolve(boundary.get("attachedToRef"))
            if host is not None:
                self.boundaries[host].append(boundary)

    # ---------------------------------------------------------------- looking around

    def each(self, *names: str) -> Iterator[Element]:
        """Elements with these local names or of these groups, in document order per name."""
        for name in names:
            for member in sorted(GROUPS.get(name, {name})):
                yield from self.by_name.get(member, ())

    def resolve(self, reference: str | None) -> Element | None:
        return self.document.resolve(reference)

    def ends(self, flow: Element) -> tuple[Element | None, Element | None]:
        return self.resolve(flow.get("sourceRef")), self.resolve(flow.get("targetRef"))

    def definitions(self, event: Element) -> list[Element]:
        """The event's definitions, its own and those it refers to."""
        found = [
            below
            for below in event.iterchildren(_PREFIX + "*")
            if name_of(below) in GROUPS["EventDefinition"]
        ]
        for reference in children(event, "eventDefinitionRef"):
            target = self.resolve((reference.text or "").strip())
            if target is not None:
                found.append(target)
        return found

    def triggers(self, event: Element) -> tuple[str, ...]:
        """What the event's definitions are about, each once: `message`, `timer`, …"""
        if event not in self._triggers:
            names = (
                name_of(definition).removesuffix("EventDefinition") for definition in self.definitions(event)
            )
            self._triggers[event] = tuple(dict.fromkeys(names))
        return self._triggers[event]

    def references(self, element: Element, name: str) -> frozenset[str]:
        """The ids that the element's children of this name refer to."""
        key = (element, name)
        if key not in self._references:
            texts = (text_in(reference) for reference in children(element, name))
            self._references[key] = frozenset(text.rpartition(":")[2] for text in texts)
        return self._references[key]

    def declares_executable(self, element: Element) -> bool:
        process = self.process_of.get(element)
        return process is not None and is_true(process, "isExecutable")

    def is_documentation(self, element: Element) -> bool:
        process = self.process_of.get(element)
        return (
            process is not None and bool(process.get("isExecutable")) and not is_true(process, "isExecutable")
        )

    # ---------------------------------------------------------------- reporting

    def report(
        self,
        rule: Rule,
        element: Element,
        message: str,
        scrutiny: Scrutiny = Scrutiny.ALWAYS,
        judged: Element | None = None,
        hint: str | None = None,
    ) -> None:
        """`judged`: the element whose process decides the severity, where it is not `element`."""
        line = self.document.line_of(element)
        problem = rule.at(message, element_id=_nearest_id(element), line=line, hint=hint)
        if self._softens(element if judged is None else judged, scrutiny):
            problem = replace(problem, severity=Severity.WARNING)
        self.problems.append(problem)

    def warn(self, rule: Rule, element: Element, message: str) -> None:
        """Report a rule as a warning where its violation is harmless."""
        problem = rule.at(message, element_id=_nearest_id(element), line=self.document.line_of(element))
        self.problems.append(replace(problem, severity=Severity.WARNING))

    def _softens(self, element: Element, scrutiny: Scrutiny) -> bool:
        match scrutiny:
            case Scrutiny.ALWAYS:
                return False
            case Scrutiny.RUNNABLE:
                return self.is_documentation(element)
            case Scrutiny.EXECUTABLE:
                return not self.declares_executable(element)


def _nearest_id(element: Element) -> str | None:
    """The element's id, or that of the closest one around it: the author must find the place."""
    current: Element | None = element
    while current is not None:
        if identifier := current.get("id"):
            return identifier
        current = current.getparent()
    return None
