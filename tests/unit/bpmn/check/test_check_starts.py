"""What starts a process reads no variables."""

from __future__ import annotations

import pytest
from support.definitions import bpmn, codes, loaded, path

ROOTS = (
    '<message id="m" name="paid-${shop}"/><message id="fixed" name="${\'paid\' + \'-all\'}"/>'
    '<signal id="s" name="= &quot;closed &quot; + shop"/>'
)
CODE = "START_READS_VARIABLES"
TIMER = "<timerEventDefinition><timeCycle>{}</timeCycle></timerEventDefinition>"
MATCH = '<extensionElements><bpm:match path="kind" value="${{kind}}"/></extensionElements>{}'


def starting(definition: str, around: str = "") -> bytes:
    return bpmn(
        f'<startEvent id="start">{definition}</startEvent>{around}<endEvent id="end"/>{path("start", "end")}',
        roots=ROOTS,
    )


@pytest.mark.parametrize(
    "definition",
    [
        '<messageEventDefinition messageRef="m"/>',
        '<signalEventDefinition signalRef="s"/>',
        TIMER.format("${every}"),
        MATCH.format('<messageEventDefinition messageRef="fixed"/>'),
    ],
)
def test_a_start_that_reads_a_variable_is_refused(definition: str) -> None:
    found = [problem for problem in loaded(starting(definition)).problems if problem.code == CODE]
    assert [problem.element_id for problem in found] == ["start"]
    assert "'start' starts the process and reads" in found[0].message


@pytest.mark.parametrize(
    "definition",
    [
        '<messageEventDefinition messageRef="fixed"/>',
        TIMER.format("= &quot;R/PT1H&quot;"),
        "<conditionalEventDefinition><condition>${total &gt; 1}</condition></conditionalEventDefinition>",
    ],
)
def test_a_start_may_compute_what_needs_no_variable(definition: str) -> None:
    assert CODE not in codes(loaded(starting(definition)))


def test_a_receive_task_that_starts_the_process_reads_none_either() -> None:
    text = bpmn(
        f'<receiveTask id="r" instantiate="true" messageRef="m"/><endEvent id="e"/>{path("r", "e")}',
        roots=ROOTS,
    )
    assert CODE in codes(loaded(text))


def test_a_start_inside_the_process_may_read_what_is_there() -> None:
    handler = (
        '<subProcess id="sub" triggeredByEvent="true"><startEvent id="inner">'
        '<messageEventDefinition messageRef="m"/></startEvent></subProcess>'
    )
    assert CODE not in codes(loaded(starting("", handler)))
