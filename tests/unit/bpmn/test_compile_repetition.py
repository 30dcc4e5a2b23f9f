"""Loop and multi-instance markers: a REPEAT around the activity."""

from __future__ import annotations

import pytest
from support.definitions import bpmn, codes, compiled, compiled_with_problems, path

from bpm_engine.bpmn.events import CompensationEvent
from bpm_engine.bpmn.graph import Boundary, Gather, Kind, Node, Repeat, Scope, Throw

MARKER = '<multiInstanceLoopCharacteristics bpm:collection="items" bpm:elementVariable="item"/>'


def repeat_of(node: Node) -> Repeat:
    assert node.kind is Kind.REPEAT
    assert isinstance(node.spec, Repeat)
    return node.spec


def test_what_surrounds_the_activity_belongs_to_the_body_and_the_work_to_the_inner_node() -> None:
    graph = compiled(
        bpmn(
            '<startEvent id="s"/>'
            '<serviceTask id="t" bpm:topic="w" bpm:deadline="PT1H" bpm:asyncBefore="true" '
            'bpm:emit="done" startQuantity="2"><extensionElements><bpm:input name="a" value="${item}"/>'
            f'</extensionElements>{MARKER}</serviceTask><endEvent id="e"/>'
            '<boundaryEvent id="b" attachedToRef="t"><timerEventDefinition><timeDuration>PT1S</timeDuration>'
            "</timerEventDefinition></boundaryEvent>" + path("s", "t", "e") + path("b", "e")
        )
    )
    body, inner = graph.nodes["t#body"], graph.nodes["t"]
    assert (body.scope, inner.scope, body.element) == ("p", "t#body", "t")
    assert (body.incoming, [f.target for f in body.outgoing]) == (("t#gather>t#body",), ["e"])
    assert (inner.incoming, inner.outgoing) == ((), ())
    assert graph.flows["s_t"].target == "t#gather"
    assert graph.nodes["t#gather"].spec == Gather(2)
    assert body.deadline is not None
    assert (body.deadline.source, body.async_before, body.emit) == ("PT1H", True, "done")
    assert (inner.deadline, inner.async_before, inner.emit) == (None, False, None)
    assert (body.inputs, [name for name, _ in inner.inputs]) == ((), ["a"])
    assert body.boundary == ("b",)
    assert isinstance(graph.nodes["b"].spec, Boundary)
    assert graph.nodes["b"].spec.host == "t#body"
    scope = graph.scopes["t#body"]
    assert (scope.kind, scope.parent, scope.nodes, scope.starts) == ("repeat", "p", ("t",), ("t",))
    assert graph.root.nodes == ("s", "t#body", "e", "b", "t#gather")


def test_a_repeated_sub_process_is_a_scope_inside_the_body() -> None:
    graph = compiled(bpmn(f'<subProcess id="sub">{MARKER}<task id="a"/></subProcess>'))
    assert isinstance(graph.nodes["sub"].spec, Scope)
    assert graph.scopes["sub"].parent == "sub#body"
    assert graph.scopes["sub#body"].parent == "p"


def test_the_settings_of_a_multi_instance_marker() -> None:
    graph = compiled(
        bpmn(
            '<task id="t">'
            '<multiInstanceLoopCharacteristics isSequential="true" bpm:collection="${order.lines}" '
            'bpm:elementVariable="line" bpm:outputCollection="totals" bpm:outputElement="${total}">'
            "<completionCondition>nrOfCompletedInstances == 2</completionCondition>"
            "</multiInstanceLoopCharacteristics></task>"
        )
    )
    repeat = repeat_of(graph.nodes["t#body"])
    assert (repeat.inner, repeat.mode, repeat.element_variable, repeat.output_collection) == (
        "t",
        "sequential",
        "line",
        "totals",
    )
    assert repeat.collection is not None
    assert repeat.collection.evaluate({"order": {"lines": [1]}}) == [1]
    assert repeat.output_element is not None
    assert repeat.completion is not None
    assert repeat.completion.reads == {"nrOfCompletedInstances"}


def test_a_collection_in_standard_bpmn_is_found_through_its_data_association() -> None:
    graph = compiled(
        bpmn(
            '<dataObject id="lines" isCollection="true"/><task id="t"><ioSpecification>'
            '<dataInput id="in" isCollection="true"/><inputSet><dataInputRefs>in</dataInputRefs></inputSet>'
            "<outputSet/></ioSpecification><dataInputAssociation><sourceRef>lines</sourceRef>"
            "<targetRef>in</targetRef>"
            "</dataInputAssociation><multiInstanceLoopCharacteristics><loopDataInputRef>in</loopDataInputRef>"
            '<inputDataItem id="line"/></multiInstanceLoopCharacteristics></task>'
        )
    )
    repeat = repeat_of(graph.nodes["t#body"])
    assert repeat.collection is not None
    assert repeat.collection.source == "lines"
    assert repeat.element_variable == "line"


def test_a_standard_loop() -> None:
    graph = compiled(
        bpmn(
            '<task id="t"><standardLoopCharacteristics testBefore="true" loopMaximum="5">'
            '<loopCondition xsi:type="tFormalExpression">n &lt; 3</loopCondition>'
            "</standardLoopCharacteristics></task>"
        )
    )
    repeat = repeat_of(graph.nodes["t#body"])
    assert (repeat.mode, repeat.test_before, repeat.maximum) == ("loop", True, 5)
    assert repeat.condition is not None
    assert repeat.condition.holds({"n": 2})


def test_each_completed_run_is_undone_by_the_handler_of_the_inner_node() -> None:
    graph = compiled(
        bpmn(
            f'<task id="t" bpm:compensate="undo.it">{MARKER}</task><endEvent id="e">'
            '<compensateEventDefinition activityRef="t"/></endEvent>' + path("t", "e")
        )
    )
    assert (graph.nodes["t"].undo, graph.nodes["t#body"].undo) == ("t#undo", None)
    assert graph.nodes["t#undo"].scope == "p"
    assert graph.nodes["e"].spec == Throw((CompensationEvent("t#body"),))
    assert graph.scopes["t#body"].compensable
    assert graph.root.compensable


@pytest.mark.parametrize(
    ("marker", "code"),
    [
        ("<multiInstanceLoopCharacteristics/>", "REPETITION_WITHOUT_COUNT"),
        *(
            (
                "<multiInstanceLoopCharacteristics>"
                f"<loopCardinality>{count}</loopCardinality></multiInstanceLoopCharacteristics>",
                "REPETITION_COUNT",
            )
            for count in ("-1", "1.5", '"three"', "true")
        ),
        ('<standardLoopCharacteristics loopMaximum="-1"/>', "REPETITION_COUNT"),
    ],
)
def test_a_count_that_is_none_is_an_error(marker: str, code: str) -> None:
    _, problems = compiled_with_problems(bpmn(f'<task id="t">{marker}</task>'))
    assert codes(problems) == [code]
    assert problems[0].element_id == "t"


def test_a_repeated_compensation_handler_runs_as_a_whole() -> None:
    graph = compiled(
        bpmn(
            f'<task id="a"/><task id="h" isForCompensation="true">{MARKER}</task>'
            '<boundaryEvent id="b" attachedToRef="a"><compensateEventDefinition/></boundaryEvent>'
            '<association id="x" sourceRef="b" targetRef="h"/>'
        )
    )
    assert graph.nodes["a"].undo == "h#body"
    assert (graph.nodes["h#body"].is_undo, graph.nodes["h"].is_undo) == (True, False)
