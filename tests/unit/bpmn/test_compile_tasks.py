"""Tasks: who does the work."""

from __future__ import annotations

import pytest
from support.definitions import bpmn, codes, compiled, compiled_with_problems

from bpm_engine.bpmn.events import MessageEvent
from bpm_engine.bpmn.graph import Call, Catch, Human, Kind, Node, ScriptSpec, Throw, Work

MESSAGE = '<message id="m" name="order"/>'


def only(element: str, roots: str = "") -> Node:
    return compiled(bpmn(element, roots=roots)).nodes["t"]


@pytest.mark.parametrize("tag", ["task", "manualTask"])
def test_abstract_and_manual_tasks_pass(tag: str) -> None:
    node = only(f'<{tag} id="t"/>')
    assert (node.kind, node.spec, node.is_activity) == (Kind.PASS, None, True)


@pytest.mark.parametrize("tag", ["serviceTask", "businessRuleTask", "sendTask", "scriptTask"])
def test_work_without_a_name_is_called_by_its_id(tag: str) -> None:
    node = only(f'<{tag} id="t"/>')
    assert node.kind is Kind.WORK
    assert isinstance(node.spec, Work)
    assert node.spec.topic == "t"


def test_an_explicit_topic_wins_over_script_and_message() -> None:
    script = only(
        '<scriptTask id="t" bpm:topic="do.it" scriptFormat="bpm"><script>x = 1</script></scriptTask>'
    )
    send = only('<sendTask id="t" bpm:topic="do.it" messageRef="m"/>', MESSAGE)
    assert isinstance(script.spec, Work)
    assert isinstance(send.spec, Work)
    assert (script.spec.topic, send.spec.topic) == ("do.it", "do.it")
    assert send.spec.sends is not None
    assert send.spec.sends.name.evaluate({}) == "order"


def test_the_settings_of_work_arrive_in_the_graph() -> None:
    node = only(
        '<serviceTask id="t" bpm:topic="pay" bpm:lease="PT2M" bpm:priority="${level * 2}" '
        'bpm:external="true" '
        'bpm:onFailure="suspend" bpm:emit="paid" bpm:asyncBefore="true" bpm:deadline="PT4H">'
        "<extensionElements>"
        '<bpm:retry attempts="5" kind="exponential" base="PT2S" max="PT5M" jitter="0.5"/>'
        '<bpm:property name="queue" value="fast"/><bpm:input name="x" value="${order.total}"/>'
        '<bpm:output name="y" value="${receipt.id}"/></extensionElements></serviceTask>'
    )
    work = node.spec
    assert isinstance(work, Work)
    assert (work.lease, work.external, work.on_failure) == ("PT2M", True, "suspend")
    assert work.priority is not None
    assert work.priority.evaluate({"level": 3}) == 6
    assert (work.retry.attempts, work.retry.kind, work.retry.base, work.retry.jitter) == (
        5,
        "exponential",
        "PT2S",
        0.5,
    )
    assert dict(work.properties) == {"queue": "fast"}
    assert node.deadline is not None
    assert (node.emit, node.async_before, node.deadline.source) == ("paid", True, "PT4H")
    assert [(name, set(e.reads)) for name, e in (*node.inputs, *node.outputs)] == [
        ("x", {"order"}),
        ("y", {"receipt"}),
    ]


def test_a_send_task_with_a_message_and_no_handler_throws_it() -> None:
    node = only('<sendTask id="t" messageRef="m"/>', MESSAGE)
    assert node.kind is Kind.THROW
    assert isinstance(node.spec, Throw)
    assert isinstance(node.spec.events[0], MessageEvent)
    assert node.is_activity


def test_a_receive_task_waits_for_its_message() -> None:
    node = only('<receiveTask id="t" messageRef="m" bpm:correlationKey="${order.id}"/>', MESSAGE)
    assert node.kind is Kind.CATCH
    assert isinstance(node.spec, Catch)
    (event,) = node.spec.events
    assert isinstance(event, MessageEvent)
    assert event.name.evaluate({}) == "order"
    assert event.correlation_key is not None
    assert event.correlation_key.evaluate({"order": {"id": "7"}}) == "7"


@pytest.mark.parametrize("language", ["", 'scriptFormat="bpm"'])
def test_a_script_of_ours_is_evaluated_by_the_engine(language: str) -> None:
    node = only(f'<scriptTask id="t" {language}><script>total = price * 2</script></scriptTask>')
    assert node.kind is Kind.SCRIPT
    assert isinstance(node.spec, ScriptSpec)
    assert node.spec.script.run({"price": 3}) == {"total": 6}


def test_a_feel_script_keeps_its_result_variable() -> None:
    node = only(
        '<scriptTask id="t" scriptFormat="feel" bpm:resultVariable="r"><script>a + 1</script></scriptTask>'
    )
    assert isinstance(node.spec, ScriptSpec)
    assert node.spec.result_variable == "r"
    assert node.spec.script.result is not None
    assert node.spec.script.result.evaluate({"a": 1}) == 2


