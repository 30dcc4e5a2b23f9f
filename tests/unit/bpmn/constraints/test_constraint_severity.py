# ruff: noqa: E501 - XML and tables read better unbroken
"""How strict the rules are: sketches get warnings, executable processes errors, and dialects are understood."""

from __future__ import annotations

import pytest

from bpm_engine.bpmn.constraints import check_document
from bpm_engine.bpmn.document import read_document
from bpm_engine.problems import Problem, Severity

NAMESPACES = (
    'xmlns:bpmn="http://www.omg.org/spec/BPMN/20100524/MODEL" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"'
    ' xmlns:camunda="http://camunda.org/schema/1.0/bpmn" xmlns:zeebe="http://camunda.org/schema/zeebe/1.0"'
    ' xmlns:xi="http://www.w3.org/2001/XInclude" xmlns:bpmndi="http://www.omg.org/spec/BPMN/20100524/DI"'
)


def check(content: str, attributes: str = 'targetNamespace="urn:t"') -> list[Problem]:
    text = f"<bpmn:definitions {NAMESPACES} {attributes}>{content}</bpmn:definitions>"
    return check_document(read_document(text.encode()))


def errors(content: str, attributes: str = 'targetNamespace="urn:t"') -> set[str]:
    return {problem.code for problem in check(content, attributes) if problem.severity is Severity.ERROR}


def process(body: str, attributes: str = 'isExecutable="true"') -> str:
    return f'<bpmn:process id="p" {attributes}>{body}</bpmn:process>'


SKETCH = '<bpmn:startEvent id="s"/><bpmn:task id="t"/><bpmn:intermediateCatchEvent id="c"/>'


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        (
            'isExecutable="true"',
            {"NODE_WITHOUT_INCOMING", "EVENT_DEFINITION_MISSING", "INTERMEDIATE_EVENT_WITHOUT_OUTGOING"},
        ),
        ("", {"EVENT_DEFINITION_MISSING"}),
        ('isExecutable="false"', set()),
    ],
)
def test_the_less_a_process_claims_the_less_is_an_error(attributes: str, expected: set[str]) -> None:
    problems = check(process(SKETCH, attributes))

    assert {p.code for p in problems if p.severity is Severity.ERROR} == expected
    assert {"NODE_WITHOUT_INCOMING", "EVENT_DEFINITION_MISSING"} <= {p.code for p in problems}


def test_documentation_is_still_well_formed() -> None:
    body = '<bpmn:task id="t"/><bpmn:sequenceFlow id="f" sourceRef="t" targetRef="gone"/><bpmn:robot id="r"/>'

    assert errors(process(body, 'isExecutable="false"')) == {"DANGLING_REFERENCE", "UNKNOWN_ELEMENT"}


def test_a_duplicate_id_names_both_lines() -> None:
    found = check(process('\n<bpmn:task id="t"/>\n\n<bpmn:userTask id="t"/>'))

    assert [(p.line, p.severity) for p in found if p.code == "DUPLICATE_ID"] == [(4, "error")]
    assert any("lines 2 and 4" in p.message for p in found)


def test_ids_that_nothing_refers_to_may_repeat() -> None:
    body = '<bpmn:task id="t"><bpmn:documentation id="d"/><bpmn:documentation id="d"/></bpmn:task>'

    assert errors(process(body)) == set()


def test_repeated_ids_in_the_diagram_are_a_warning() -> None:
    diagram = '<bpmndi:BPMNDiagram id="x"><bpmndi:BPMNPlane id="x"/></bpmndi:BPMNDiagram>'

    found = [p for p in check(process('<bpmn:task id="t"/>') + diagram) if p.code == "DUPLICATE_ID"]

    assert [p.severity for p in found] == [Severity.WARNING]


def test_xinclude_is_refused_even_inside_extensions() -> None:
    body = '<bpmn:extensionElements><xi:include href="/etc/passwd"/></bpmn:extensionElements>'

    assert errors(process(body)) == {"UNKNOWN_ELEMENT"}


