"""Events: what they say, and what becomes of them in each position."""

from __future__ import annotations

import pytest
from support.definitions import bpmn, codes, compiled, compiled_with_problems, path

from bpm_engine.bpmn import load
from bpm_engine.bpmn.events import (
    CompensationEvent,
    ErrorEvent,
    EscalationEvent,
    MessageEvent,
    SignalEvent,
    TerminateEvent,
    TimerEvent,
)
from bpm_engine.bpmn.graph import Boundary, Catch, EventChoice, Kind, Start, Throw, Work

ROOTS = (
    '<message id="m" name="order-${region}"/><signal id="s" name="alarm"/>'
    '<error id="e" name="Declined" errorCode="CARD"/><error id="codeless" name="Broken"/>'
    '<escalation id="x" escalationCode="LATE"/>'
)


def test_a_message_start_and_a_none_start_are_told_apart() -> None:
    graph = compiled(
        bpmn(
            '<startEvent id="none"/><startEvent id="msg"><messageEventDefinition messageRef="m"/>'
            "</startEvent>"
            '<endEvent id="end"/>' + path("none", "end") + path("msg", "end"),
            roots=ROOTS,
        )
    )
    assert graph.root.starts == ("none",)
    spec = graph.nodes["msg"].spec
    assert isinstance(spec, Start)
    (event,) = spec.events
    assert isinstance(event, MessageEvent)
    assert event.name.evaluate({"region": "eu"}) == "order-eu"


def test_a_boundary_event_hangs_on_its_host() -> None:
    graph = compiled(
        bpmn(
            '<task id="a"/><boundaryEvent id="b" attachedToRef="a" cancelActivity="false">'
            '<signalEventDefinition signalRef="s"/></boundaryEvent><task id="c"/>' + path("b", "c"),
            roots=ROOTS,
        )
    )
    spec = graph.nodes["b"].spec
    assert isinstance(spec, Boundary)
    assert (spec.host, spec.interrupting) == ("a", False)
    assert graph.nodes["a"].boundary == ("b",)
    assert graph.network.has_edge("a", "b", "boundary")


def test_an_event_gateway_lists_its_targets() -> None:
    graph = compiled(
        bpmn(
            '<startEvent id="st"/><eventBasedGateway id="g"/>'
            '<intermediateCatchEvent id="t"><timerEventDefinition><timeDuration>PT1H</timeDuration>'
            '</timerEventDefinition></intermediateCatchEvent><receiveTask id="r" messageRef="m"/>'
            + path("st", "g", "t")
            + path("g", "r"),
            roots=ROOTS,
        )
    )
    spec = graph.nodes["g"].spec
    assert spec == EventChoice(("t", "r"))
    catch = graph.nodes["t"].spec
    assert isinstance(catch, Catch)
    assert isinstance(catch.events[0], TimerEvent)


@pytest.mark.parametrize(
    ("reference", "code"), [('errorRef="e"', "CARD"), ('errorRef="codeless"', None), ("", None)]
)
def test_a_catch_takes_the_code_of_its_error_or_every_code(reference: str, code: str | None) -> None:
    graph = compiled(
        bpmn(
            '<task id="a"/><boundaryEvent id="b" attachedToRef="a">'
            f"<errorEventDefinition {reference}/></boundaryEvent>",
            roots=ROOTS,
        )
    )
    spec = graph.nodes["b"].spec
    assert isinstance(spec, Boundary)
    assert spec.events == (ErrorEvent(code),)


@pytest.mark.parametrize(("reference", "code"), [("e", "CARD"), ("codeless", "Broken")])
def test_a_throw_without_a_code_throws_the_errors_name(reference: str, code: str) -> None:
    graph = compiled(
        bpmn(f'<endEvent id="t"><errorEventDefinition errorRef="{reference}"/></endEvent>', roots=ROOTS)
    )
    assert graph.nodes["t"].spec == Throw((ErrorEvent(code),))


@pytest.mark.parametrize("kind", ["error", "escalation"])
def test_what_a_catch_waits_for_is_not_computed(kind: str) -> None:
    root = f'<{kind} id="computed" {kind}Code="= code"/>'
    events = f'<{kind}EventDefinition {kind}Ref="computed"/>'
    text = bpmn(
        f'<subProcess id="a"><startEvent id="s"/><endEvent id="t">{events}</endEvent>{path("s", "t")}'
        "</subProcess>"
        f'<boundaryEvent id="b" attachedToRef="a">{events}</boundaryEvent><endEvent id="e"/>{path("b", "e")}',
        roots=root,
    )
    found = [problem for problem in load(text).problems if problem.code == "CAUGHT_CODE_COMPUTED"]
    assert [problem.element_id for problem in found] == ["b"]


