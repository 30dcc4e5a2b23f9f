"""Flows: order, conditions, links, and what BPMN leaves implicit."""

from __future__ import annotations

import pytest
from support.definitions import bpmn, codes, compiled, compiled_with_problems, flow, path

from bpm_engine.bpmn.graph import Completion, Kind, Selection


def test_the_default_flow_comes_last_and_the_others_keep_the_order_of_the_file() -> None:
    graph = compiled(
        bpmn(
            '<startEvent id="s"/><exclusiveGateway id="g" default="g_a"/><task id="a"/><task id="b"/>'
            '<task id="c"/>'
            + flow("s", "g")
            + flow("g", "a")
            + flow("g", "c", "x > 1")
            + flow("g", "b", "x > 2")
        )
    )
    outgoing = graph.nodes["g"].outgoing
    assert [f.target for f in outgoing] == ["c", "b", "a"]
    assert [f.default for f in outgoing] == [False, False, True]
    assert outgoing[0].condition is not None
    assert outgoing[0].condition.source == "x > 1"


@pytest.mark.parametrize(
    ("gateway", "code"),
    [
        ('<parallelGateway id="g"/>', "CONDITION_IGNORED"),
        ('<exclusiveGateway id="g" default="g_a"/>', "DEFAULT_CONDITION_IGNORED"),
    ],
)
def test_a_condition_without_meaning_is_dropped_with_a_warning(gateway: str, code: str) -> None:
    body = f'<startEvent id="s"/>{gateway}<task id="a"/>' + flow("s", "g") + flow("g", "a", "x > 1")
    graph, problems = compiled_with_problems(bpmn(body))
    assert graph is not None
    assert graph.flows["g_a"].condition is None
    assert codes(problems) == [code]


def test_links_are_flows_from_every_throw_to_the_catch_of_the_same_name() -> None:
    link = '<linkEventDefinition name="L"/>'
    graph = compiled(
        bpmn(
            '<startEvent id="s"/><task id="a"/><task id="b"/><task id="c"/>'
            f'<intermediateThrowEvent id="t1">{link}</intermediateThrowEvent>'
            f'<intermediateThrowEvent id="t2">{link}</intermediateThrowEvent>'
            f'<intermediateCatchEvent id="catch">{link}</intermediateCatchEvent>'
            + path("s", "a", "t1")
            + path("s", "b", "t2")
            + path("catch", "c")
        )
    )
    assert graph.nodes["catch"].incoming == ("t1>catch", "t2>catch")
    assert {graph.nodes[n].kind for n in ("t1", "t2", "catch")} == {Kind.PASS}
    assert graph.root.starts == ("s",), "a catching link is no start"


def test_a_link_finds_its_partner_in_its_own_scope_only() -> None:
    graph, problems = compiled_with_problems(
        bpmn(
            '<startEvent id="s"/><intermediateThrowEvent id="t"><linkEventDefinition name="L"/>'
            '</intermediateThrowEvent><subProcess id="sub"><intermediateCatchEvent id="c">'
            '<linkEventDefinition name="L"/></intermediateCatchEvent><task id="a"/>'
            + path("c", "a")
            + "</subProcess>"
            + path("s", "t")
        )
    )
    assert graph is None
    assert codes(problems) == ["BROKEN_REFERENCE"]


def test_without_a_start_event_all_nodes_without_incoming_flow_begin_together() -> None:
    graph = compiled(bpmn('<task id="a"/><task id="b"/><task id="c"/>' + path("a", "c") + path("b", "c")))
    assert graph.root.starts == ("p#start",)
    start = graph.nodes["p#start"]
    assert (start.kind, start.element) == (Kind.START, "p")
    assert [f.target for f in start.outgoing] == ["a", "b"]


def test_nodes_without_outgoing_flow_end_at_one_made_end() -> None:
    graph = compiled(
        bpmn('<startEvent id="s"/><task id="a"/><task id="b"/>' + path("s", "a") + path("s", "b"))
    )
    assert [f.target for f in graph.nodes["a"].outgoing] == ["p#end"]
    assert [f.target for f in graph.nodes["b"].outgoing] == ["p#end"]
    assert graph.nodes["p#end"].kind is Kind.END
    assert graph.nodes["p#end"].incoming == ("a>p#end", "b>p#end")


def test_an_explicit_start_and_end_leave_nothing_to_make() -> None:
    graph = compiled(bpmn('<startEvent id="s"/><task id="a"/><endEvent id="e"/>' + path("s", "a", "e")))
    assert set(graph.nodes) == {"s", "a", "e"}


