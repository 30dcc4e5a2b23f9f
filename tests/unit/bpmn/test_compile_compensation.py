"""Compensation handlers find their activities."""

from __future__ import annotations

from support.definitions import bpmn, codes, compiled, compiled_with_problems, path

from bpm_engine.bpmn.graph import Kind, Work

DRAWN = (
    '<boundaryEvent id="b" attachedToRef="a"><compensateEventDefinition/></boundaryEvent>'
    '<serviceTask id="undo" isForCompensation="true" bpm:topic="undo.a"/>'
    '<association id="x" sourceRef="b" targetRef="undo" associationDirection="One"/>'
)


def test_a_compensation_boundary_ties_the_handler_to_its_host_and_is_no_node() -> None:
    graph = compiled(
        bpmn('<startEvent id="s"/><task id="a"/><endEvent id="e"/>' + DRAWN + path("s", "a", "e"))
    )
    assert graph.nodes["a"].undo == "undo"
    assert graph.nodes["undo"].is_undo
    assert graph.nodes["a"].boundary == ()
    assert "b" not in graph.nodes
    assert not graph.nodes["undo"].outgoing
    assert graph.root.compensable


def test_an_association_drawn_backwards_is_understood() -> None:
    backwards = DRAWN.replace('sourceRef="b" targetRef="undo"', 'sourceRef="undo" targetRef="b"')
    graph = compiled(bpmn('<task id="a"/>' + backwards))
    assert graph.nodes["a"].undo == "undo"


def test_an_association_of_the_collaboration_is_understood() -> None:
    line = '<association id="x" sourceRef="b" targetRef="undo" associationDirection="One"/>'
    around = f'<collaboration id="c"><participant id="pool" processRef="p"/>{line}</collaboration>'
    graph = compiled(bpmn('<task id="a"/>' + DRAWN.replace(line, ""), roots=around))
    assert graph.nodes["a"].undo == "undo"


def test_a_handler_that_is_not_marked_is_still_run_by_compensation_only() -> None:
    graph = compiled(bpmn('<task id="a"/>' + DRAWN.replace('isForCompensation="true"', "")))
    assert graph.nodes["undo"].is_undo
    assert [f.target for f in graph.nodes["p#start"].outgoing] == ["a"]


def test_the_short_form_makes_a_handler() -> None:
    graph = compiled(bpmn('<serviceTask id="a" bpm:topic="a" bpm:compensate="undo.a"/>'))
    handler = graph.nodes["a#undo"]
    assert graph.nodes["a"].undo == "a#undo"
    assert (handler.kind, handler.is_undo, handler.element, handler.scope) == (Kind.WORK, True, "a", "p")
    assert isinstance(handler.spec, Work)
    assert handler.spec.topic == "undo.a"
    assert "a#undo" in graph.root.nodes


def test_a_drawn_handler_comes_before_the_short_form() -> None:
    graph, problems = compiled_with_problems(bpmn('<task id="a" bpm:compensate="other"/>' + DRAWN))
    assert graph is not None
    assert graph.nodes["a"].undo == "undo"
    assert codes(problems) == ["COMPENSATION_TWICE"]


def test_a_compensation_event_sub_process_replaces_the_default_of_its_scope() -> None:
    graph = compiled(
        bpmn(
            '<subProcess id="sub"><task id="a"/><subProcess id="h" triggeredByEvent="true">'
            '<startEvent id="hs"><compensateEventDefinition/></startEvent><endEvent id="he"/>'
            + path("hs", "he")
            + "</subProcess></subProcess>"
        )
    )
    assert graph.scopes["sub"].compensation_handler == "h"
    assert graph.scopes["sub"].handlers == ()
    assert (graph.scopes["sub"].compensable, graph.root.compensable) == (False, True)


def test_only_scopes_with_something_to_undo_keep_records() -> None:
    graph = compiled(
        bpmn(
            '<subProcess id="one"><subProcess id="two"><task id="a" bpm:compensate="u"/></subProcess>'
            "</subProcess>"
            '<subProcess id="three"><task id="b"/></subProcess>'
        )
    )
    assert {scope.id for scope in graph.scopes.values() if scope.compensable} == {"p", "one", "two"}


def test_a_handler_that_undoes_nothing_is_a_warning() -> None:
    _, problems = compiled_with_problems(bpmn('<task id="a"/><task id="undo" isForCompensation="true"/>'))
    assert [(p.code, p.element_id) for p in problems] == [("COMPENSATION_HANDLER_UNUSED", "undo")]


def test_a_compensation_boundary_without_handler_gives_no_graph() -> None:
    graph, problems = compiled_with_problems(
        bpmn(
            '<task id="a"/><boundaryEvent id="b" attachedToRef="a"><compensateEventDefinition/>'
            "</boundaryEvent>"
        )
    )
    assert graph is None
    assert [(p.code, p.element_id) for p in problems] == [("BROKEN_REFERENCE", "b")]


def test_a_throw_that_names_an_activity_of_another_level_is_a_warning() -> None:
    _, problems = compiled_with_problems(
        bpmn(
            '<subProcess id="sub"><task id="a" bpm:compensate="u"/></subProcess>'
            '<endEvent id="e"><compensateEventDefinition activityRef="a"/></endEvent>' + path("sub", "e")
        )
    )
    assert [(p.code, p.element_id) for p in problems] == [("COMPENSATION_OUT_OF_REACH", "e")]


def test_a_throw_must_name_an_activity_of_the_process() -> None:
    graph, problems = compiled_with_problems(
        bpmn('<startEvent id="s"/><endEvent id="e"><compensateEventDefinition activityRef="s"/></endEvent>')
    )
    assert graph is None
    assert codes(problems) == ["BROKEN_REFERENCE"]
