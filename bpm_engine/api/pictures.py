"""The diagram of one instance: where it has been, where it is, where it failed.

The history tells which nodes were visited. It does not name the flows in between, so these are concluded:
a token that goes on keeps its identity; where it ends, at a fork or a join, others went on from there later.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from bpm_engine.api.views import StepView
from bpm_engine.bpmn import load, model
from bpm_engine.bpmn.draw import Style, draw_svg, lay_out
from bpm_engine.errors import DefinitionError

DONE = Style(fill="#e3f5e9", stroke="#1a7f47")
HERE = Style(fill="#fff4d6", stroke="#b7791f")
FAILED = Style(fill="#fde7e7", stroke="#c53030")
LEFT = Style(fill="#eef0f3", stroke="#8a94a6")  # cancelled before it was done
STYLES = {"completed": DONE, "skipped": DONE, "running": HERE, "failed": FAILED, "cancelled": LEFT}
RANK = ("failed", "running", "completed", "skipped", "cancelled")  # the first of a node's runs is shown

Flow = model.SequenceFlow


def draw_path(xml: str, steps: Sequence[StepView], *, layout: bool = False) -> str:
    """The picture of a definition as SVG, the path of one instance in colour; `layout`: laid out anew."""
    definitions = read(xml)
    diagram = lay_out(definitions) if layout else None
    return draw_svg(definitions, diagram, highlight=highlight(definitions, steps))


def read(xml: str) -> model.Definitions:
    """A definition as it was deployed."""
    loaded = load(xml, soundness=False)
    if loaded.definitions is None:
        raise DefinitionError(loaded.problems)
    return loaded.definitions


def highlight(definitions: model.Definitions, steps: Sequence[StepView]) -> dict[str, Style]:
    """Element id -> how it stands out. A node that ran more than once, or was tried again, says how often."""
    styles = {node: _node_style(runs) for node, runs in _by_node(steps).items()}
    containers = list(_containers(definitions))
    flows = [flow for container in containers for flow in container.flows]
    styles |= dict.fromkeys(taken_flows(flows, steps), DONE)
    for container in containers:
        for line in container.associations:  # from a boundary event to what undoes its activity
            if line.target in styles and line.source not in styles:
                styles |= {line.id: DONE, line.source: DONE}
    return styles


def taken_flows(flows: Iterable[Flow], steps: Sequence[StepView]) -> set[str]:
    """The flows that tokens have gone along."""
    by_ends = {(flow.source, flow.target): flow.id for flow in flows}
    return {by_ends[ends] for ends in _moves(steps) if ends in by_ends}


def _moves(steps: Sequence[StepView]) -> Iterator[tuple[str, str]]:
    """Pairs of nodes of which the second may have been reached from the first."""
    tokens: dict[str, list[StepView]] = {}
    for step in steps:
        tokens.setdefault(step.token_id, []).append(step)
    for visits in tokens.values():
        for before, after in pairwise(visits):
            yield before.node_id, after.node_id
        last = visits[-1]
        if last.status in ("completed", "skipped") and last.ended_at is not None:
            for step in steps:
                if step.token_id != last.token_id and step.started_at >= last.ended_at:
                    yield last.node_id, step.node_id


def _by_node(steps: Sequence[StepView]) -> dict[str, list[StepView]]:
    nodes: dict[str, list[StepView]] = {}
    for step in steps:
        nodes.setdefault(step.node_id, []).append(step)
    return nodes


def _node_style(runs: Sequence[StepView]) -> Style:
    statuses = Counter(run.status for run in runs)
    style = STYLES[next(status for status in RANK if statuses[status])]
    tries = sum(max(run.attempts, 1) for run in runs)
    return Style(fill=style.fill, stroke=style.stroke, badge=f"{tries}×" if tries > 1 else "")


def _containers(definitions: model.Definitions) -> Iterator[model.Container]:
    for process in definitions.processes:
        yield process.content
        for node, _ in model.walk(process.content):
            if isinstance(node, model.SubProcess):
                yield node.content
