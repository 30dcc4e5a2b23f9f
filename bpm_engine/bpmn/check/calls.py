"""Calls between the processes of one file: can what is called be run?"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from bpm_engine.bpmn.graph import Call, Graph, Node
from bpm_engine.problems import Problem, warning

# No error: another file may deploy a process of this name, before the call is reached or after it failed.
CALLED_NOT_EXECUTABLE = warning(
    "CALLED_NOT_EXECUTABLE",
    "A call activity calls a process that can be executed; what is not executable is not deployed (10.2.1).",
    'Set isExecutable="true" on the called process.',
)


def check_calls(graphs: Iterable[Graph], declared: Iterable[str]) -> Iterator[Problem]:
    """`declared`: the ids of all processes of the file, those included that have no graph."""
    runnable = [graph for graph in graphs if graph.executable]
    sketches = set(declared) - {graph.key for graph in runnable}
    for graph in runnable:
        for node in graph.nodes.values():
            if isinstance(node.spec, Call):
                yield from _not_executable(node, node.spec, sketches)


def _not_executable(node: Node, call: Call, sketches: Collection[str]) -> Iterator[Problem]:
    key = call.constant
    if key is None or key not in sketches:
        return
    hint = f'Set isExecutable="true" on {key!r}'
    if call.version != "deployment" or call.version_tag is not None:
        hint += ", or deploy an executable process of that id from another file before the call is reached"
    yield CALLED_NOT_EXECUTABLE.at(
        f"{node.element!r} calls {key!r}, which this file holds and does not deploy, because it is not "
        "executable: unless it is deployed otherwise the call is an incident CALLED_PROCESS_NOT_FOUND",
        element_id=node.element,
        line=node.line,
        hint=f"{hint}.",
    )
