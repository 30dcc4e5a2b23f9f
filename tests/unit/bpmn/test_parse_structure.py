"""Processes, activities, gateways, flows, lanes, collaborations: what the model says of a small file."""

from __future__ import annotations

import pickle

import pytest

from bpm_engine.bpmn.document import read_document
from bpm_engine.bpmn.model import (
    Activity,
    CallActivity,
    Definitions,
    FlowNode,
    Gateway,
    MultiInstance,
    SignalDefinition,
    StandardLoop,
    SubProcess,
    Task,
    walk,
)
from bpm_engine.bpmn.parse import parse
from bpm_engine.bpmn.text import TEMPLATE, Text

_HEAD = (
    '<definitions xmlns="http://www.omg.org/spec/BPMN/20100524/MODEL" xmlns:t="urn:t" '
    'xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" targetNamespace="urn:t">'
)


def definitions(body: str) -> Definitions:
    parsed, problems = parse(read_document(f"{_HEAD}{body}</definitions>".encode()))
    assert problems == []
    return parsed


def node(body: str, roots: str = "") -> FlowNode:
    """The first node of a process."""
    return definitions(f'{roots}<process id="p">{body}</process>').processes[-1].content.nodes[0]


# ------------------------------------------------------------------ the file


def test_the_head_of_a_file_is_kept() -> None:
    parsed, _ = parse(
        read_document(
            b'<definitions xmlns="http://www.omg.org/spec/BPMN/20100524/MODEL" id="d" name="D" '
            b'exporter="Tool" '
            b'exporterVersion="1.2" expressionLanguage="feel" targetNamespace="urn:x"/>'
        )
    )
    assert (parsed.id, parsed.name, parsed.target_namespace) == ("d", "D", "urn:x")
    assert (parsed.exporter, parsed.expression_language) == ("Tool 1.2", "feel")


def test_every_element_keeps_name_documentation_and_line() -> None:
    task = node(
        '\n<task id="a" name=" Pack it ">\n<documentation>First.</documentation>'
        "<documentation>Second.</documentation></task>"
    )
    assert (task.id, task.name, task.documentation, task.line) == ("a", "Pack it", "First.\n\nSecond.", 2)


@pytest.mark.parametrize(
    ("attribute", "executable"),
    [('isExecutable="true"', True), ('isExecutable="0"', False), ("", None), ('isExecutable="maybe"', None)],
)
def test_a_process_says_whether_it_is_executable_or_nothing(attribute: str, executable: bool | None) -> None:
    assert definitions(f'<process id="p" {attribute}/>').processes[0].executable is executable


def test_a_parsed_file_can_be_pickled_compared_and_hashed() -> None:
    body = '<message id="m"/><process id="p"><serviceTask id="a"/></process>'
    parsed = definitions(body)
    assert pickle.loads(pickle.dumps(parsed)) == parsed
    assert hash(parsed) == hash(definitions(body))


# ------------------------------------------------------------------ tasks


@pytest.mark.parametrize(
    "tag",
    [
        "task",
        "manualTask",
        "serviceTask",
        "sendTask",
        "receiveTask",
        "userTask",
        "scriptTask",
        "businessRuleTask",
    ],
)
def test_every_task_is_a_task_with_its_tag(tag: str) -> None:
    parsed = node(f'<{tag} id="a"/>')
    assert isinstance(parsed, Task)
    assert parsed.tag == tag


@pytest.mark.parametrize(
    ("body", "topic", "source"),
    [
        ('<serviceTask id="a"/>', "a", "id"),
        ('<businessRuleTask id="a"/>', "a", "id"),
        ('<scriptTask id="a"/>', "a", "id"),
        ('<scriptTask id="a"><script>x = 1</script></scriptTask>', None, ""),
        ('<sendTask id="a"/>', "a", "id"),
        ('<sendTask id="a" messageRef="t:m"/>', None, ""),
        ('<userTask id="a"/>', None, ""),
        ('<task id="a"/>', None, ""),
    ],
)
def test_work_without_a_name_is_called_by_its_id(body: str, topic: str | None, source: str) -> None:
    settings = node(body, '<message id="m"/>').settings
    assert (settings.topic, settings.handler_source) == (topic, source)


