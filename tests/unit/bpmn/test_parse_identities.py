"""Ids of elements that have none: stable, unique, and never in the way of ids the author chose."""

from __future__ import annotations

from bpm_engine.bpmn.document import read_document
from bpm_engine.bpmn.model import Definitions, Event
from bpm_engine.bpmn.parse import parse

_HEAD = '<definitions xmlns="http://www.omg.org/spec/BPMN/20100524/MODEL" targetNamespace="t">'


def parsed(body: str) -> Definitions:
    return parse(read_document(f'{_HEAD}<process id="p">{body}</process></definitions>'.encode()))[0]


def test_a_flow_without_id_is_named_by_its_ends() -> None:
    process = parsed('<task id="a"/><task id="b"/><sequenceFlow sourceRef="a" targetRef="b"/>').processes[0]
    assert [flow.id for flow in process.content.flows] == ["flow:a->b"]


def test_two_flows_between_the_same_nodes_get_different_ids() -> None:
    flow = '<sequenceFlow sourceRef="a" targetRef="b"/>'
    process = parsed(f'<task id="a"/><task id="b"/>{flow}{flow}{flow}').processes[0]
    assert [flow.id for flow in process.content.flows] == ["flow:a->b", "flow:a->b_2", "flow:a->b_3"]


def test_a_derived_id_gives_way_to_one_the_author_chose() -> None:
    process = parsed('<startEvent/><task id="p.startEvent_1"/>').processes[0]
    assert [node.id for node in process.content.nodes] == ["p.startEvent_1_2", "p.startEvent_1"]


def test_definitions_are_named_by_their_event_and_position() -> None:
    body = '<startEvent id="s"><timerEventDefinition/><timerEventDefinition/></startEvent>'
    [event] = parsed(body).processes[0].content.nodes
    assert isinstance(event, Event)
    assert [d.id for d in event.definitions] == ["s.timerEventDefinition_1", "s.timerEventDefinition_2"]


def test_an_empty_id_counts_as_none() -> None:
    assert parsed('<task id=" "/>').processes[0].content.nodes[0].id == "p.task_1"


def test_the_same_file_gives_the_same_model() -> None:
    body = "<startEvent/><task/><subProcess><task/><endEvent/></subProcess><sequenceFlow/>"
    assert parsed(body) == parsed(body)


def test_ids_of_many_nameless_siblings_are_found_in_linear_time() -> None:
    """Quadratic numbering would take minutes here; pytest's own limit ends the test."""
    nodes = parsed("<task/>" * 60_000).processes[0].content.nodes
    assert len({node.id for node in nodes}) == 60_000
