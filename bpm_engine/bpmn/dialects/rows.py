"""What a row of a dialect's table says.

A row is one attribute or one element of an extension namespace: the BPMN elements it may stand on, the
setting it becomes, how its meaning compares with ours, and the function that reads it. An element's
attributes and children are rows too (`parts`); its reader reads them together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

from lxml import etree

from bpm_engine.bpmn.dialects.draft import Draft

AttributeReader: TypeAlias = Callable[[Draft, str], None]
ElementReader: TypeAlias = Callable[[Draft, etree._Element], None]


class Treatment(StrEnum):
    SAME = "read"
    DIFFERENT = "read differently"  # warning
    IGNORED = "ignored"  # warning
    NOT_RUN = "not run"  # executable content of another engine; warning
    HARMLESS = "no effect"  # nothing about execution depends on it; silent


@dataclass(frozen=True, slots=True)
class Place:
    """The BPMN elements a row belongs to, with the name the reference page gives them."""

    label: str
    tags: frozenset[str] = frozenset()  # empty: every element

    def __contains__(self, tag: str) -> bool:
        return not self.tags or tag in self.tags

    def __or__(self, other: Place) -> Place:
        return Place(f"{self.label}, {other.label}", self.tags | other.tags)


def place(label: str, tags: str) -> Place:
    return Place(label, frozenset(tags.split()))


ANYWHERE = Place("any element")
PROCESS = place("process", "process")
SUB_PROCESS = place("sub-process", "subProcess transaction adHocSubProcess")
AD_HOC = place("ad-hoc sub-process", "adHocSubProcess")
WORK = place(
    "service, send, business rule and script task",
    "serviceTask sendTask businessRuleTask scriptTask globalBusinessRuleTask globalScriptTask globalTask",
)
THROW = place(
    "throwing event", "intermediateThrowEvent endEvent messageEventDefinition implicitThrowEvent event"
)
USER_TASK = place("user task", "userTask globalUserTask")
SCRIPT_TASK = place("script task", "scriptTask globalScriptTask")
RULE_TASK = place("business rule task", "businessRuleTask globalBusinessRuleTask")
CALL_ACTIVITY = place("call activity", "callActivity")
START_EVENT = place("start event", "startEvent")
EVENT = place(
    "event",
    "startEvent endEvent intermediateCatchEvent intermediateThrowEvent boundaryEvent implicitThrowEvent "
    "event",
)
ACTIVITY = place(
    "activity",
    "task manualTask serviceTask sendTask receiveTask userTask scriptTask businessRuleTask callActivity "
    "subProcess transaction adHocSubProcess globalTask globalManualTask globalUserTask globalScriptTask "
    "globalBusinessRuleTask",
)
GATEWAY = place(
    "gateway", "exclusiveGateway parallelGateway inclusiveGateway eventBasedGateway complexGateway"
)
NODE = Place("node", ACTIVITY.tags | EVENT.tags | GATEWAY.tags)
MULTI_INSTANCE = place("multi-instance", "multiInstanceLoopCharacteristics")
MESSAGE_POSITION = place(
    "message event, send and receive task",
    "startEvent endEvent intermediateCatchEvent intermediateThrowEvent boundaryEvent messageEventDefinition "
    "receiveTask sendTask",
)
MESSAGE = place("message", "message")
ERROR_EVENT = place("error event", "errorEventDefinition")
ESCALATION_EVENT = place("escalation event", "escalationEventDefinition")
CONDITIONAL_EVENT = place("conditional event", "conditionalEventDefinition")
SIGNAL_EVENT = place("signal event", "signalEventDefinition")
MESSAGE_EVENT = place("message event", "messageEventDefinition")
ERROR = place("error", "error")
DATA_OBJECT = place("data object", "dataObject")
TIMER = place("timer event", "timerEventDefinition timeDate timeDuration timeCycle")
SEQUENCE_FLOW = place("sequence flow", "sequenceFlow")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    name: str
    on: Place = ANYWHERE
    becomes: str = ""  # field of Settings, or of another class of the model
    treatment: Treatment = Treatment.SAME
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttributeRow(Row):
    read: AttributeReader | None = None
    values: str = "text"
    required: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ElementRow(Row):
    read: ElementReader | None = None
    parts: tuple[AnyRow, ...] = ()
    values: str = ""  # what its text may be, if it has one


AnyRow: TypeAlias = AttributeRow | ElementRow


@dataclass(frozen=True, slots=True)
class Dialect:
    """One extension namespace. In our own, what is not known is an error; in others, a warning."""

    name: str
    namespaces: tuple[str, ...]
    rows: tuple[AnyRow, ...]
    prefix: str = ""
    own: bool = False
    attributes: dict[str, list[AttributeRow]] = field(init=False, default_factory=dict, repr=False)
    elements: dict[str, list[ElementRow]] = field(init=False, default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        for row in self.rows:
            if isinstance(row, AttributeRow):
                self.attributes.setdefault(row.name, []).append(row)
            else:
                self.elements.setdefault(row.name, []).append(row)

    def attribute(self, name: str, tag: str) -> AttributeRow | None:
        for row in self.attributes.get(name, ()):
            if tag in row.on:
                return row
        return None

    def element(self, name: str, tag: str) -> ElementRow | None:
        for row in self.elements.get(name, ()):
            if tag in row.on:
                return row
        return None


# ------------------------------------------------------------------ short forms for the tables


def attribute(
    name: str,
    on: Place,
    becomes: str,
    read: AttributeReader | None,
    note: str = "",
    *,
    values: str = "text",
    treatment: Treatment | None = None,
) -> AttributeRow:
    """A row that is read. A note alone does not make it different: give the treatment."""
    return AttributeRow(
        name=name,
        on=on,
        becomes=becomes,
        read=read,
        note=note,
        values=values,
        treatment=treatment or Treatment.SAME,
    )


def element(
    name: str,
    on: Place,
    becomes: str,
    read: ElementReader | None,
    *parts: AnyRow,
    note: str = "",
    treatment: Treatment = Treatment.SAME,
    values: str = "",
) -> ElementRow:
    return ElementRow(
        name=name,
        on=on,
        becomes=becomes,
        read=read,
        parts=parts,
        note=note,
        treatment=treatment,
        values=values,
    )


def part(
    name: str,
    becomes: str = "",
    note: str = "",
    *,
    values: str = "text",
    required: bool = False,
    treatment: Treatment = Treatment.SAME,
) -> AttributeRow:
    """An attribute of an extension element."""
    return AttributeRow(
        name=name, becomes=becomes, note=note, values=values, required=required, treatment=treatment
    )


def ignored_attributes(names: str, on: Place, note: str) -> tuple[AttributeRow, ...]:
    return tuple(
        AttributeRow(name=name, on=on, note=note, treatment=Treatment.IGNORED) for name in names.split()
    )


def harmless_attributes(names: str, on: Place, note: str) -> tuple[AttributeRow, ...]:
    return tuple(
        AttributeRow(name=name, on=on, note=note, treatment=Treatment.HARMLESS) for name in names.split()
    )


def ignored_elements(names: str, on: Place, note: str) -> tuple[ElementRow, ...]:
    return tuple(
        ElementRow(name=name, on=on, note=note, treatment=Treatment.IGNORED) for name in names.split()
    )


def elements_not_run(names: str, on: Place, note: str) -> tuple[ElementRow, ...]:
    return tuple(
        ElementRow(name=name, on=on, note=note, treatment=Treatment.NOT_RUN) for name in names.split()
    )


def flattened(rows: tuple[AnyRow, ...], inside: str = "") -> Iterator[tuple[str, AnyRow]]:
    """Each row with the extension element it lies in, parents before parts."""
    for row in rows:
        yield inside, row
        if isinstance(row, ElementRow):
            yield from flattened(row.parts, row.name)