@pytest.mark.parametrize("value", ["True", "FALSE"])
def test_a_wrongly_capitalised_value_is_a_warning(value: str) -> None:
    found = check(process(f'<bpmn:task id="t" isForCompensation="{value}"/>'))

    assert [(p.code, p.severity) for p in found if p.code == "BAD_VALUE"] == [("BAD_VALUE", "warning")]


def test_a_process_without_start_event_starts_at_its_open_nodes() -> None:
    body = '<bpmn:task id="t"/><bpmn:endEvent id="e"/><bpmn:sequenceFlow sourceRef="t" targetRef="e"/>'

    assert errors(process(body)) == set()


def test_an_undeclared_error_is_a_code_as_engines_read_it() -> None:
    body = (
        '<bpmn:startEvent id="s"/><bpmn:sequenceFlow sourceRef="s" targetRef="e"/>'
        '<bpmn:endEvent id="e"><bpmn:errorEventDefinition errorRef="CARD_DECLINED"/></bpmn:endEvent>'
    )

    assert errors(process(body)) == set()


def test_an_undeclared_signal_is_a_name_as_engines_read_it() -> None:
    body = (
        '<bpmn:startEvent id="s"><bpmn:signalEventDefinition signalRef="Alert"/></bpmn:startEvent>'
        '<bpmn:task id="t"/><bpmn:sequenceFlow sourceRef="s" targetRef="t"/>'
    )

    assert errors(process(body)) == set()


def test_two_loops_may_name_their_variable_alike() -> None:
    loop = (
        "<bpmn:multiInstanceLoopCharacteristics><bpmn:loopDataInputRef>orders</bpmn:loopDataInputRef>"
        '<bpmn:inputDataItem id="order"/></bpmn:multiInstanceLoopCharacteristics>'
    )
    body = f'<bpmn:task id="a">{loop}</bpmn:task><bpmn:task id="b">{loop}</bpmn:task>'

    assert errors(process(body)) == set()


def test_class_names_as_types_need_not_be_equal() -> None:
    body = """
      <bpmn:property id="v" itemSubjectRef="i1"/>
      <bpmn:task id="t">
        <bpmn:ioSpecification><bpmn:dataInput id="in" itemSubjectRef="i2"/>
          <bpmn:inputSet><bpmn:dataInputRefs>in</bpmn:dataInputRefs></bpmn:inputSet><bpmn:outputSet/>
        </bpmn:ioSpecification>
        <bpmn:dataInputAssociation><bpmn:sourceRef>v</bpmn:sourceRef><bpmn:targetRef>in</bpmn:targetRef>
        </bpmn:dataInputAssociation>
      </bpmn:task>"""
    items = '<bpmn:itemDefinition id="i1" structureRef="a.Order"/><bpmn:itemDefinition id="i2" structureRef="Object"/>'
    java = 'targetNamespace="urn:t" typeLanguage="http://www.java.com/javaTypes"'

    assert errors(items + process(body)) == {"ITEM_MISMATCH"}
    assert errors(items + process(body), java) == set()


def test_a_prefixed_reference_means_the_same_as_a_plain_one() -> None:
    body = (
        '<bpmn:startEvent id="s"><bpmn:messageEventDefinition messageRef="tns:m"/></bpmn:startEvent>'
        '<bpmn:task id="t"/><bpmn:sequenceFlow sourceRef="s" targetRef="t"/>'
    )

    assert (
        errors('<bpmn:message id="m" name="m"/>' + process(body), 'xmlns:tns="urn:t" targetNamespace="urn:t"')
        == set()
    )


