"""Checks that need the compiled graph: is everything reachable, does each name mean something?

What the XML alone can answer is in `constraints`; whether tokens can get stuck, in `soundness`.
`check_handlers` and `check_support` ask what a particular engine can do, so they are called apart.
"""

from __future__ import annotations

from bpm_engine.bpmn.check.calls import check_calls
from bpm_engine.bpmn.check.conditions import check_conditions
from bpm_engine.bpmn.check.names import check_handlers, check_names, check_shared_names
from bpm_engine.bpmn.check.paths import check_paths
from bpm_engine.bpmn.check.starts import check_starts
from bpm_engine.bpmn.check.support import check_support
from bpm_engine.bpmn.graph import Graph
from bpm_engine.problems import Problem

__all__ = ["check_calls", "check_graph", "check_handlers", "check_shared_names", "check_support"]


def check_graph(graph: Graph) -> list[Problem]:
    """All rules that look at one process."""
    return [*check_paths(graph), *check_conditions(graph), *check_names(graph), *check_starts(graph)]
