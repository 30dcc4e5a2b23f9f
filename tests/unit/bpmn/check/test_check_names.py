"""Topics, start messages, error codes, conditions."""

from __future__ import annotations

import pytest
from support.definitions import bpmn, codes, compiled, flow, loaded, path

from bpm_engine.bpmn import check_handlers
from bpm_engine.bpmn.check import check_graph

ERRORS = '<error id="e1" errorCode="ONE"/><error id="e2" errorCode="TWO"/>'


def throwing(code: str, around: str = "", boundary: str = "") -> bytes:
    """A sub-process that ends with an error."""
    return bpmn(
        f'<startEvent id="s"/><subProcess id="sub"><startEvent id="s2"/><endEvent id="t">'
        f'<errorEventDefinition errorRef="{code}"/></endEvent>{path("s2", "t")}{around}</subProcess>'
        f'<endEvent id="end"/>{path("s", "sub", "end")}{boundary}',
        roots=ERRORS,
    )


def boundary(reference: str) -> str:
    return (
        f'<boundaryEvent id="b" attachedToRef="sub"><errorEventDefinition {reference}/></boundaryEvent>'
        + path("b", "end")
    )


HANDLER = (
    '<subProcess id="h" triggeredByEvent="true"><startEvent id="hs"><errorEventDefinition errorRef="e1"/>'
    '</startEvent><endEvent id="he"/>' + path("hs", "he") + "</subProcess>"
)


@pytest.mark.parametrize(
    "data",
    [
        throwing("e1", boundary=boundary('errorRef="e1"')),
        throwing("e1", boundary=boundary("")),
        throwing("e1", around=HANDLER),
        throwing("e1").replace(b'isExecutable="true"', b'isExecutable="true" bpm:saga="true"'),
    ],
)
def test_an_error_that_is_caught_around_is_fine(data: bytes) -> None:
    assert check_graph(compiled(data)) == []


@pytest.mark.parametrize("data", [throwing("e1"), throwing("e2", HANDLER, boundary('errorRef="e1"'))])
def test_an_error_that_nobody_catches_is_a_warning_at_its_throw(data: bytes) -> None:
    assert [(p.code, p.element_id) for p in check_graph(compiled(data))] == [("ERROR_NOT_CAUGHT", "t")]


def test_an_error_out_of_the_process_may_be_caught_by_the_caller() -> None:
    body = '<startEvent id="s"/><endEvent id="t"><errorEventDefinition errorRef="e1"/></endEvent>' + path(
        "s", "t"
    )
    assert check_graph(compiled(bpmn(body, roots=ERRORS))) == []


def test_a_handler_does_not_catch_what_it_throws_itself() -> None:
    handler = HANDLER.replace(
        '<endEvent id="he"/>', '<endEvent id="he"><errorEventDefinition errorRef="e1"/></endEvent>'
    )
    found = check_graph(compiled(throwing("e1", handler)))
    assert [(p.code, p.element_id) for p in found] == [("ERROR_NOT_CAUGHT", "he")]


def test_beside_a_handler_that_interrupts_no_other_catches_what_it_throws() -> None:
    thrower = HANDLER.replace(
        '<endEvent id="he"/>', '<endEvent id="he"><errorEventDefinition errorRef="e2"/></endEvent>'
    )
    other = HANDLER.replace('id="h', 'id="o').replace('Ref="h', 'Ref="o').replace('"e1"', '"e2"')
    found = check_graph(compiled(throwing("e1", thrower + other)))
    assert [(p.code, p.element_id) for p in found] == [("ERROR_NOT_CAUGHT", "he")]


@pytest.mark.parametrize("topic", ["../x", "rm -rf /", "${topic}", "a;b", "9lives"])
def test_a_topic_that_is_no_name_is_an_error(topic: str) -> None:
    found = check_graph(compiled(bpmn(f'<serviceTask id="t" bpm:topic="{topic}"/>')))
    assert [(p.code, p.element_id) for p in found] == [("BAD_TOPIC", "t")]


@pytest.mark.parametrize(
    "topic", ["pay", "payment.charge", "io.camunda:http-json:1", "com.acme.Foo$Bar", "über"]
)
def test_names_as_other_engines_write_them_are_topics(topic: str) -> None:
    assert check_graph(compiled(bpmn(f'<serviceTask id="t" bpm:topic="{topic}"/>'))) == []


def test_a_topic_without_handler_is_refused_with_the_nearest_name() -> None:
    graph = compiled(
        bpmn(
            '<serviceTask id="a" bpm:topic="payment.chrage"/><serviceTask id="b" bpm:topic="os:system"/>'
            '<serviceTask id="c" bpm:topic="known"/><serviceTask id="d" bpm:topic="far" bpm:external="true"/>'
            '<task id="e" bpm:compensate="undo.e"/>'
        )
    )
    found = check_handlers(graph, {"payment.charge", "known"})
    assert [(p.code, p.element_id) for p in found] == [
        ("UNKNOWN_HANDLER", "a"),
        ("UNKNOWN_HANDLER", "b"),
        ("UNKNOWN_HANDLER", "e"),
    ]
    assert "payment.charge" in found[0].hint