MODELLER_SHAPES = {
    "camunda 7": """
      <bpmn:startEvent id="s"/>
      <bpmn:sequenceFlow id="f1" sourceRef="s" targetRef="m"/>
      <bpmn:userTask id="m" camunda:assignee="${user}">
        <bpmn:multiInstanceLoopCharacteristics isSequential="true" camunda:collection="users"/>
      </bpmn:userTask>
      <bpmn:sequenceFlow id="f2" sourceRef="m" targetRef="g"/>
      <bpmn:exclusiveGateway id="g" default="f3"/>
      <bpmn:sequenceFlow id="f3" sourceRef="g" targetRef="e"/>
      <bpmn:sequenceFlow id="f4" sourceRef="g" targetRef="mail">
        <bpmn:conditionExpression xsi:type="bpmn:tFormalExpression">${late}</bpmn:conditionExpression>
      </bpmn:sequenceFlow>
      <bpmn:endEvent id="mail"><bpmn:messageEventDefinition camunda:type="external" camunda:topic="mail"/></bpmn:endEvent>
      <bpmn:endEvent id="e"/>""",
    "activiti, without formal types and incoming or outgoing": """
      <bpmn:startEvent id="s"><bpmn:timerEventDefinition><bpmn:timeCycle>0 0/5 * * * ?</bpmn:timeCycle>
      </bpmn:timerEventDefinition></bpmn:startEvent>
      <bpmn:sequenceFlow sourceRef="s" targetRef="m"/>
      <bpmn:userTask id="m"><bpmn:potentialOwner><bpmn:resourceAssignmentExpression>
        <bpmn:formalExpression>management</bpmn:formalExpression></bpmn:resourceAssignmentExpression></bpmn:potentialOwner>
        <bpmn:multiInstanceLoopCharacteristics isSequential="false">
          <bpmn:loopDataInputRef>assigneeList</bpmn:loopDataInputRef><bpmn:inputDataItem name="assignee"/>
          <bpmn:completionCondition>${nrOfCompletedInstances/nrOfInstances >= 0.6}</bpmn:completionCondition>
        </bpmn:multiInstanceLoopCharacteristics></bpmn:userTask>
      <bpmn:boundaryEvent id="b" attachedToRef="m"><bpmn:timerEventDefinition>
        <bpmn:timeDuration>PT5M</bpmn:timeDuration></bpmn:timerEventDefinition></bpmn:boundaryEvent>
      <bpmn:sequenceFlow sourceRef="b" targetRef="e"/><bpmn:sequenceFlow sourceRef="m" targetRef="e"/>
      <bpmn:endEvent id="e"/>""",
    "zeebe": """
      <bpmn:startEvent id="s"><bpmn:outgoing>f1</bpmn:outgoing></bpmn:startEvent>
      <bpmn:sequenceFlow id="f1" sourceRef="s" targetRef="m"/>
      <bpmn:serviceTask id="m"><bpmn:extensionElements><zeebe:taskDefinition type="x"/></bpmn:extensionElements>
        <bpmn:incoming>f1</bpmn:incoming><bpmn:outgoing>f2</bpmn:outgoing>
        <bpmn:multiInstanceLoopCharacteristics><bpmn:extensionElements>
          <zeebe:loopCharacteristics inputCollection="=items" inputElement="item"/></bpmn:extensionElements>
        </bpmn:multiInstanceLoopCharacteristics></bpmn:serviceTask>
      <bpmn:sequenceFlow id="f2" sourceRef="m" targetRef="c"/>
      <bpmn:intermediateCatchEvent id="c"><bpmn:timerEventDefinition>
        <bpmn:timeDuration xsi:type="bpmn:tFormalExpression">=wait</bpmn:timeDuration></bpmn:timerEventDefinition>
      </bpmn:intermediateCatchEvent>
      <bpmn:sequenceFlow id="f3" sourceRef="c" targetRef="e"/><bpmn:endEvent id="e"/>""",
    "a task that ends a path, beside an end event": """
      <bpmn:startEvent id="s"/><bpmn:task id="a"/><bpmn:task id="b"/><bpmn:endEvent id="e"/>
      <bpmn:sequenceFlow sourceRef="s" targetRef="a"/><bpmn:sequenceFlow sourceRef="a" targetRef="e"/>
      <bpmn:sequenceFlow sourceRef="a" targetRef="b"/>""",
    "lanes and data as bpmn.io writes them": """
      <bpmn:laneSet id="ls"><bpmn:lane id="l"><bpmn:flowNodeRef>t</bpmn:flowNodeRef><bpmn:flowNodeRef>r</bpmn:flowNodeRef>
      </bpmn:lane></bpmn:laneSet>
      <bpmn:task id="t"><bpmn:property id="Property_1" name="__targetRef_placeholder"/>
        <bpmn:dataInputAssociation id="d"><bpmn:sourceRef>r</bpmn:sourceRef><bpmn:targetRef>Property_1</bpmn:targetRef>
        </bpmn:dataInputAssociation></bpmn:task>
      <bpmn:dataObjectReference id="r" name="Order" dataObjectRef="o"/><bpmn:dataObject id="o"/>
      <bpmn:dataStoreReference id="ds" name="Archive"/>
      <bpmn:textAnnotation id="n"><bpmn:text>note</bpmn:text></bpmn:textAnnotation>
      <bpmn:association id="as" sourceRef="t" targetRef="n"/>""",
}


