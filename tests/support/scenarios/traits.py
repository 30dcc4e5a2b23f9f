"""What a node has beside its kind: data, correlation, the behavior of a repetition. Rows of `matrix`, too.

A trait is covered by what becomes of the node that has it: an activity that reads a data object in a state
and is interrupted covers reading one, interrupted. Data is read from the file as it is written, because
compilation makes mappings of it; the rest from the graph.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from bpm_engine.bpmn import model
from bpm_engine.bpmn.events import ErrorEvent, EscalationEvent, EventSpec, MessageEvent, SignalEvent
from bpm_engine.bpmn.graph import Node, Repeat, Work

Row = tuple[str, str]  # element, position

_ENDS = ("activity input", "activity output", "throw input", "catch output")
_ITEMS = ("data object", "data object with state", "data store", "property")
_SETS = ("input set", "optional input", "output set", "optional output")
_WATCHES = ("boundary", "boundary, non-interrupting")
_HANDLERS = ("event sub-process start", "event sub-process start, non-interrupting")
_BEHAVIORS = ("None", "One", "All", "Complex")
_THROWN: dict[type[EventSpec], str] = {
    SignalEvent: "signal",
    MessageEvent: "message",
    ErrorEvent: "error",
    EscalationEvent: "escalation",
}
PASSING = frozenset({"throw input", "throw", "end", "send task"})  # positions at which no token rests
TRAIT_ROWS: tuple[Row, ...] = (
    *((item, end) for item in _ITEMS for end in _ENDS),
    *((each, "activity") for each in _SETS),
    *((way, end) for way in ("transformation", "assignment") for end in _ENDS[:2]),
    *(
        ("correlation key", position)
        for position in ("start", "catch", "receive task", *_WATCHES, *_HANDLERS, "send task", "throw", "end")
    ),
    *(
        ("correlation subscription", position)
        for position in ("catch", "receive task", *_WATCHES, *_HANDLERS)
    ),
    *((f"behavior {behavior}", mode) for behavior in _BEHAVIORS for mode in ("parallel", "sequential")),
    *((f"{event} thrown by a run", "multi-instance") for event in _THROWN.values()),
)


@dataclass(frozen=True, slots=True)
class Traits:
    elements: dict[str, model.FlowNode]
    items: dict[str, model.DataItem]
    subscribed: bool

    @classmethod
    def of(cls, definitions: model.Definitions) -> Traits:
        elements: dict[str, model.FlowNode] = {}
        items: dict[str, model.DataItem] = {}
        for process in definitions.processes:
            elements |= {node.id: node for node, _ in model.walk(process.content)}
            items |= {item.id: item for item in _items(process)}
        subscribed = any(process.correlation_subscriptions for process in definitions.processes)
        return cls(elements, items, subscribed)

    def rows(self, node: Node, own: Row | None) -> Iterator[Row]:
        """`own`: the row of the node itself."""
        element = self.elements.get(node.element)
        if node.id == node.element and isinstance(element, model.Activity | model.Event):
            yield from self._data(element)
            yield from _sets(node)
        if own is not None:
            yield from self._correlation(node, own)
        if isinstance(node.spec, Repeat) and node.spec.mode != "loop":
            yield from _behavior(node.spec)

    def _data(self, element: model.Activity | model.Event) -> Iterator[Row]:
        is_activity = isinstance(element, model.Activity)
        for association in element.data_associations:
            direction = association.direction
            throws = "throw" if direction == "input" else "catch"
            place = f"{'activity' if is_activity else throws} {direction}"
            ends = association.sources if direction == "input" else (association.target or "",)
            yield from ((_item(self.items[end]), place) for end in ends if end in self.items)
            if is_activity and association.transformation is not None:
                yield "transformation", place
            if is_activity and association.assignments:
                yield "assignment", place

    def _correlation(self, node: Node, own: Row) -> Iterator[Row]:
        position = {"receiveTask": "receive task", "sendTask": "send task"}.get(node.tag, own[1])
        for event in _messages(node):
            if event.keys:
                yield "correlation key", position
            if self.subscribed and event.match:
                yield "correlation subscription", position


def _items(process: model.Process) -> Iterator[model.DataItem]:
    yield from (*process.properties, *process.content.data)
    for node, _ in model.walk(process.content):
        if isinstance(node, model.Activity):
            yield from node.properties
        if isinstance(node, model.SubProcess):
            yield from node.content.data


def _item(item: model.DataItem) -> str:
    match item.kind:
        case "store_reference":
            return "data store"
        case "property":
            return "property"
        case _:
            return "data object with state" if item.state else "data object"


def _sets(node: Node) -> Iterator[Row]:
    if node.data is None:
        return
    for word, sets in (("input", node.data.input_sets), ("output", node.data.output_sets)):
        if any(each.required for each in sets):
            yield f"{word} set", "activity"
        if any(each.optional for each in sets):
            yield f"optional {word}", "activity"


def _messages(node: Node) -> Iterator[MessageEvent]:
    events: Iterable[EventSpec | None] = getattr(node.spec, "events", ())
    if isinstance(node.spec, Work):
        events = (node.spec.sends,)
    yield from (event for event in events if isinstance(event, MessageEvent))


def _behavior(spec: Repeat) -> Iterator[Row]:
    yield f"behavior {spec.behavior}", spec.mode
    events = (spec.none_event, spec.one_event, *(event for _, event in spec.complex_events))
    for event in events:
        if event is not None:
            yield f"{_THROWN[type(event)]} thrown by a run", "multi-instance"
