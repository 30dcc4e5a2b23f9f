"""What is read, drawn and checked but not run, and so refused at deploy with `UNSUPPORTED_ELEMENT`: nothing
is ever accepted and treated as something else.

`NOT_RUN` is the whole list, and it is empty: every element of the executable language runs. Who teaches
the reader an element before the executor adds a line here, and deletes it when the element runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from bpm_engine.bpmn.graph import Graph, Node
from bpm_engine.problems import Problem, error

UNSUPPORTED_ELEMENT = error(
    "UNSUPPORTED_ELEMENT",
    "Only elements that the executor runs are deployed.",
    "Model it with supported elements; docs/reference/elements.md lists them.",
)

NOT_RUN: tuple[tuple[str, Callable[[Node], bool]], ...] = ()


def check_support(graph: Graph) -> list[Problem]:
    return list(_unsupported_nodes(graph))


def _unsupported_nodes(graph: Graph) -> Iterator[Problem]:
    for node in graph.nodes.values():
        for name, found in NOT_RUN:
            if found(node):
                yield UNSUPPORTED_ELEMENT.at(
                    f"{name} are not run yet", element_id=node.element, line=node.line
                )