def test_activity_attributes_and_their_defaults() -> None:
    plain = node('<task id="a"/>')
    full = node(
        '<task id="a" isForCompensation="1" startQuantity="2" completionQuantity="3" default="f"/>'
        '<task id="b"/><sequenceFlow id="f" sourceRef="a" targetRef="b"/>'
    )
    assert isinstance(plain, Activity)
    assert isinstance(full, Activity)
    assert (plain.is_for_compensation, plain.start_quantity, plain.completion_quantity) == (False, 1, 1)
    assert (full.is_for_compensation, full.start_quantity, full.completion_quantity) == (True, 2, 3)
    assert (plain.default, full.default) == (None, "f")


def test_messages_and_operations_are_found_by_qualified_name() -> None:
    operation = '<operation id="o"><inMessageRef>t:m</inMessageRef></operation>'
    roots = f'<message id="m"/><interface name="i">{operation}</interface>'
    by_message = node('<receiveTask id="a" messageRef="t:m" instantiate="true"/>', roots)
    by_operation = node('<sendTask id="a" operationRef="t:o"/>', roots)
    dangling = node('<receiveTask id="a" messageRef="nowhere"/>', roots)
    assert isinstance(by_message, Task)
    assert isinstance(by_operation, Task)
    assert isinstance(dangling, Task)
    assert (by_message.message, by_message.instantiate) == ("m", True)
    assert (by_operation.message, by_operation.operation) == ("m", "o")
    assert dangling.message is None


def test_a_script_keeps_its_lines_and_format() -> None:
    task = node(
        '<scriptTask id="a" scriptFormat="feel"><script>\n    a = 1\n    b = 2\n  </script></scriptTask>'
    )
    assert isinstance(task, Task)
    assert task.script is not None
    assert (task.script.source, task.script.language) == ("a = 1\nb = 2", "feel")


@pytest.mark.parametrize(
    ("written", "called"),
    [
        ("t:other", "other"),
        ("other", "other"),
        ("${which}", "${which}"),
        ("unknown:key", "unknown:key"),
        ("t:x", "x"),
    ],
)
def test_the_called_element_is_an_id_a_key_or_an_expression(written: str, called: str) -> None:
    call = node(f'<callActivity id="a" calledElement="{written}"/>', '<process id="other"/>')
    assert isinstance(call, CallActivity)
    assert call.called_element is not None
    assert (call.called_element.source, call.called_element.language) == (called, TEMPLATE)


def test_global_tasks_are_read_like_tasks() -> None:
    tasks = definitions(
        '<globalTask id="g"/><globalScriptTask id="s" scriptLanguage="bpm"><script>x = 1</script>'
        "</globalScriptTask>"
        '<globalUserTask id="u"/><globalManualTask id="m"/><globalBusinessRuleTask id="b"/>'
    ).global_tasks
    assert set(tasks) == {"g", "s", "u", "m", "b"}
    assert tasks["s"].script == Text("x = 1", "bpm", 1)
    assert tasks["b"].settings.topic == "b"


# ------------------------------------------------------------------ people


@pytest.mark.parametrize(
    ("roles", "assignee", "users", "groups"),
    [
        ("<humanPerformer>{anna}</humanPerformer>", "anna", None, None),
        ("<potentialOwner>{user(anna), group(sales), group(it)}</potentialOwner>", None, "anna", "sales, it"),
        ("<potentialOwner>{managers}</potentialOwner>", None, None, "managers"),
        ("<potentialOwner><resourceRef>t:r</resourceRef></potentialOwner>", None, None, "Regional Manager"),
        ("<potentialOwner/>", None, None, None),
    ],
)
def test_standard_resource_roles_become_assignments(
    roles: str, assignee: str | None, users: str | None, groups: str | None
) -> None:
    expression = "<resourceAssignmentExpression><formalExpression>"
    written = roles.replace("{", expression).replace(
        "}", "</formalExpression></resourceAssignmentExpression>"
    )
    settings = node(
        f'<userTask id="a">{written}</userTask>', '<resource id="r" name="Regional Manager"/>'
    ).settings
    found = (settings.assignee, settings.candidate_users, settings.candidate_groups)
    assert tuple(text and text.source for text in found) == (assignee, users, groups)