@pytest.mark.parametrize("language", ["javascript", "groovy", "python", "http://www.java.com/java"])
def test_a_script_of_another_language_is_never_run_but_needs_a_handler(language: str) -> None:
    graph, problems = compiled_with_problems(
        bpmn(f'<scriptTask id="t" scriptFormat="{language}"><script>x = 1</script></scriptTask>')
    )
    assert graph is not None
    assert codes(problems) == ["SCRIPT_FORMAT"]
    spec = graph.nodes["t"].spec
    assert isinstance(spec, Work)
    assert spec.topic == "t"


def test_an_expression_of_a_dialect_is_evaluated_when_it_is_one_of_ours() -> None:
    node = only('<serviceTask id="t" camunda:expression="${a + b}" camunda:resultVariable="sum"/>')
    assert node.kind is Kind.SCRIPT
    assert isinstance(node.spec, ScriptSpec)
    assert node.spec.script.result is not None
    assert node.spec.script.result.evaluate({"a": 1, "b": 2}) == 3


def test_a_broken_script_is_an_error_at_its_line() -> None:
    _, problems = compiled_with_problems(
        bpmn('<scriptTask id="t" scriptFormat="bpm">\n<script>x = = 1</script></scriptTask>')
    )
    assert codes(problems) == ["EXPRESSION_SYNTAX"]
    assert (problems[0].element_id, problems[0].line) == ("t", 4)


def test_a_user_task_carries_people_form_and_lane() -> None:
    graph = compiled(
        bpmn(
            '<laneSet id="ls"><lane id="l" name="sales"><flowNodeRef>sub</flowNodeRef></lane></laneSet>'
            '<subProcess id="sub"><userTask id="t" bpm:assignee="${boss}" bpm:candidateGroups="a, b" '
            'bpm:dueDate="P1D" bpm:formKey="f"><extensionElements><bpm:field name="ok" type="boolean" '
            'required="true"/><bpm:guard condition="${ok}" message="say yes"/></extensionElements></userTask>'
            "</subProcess>"
        )
    )
    human = graph.nodes["t"].spec
    assert isinstance(human, Human)
    assert human.assignee is not None
    assert human.assignee.evaluate({"boss": "anna"}) == "anna"
    assert human.candidate_groups is not None
    assert human.candidate_groups.evaluate({}) == "a, b"
    assert (human.form_key, human.fields[0].name, human.guards[0].message) == ("f", "ok", "say yes")
    assert human.lane == "sales", "a node in a sub-process is in the lane of the sub-process"


def test_a_call_activity_passes_all_variables_unless_it_maps_some() -> None:
    plain = only('<callActivity id="t" calledElement="other"/>')
    mapped = only(
        '<callActivity id="t" calledElement="${which}" bpm:version="3"><extensionElements>'
        '<bpm:input name="a" value="${b}"/></extensionElements></callActivity>'
    )
    assert isinstance(plain.spec, Call)
    assert isinstance(mapped.spec, Call)
    assert (plain.spec.pass_all_inputs, plain.spec.pass_all_outputs, plain.spec.version) == (
        True,
        True,
        "latest",
    )
    assert (mapped.spec.pass_all_inputs, mapped.spec.pass_all_outputs, mapped.spec.version) == (
        False,
        True,
        3,
    )
    assert mapped.spec.called.evaluate({"which": "x"}) == "x"


def test_a_topic_where_no_handler_works_is_a_warning() -> None:
    graph, problems = compiled_with_problems(
        bpmn(
            '<intermediateThrowEvent id="t" bpm:topic="x"><signalEventDefinition signalRef="s"/>'
            "</intermediateThrowEvent>",
            roots='<signal id="s" name="s"/>',
        )
    )
    assert graph is not None
    assert graph.nodes["t"].kind is Kind.THROW
    assert codes(problems) == ["TOPIC_IGNORED"]


@pytest.mark.parametrize(
    "task",
    [
        '<serviceTask id="t" bpm:lease="P999999999Y"/>',
        '<serviceTask id="t"><extensionElements><bpm:retry max="P999Y"/></extensionElements></serviceTask>',
    ],
)
def test_a_setting_out_of_range_is_an_error(task: str) -> None:
    _, problems = compiled_with_problems(bpmn(task))
    assert codes(problems) == ["SETTING_FORMAT"]


def test_two_fields_of_one_name_are_an_error() -> None:
    field = '<bpm:field name="a" type="string"/>'
    _, problems = compiled_with_problems(
        bpmn(f'<userTask id="t"><extensionElements>{field}{field}</extensionElements></userTask>')
    )
    assert codes(problems) == ["FIELD_TWICE"]
