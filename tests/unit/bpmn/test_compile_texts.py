"""Texts of a file: notations, languages, times."""

from __future__ import annotations

import pytest
from support.definitions import bpmn, codes, compiled, compiled_with_problems, flow

from bpm_engine.bpmn.expressions import Notation
from bpm_engine.problems import Problem

GATEWAY = '<startEvent id="s"/><exclusiveGateway id="g" default="g_b"/><task id="a"/><task id="b"/>' + flow(
    "s", "g"
)


def with_condition(text: str, language: str = "", file_language: str = "") -> bytes:
    condition = f'<conditionExpression xsi:type="tFormalExpression" {language}>{text}</conditionExpression>'
    chosen = f'<sequenceFlow id="f" sourceRef="g" targetRef="a">\n{condition}</sequenceFlow>'
    return bpmn(GATEWAY + chosen + flow("g", "b"), attributes=file_language)


@pytest.mark.parametrize(
    ("data", "notation"),
    [
        (with_condition("x > 1"), Notation.PLAIN),
        (with_condition("${x > 1}"), Notation.JUEL),
        (with_condition("= x > 1"), Notation.FEEL),
        (with_condition("x > 1", 'language="https://www.omg.org/spec/DMN/20191111/FEEL/"'), Notation.FEEL),
        (with_condition("x > 1", 'language="feel"'), Notation.FEEL),
        (with_condition("x gt 1", 'language="juel"'), Notation.JUEL),
        (
            with_condition("x > 1", "", 'expressionLanguage="http://www.omg.org/spec/FEEL/20140401"'),
            Notation.FEEL,
        ),
        (with_condition("x > 1", "", 'expressionLanguage="http://www.w3.org/1999/XPath"'), Notation.PLAIN),
        (with_condition("${x > 1}", "", 'expressionLanguage="http://www.w3.org/1999/XPath"'), Notation.JUEL),
    ],
)
def test_the_notation_is_found_by_look_then_by_language(data: bytes, notation: Notation) -> None:
    condition = compiled(data).flows["f"].condition
    assert condition is not None
    assert condition.notation is notation
    assert condition.holds({"x": 2})


@pytest.mark.parametrize(
    "data",
    [
        with_condition("x > 1", 'language="groovy"'),
        with_condition("x > 1", 'language="http://www.w3.org/1999/XPath"'),
        with_condition("x > 1", "", 'expressionLanguage="http://www.ecma-international.org/ecma-262"'),
    ],
)
def test_an_unknown_language_is_a_warning_and_the_expression_is_read_as_plain(data: bytes) -> None:
    graph, problems = compiled_with_problems(data)
    assert graph is not None
    assert codes(problems) == ["EXPRESSION_LANGUAGE"]
    condition = graph.flows["f"].condition
    assert condition is not None
    assert condition.holds({"x": 2})


@pytest.mark.parametrize(
    "text",
    ["x >", "().__class__", "9**9**9**9", "'{0.__class__}'.format(a)", "-" * 100_000 + "1", "${a", "= if"],
)
def test_a_wrong_expression_is_an_error_with_element_and_line(text: str) -> None:
    graph, problems = compiled_with_problems(with_condition(text))
    assert codes(problems) == ["EXPRESSION_SYNTAX"]
    assert (problems[0].element_id, problems[0].line) == ("f", 4)
    assert graph is not None, "all other checks still see the process"
    condition = graph.flows["f"].condition
    assert condition is not None
    assert condition.evaluate({}) is None, "never true, should anybody run it"


def timer(kind: str, text: str) -> list[Problem]:
    time = f"<timerEventDefinition>\n<{kind}>{text}</{kind}></timerEventDefinition>"
    element = f'<intermediateCatchEvent id="t">{time}'
    _, problems = compiled_with_problems(bpmn(element + "</intermediateCatchEvent>"))
    return problems


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("timeDuration", "PT0S"),
        ("timeDuration", " P1M "),
        ("timeDuration", "${wait}"),
        ("timeDuration", "= duration(wait)"),
        ("timeDuration", '= "PT5M"'),
        ("timeDate", "2026-01-31T09:00:00Z"),
        ("timeCycle", "R3/PT10S"),
        ("timeCycle", "0 9 * * 1"),
        ("timeCycle", "R${n}/PT1M"),
    ],
)
def test_times_that_can_be_read(kind: str, text: str) -> None:
    assert timer(kind, text) == []


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("timeDuration", "9999999999Y"),
        ("timeDuration", "P999999999Y"),
        ("timeDuration", "-PT5M"),
        ("timeDuration", "in a while"),
        ("timeDuration", '= "soon"'),
        ("timeDuration", "= 5"),
        ("timeDate", "20000-01-01"),
        ("timeDate", "infinity"),
        ("timeDate", "0000-01-01T00:00:00Z"),
        ("timeDate", "2024-04-31T10:00Z"),
        ("timeCycle", "R/PT0S"),
        ("timeCycle", "R1000000000/PT1S"),
    ],
)
def test_times_that_cannot_are_errors_at_their_line(kind: str, text: str) -> None:
    (problem,) = timer(kind, text)
    assert (problem.code, problem.element_id, problem.line) == ("TIMER_FORMAT", "t", 4)


def test_a_timer_without_a_time_is_an_error() -> None:
    _, problems = compiled_with_problems(
        bpmn('<startEvent id="t"><timerEventDefinition/></startEvent><endEvent id="e"/>' + flow("t", "e"))
    )
    assert codes(problems) == ["TIMER_WITHOUT_TIME"]