@pytest.mark.parametrize("shape", MODELLER_SHAPES)
def test_what_modellers_write_is_accepted(shape: str) -> None:
    assert errors(process(MODELLER_SHAPES[shape])) == set()


@pytest.mark.parametrize("text_format", ["wrong", "text/", "/plain", "text plain"])
def test_the_format_of_a_text_is_a_media_type(text_format: str) -> None:
    note = f'<bpmn:textAnnotation id="n" textFormat="{text_format}"><bpmn:text>x</bpmn:text></bpmn:textAnnotation>'

    assert errors(process(note)) == {"BAD_VALUE"}
    assert errors(process(note, "")) == set()


@pytest.mark.parametrize(
    "text_format", ["", "text/plain", "text/html; charset=utf-8", "application/xhtml+xml"]
)
def test_media_types_are_formats_of_texts(text_format: str) -> None:
    note = f'<bpmn:textAnnotation id="n" textFormat="{text_format}"><bpmn:text>x</bpmn:text></bpmn:textAnnotation>'

    assert errors(process(note)) == set()


def test_a_process_that_is_not_run_may_have_flows_that_are_not_immediate() -> None:
    body = (
        '<bpmn:startEvent id="s"/><bpmn:endEvent id="e"/>'
        '<bpmn:sequenceFlow id="f" sourceRef="s" targetRef="e" isImmediate="false"/>'
    )

    assert errors(process(body)) == {"FLOW_NOT_IMMEDIATE"}
    assert errors(process(body, "")) == set()


IO = (
    '<bpmn:task id="t"><bpmn:ioSpecification><bpmn:dataInput id="i"/><bpmn:inputSet>'
    "<bpmn:dataInputRefs>i</bpmn:dataInputRefs></bpmn:inputSet><bpmn:outputSet/></bpmn:ioSpecification>"
    "<bpmn:dataInputAssociation><bpmn:sourceRef>{}</bpmn:sourceRef><bpmn:targetRef>{}</bpmn:targetRef>"
    "</bpmn:dataInputAssociation></bpmn:task>"
)
OWNER = '<bpmn:userTask id="t"><bpmn:potentialOwner><bpmn:resourceRef>{}</bpmn:resourceRef></bpmn:potentialOwner></bpmn:userTask>'
ELSEWHERE = '<bpmn:dataObject id="o"/><bpmn:task id="u"/>'


@pytest.mark.parametrize(
    ("body", "wrong"),
    [
        (IO, ("o", "u")),
        (IO, ("u", "i")),
        (OWNER, ("u",)),
        ('<bpmn:group id="g" categoryValueRef="{}"/>', ("u",)),
        ("<bpmn:supports>{}</bpmn:supports>", ("u",)),
    ],
)
def test_where_a_reference_may_dangle_it_does_not_lead_to_another_kind(
    body: str, wrong: tuple[str, ...]
) -> None:
    assert errors(process(ELSEWHERE + body.format(*wrong))) == {"WRONG_REFERENCE"}
    assert errors(process(ELSEWHERE + body.format(*wrong), "")) == set()
    assert errors(process(ELSEWHERE + body.format("gone", "gone"))) == set()


