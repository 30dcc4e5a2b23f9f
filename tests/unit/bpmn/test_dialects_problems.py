"""What is unknown, misplaced, badly written or not run is reported with element, line and hint."""

from __future__ import annotations

import pytest

from bpm_engine.bpmn.document import read_document
from bpm_engine.bpmn.parse import parse
from bpm_engine.problems import Problem, Severity

_HEAD = (
    '<definitions xmlns="http://www.omg.org/spec/BPMN/20100524/MODEL" xmlns:bpm="urn:bpm-engine:1" '
    'xmlns:camunda="http://camunda.org/schema/1.0/bpmn" xmlns:zeebe="http://camunda.org/schema/zeebe/1.0" '
    'xmlns:other="urn:other" targetNamespace="t">\n'
)


def problems_of(body: str, head: str = _HEAD) -> list[Problem]:
    return parse(read_document(f'{head}<process id="p">{body}</process></definitions>'.encode()))[1]


def task(tag: str, attributes: str = "", inner: str = "") -> str:
    return f'<{tag} id="a" {attributes}><extensionElements>{inner}</extensionElements></{tag}>'


@pytest.mark.parametrize(
    ("body", "hint"),
    [
        (task("serviceTask", 'bpm:topc="x"'), "Did you mean bpm:topic?"),
        (task("userTask", 'bpm:topic="x"'), "It belongs on: service, send, business rule and script task"),
        (task("serviceTask", "", '<bpm:retri attempts="1"/>'), "Did you mean bpm:retry?"),
        (task("serviceTask", "", '<bpm:retry attemps="1"/>'), "Did you mean bpm:attempts?"),
        (task("serviceTask", "", '<bpm:guard condition="x"/>'), "It belongs on: user task."),
        (task("serviceTask", "", '<bpm:field name="x"/>'), "It belongs on: user task."),
        (
            task(
                "userTask",
                "",
                '<bpm:field name="x" type="enum"><bpm:vlue/><bpm:value>1</bpm:value></bpm:field>',
            ),
            "Did you mean bpm:value?",
        ),
        ('<sequenceFlow id="a" bpm:topic="x"/>', "It belongs on"),
        ('<serviceTask id="a"><bpm:retry attempts="3"/></serviceTask>', "Put it inside <extensionElements>."),
    ],
)
def test_an_unknown_or_misplaced_name_of_our_namespace_is_an_error(body: str, hint: str) -> None:
    [problem] = problems_of(body)
    assert (problem.code, problem.severity) == ("UNKNOWN_EXTENSION", Severity.ERROR)
    assert (problem.element_id, problem.line) == ("a", 2)
    assert problem.hint.startswith(hint)


@pytest.mark.parametrize(
    "body",
    [
        task("serviceTask", 'bpm:lease="2 minutes"'),
        task("serviceTask", 'bpm:lease="P"'),
        task("serviceTask", 'bpm:lease="PT"'),
        task("serviceTask", 'bpm:external="yes"'),
        task("serviceTask", 'bpm:onFailure="explode"'),
        task("serviceTask", "", '<bpm:retry attempts="many"/>'),
        task("serviceTask", "", '<bpm:retry attempts="0"/>'),
        task("serviceTask", "", '<bpm:retry kind="quadratic"/>'),
        task("serviceTask", "", '<bpm:retry base="2s"/>'),
        task("serviceTask", "", '<bpm:retry jitter="2"/>'),
        task("serviceTask", "", '<bpm:retry jitter="nan"/>'),
        task("serviceTask", "", '<bpm:input name="x"/>'),
        task("serviceTask", "", '<bpm:input value="x"/>'),
        task("serviceTask", "", '<bpm:property value="x"/>'),
        task("userTask", "", '<bpm:field name="x" type="colour"/>'),
        task("userTask", "", '<bpm:field name="x" required="perhaps"/>'),
        task("userTask", "", '<bpm:field name="x" type="enum"/>'),
        task("userTask", "", '<bpm:field name="x"><bpm:value>1</bpm:value></bpm:field>'),
        task("userTask", "", '<bpm:guard message="x"/>'),
        task("receiveTask", "", '<bpm:match path="x"/>'),
        task("callActivity", 'bpm:version="newest"'),
        task("callActivity", 'bpm:version="0"'),
    ],
)
def test_a_bad_value_of_our_namespace_is_an_error(body: str) -> None:
    [problem] = problems_of(body)
    assert (problem.code, problem.severity) == ("BAD_EXTENSION_VALUE", Severity.ERROR)
    assert (problem.element_id, problem.line) == ("a", 2)


