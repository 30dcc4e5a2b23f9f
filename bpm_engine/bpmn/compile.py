"""From the model of a process to its graph: the passes of compilation, in order.

Every pass reports what it finds; nothing here raises for the content of a file. A graph comes out
whenever the structure can be built, also when expressions in it are wrong, so that all checks can look
at the whole process. Whether it may be run is said by the problems: a graph with errors never is.
"""

from __future__ import annotations

from collections import Counter

from bpm_engine.bpmn import graph, model
from bpm_engine.bpmn.compiling.adhoc import surround_ad_hoc_activities
from bpm_engine.bpmn.compiling.compensation import split_throws, tie_handlers
from bpm_engine.bpmn.compiling.data import DataNames
from bpm_engine.bpmn.compiling.draft import Draft
from bpm_engine.bpmn.compiling.elements import Elements
from bpm_engine.bpmn.compiling.event_gateways import check_targets
from bpm_engine.bpmn.compiling.flows import join_links, make_implicit_events, read_flows
from bpm_engine.bpmn.compiling.freezing import freeze
from bpm_engine.bpmn.compiling.quantities import gather_tokens
from bpm_engine.bpmn.compiling.repetition import Repetition
from bpm_engine.bpmn.compiling.stores import add_store_steps
from bpm_engine.bpmn.compiling.texts import Texts
from bpm_engine.problems import Findings, Problem, error

COMPLEX_WITHOUT_CONDITION = error(
    "COMPLEX_WITHOUT_CONDITION",
    "A complex gateway that joins says when it is activated (10.6.5).",
    "Add an activationCondition, such as activationCount >= 2.",
)

_TASK_OF_GLOBAL = {
    "globalUserTask": "userTask",
    "globalScriptTask": "scriptTask",
    "globalBusinessRuleTask": "businessRuleTask",
    "globalManualTask": "manualTask",
}


def compile_process(
    process: model.Process, definitions: model.Definitions
) -> tuple[graph.Graph | None, list[Problem]]:
    """The graph of one process, None where references are broken, and everything wrong with it."""
    findings = Findings()
    texts = Texts(findings, definitions.expression_language)
    draft = Draft(process, definitions, findings)
    data = DataNames.of(process, definitions)
    Elements(draft, texts, data).place_all()
    _check_boundaries(draft)
    read_flows(draft, texts)
    _check_complex_gateways(draft)
    check_targets(draft)
    join_links(draft)
    Repetition(draft, texts, data).wrap_all()
    gather_tokens(draft)
    add_store_steps(draft, data, texts)
    surround_ad_hoc_activities(draft)
    tie_handlers(draft)
    make_implicit_events(draft)
    split_throws(draft)
    compiled = None if draft.broken else freeze(draft, texts)
    return compiled, list(findings.in_order())


def compile_global_task(
    task: model.GlobalTask, definitions: model.Definitions
) -> tuple[graph.Graph | None, list[Problem]]:
    """A global task as a process of one task, so that a call activity can call it (10.3.4)."""
    only = model.Task(
        id=f"{task.id}#task",
        name=task.name,
        line=task.line,
        tag=_TASK_OF_GLOBAL.get(task.tag, "task"),
        settings=task.settings,
        script=task.script,
        io=task.io,
    )
    process = model.Process(
        id=task.id,
        name=task.name,
        documentation=task.documentation,
        line=task.line,
        content=model.Container(nodes=(only,)),
    )
    return compile_process(process, definitions)


def _check_complex_gateways(draft: Draft) -> None:
    incoming = Counter(flow.target for flow in draft.flows.values())
    for node in draft.nodes.values():
        if incoming[node.id] > 1 and isinstance(node.spec, graph.Complex) and node.spec.activation is None:
            message = "the complex gateway has several incoming flows and does not say when it is activated"
            draft.findings.add(COMPLEX_WITHOUT_CONDITION.at(message, element_id=node.id, line=node.line))


def _check_boundaries(draft: Draft) -> None:
    for node in draft.nodes.values():
        if isinstance(node.spec, graph.Boundary):
            host = draft.nodes.get(node.spec.host)
            if host is None or not host.is_activity or host.scope != node.scope:
                draft.refuse(draft.elements[node.id], "the boundary event is attached to no activity here")