# ------------------------------------------------------------------ loops


def test_a_standard_loop() -> None:
    task = node(
        '<task id="a"><standardLoopCharacteristics testBefore="true" loopMaximum="3">'
        "<loopCondition>${n}</loopCondition></standardLoopCharacteristics></task>"
    )
    assert isinstance(task, Activity)
    assert task.loop == StandardLoop(Text("${n}", line=1), test_before=True, maximum=3, line=1)


def test_a_multi_instance_with_everything_the_standard_has() -> None:
    task = node(
        '<task id="a"><multiInstanceLoopCharacteristics isSequential="true" behavior="Complex" '
        'oneBehaviorEventRef="t:e" noneBehaviorEventRef="e">'
        "<loopCardinality>3</loopCardinality><loopDataInputRef>items</loopDataInputRef>"
        '<loopDataOutputRef>results</loopDataOutputRef><inputDataItem id="i" name="item"/>'
        '<outputDataItem id="o"/>'
        "<completionCondition>${done}</completionCondition>"
        '<complexBehaviorDefinition><condition>${n == 2}</condition><event id="t1">'
        '<signalEventDefinition id="s" signalRef="sig"/></event></complexBehaviorDefinition>'
        "</multiInstanceLoopCharacteristics></task>",
        '<signal id="sig" name="go"/><signalEventDefinition id="e" signalRef="sig"/>',
    )
    assert isinstance(task, Activity)
    loop = task.loop
    assert isinstance(loop, MultiInstance)
    assert (loop.sequential, loop.behavior, loop.one_event, loop.none_event) == (True, "Complex", "e", "e")
    assert (loop.input_data, loop.output_data) == ("items", "results")
    assert (loop.input_item, loop.output_item) == ("item", "o")
    assert loop.cardinality == Text("3", line=1)
    assert loop.completion_condition == Text("${done}", line=1)
    [behavior] = loop.complex_behaviors
    assert behavior.condition == Text("${n == 2}", line=1)
    assert behavior.event == SignalDefinition(id="s", signal="sig", line=1)


# ------------------------------------------------------------------ sub-processes


def test_sub_processes_hold_their_own_content() -> None:
    [outer] = definitions(
        '<process id="p"><subProcess id="a"><task id="b"/><adHocSubProcess id="c" ordering="Sequential" '
        'cancelRemainingInstances="false"><task id="d"/><completionCondition>${x}</completionCondition>'
        '</adHocSubProcess></subProcess><transaction id="e" method="##Store"/>'
        '<subProcess id="f" triggeredByEvent="true"/></process>'
    ).processes
    nodes = {found.id: found for found, _ in walk(outer.content)}
    assert set(nodes) == {"a", "b", "c", "d", "e", "f"}
    ad_hoc, transaction, event = nodes["c"], nodes["e"], nodes["f"]
    assert isinstance(ad_hoc, SubProcess)
    assert isinstance(transaction, SubProcess)
    assert isinstance(event, SubProcess)
    assert (ad_hoc.ordering, ad_hoc.cancel_remaining) == ("Sequential", False)
    assert ad_hoc.completion_condition == Text("${x}", line=1)
    assert (transaction.tag, transaction.method, transaction.triggered_by_event) == (
        "transaction",
        "##Store",
        False,
    )
    assert event.triggered_by_event


# ------------------------------------------------------------------ gateways and flows


def test_gateway_attributes() -> None:
    event_based = node('<eventBasedGateway id="g" instantiate="true" eventGatewayType="Parallel"/>')
    complex_one = node(
        '<complexGateway id="g" gatewayDirection="Converging" default="f">'
        "<activationCondition>${n}</activationCondition></complexGateway>"
        '<sequenceFlow id="f" sourceRef="g" targetRef="g"/>'
    )
    assert isinstance(event_based, Gateway)
    assert isinstance(complex_one, Gateway)
    assert (event_based.instantiate, event_based.event_type, event_based.direction) == (
        True,
        "Parallel",
        "Unspecified",
    )
    assert (complex_one.direction, complex_one.default) == ("Converging", "f")
    assert complex_one.activation_condition == Text("${n}", line=1)


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("", None),
        ("<conditionExpression/>", None),
        ("<conditionExpression>  </conditionExpression>", None),
        (
            '<conditionExpression xsi:type="tFormalExpression"> ${a} </conditionExpression>',
            Text("${a}", line=1),
        ),
        ('<conditionExpression language="feel">a</conditionExpression>', Text("a", "feel", 1)),
        ("<conditionExpression>a<!-- no -->b</conditionExpression>", Text("ab", line=1)),
        ("<conditionExpression><![CDATA[a < b]]></conditionExpression>", Text("a < b", line=1)),
    ],
)
def test_conditions_of_flows(condition: str, expected: Text | None) -> None:
    [flow] = (
        definitions(
            f'<process id="p"><task id="a"/><sequenceFlow id="f" sourceRef="a" targetRef="a">{condition}'
            "</sequenceFlow></process>"
        )
        .processes[0]
        .content.flows
    )
    assert flow.condition == expected


