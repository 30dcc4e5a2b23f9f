"""What the executor can run today. Everything else of the language is read, drawn and checked, and
refused at deploy with `UNSUPPORTED_ELEMENT`: nothing is ever accepted and treated as something else.

`NOT_RUN` is the whole list. Teaching the executor an element ends with deleting its line here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from bpm_engine.bpmn.graph import (
    Boundary,
    CancelEvent,
    Catch,
    CompensationEvent,
    ErrorEvent,
    EscalationEvent,
    EventSpec,
    Graph,
    Node,
    Scope,
    Start,
    Throw,
)
from bpm_engine.problems import Problem, error

THROWN = ErrorEvent | EscalationEvent | CancelEvent | CompensationEvent
UNSUPPORTED_ELEMENT = error(
    "UNSUPPORTED_ELEMENT",
    "Only elements that the executor runs are deployed.",
    "Model it with supported elements; docs/reference/elements.md lists them.",
)


def events_of(node: Node) -> tuple[EventSpec, ...]:
    match node.spec:
        case Start() | Catch() | Throw() | Boundary():
            return node.spec.events
        case _:
            return ()


def _needs_more_than_thrown(node: Node) -> bool:
    """What is thrown is dealt with at once or by somebody else: it cannot wait for other events to come."""
    events = events_of(node)
    spec = node.spec
    needs_all = isinstance(spec, Start | Catch | Boundary) and spec.parallel and len(events) > 1
    return needs_all and any(isinstance(event, THROWN) for event in events)


def _is_scope(kind: str) -> Callable[[Node], bool]:
    return lambda node: isinstance(node.spec, Scope) and node.spec.kind == kind


NOT_RUN: tuple[tuple[str, Callable[[Node], bool]], ...] = (
    ("errors, escalations and cancels that need other events beside them", _needs_more_than_thrown),
)


def check_support(graph: Graph) -> list[Problem]:
    return list(_unsupported_nodes(graph))


def _unsupported_nodes(graph: Graph) -> Iterator[Problem]:
    for node in graph.nodes.values():
        for name, found in NOT_RUN:
            if found(node):
                yield UNSUPPORTED_ELEMENT.at(
                    f"{name} are not run yet", element_id=node.element, line=node.line
                )