def test_a_collaboration_that_defines_is_no_message() -> None:
    with_message = '<bpmn:message id="m"/>' + process(
        "", 'isExecutable="true" definitionalCollaborationRef="m"'
    )

    assert errors(with_message) == {"WRONG_REFERENCE"}


def test_a_data_association_may_end_at_the_activity_itself() -> None:
    assert errors(process(ELSEWHERE + IO.format("o", "t"))) == set()


def test_a_link_names_no_other_event() -> None:
    body = (
        '<bpmn:startEvent id="s"/><bpmn:endEvent id="e"/><bpmn:sequenceFlow id="f" sourceRef="s" targetRef="x"/>'
        '<bpmn:intermediateThrowEvent id="x"><bpmn:linkEventDefinition id="l" name="n"><bpmn:target>{}</bpmn:target>'
        "</bpmn:linkEventDefinition></bpmn:intermediateThrowEvent>"
        '<bpmn:intermediateCatchEvent id="c"><bpmn:linkEventDefinition id="k" name="m"><bpmn:source>{}</bpmn:source>'
        "</bpmn:linkEventDefinition></bpmn:intermediateCatchEvent>"
        '<bpmn:sequenceFlow id="h" sourceRef="c" targetRef="e"/>'
    )

    assert errors(process(body.format("e", "s"))) == {"WRONG_REFERENCE", "LINK_WITHOUT_PARTNER"}
    assert errors(process(body.format("c", "x"))) == errors(process(body.format("k", "l"))) == set()


@pytest.mark.parametrize("kind", ["error", "escalation"])
def test_what_is_thrown_has_a_code(kind: str) -> None:
    body = (
        '<bpmn:startEvent id="s"/><bpmn:sequenceFlow id="f" sourceRef="s" targetRef="e"/>'
        f'<bpmn:endEvent id="e"><bpmn:{kind}EventDefinition {kind}Ref="x"/></bpmn:endEvent>'
    )
    without, with_code = f'<bpmn:{kind} id="x" name="X"/>', f'<bpmn:{kind} id="x" {kind}Code="X"/>'

    assert errors(without + process(body)) == {f"{kind.upper()}_CODE_MISSING"}
    assert errors(without + process(body, "")) == errors(with_code + process(body)) == set()


ITEM = '<bpmn:itemDefinition id="i" structureRef="text"/><bpmn:message id="m" name="m" itemRef="i"/>'
SENT = (
    '<bpmn:sendTask id="t" messageRef="m"><bpmn:ioSpecification><bpmn:dataInput id="d" {}/><bpmn:inputSet>'
    "<bpmn:dataInputRefs>d</bpmn:dataInputRefs></bpmn:inputSet><bpmn:outputSet/></bpmn:ioSpecification></bpmn:sendTask>"
)


def test_what_is_sent_has_the_item_of_its_message() -> None:
    assert errors(ITEM + process(SENT.format(""))) == {"ITEM_MISMATCH"}
    assert (
        errors(ITEM + process(SENT.format("")), 'targetNamespace="urn:t" typeLanguage="http://java"') == set()
    )
    assert errors(ITEM + process(SENT.format('itemSubjectRef="i"'))) == set()
    assert errors('<bpmn:message id="m" name="m"/>' + process(SENT.format(""))) == set()


def test_a_collection_is_no_item_definition() -> None:
    loop = (
        '<bpmn:task id="t"><bpmn:multiInstanceLoopCharacteristics><bpmn:loopDataInputRef>{}</bpmn:loopDataInputRef>'
        "</bpmn:multiInstanceLoopCharacteristics></bpmn:task>"
    )

    assert errors(ITEM + process(loop.format("i"))) == {"WRONG_REFERENCE"}
    assert errors(ITEM + process(loop.format("variable"))) == set()


