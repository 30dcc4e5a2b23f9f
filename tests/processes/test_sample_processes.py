"""The sample processes are what a careful modeller would hand in: sound, complete, drawn."""

from __future__ import annotations

from pathlib import Path

import pytest
from lxml import etree

from bpm_engine.bpmn import Loaded, load
from bpm_engine.bpmn import model as m
from bpm_engine.bpmn.diagram import Box, Point

FOLDER = Path(__file__).parents[2] / "processes"
FILES = sorted(FOLDER.glob("*.bpmn"))
BPMN = "{http://www.omg.org/spec/BPMN/20100524/MODEL}"


@pytest.fixture(params=FILES, ids=lambda path: path.stem)
def path(request: pytest.FixtureRequest) -> Path:
    found: Path = request.param
    return found


@pytest.fixture
def loaded(path: Path) -> Loaded:
    return load(path.read_bytes(), source=path.name)


def _containers(loaded: Loaded) -> list[m.Container]:
    assert loaded.definitions
    found: list[m.Container] = []
    for process in loaded.definitions.processes:
        found.append(process.content)
        nodes = (node for node, _ in m.walk(process.content))
        found.extend(node.content for node in nodes if isinstance(node, m.SubProcess))
    return found


def test_there_are_at_least_eight() -> None:
    assert len(FILES) >= 8


def test_it_has_no_problem_not_even_a_warning(loaded: Loaded) -> None:
    assert [str(problem) for problem in loaded.problems] == []


def test_every_process_compiles_and_is_executable_and_documented(loaded: Loaded) -> None:
    assert loaded.definitions
    assert [graph.key for graph in loaded.graphs] == [process.id for process in loaded.definitions.processes]
    assert all(graph.executable for graph in loaded.graphs)
    assert all(process.documentation and process.name for process in loaded.definitions.processes)


def test_every_node_and_flow_is_drawn_once(loaded: Loaded) -> None:
    assert loaded.definitions
    [diagram] = loaded.definitions.diagrams
    containers = _containers(loaded)
    nodes = [node.id for container in containers for node in container.nodes]
    nodes += [lane.id for container in containers for lane in container.lanes]
    nodes += [note.id for note in loaded.definitions.annotations]
    nodes += [p.id for c in loaded.definitions.collaborations for p in c.participants]
    lines = [flow.id for container in containers for flow in container.flows]
    lines += [line.id for container in containers for line in container.associations]
    lines += [line.id for line in loaded.definitions.associations if line.id not in lines]
    lines += [flow.id for c in loaded.definitions.collaborations for flow in c.message_flows]
    assert sorted(shape.element for shape in diagram.shapes) == sorted(nodes)
    assert sorted(edge.element for edge in diagram.edges) == sorted(lines)


def test_incoming_and_outgoing_agree_with_the_flows(path: Path) -> None:
    root = etree.parse(path).getroot()
    written = {
        (node.get("id"), child.tag.removeprefix(BPMN), child.text)
        for node in root.iter()
        for child in node
        if child.tag in (f"{BPMN}incoming", f"{BPMN}outgoing")
    }
    flows = list(root.iter(f"{BPMN}sequenceFlow"))
    wanted = {(flow.get("sourceRef"), "outgoing", flow.get("id")) for flow in flows}
    wanted |= {(flow.get("targetRef"), "incoming", flow.get("id")) for flow in flows}
    assert written == wanted


def test_edges_begin_and_end_at_the_border_of_their_nodes(loaded: Loaded) -> None:
    assert loaded.definitions
    [diagram] = loaded.definitions.diagrams
    boxes = {shape.element: shape.box for shape in diagram.shapes}
    points = {edge.element: edge.points for edge in diagram.edges}
    for container in _containers(loaded):
        for flow in container.flows:
            assert _on_border(points[flow.id][0], boxes[flow.source]), flow.id
            assert _on_border(points[flow.id][-1], boxes[flow.target]), flow.id


def _on_border(point: Point, box: Box) -> bool:
    in_width = box.x - 1 <= point.x <= box.x + box.width + 1
    in_height = box.y - 1 <= point.y <= box.y + box.height + 1
    at_side = min(abs(point.x - box.x), abs(point.x - box.x - box.width)) <= 1
    at_end = min(abs(point.y - box.y), abs(point.y - box.y - box.height)) <= 1
    return in_width and in_height and (at_side or at_end)


def test_exclusive_choices_have_a_default_and_handlers_have_speaking_names(loaded: Loaded) -> None:
    for container in _containers(loaded):
        for node in container.nodes:
            leaving = [flow for flow in container.flows if flow.source == node.id]
            if isinstance(node, m.Gateway) and node.tag == "exclusiveGateway" and len(leaving) > 1:
                assert node.default, node.id
            if node.tag in ("serviceTask", "sendTask"):
                assert "." in (node.settings.topic or ""), node.id


def test_together_they_use_what_a_reader_wants_to_see() -> None:
    tags: set[str] = set()
    definitions: set[type] = set()
    for path in FILES:
        for container in _containers(load(path.read_bytes())):
            for node in container.nodes:
                tags.add(node.tag)
                if isinstance(node, m.Event):
                    definitions |= {type(definition) for definition in node.definitions}
    assert {"transaction", "subProcess", "callActivity", "userTask", "scriptTask", "sendTask"} <= tags
    assert {"eventBasedGateway", "parallelGateway", "inclusiveGateway", "exclusiveGateway"} <= tags
    assert {m.TimerDefinition, m.MessageDefinition, m.ErrorDefinition, m.SignalDefinition} <= definitions
    assert {m.CompensateDefinition, m.CancelDefinition} <= definitions