def test_a_send_task_that_can_send_by_itself_needs_no_handler() -> None:
    graph = compiled(
        bpmn('<sendTask id="a" bpm:topic="mail" messageRef="m"/>', roots='<message id="m" name="m"/>')
    )
    assert check_handlers(graph, set()) == []


START = '<startEvent id="{0}"><messageEventDefinition messageRef="{1}"/></startEvent>'


def test_one_message_that_starts_a_process_at_two_places_is_an_error() -> None:
    body = (
        START.format("a", "m1")
        + START.format("b", "m2")
        + '<endEvent id="e"/>'
        + path("a", "e")
        + path("b", "e")
    )
    same = compiled(bpmn(body, roots='<message id="m1" name="order"/><message id="m2" name="order"/>'))
    different = compiled(bpmn(body, roots='<message id="m1" name="order"/><message id="m2" name="other"/>'))
    assert codes(check_graph(same)) == ["MESSAGE_START_TWICE"]
    assert check_graph(different) == []


def test_one_message_that_starts_two_processes_is_a_warning() -> None:
    body = START.format("a", "m") + '<endEvent id="e"/>' + path("a", "e")
    second = body.replace('"a', '"x').replace('"e"', '"z"').replace("_e", "_z").replace('"a"', '"x"')
    data = bpmn(body, roots='<message id="m" name="order"/>').replace(
        b"</definitions>", f'<process id="q" isExecutable="true">{second}</process></definitions>'.encode()
    )
    assert [(p.code, p.element_id) for p in loaded(data).problems] == [
        ("MESSAGE_START_SHARED", "a"),
        ("MESSAGE_START_SHARED", "x"),
    ]


def calling(how: str, called: str) -> bytes:
    """A process `p` that calls the process `q` of the same file."""
    body = f'<startEvent id="s"/><callActivity id="call" calledElement="q" {how}/><endEvent id="e"/>'
    second = f'<process id="q" {called}><startEvent id="qs"/><endEvent id="qe"/>{path("qs", "qe")}</process>'
    return bpmn(body + path("s", "call", "e")).replace(b"</definitions>", f"{second}</definitions>".encode())


@pytest.mark.parametrize("how", ["", 'bpm:version="3"', 'bpm:versionTag="stable"'])
def test_a_call_of_a_process_of_the_file_that_is_not_executable_is_a_warning(how: str) -> None:
    (found,) = loaded(calling(how, 'isExecutable="false"')).problems
    assert (found.code, found.severity, found.element_id) == ("CALLED_NOT_EXECUTABLE", "warning", "call")
    assert found.line is not None
    assert "'call' calls 'q'" in found.message
    assert "CALLED_PROCESS_NOT_FOUND" in found.message
    assert "isExecutable=\"true\" on 'q'" in found.hint


def test_a_call_that_is_bound_to_its_deployment_finds_it_in_no_other_file() -> None:
    (found,) = loaded(calling('bpm:version="deployment"', 'isExecutable="false"')).problems
    assert found.code == "CALLED_NOT_EXECUTABLE"
    assert "another file" not in found.hint


def test_a_call_of_a_sketch_that_cannot_run_is_a_warning_as_well() -> None:
    sketch = calling("", "").replace(b'<endEvent id="qe"/>', b'<serviceTask id="qe" bpm:topic="a;b"/>')
    assert "CALLED_NOT_EXECUTABLE" in codes(loaded(sketch))


@pytest.mark.parametrize("called", ['isExecutable="true"', ""])
def test_a_call_of_a_process_of_the_file_that_can_run_is_fine(called: str) -> None:
    assert loaded(calling("", called)).problems == ()


def test_what_is_not_executable_itself_may_call_what_it_likes() -> None:
    data = calling("", 'isExecutable="false"').replace(
        b'"p" isExecutable="true"', b'"p" isExecutable="false"'
    )
    assert loaded(data).problems == ()


@pytest.mark.parametrize(
    ("tag", "missing"), [("exclusiveGateway", True), ("inclusiveGateway", True), ("parallelGateway", False)]
)
def test_a_choosing_gateway_needs_conditions_on_all_but_the_default_flow(tag: str, missing: bool) -> None:
    body = (
        f'<startEvent id="s"/><{tag} id="g"/><userTask id="a"/><userTask id="b"/>'
        + flow("s", "g")
        + flow("g", "a")
        + flow("g", "b")
    )
    found = check_graph(compiled(bpmn(body)))
    assert [(p.code, p.element_id) for p in found] == (
        [("CONDITION_MISSING", "g_a"), ("CONDITION_MISSING", "g_b")] if missing else []
    )


def test_a_gateway_with_conditions_and_default_is_fine_and_so_is_a_merge() -> None:
    body = (
        '<startEvent id="s"/><exclusiveGateway id="g" default="g_b"/><userTask id="a"/><userTask id="b"/>'
        '<exclusiveGateway id="m"/>'
        + path("s", "g")
        + flow("g", "a", "x > 1")
        + flow("g", "b")
        + path("a", "m")
        + path("b", "m")
    )
    assert check_graph(compiled(bpmn(body))) == []