@pytest.mark.parametrize(
    "attribute",
    [
        'bpm:maxTokens="0"',
        'bpm:maxTokens="１"',
        'bpm:catchUp="twice"',
        'bpm:retention="30"',
        'bpm:deadline="soon"',
    ],
)
def test_a_bad_value_on_a_process_is_an_error(attribute: str) -> None:
    document = read_document(f'{_HEAD}<process id="p" {attribute}/></definitions>'.encode())
    assert [problem.code for problem in parse(document)[1]] == ["BAD_EXTENSION_VALUE"]


@pytest.mark.parametrize(
    ("body", "code", "named"),
    [
        (task("serviceTask", 'camunda:topik="x"'), "DIALECT_NOT_UNDERSTOOD", "camunda:topik"),
        (task("userTask", 'camunda:topic="x"'), "DIALECT_NOT_UNDERSTOOD", "camunda:topic"),
        (
            task("serviceTask", "", "<zeebe:taskDefinitoin/>"),
            "DIALECT_NOT_UNDERSTOOD",
            "zeebe:taskDefinitoin",
        ),
        (
            task("serviceTask", "", '<zeebe:taskDefinition type="x" retry="3"/>'),
            "DIALECT_NOT_UNDERSTOOD",
            "'retry'",
        ),
        (
            task("serviceTask", 'camunda:asyncBefore="perhaps"'),
            "DIALECT_NOT_UNDERSTOOD",
            "camunda:asyncBefore",
        ),
        (
            task("serviceTask", "", '<camunda:executionListener event="end"/>'),
            "DIALECT_NOT_RUN",
            "camunda:executionListener",
        ),
        (
            task("userTask", "", '<camunda:taskListener event="create"/>'),
            "DIALECT_NOT_RUN",
            "camunda:taskListener",
        ),
        (
            task("exclusiveGateway", "", '<camunda:executionListener event="end"/>'),
            "DIALECT_NOT_RUN",
            "exclusiveGateway",
        ),
        (
            task("sequenceFlow", "", '<camunda:executionListener event="end"/>'),
            "DIALECT_NOT_RUN",
            "sequenceFlow",
        ),
        (
            task("serviceTask", "", "<camunda:errorEventDefinition/>"),
            "DIALECT_IGNORED",
            "errorEventDefinition",
        ),
        (task("businessRuleTask", 'camunda:decisionRef="d"'), "DIALECT_DIFFERENT", "camunda:decisionRef"),
        (task("scriptTask", 'camunda:resource="x.groovy"'), "DIALECT_IGNORED", "camunda:resource"),
        (
            task("callActivity", "", '<camunda:in source="x" target="y" local="true"/>'),
            "DIALECT_DIFFERENT",
            "'local'",
        ),
        (task("callActivity", "", '<camunda:in source="my-var" target="y"/>'), "DIALECT_DIFFERENT", "my-var"),
        (
            task(
                "userTask",
                "",
                '<camunda:formData><camunda:formField id="f" type="colour"/></camunda:formData>',
            ),
            "DIALECT_DIFFERENT",
            "'colour'",
        ),
    ],
)
def test_a_dialects_difference_is_one_warning_that_names_it(body: str, code: str, named: str) -> None:
    [problem] = problems_of(body)
    assert (problem.code, problem.severity) == (code, Severity.WARNING)
    assert (problem.element_id, problem.line) == ("a", 2)
    assert named in problem.message


@pytest.mark.parametrize(
    "body",
    [
        task("serviceTask", 'other:anything="x"', "<other:thing deep='1'><other:x/></other:thing>"),
        task("serviceTask", 'camunda:exclusive="false" camunda:modelerTemplate="t"'),
        task("serviceTask", 'camunda:topic="" bpm:lease=""'),
        task("userTask", "", "<zeebe:userTask/>"),
        task("serviceTask", "", '<bpm:property name="x" value=""/>'),
    ],
)
def test_foreign_harmless_and_empty_extensions_are_silent(body: str) -> None:
    assert problems_of(body) == []


@pytest.mark.parametrize("namespace", ["urn:bpm-engine", "urn:bpm-engine:2", "urn:bpm_engine:1"])
@pytest.mark.parametrize(
    "body",
    [
        task("serviceTask", 'bpm:topic="x" bpm:lease="PT1M"'),
        task("serviceTask", "", '<bpm:retry attempts="1"/>'),
    ],
)
def test_a_namespace_that_is_nearly_ours_is_an_error(namespace: str, body: str) -> None:
    [problem] = problems_of(body, _HEAD.replace("urn:bpm-engine:1", namespace))
    assert (problem.code, problem.element_id, problem.line) == ("UNKNOWN_EXTENSION", "a", 2)
    assert problem.message == f"the namespace {namespace!r} is not known"
    assert "urn:bpm-engine:1" in problem.hint
