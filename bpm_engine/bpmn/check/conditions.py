"""Conditions: present where a choice is made."""

from __future__ import annotations

from collections.abc import Iterator

from bpm_engine.bpmn.graph import Graph, Kind, Node
from bpm_engine.problems import Problem, warning

CONDITION_MISSING = warning(
    "CONDITION_MISSING",
    "Where a gateway chooses, every flow but the default one has a condition (10.6.2, 10.6.3).",
    "Write the condition, or make the flow the default.",
)

_CHOOSING = (Kind.CHOICE, Kind.INCLUSIVE)


def check_conditions(graph: Graph) -> Iterator[Problem]:
    if not graph.executable:
        return  # in a drawing, a name on the flow says enough
    for node in graph.nodes.values():
        if node.kind in _CHOOSING and len(node.outgoing) > 1:
            yield from _missing(node)


def _missing(gateway: Node) -> Iterator[Problem]:
    for flow in gateway.outgoing:
        if flow.condition is None and not flow.default:
            message = f"the flow out of {gateway.element!r} has no condition, so it can always be taken"
            yield CONDITION_MISSING.at(message, element_id=flow.id, line=flow.line or gateway.line)