def test_escalation_terminate_and_several_definitions() -> None:
    graph = compiled(
        bpmn(
            '<endEvent id="t"><escalationEventDefinition escalationRef="x"/>'
            '<signalEventDefinition signalRef="s"/><terminateEventDefinition/></endEvent>',
            roots=ROOTS,
        )
    )
    spec = graph.nodes["t"].spec
    assert isinstance(spec, Throw)
    assert [type(event) for event in spec.events] == [EscalationEvent, SignalEvent, TerminateEvent]


def test_an_event_sub_process_is_a_handler_of_its_scope() -> None:
    graph = compiled(
        bpmn(
            '<subProcess id="sub"><task id="a"/><subProcess id="h" triggeredByEvent="true">'
            '<startEvent id="hs" isInterrupting="false"><signalEventDefinition signalRef="s"/></startEvent>'
            "</subProcess></subProcess>",
            roots=ROOTS,
        )
    )
    assert graph.scopes["sub"].handlers == ("h",)
    assert graph.scopes["h"].kind == "event"
    assert graph.scopes["h"].starts == ("hs",)
    spec = graph.nodes["hs"].spec
    assert isinstance(spec, Start)
    assert not spec.interrupting
    assert not graph.nodes["h"].incoming
    assert not graph.nodes["h"].outgoing


def test_a_message_end_with_a_topic_is_work_and_then_an_end() -> None:
    graph = compiled(
        bpmn(
            '<startEvent id="st"/><endEvent id="t"><messageEventDefinition messageRef="m" '
            'camunda:type="external" camunda:topic="mailer"/></endEvent>' + path("st", "t"),
            roots=ROOTS,
        )
    )
    node = graph.nodes["t"]
    assert node.kind is Kind.WORK
    assert isinstance(node.spec, Work)
    assert node.spec.topic == "mailer"
    assert [f.target for f in node.outgoing] == ["p#end"]


def test_a_throwing_message_event_without_message_sends_nothing_and_says_so() -> None:
    graph, problems = compiled_with_problems(
        bpmn('<intermediateThrowEvent id="t"><messageEventDefinition/></intermediateThrowEvent>')
    )
    assert graph is not None
    assert graph.nodes["t"].kind is Kind.PASS
    assert codes(problems) == ["MESSAGE_UNNAMED"]


def test_a_message_without_name_is_known_by_its_id_with_a_warning() -> None:
    graph, problems = compiled_with_problems(
        bpmn('<receiveTask id="r" messageRef="m1"/>', roots='<message id="m1"/>')
    )
    assert graph is not None
    assert codes(problems) == ["MESSAGE_UNNAMED"]
    spec = graph.nodes["r"].spec
    assert isinstance(spec, Catch)
    assert isinstance(spec.events[0], MessageEvent)
    assert spec.events[0].name.evaluate({}) == "m1"


def test_a_correlation_subscription_of_the_process_becomes_a_match() -> None:
    roots = (
        '<message id="m" name="paid"/><correlationProperty id="cp" name="order">'
        '<correlationPropertyRetrievalExpression messageRef="m"><messagePath>order.id</messagePath>'
        "</correlationPropertyRetrievalExpression></correlationProperty>"
        '<collaboration id="co"><participant id="pa" processRef="p"/><correlationKey id="ck">'
        "<correlationPropertyRef>cp</correlationPropertyRef></correlationKey></collaboration>"
    )
    graph = compiled(
        bpmn(
            '<receiveTask id="r" messageRef="m"/><correlationSubscription id="cs" correlationKeyRef="ck">'
            '<correlationPropertyBinding correlationPropertyRef="cp"><dataPath>orderId</dataPath>'
            "</correlationPropertyBinding></correlationSubscription>",
            roots=roots,
        )
    )
    spec = graph.nodes["r"].spec
    assert isinstance(spec, Catch)
    assert isinstance(spec.events[0], MessageEvent)
    ((where, expected),) = spec.events[0].match
    assert where == "order.id"
    assert expected.evaluate({"orderId": 7}) == 7


def test_a_compensation_throw_names_the_activity() -> None:
    graph = compiled(
        bpmn(
            '<task id="a" bpm:compensate="undo.a"/><endEvent id="t">'
            '<compensateEventDefinition activityRef="a" waitForCompletion="false"/></endEvent>'
            + path("a", "t")
        )
    )
    assert graph.nodes["t"].spec == Throw((CompensationEvent("a", wait=False),))
