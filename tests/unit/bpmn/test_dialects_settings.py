"""Each dialect's way of saying something becomes the same setting; what differs is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from bpm_engine.bpmn import load
from bpm_engine.bpmn.document import read_document
from bpm_engine.bpmn.model import Activity, CallActivity, Definitions, MultiInstance, Task, walk
from bpm_engine.bpmn.parse import parse
from bpm_engine.bpmn.settings import FormField, Guard, RetrySettings, Settings, VariableMapping
from bpm_engine.bpmn.text import TEMPLATE, Text
from bpm_engine.problems import Problem

_SAMPLES = Path(__file__).parents[2] / "data" / "dialects"
_HEAD = (
    '<definitions xmlns="http://www.omg.org/spec/BPMN/20100524/MODEL" xmlns:bpm="urn:bpm-engine:1" '
    'xmlns:camunda="http://camunda.org/schema/1.0/bpmn" xmlns:zeebe="http://camunda.org/schema/zeebe/1.0" '
    'xmlns:flowable="http://flowable.org/bpmn" xmlns:activiti="http://activiti.org/bpmn" '
    'xmlns:other="urn:other" targetNamespace="t">'
)


def read(body: str) -> tuple[Definitions, list[Problem]]:
    return parse(read_document(f'{_HEAD}<process id="p">{body}</process></definitions>'.encode()))


def settings_of(body: str) -> tuple[Settings, list[str]]:
    """Settings of the first node, and the codes of the problems."""
    definitions, problems = read(body)
    return definitions.processes[0].content.nodes[0].settings, [problem.code for problem in problems]


def service(attributes: str = "", inner: str = "") -> str:
    return f'<serviceTask id="a" {attributes}><extensionElements>{inner}</extensionElements></serviceTask>'


def sample(name: str) -> tuple[dict[str, Settings], Definitions, list[Problem]]:
    definitions, problems = parse(read_document((_SAMPLES / name).read_bytes()))
    nodes = {node.id: node.settings for process in definitions.processes for node, _ in walk(process.content)}
    return nodes, definitions, problems


# ------------------------------------------------------------------ topics


@pytest.mark.parametrize(
    ("attributes", "inner", "topic", "codes"),
    [
        ('bpm:topic="x"', "", "x", []),
        ('bpm:topic=" "', "", "a", []),
        ('camunda:type="external" camunda:topic="x"', "", "x", []),
        ('camunda:delegateExpression="${shipDelegate}"', "", "shipDelegate", []),
        ('camunda:delegateExpression="#{ shipDelegate }"', "", "shipDelegate", []),
        ('camunda:class="org.acme.Ship"', "", "org.acme.Ship", []),
        ('camunda:expression="${bean.ship(order)}"', "", "bean.ship", ["DIALECT_DIFFERENT"]),
        ('flowable:expression="${bean.ship()}"', "", "bean.ship", ["DIALECT_DIFFERENT"]),
        ('activiti:class="org.acme.Ship"', "", "org.acme.Ship", []),
        ('flowable:type="http"', "", "http", ["DIALECT_DIFFERENT"]),
        ('flowable:type="external-worker" flowable:topic="x"', "", "x", []),
        ("", '<zeebe:taskDefinition type="x"/>', "x", []),
        ("", '<zeebe:taskDefinition type="=x"/>', "a", ["DIALECT_DIFFERENT"]),
        ("", '<zeebe:taskDefinition type="io.camunda:http-json:1"/>', "io.camunda:http-json:1", []),
        ("", '<zeebe:taskDefinition type="send e-mail"/>', "send_e-mail", ["DIALECT_DIFFERENT"]),
        ("", '<zeebe:taskDefinition type="2nd/step"/>', "_2nd.step", ["DIALECT_DIFFERENT"]),
        ('camunda:delegateExpression="${a ? b : c}"', "", "a", ["DIALECT_DIFFERENT"]),
        (
            "",
            "<camunda:connector><camunda:connectorId>http</camunda:connectorId></camunda:connector>",
            "http",
            ["DIALECT_DIFFERENT"],
        ),
        ('camunda:class="C" bpm:topic="own" camunda:topic="t"', "", "own", []),
        ('camunda:class="C" camunda:delegateExpression="${d}"', "", "d", []),
        ('camunda:class="C"', '<zeebe:taskDefinition type="z"/>', "z", []),
    ],
)
def test_the_handler_is_named_by_the_first_attribute_in_the_order_of_the_reference(
    attributes: str, inner: str, topic: str, codes: list[str]
) -> None:
    settings, found = settings_of(service(attributes, inner))
    assert (settings.topic, found) == (topic, codes)


@pytest.mark.parametrize(
    ("attributes", "external"),
    [
        ('camunda:type="external" camunda:topic="x"', True),
        ('flowable:type="external-worker" flowable:topic="x"', True),
        ('camunda:type="external" camunda:topic="x" bpm:external="false"', False),
        ('camunda:topic="x"', False),
        ('flowable:type="http"', False),
    ],
)
def test_external_tasks_of_other_engines_are_for_external_workers(attributes: str, external: bool) -> None:
    settings, _ = settings_of(service(attributes))
    assert settings.external is external


@pytest.mark.parametrize("expression", ["${a + b}", "${order.total}", "${f.x(1) + g.y(2)}", "#{max(a, b)}"])
def test_an_expression_that_calls_no_bean_is_computed(expression: str) -> None:
    settings, codes = settings_of(service(f'camunda:expression="{expression}" camunda:resultVariable="r"'))
    assert settings.expression == Text(expression, "juel", 1)
    assert (settings.topic, settings.result_variable, codes) == (None, "r", [])


def test_a_topic_beats_an_expression() -> None:
    settings, _ = settings_of(service('camunda:expression="${a + b}" bpm:topic="x"'))
    assert (settings.topic, settings.expression) == ("x", None)


def test_a_throwing_message_event_may_have_a_handler() -> None:
    settings, codes = settings_of(
        '<endEvent id="e"><messageEventDefinition camunda:type="external" camunda:topic="publish"/>'
        "</endEvent>"
    )
    assert (settings.topic, codes) == ("publish", [])


# ------------------------------------------------------------------ retries and rests


@pytest.mark.parametrize(
    ("inner", "retry", "codes"),
    [
        ('<bpm:retry attempts="4"/>', RetrySettings(4), []),
        (
            '<bpm:retry attempts="5" kind="exponential" base="PT2S" max="PT5M" jitter="0.5"/>',
            RetrySettings(5, "exponential", "PT2S", "PT5M", 0.5),
            [],
        ),
        (
            "<camunda:failedJobRetryTimeCycle>R3/PT10S</camunda:failedJobRetryTimeCycle>",
            RetrySettings(3, "fixed", "PT10S"),
            [],
        ),
        (
            "<flowable:failedJobRetryTimeCycle>R0/PT1S</flowable:failedJobRetryTimeCycle>",
            RetrySettings(1, "fixed", "PT1S"),
            [],
        ),
        (
            "<camunda:failedJobRetryTimeCycle>PT1M,PT5M</camunda:failedJobRetryTimeCycle>",
            RetrySettings(3, "fixed", "PT1M"),
            ["DIALECT_DIFFERENT"],
        ),
        (
            "<camunda:failedJobRetryTimeCycle>${cycle}</camunda:failedJobRetryTimeCycle>",
            None,
            ["DIALECT_NOT_UNDERSTOOD"],
        ),
        ("<camunda:failedJobRetryTimeCycle/>", None, []),
        ('<zeebe:taskDefinition type="x" retries="7"/>', RetrySettings(7), []),
        ('<zeebe:taskDefinition type="x" retries="= 7"/>', RetrySettings(7), []),
        ('<zeebe:taskDefinition type="x" retries="=n"/>', None, ["DIALECT_NOT_UNDERSTOOD"]),
    ],
)
def test_retries(inner: str, retry: RetrySettings | None, codes: list[str]) -> None:
    settings, found = settings_of(service("", inner))
    assert (settings.retry, found) == (retry, codes)


@pytest.mark.parametrize(
    ("attribute", "before", "after"),
    [
        ('bpm:asyncBefore="true"', True, False),
        ('camunda:async="true"', True, False),
        ('camunda:asyncAfter="1"', False, True),
        ('flowable:async="true" flowable:asyncLeave="true"', True, True),
        ('activiti:async="false"', False, False),
    ],
)
def test_asynchronous_continuations(attribute: str, before: bool, after: bool) -> None:
    settings, codes = settings_of(service(attribute))
    assert (settings.async_before, settings.async_after, codes) == (before, after, [])


# ------------------------------------------------------------------ mappings


def juel(source: str) -> Text:
    return Text(source, "juel", 1)


@pytest.mark.parametrize(
    ("inner", "expected"),
    [
        ("plain", Text("plain", TEMPLATE, 1)),
        ("${x}", Text("${x}", TEMPLATE, 1)),
        ("", Text("${null}", TEMPLATE, 1)),
        (
            "<camunda:list><camunda:value>a</camunda:value><camunda:value>${b}</camunda:value>"
            "</camunda:list>",
            juel('${["a", b]}'),
        ),
        ('<camunda:map><camunda:entry key="k">${b.c}</camunda:entry></camunda:map>', juel('${{"k": b.c}}')),
        (
            '<camunda:map><camunda:entry key="k"><camunda:list>'
            '<camunda:value>say "hi"</camunda:value></camunda:list>'
            "</camunda:entry></camunda:map>",
            juel('${{"k": ["say \\"hi\\""]}}'),
        ),
    ],
)
def test_camunda_input_parameters(inner: str, expected: Text) -> None:
    written = f'<camunda:inputParameter name="x">{inner}</camunda:inputParameter>'
    parameter = f"<camunda:inputOutput>{written}</camunda:inputOutput>"
    settings, codes = settings_of(service("", parameter))
    assert settings.inputs == (VariableMapping("x", expected),)
    assert codes == []


def test_a_parameter_computed_by_a_script_is_not_mapped_and_said_so() -> None:
    settings, codes = settings_of(
        service(
            "",
            '<camunda:inputOutput><camunda:outputParameter name="x"><camunda:script scriptFormat="groovy">1'
            "</camunda:script></camunda:outputParameter></camunda:inputOutput>",
        )
    )
    assert (settings.outputs, codes) == ((), ["DIALECT_NOT_RUN"])


@pytest.mark.parametrize("prefix", ["camunda", "flowable", "activiti"])
def test_call_parameters(prefix: str) -> None:
    settings, codes = settings_of(
        f'<callActivity id="a"><extensionElements><{prefix}:in source="x" target="y"/>'
        f'<{prefix}:in sourceExpression="${{x + 1}}" target="z"/><{prefix}:in variables="all"/>'
        f'<{prefix}:in businessKey="${{key}}"/><{prefix}:out source="r" target="result"/>'
        f'<{prefix}:out variables="all"/></extensionElements></callActivity>'
    )
    assert settings.inputs == (
        VariableMapping("y", Text("x", line=1)),
        VariableMapping("z", Text("${x + 1}", TEMPLATE, 1)),
    )
    assert settings.outputs == (VariableMapping("result", Text("r", line=1)),)
    assert (settings.pass_all_inputs, settings.pass_all_outputs) == (True, True)
    assert (settings.business_key, codes) == (Text("${key}", TEMPLATE, 1), ["DIALECT_DIFFERENT"])


@pytest.mark.parametrize("prefix", ["camunda", "flowable", "activiti"])
@pytest.mark.parametrize(
    ("mappings", "inwards", "outwards"),
    [
        ('<{p}:in source="x" target="y"/>', False, False),
        ('<{p}:in businessKey="${{key}}"/>', False, False),
        ('<{p}:out source="x" target="y"/>', False, False),
        ('<{p}:in source="x" target="y"/><{p}:out variables="all"/>', False, True),
        ('<{p}:in variables="all"/>', True, False),
    ],
)
def test_a_call_hands_over_only_what_it_says(
    prefix: str, mappings: str, inwards: bool, outwards: bool
) -> None:
    inner = mappings.format(p=prefix)
    settings, codes = settings_of(
        f'<callActivity id="a"><extensionElements>{inner}</extensionElements></callActivity>'
    )
    assert (settings.pass_all_inputs, settings.pass_all_outputs, codes) == (inwards, outwards, [])


@pytest.mark.parametrize(
    ("attributes", "inwards", "outwards"),
    [
        ("", True, None),
        ('propagateAllParentVariables="false" propagateAllChildVariables="false"', False, False),
        ('propagateAllParentVariables="true" propagateAllChildVariables="true"', True, None),
    ],
)
def test_a_call_of_zeebe_copies_all_variables_unless_told_not_to(
    attributes: str, inwards: bool, outwards: bool | None
) -> None:
    settings, codes = settings_of(
        f'<callActivity id="a"><extensionElements><zeebe:calledElement processId="q" {attributes}/>'
        "</extensionElements></callActivity>"
    )
    assert (settings.pass_all_inputs, settings.pass_all_outputs, codes) == (inwards, outwards, [])


@pytest.mark.parametrize(
    ("attributes", "version", "tag", "codes"),
    [
        ('bpm:version="3" bpm:versionTag="x"', "3", "x", []),
        ('camunda:calledElementBinding="deployment"', "deployment", None, []),
        ('camunda:calledElementBinding="version" camunda:calledElementVersion="4"', "4", None, []),
        ('camunda:calledElementBinding="versionTag" camunda:calledElementVersionTag="x"', None, "x", []),
        (
            'camunda:calledElementBinding="version" camunda:calledElementVersion="${v}"',
            None,
            None,
            ["DIALECT_NOT_UNDERSTOOD"],
        ),
        ('flowable:sameDeployment="true"', "deployment", None, []),
        ('camunda:variableMappingClass="X"', None, None, ["DIALECT_IGNORED"]),
    ],
)
def test_the_called_version(attributes: str, version: str | None, tag: str | None, codes: list[str]) -> None:
    settings, found = settings_of(f'<callActivity id="a" calledElement="b" {attributes}/>')
    assert (settings.called_version, settings.called_version_tag, found) == (version, tag, codes)


@pytest.mark.parametrize(
    ("attributes", "inner"),
    [
        (
            'bpm:collection="${items}" bpm:elementVariable="item" bpm:outputCollection="rs" '
            'bpm:outputElement="${r}"',
            "",
        ),
        ('camunda:collection="${items}" camunda:elementVariable="item"', ""),
        ('flowable:collection="${items}" flowable:elementVariable="item"', ""),
        (
            'activiti:elementVariable="item"',
            "<flowable:collection><flowable:expression>${items}</flowable:expression></flowable:collection>",
        ),
    ],
)
def test_multi_instance_over_a_collection(attributes: str, inner: str) -> None:
    definitions, problems = read(
        f'<task id="a"><multiInstanceLoopCharacteristics {attributes}>'
        f"<extensionElements>{inner}</extensionElements>"
        "</multiInstanceLoopCharacteristics></task>"
    )
    task = definitions.processes[0].content.nodes[0]
    assert isinstance(task, Activity)
    assert isinstance(task.loop, MultiInstance)
    assert task.loop.settings.collection == Text("${items}", line=1)
    assert (task.loop.settings.element_variable, task.loop.settings.loop_counter_base) == ("item", 0)
    assert problems == []


# ------------------------------------------------------------------ our own words come first


def test_our_own_setting_beats_a_dialects() -> None:
    settings, _ = settings_of('<userTask id="a" camunda:assignee="ben" bpm:assignee="anna"/>')
    assert settings.assignee == Text("anna", TEMPLATE, 1)


# ------------------------------------------------------------------ whole files


def test_the_own_sample_has_no_problem_and_every_setting() -> None:
    nodes, definitions, problems = sample("own.bpmn")
    process = definitions.processes[0].settings
    assert problems == []
    assert (process.version_tag, process.retention, process.deadline) == ("2026.1", "P30D", "P7D")
    assert (process.saga, process.catch_up, process.max_tokens) == (True, "once", 500)
    charge = nodes["charge"]
    assert (charge.lease, charge.on_failure, charge.external) == ("PT2M", "suspend", True)
    assert (charge.emit, charge.compensate_topic, charge.deadline) == ("order.paid", "payment.refund", "PT4H")
    assert charge.properties == {"queue": "fast"}
    approve = nodes["approve"]
    assert approve.fields == (
        FormField("approved", "boolean", required=True, label="Approved?"),
        FormField("reason", "enum", values=("price", "stock")),
    )
    assert approve.guards == (Guard(Text("${approved or reason != null}", "", 25), "Give a reason"),)
    assert nodes["wait"].match == (VariableMapping("kind", Text("'card'", "", 30)),)
    assert nodes["wait"].payload_variable == "payment"
    assert definitions.messages["paid"].correlation_key == Text("${orderId}", "", 4)


def test_the_camunda_7_sample() -> None:
    nodes, definitions, problems = sample("camunda7.bpmn")
    assert definitions.processes[0].settings.retention == "P180D"
    assert nodes["approve"].fields == (
        FormField("approved", "boolean", required=True, label="Approve?", default="false"),
        FormField("amount", "integer", label="Amount"),
        FormField("currency", "enum", values=("EUR", "CHF")),
    )
    assert (nodes["failed"].error_code_variable, nodes["failed"].error_message_variable) == (
        "code",
        "message",
    )
    assert nodes["book"].properties == {"ledger": "main"}
    assert nodes["archive"].priority == Text("30", "", 43)
    assert definitions.errors["archiveError"].message == Text("The archive is full", TEMPLATE, 95)
    assert [(problem.code, problem.line) for problem in problems] == [
        ("DIALECT_IGNORED", 9),
        ("DIALECT_IGNORED", 10),
        ("DIALECT_IGNORED", 10),
        ("DIALECT_DIFFERENT", 15),
        ("DIALECT_IGNORED", 15),
        ("DIALECT_IGNORED", 25),
        ("DIALECT_NOT_RUN", 32),
        ("DIALECT_NOT_RUN", 55),
        ("DIALECT_NOT_RUN", 70),
        ("DIALECT_DIFFERENT", 76),
    ]


def test_the_camunda_8_sample() -> None:
    nodes, definitions, problems = sample("camunda8.bpmn")
    content = {node.id: node for node, _ in walk(definitions.processes[0].content)}
    pack, carrier = content["pack"], content["carrier"]
    assert isinstance(pack, Task)
    assert isinstance(pack.loop, MultiInstance)
    assert isinstance(carrier, CallActivity)
    assert pack.loop.settings == Settings(
        collection=Text("=order.items", "", 26),
        element_variable="item",
        output_collection="parcels",
        output_element=Text("=parcel", "", 26),
        loop_counter_base=1,
    )
    assert pack.settings.inputs == (
        VariableMapping("items", Text("=order.items", TEMPLATE, 15)),
        VariableMapping("mode", Text("fixed", TEMPLATE, 16)),
    )
    assert carrier.called_element == Text("carrier-process", TEMPLATE, 52)
    assert (carrier.settings.pass_all_inputs, carrier.settings.pass_all_outputs) == (True, False)
    assert nodes["check"].candidate_groups == Text("packers", TEMPLATE, 34)
    assert (nodes["check"].form_key, nodes["check"].priority) == ("check-form", Text("75", "", 37))
    assert nodes["weigh"].expression == Text("=sum(parcels.weight)", "feel", 42)
    assert (nodes["weigh"].topic, nodes["weigh"].result_variable) == (None, "weight")
    assert definitions.messages["deliveredMessage"].correlation_key == Text("=parcelId", "", 63)
    assert [problem.code for problem in problems] == ["DIALECT_NOT_RUN", "DIALECT_DIFFERENT"]


@pytest.mark.parametrize("path", sorted(_SAMPLES.glob("*.bpmn")), ids=lambda path: path.name)
def test_a_sample_of_another_engine_can_be_deployed(path: Path) -> None:
    assert load(path.read_bytes()).errors == ()


@pytest.mark.parametrize(
    ("name", "codes"),
    [
        (
            "flowable.bpmn",
            ["IGNORED", "IGNORED", "IGNORED", "NOT_RUN", "DIFFERENT", "IGNORED", "IGNORED"],
        ),
        ("activiti.bpmn", ["IGNORED", "DIFFERENT"]),
        ("spiffworkflow.bpmn", ["DIFFERENT", "NOT_RUN", "DIFFERENT", "DIFFERENT", "DIFFERENT"]),
    ],
)
def test_the_warnings_of_the_other_samples(name: str, codes: list[str]) -> None:
    _, _, problems = sample(name)
    assert [problem.code for problem in problems] == [f"DIALECT_{code}" for code in codes]


def test_flowable_form_properties_and_called_version() -> None:
    nodes, _, _ = sample("flowable.bpmn")
    assert nodes["approveTask"].fields == (FormField("decision", "enum", values=("yes", "no")),)
    assert nodes["startEvent"].fields == ()  # a start has no form, which is said
    assert (nodes["child"].called_version, nodes["child"].inherit_business_key) == ("deployment", True)


def test_a_python_script_of_spiffworkflow_is_read_as_plain_with_a_warning() -> None:
    nodes, definitions, problems = sample("spiffworkflow.bpmn")
    script = definitions.processes[0].content.nodes[2]
    assert isinstance(script, Task)
    assert script.script == Text("total = price * quantity", "", 15)
    assert "cost" in {problem.element_id for problem in problems}
    assert nodes["ship"].topic == "http.PostRequest"
    assert nodes["ship"].result_variable == "response"
