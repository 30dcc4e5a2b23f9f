"""What starts a process is known when it is deployed: no instance is there yet, of whose variables the name
of a message or a time could be made. A condition alone is about what the start is given."""

from __future__ import annotations

from collections.abc import Iterator

from bpm_engine.bpmn.events import EventSpec, MessageEvent, SignalEvent, TimerEvent
from bpm_engine.bpmn.graph import Graph
from bpm_engine.problems import Problem, error

START_READS_VARIABLES = error(
    "START_READS_VARIABLES",
    "What starts a process is known when it is deployed: there are no variables yet.",
    "Write the name or the time itself, or as an expression without variables.",
)


def check_starts(graph: Graph) -> Iterator[Problem]:
    if not graph.executable:
        return
    for node, _, event in graph.start_events():
        if names := ", ".join(sorted(_read(event))):
            message = f"{node.element!r} starts the process and reads {names}"
            yield START_READS_VARIABLES.at(message, element_id=node.element, line=node.line)


def _read(event: EventSpec) -> frozenset[str]:
    match event:
        case MessageEvent():
            return event.name.reads.union(*(value.reads for _, value in event.match))
        case SignalEvent():
            return event.name.reads
        case TimerEvent():
            return event.expression.reads
        case _:
            return frozenset()