@pytest.mark.parametrize(("method", "expected"), [("_invalid!$%", {"BAD_VALUE"}), ("##Compensate", set())])
def test_the_method_of_a_transaction_is_a_uri(method: str, expected: set[str]) -> None:
    inside = f'<bpmn:transaction id="t" method="{method}"><bpmn:task id="u"/></bpmn:transaction>'

    assert errors(process(inside)) == expected


CAUGHT = (
    '<bpmn:subProcess id="{0}" triggeredByEvent="true"><bpmn:startEvent id="{0}s" isInterrupting="false">'
    '<bpmn:escalationEventDefinition {1}/></bpmn:startEvent><bpmn:endEvent id="{0}e"/>'
    '<bpmn:sequenceFlow id="{0}f" sourceRef="{0}s" targetRef="{0}e"/></bpmn:subProcess>'
)


def test_what_is_thrown_is_caught_once_in_a_scope() -> None:
    codes = "".join(f'<bpmn:escalation id="{each}" escalationCode="{each.upper()}"/>' for each in ("x", "y"))
    x, y, every = 'escalationRef="x"', 'escalationRef="y"', ""

    def found(*caught: str) -> set[str]:
        return errors(codes + process("".join(CAUGHT.format(f"c{n}", each) for n, each in enumerate(caught))))

    assert found(x, x) == found(every, y, every) == {"CAUGHT_TWICE"}
    assert found(x, y, every) == set()


ITEMS = (
    '<bpmn:itemDefinition id="texts" structureRef="text" isCollection="true"/>'
    '<bpmn:itemDefinition id="text" structureRef="text"/><bpmn:itemDefinition id="number" structureRef="number"/>'
)


@pytest.mark.parametrize(("item", "expected"), [("texts", {"ITEM_MISMATCH"}), ("text", set())])
def test_an_item_of_a_collection_is_no_collection(item: str, expected: set[str]) -> None:
    body = (
        '<bpmn:task id="t"><bpmn:ioSpecification><bpmn:dataInput id="d" isCollection="true" itemSubjectRef="texts"/>'
        "<bpmn:inputSet><bpmn:dataInputRefs>d</bpmn:dataInputRefs></bpmn:inputSet><bpmn:outputSet/></bpmn:ioSpecification>"
        "<bpmn:multiInstanceLoopCharacteristics><bpmn:loopDataInputRef>d</bpmn:loopDataInputRef>"
        f'<bpmn:inputDataItem id="i" itemSubjectRef="{item}"/></bpmn:multiInstanceLoopCharacteristics></bpmn:task>'
    )

    assert errors(ITEMS + process(body)) == expected


@pytest.mark.parametrize(("item", "expected"), [("number", {"ITEM_MISMATCH"}), ("text", set())])
def test_a_global_task_agrees_with_the_operation_it_is_bound_to(item: str, expected: set[str]) -> None:
    service = (
        '<bpmn:message id="m" itemRef="text"/><bpmn:interface id="i" name="i"><bpmn:operation id="o" name="o">'
        "<bpmn:inMessageRef>m</bpmn:inMessageRef></bpmn:operation></bpmn:interface>"
    )
    task = (
        '<bpmn:globalTask id="g"><bpmn:supportedInterfaceRef>i</bpmn:supportedInterfaceRef><bpmn:ioSpecification>'
        f'<bpmn:dataInput id="d" itemSubjectRef="{item}"/><bpmn:dataOutput id="r"/>'
        "<bpmn:inputSet><bpmn:dataInputRefs>d</bpmn:dataInputRefs></bpmn:inputSet>"
        "<bpmn:outputSet><bpmn:dataOutputRefs>r</bpmn:dataOutputRefs></bpmn:outputSet></bpmn:ioSpecification>"
        '<bpmn:ioBinding operationRef="o" inputDataRef="d" outputDataRef="r"/></bpmn:globalTask>'
    )

    assert errors(ITEMS + service + task) == expected