def test_an_empty_sub_process_gets_a_start_and_an_end() -> None:
    graph = compiled(
        bpmn('<startEvent id="s"/><subProcess id="sub"/><endEvent id="e"/>' + path("s", "sub", "e"))
    )
    assert graph.scopes["sub"].starts == ("sub#start",)
    assert [f.target for f in graph.nodes["sub#start"].outgoing] == ["sub#end"]


def test_the_activities_of_an_ad_hoc_sub_process_are_enabled_each_on_its_own() -> None:
    graph = compiled(
        bpmn(
            '<startEvent id="s"/><adHocSubProcess id="sub" ordering="Sequential"><task id="a"/><task id="b"/>'
            '<task id="c"/><completionCondition>done</completionCondition>'
            + path("b", "c")
            + '</adHocSubProcess><endEvent id="e"/>'
            + path("s", "sub", "e")
        )
    )
    scope = graph.scopes["sub"]
    assert scope.kind == "adhoc"
    assert scope.starts == ("sub#select",)
    assert scope.ordering == "Sequential"
    selection = graph.nodes["sub#select"].spec
    assert isinstance(selection, Selection)
    assert (selection.enabled, selection.activate, selection.waits) == (
        (("a", "a#turn"), ("b", "b#turn")),
        "none",
        True,
    )
    assert isinstance(graph.nodes["a#done"].spec, Completion)
    assert [flow.target for flow in graph.nodes["b#done"].outgoing] == ["c#turn"]


def test_handlers_boundaries_and_event_sub_processes_are_no_implicit_starts() -> None:
    graph = compiled(
        bpmn(
            '<task id="a"/><task id="undo" isForCompensation="true"/>'
            '<boundaryEvent id="b" attachedToRef="a"><compensateEventDefinition/></boundaryEvent>'
            '<association id="x" sourceRef="b" targetRef="undo"/>'
            '<boundaryEvent id="late" attachedToRef="a"><timerEventDefinition>'
            "<timeDuration>PT1S</timeDuration>"
            "</timerEventDefinition></boundaryEvent>"
            '<subProcess id="handler" triggeredByEvent="true"><startEvent id="hs"><signalEventDefinition '
            'signalRef="sig"/></startEvent></subProcess>',
            roots='<signal id="sig" name="sig"/>',
        )
    )
    assert [f.target for f in graph.nodes["p#start"].outgoing] == ["a"]
    assert {f.source for f in graph.flows.values() if f.target == "p#end"} == {"a", "late"}


def test_an_instantiating_receive_task_is_a_start_of_its_own() -> None:
    graph = compiled(
        bpmn(
            '<receiveTask id="r" instantiate="true" messageRef="m"/><endEvent id="e"/>' + path("r", "e"),
            roots='<message id="m" name="order"/>',
        )
    )
    assert graph.root.starts == ()
    assert "p#start" not in graph.nodes


def test_a_flow_to_nowhere_gives_no_graph_but_a_problem() -> None:
    graph, problems = compiled_with_problems(bpmn('<startEvent id="s"/>' + flow("s", "nowhere")))
    assert graph is None
    assert codes(problems) == ["BROKEN_REFERENCE"]
    assert problems[0].element_id == "s_nowhere"
    assert problems[0].line == 3


@pytest.mark.parametrize(
    ("attributes", "inside", "word"),
    [
        ('bpm:deadline="PT1H"', "", "deadline"),
        ('bpm:asyncBefore="true"', "", "asyncBefore"),
        ("", '<extensionElements><bpm:input name="x" value="${1}"/></extensionElements>', "input mapping"),
    ],
)
@pytest.mark.parametrize("parallel", [False, True])
def test_what_a_target_of_an_event_gateway_says_of_its_waiting_is_warned_of(
    attributes: str, inside: str, word: str, parallel: bool
) -> None:
    kind = 'instantiate="true" eventGatewayType="Parallel"' if parallel else 'instantiate="true"'
    _, problems = compiled_with_problems(
        bpmn(
            f'<eventBasedGateway id="g" {kind}/><receiveTask id="a" messageRef="m" {attributes}>{inside}'
            '</receiveTask><receiveTask id="b" messageRef="n"/><endEvent id="e"/>'
            + path("g", "a", "e")
            + path("g", "b", "e"),
            roots='<message id="m" name="order"/><message id="n" name="offer"/>',
        )
    )
    assert codes(problems) == ([] if parallel else ["EVENT_GATEWAY_TARGET_SETTINGS"])
    assert all(f"its {word} has no effect" in problem.message for problem in problems)