def test_associations_keep_ends_and_direction() -> None:
    parsed = definitions(
        '<process id="p"><task id="a"/><task id="b"/>'
        '<association id="x" associationDirection="One" sourceRef="a" '
        'targetRef="b"/><textAnnotation id="n"><text>Mind the gap</text></textAnnotation>'
        '<association id="y" sourceRef="a" targetRef="n"/><group id="g" categoryValueRef="v"/></process>'
        '<category id="c"><categoryValue id="v" value="Fast lane"/></category>'
    )
    content = parsed.processes[0].content
    assert [(a.id, a.source, a.target, a.direction) for a in content.associations] == [
        ("x", "a", "b", "One"),
        ("y", "a", "n", "None"),
    ]
    assert [(note.id, note.text, note.kind) for note in parsed.annotations] == [
        ("n", "Mind the gap", "text"),
        ("g", "Fast lane", "group"),
    ]
    assert [association.id for association in parsed.associations] == ["y"]


# ------------------------------------------------------------------ lanes and collaborations


def test_a_node_belongs_to_its_innermost_lane() -> None:
    [process] = definitions(
        '<process id="p"><laneSet id="s"><lane id="outer" name="Company"><flowNodeRef>a</flowNodeRef>'
        "<flowNodeRef>b</flowNodeRef><childLaneSet>"
        '<lane id="inner" name="Sales"><flowNodeRef>b</flowNodeRef></lane></childLaneSet></lane>'
        '<lane id="other" name="IT"/></laneSet><task id="a"/><task id="b"/></process>'
    ).processes
    assert [(lane.id, lane.name, lane.nodes, lane.parent) for lane in process.content.lanes] == [
        ("outer", "Company", ("a",), None),
        ("inner", "Sales", ("b",), "outer"),
        ("other", "IT", (), None),
    ]


def test_a_collaboration_with_correlation() -> None:
    parsed = definitions(
        '<collaboration id="c"><participant id="x" name="Us" processRef="t:p"/><participant id="y"/>'
        '<messageFlow id="f" sourceRef="x" targetRef="y" messageRef="m"/>'
        '<correlationKey id="k" name="Order"><correlationPropertyRef>t:o</correlationPropertyRef>'
        "</correlationKey>"
        '</collaboration><message id="m"/><correlationProperty id="o" name="order id">'
        '<correlationPropertyRetrievalExpression messageRef="m"><messagePath>order.id</messagePath>'
        "</correlationPropertyRetrievalExpression></correlationProperty>"
        '<process id="p"><correlationSubscription id="s" correlationKeyRef="k">'
        '<correlationPropertyBinding correlationPropertyRef="o"><dataPath>orderId</dataPath>'
        "</correlationPropertyBinding></correlationSubscription></process>"
    )
    [collaboration] = parsed.collaborations
    assert [(p.id, p.name, p.process) for p in collaboration.participants] == [
        ("x", "Us", "p"),
        ("y", "", None),
    ]
    assert [(f.source, f.target, f.message) for f in collaboration.message_flows] == [("x", "y", "m")]
    assert collaboration.correlation_keys[0].properties == ("o",)
    assert parsed.correlation_properties["o"].paths == {"m": Text("order.id", line=1)}
    [subscription] = parsed.processes[0].correlation_subscriptions
    assert (subscription.key, subscription.bindings) == ("k", {"o": Text("orderId", line=1)})
