"""Elements without any extension that the engine of the file understands differently are warned of."""

from __future__ import annotations

import pytest

from bpm_engine.bpmn.dialects.implied import implied
from bpm_engine.bpmn.document import read_document

CAMUNDA = "http://camunda.org/schema/1.0/bpmn"
FLOWABLE = "http://flowable.org/bpmn"
SPIFF = "http://spiffworkflow.org/bpmn/schema/1.0/core"
ZEEBE = "http://camunda.org/schema/zeebe/1.0"
OURS = 'xmlns:bpm="urn:bpm-engine:1"'

CALL = '<callActivity id="a" calledElement="q"/>'
MAPPED = (
    '<callActivity id="a" calledElement="q"><extensionElements><x:in source="v" target="v"/>'
    "</extensionElements></callActivity>"
)


def found(namespace: str, body: str, more: str = "") -> list[str]:
    document = read_document(
        '<definitions xmlns="http://www.omg.org/spec/BPMN/20100524/MODEL" targetNamespace="t" '
        f'xmlns:x="{namespace}" {more}><process id="p">{body}</process></definitions>'.encode()
    )
    return [f"{problem.code}@{problem.element_id}" for problem in implied(document)]


@pytest.mark.parametrize("namespace", [CAMUNDA, FLOWABLE])
def test_a_call_activity_without_mappings_hands_over_everything_here(namespace: str) -> None:
    assert found(namespace, CALL) == ["DIALECT_DIFFERENT@a"]


@pytest.mark.parametrize(
    ("namespace", "body"),
    [
        (CAMUNDA, MAPPED),
        (FLOWABLE, '<callActivity id="a" calledElement="q" x:inheritVariables="true"/>'),
        (ZEEBE, CALL),
        (SPIFF, CALL),
        ("urn:other", CALL),
    ],
)
def test_a_call_activity_that_means_the_same_is_not_mentioned(namespace: str, body: str) -> None:
    assert found(namespace, body) == []


def test_a_manual_task_of_spiffworkflow_waits_there() -> None:
    assert found(SPIFF, '<manualTask id="a"/>') == ["DIALECT_DIFFERENT@a"]
    assert found(CAMUNDA, '<manualTask id="a"/>') == []


def test_a_file_that_declares_our_namespace_was_made_for_us() -> None:
    assert found(CAMUNDA, CALL, OURS) == []
