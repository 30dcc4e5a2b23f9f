"""Names: handler topics, messages that start instances, error codes that somebody catches."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator

from bpm_engine.bpmn.events import ErrorEvent, EventSpec, MessageEvent
from bpm_engine.bpmn.graph import Boundary, Graph, Node, Scope, Start, Throw, Work
from bpm_engine.problems import Problem, error, warning

BAD_TOPIC = error(
    "BAD_TOPIC",
    "The name of a handler is a letter or underscore followed by letters, digits, and . : _ - $.",
    "Use a plain name such as payment.charge; a topic is not an expression, a path or a command.",
)
UNKNOWN_HANDLER = error(
    "UNKNOWN_HANDLER",
    "Every topic has a handler, where the engine knows its handlers.",
    "Register a handler for the topic, or correct the name.",
)
ERROR_NOT_CAUGHT = warning(
    "ERROR_NOT_CAUGHT",
    "An error thrown inside a sub-process is caught around it (10.5.6); otherwise it stops the instance.",
    "Add an error boundary event or an error event sub-process, or throw a code that is caught.",
)
MESSAGE_START_TWICE = error(
    "MESSAGE_START_TWICE",
    "A message starts a process at one place: its message start events have different messages.",
    "Give one of the start events another message.",
)
MESSAGE_START_SHARED = warning(
    "MESSAGE_START_SHARED",
    "A message goes to one receiver (8.4.11), so it should start one process only.",
    "Give each process its own message, or use a signal to start both.",
)

_TOPIC = re.compile(r"[^\W\d][\w.:$-]*")


def check_names(graph: Graph) -> Iterator[Problem]:
    yield from _bad_topics(graph)
    yield from _message_starts(graph)
    yield from _uncaught_errors(graph)


# ------------------------------------------------------------------ topics


def check_handlers(graph: Graph, known_topics: Collection[str]) -> list[Problem]:
    """Topics that nobody handles. Called by who knows the handlers; external workers are not known here."""
    return [
        _unknown(node, work, known_topics) for node, work in _works(graph) if _unhandled(work, known_topics)
    ]


def _works(graph: Graph) -> Iterator[tuple[Node, Work]]:
    for node in graph.nodes.values():
        if isinstance(node.spec, Work):
            yield node, node.spec


def _unhandled(work: Work, known_topics: Collection[str]) -> bool:
    return work.topic not in known_topics and not work.external and work.sends is None


def _unknown(node: Node, work: Work, known_topics: Collection[str]) -> Problem:
    close = difflib.get_close_matches(work.topic, known_topics, n=1)
    return UNKNOWN_HANDLER.at(
        f"there is no handler for the topic {work.topic!r}",
        element_id=node.element,
        line=node.line,
        hint=f"Did you mean {close[0]!r}?" if close else None,
    )


def _bad_topics(graph: Graph) -> Iterator[Problem]:
    for node, work in _works(graph):
        if not _TOPIC.fullmatch(work.topic) and work.topic != node.element:
            message = f"{work.topic!r} cannot be the name of a handler"
            yield BAD_TOPIC.at(message, element_id=node.element, line=node.line)


# ------------------------------------------------------------------ messages that start


def _message_starts(graph: Graph) -> Iterator[Problem]:
    seen: set[str] = set()
    for node, name in start_messages(graph):
        if name in seen:
            message = f"the message {name!r} starts the process at two places"
            yield MESSAGE_START_TWICE.at(message, element_id=node.element, line=node.line)
        seen.add(name)


def start_messages(graph: Graph) -> Iterator[tuple[Node, str]]:
    for identifier in graph.root.nodes:
        node = graph.nodes[identifier]
        for event in node.spec.events if isinstance(node.spec, Start) else ():
            if isinstance(event, MessageEvent) and event.name.is_constant:
                yield node, str(event.name.evaluate({}))


def check_shared_names(graphs: Iterable[Graph]) -> Iterator[Problem]:
    """Over all processes of a file."""
    starts = [(graph, node, name) for graph in graphs for node, name in start_messages(graph)]
    holders = Counter(name for name, _ in {(name, graph.key) for graph, _, name in starts})
    for _, node, name in starts:
        if holders[name] > 1:
            message = f"the message {name!r} starts more than one process"
            yield MESSAGE_START_SHARED.at(message, element_id=node.element, line=node.line)


# ------------------------------------------------------------------ errors


def _uncaught_errors(graph: Graph) -> Iterator[Problem]:
    """Inside sub-processes only: what leaves the process may be caught by a caller."""
    for node in graph.nodes.values():
        for event in node.spec.events if isinstance(node.spec, Throw) else ():
            scope = graph.scopes[node.scope]
            if not isinstance(event, ErrorEvent) or event.computed is not None or scope.kind == "process":
                continue
            if not _is_caught(graph, scope, event.code):
                message = f"nobody catches the error {event.code!r} in this process"
                yield ERROR_NOT_CAUGHT.at(message, element_id=node.element, line=node.line)


def _is_caught(graph: Graph, scope: Scope, code: str | None) -> bool:
    """Outwards: the handlers of each scope that can still begin, then the boundary of the scope.

    A saga does not catch the error, but it means to fail by it, after undoing what was done.
    """
    inside = ""
    while True:
        handlers = graph.handlers_beside(scope.id, inside)
        if scope.saga or any(_handles(graph, handler, code) for handler in handlers):
            return True
        if scope.parent is None:
            return False
        if any(_catches(graph.nodes[boundary], code) for boundary in graph.nodes[scope.id].boundary):
            return True
        inside, scope = scope.id, graph.scopes[scope.parent]


def _handles(graph: Graph, handler: str, code: str | None) -> bool:
    return any(_catches(graph.nodes[start], code) for start in graph.scopes[handler].starts)


def _catches(node: Node, code: str | None) -> bool:
    events: tuple[EventSpec, ...] = node.spec.events if isinstance(node.spec, Start | Boundary) else ()
    return any(isinstance(event, ErrorEvent) and event.code in (None, code) for event in events)
