"""Generated runs: every flow of a process, or the reason why not."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.definitions import bpmn, flow, path

from bpm_engine import BpmnError
from bpm_engine.testing import Cover, TestEngine, cover

ROOT = Path(__file__).parent.parent.parent
SAMPLES = sorted((ROOT / "processes").glob("*.bpmn"))
SEMANTICS = ROOT / "tests" / "semantics"

CHOICE = bpmn(
    '<startEvent id="start"/><serviceTask id="check" bpm:topic="check"/>'
    '<exclusiveGateway id="g" default="other"/><endEvent id="large"/>'
    '<endEvent id="small"/><endEvent id="never"/>'
    + path("start", "check", "g")
    + flow("g", "large", condition="total &gt; 100 and kind == 'b'")
    + flow("g", "never", condition="total &gt; 5 and total &lt; 3")
    + '<sequenceFlow id="other" sourceRef="g" targetRef="small"/>'
)


CALLER = bpmn(
    '<startEvent id="start"/><callActivity id="pay" calledElement="payout"/><endEvent id="end"/>'
    + path("start", "pay", "end")
)
CALLED = CHOICE.replace(b'<process id="p"', b'<process id="payout"').replace(b"total &lt; 3", b"total &lt; 9")


def test_processes_that_call_each_other_are_covered_together() -> None:
    covered = cover(CALLER, CALLED)
    assert [str(each) for each in covered.uncovered] == []
    assert {process for scenario in covered.scenarios for process, _ in scenario.flows} == {"p", "payout"}
    for scenario in covered.scenarios:
        scenario.play()


def test_a_called_process_that_is_not_given_is_the_reason() -> None:
    (uncovered,) = cover(CALLER).uncovered
    assert str(uncovered).endswith("(pay -> end): the called process 'payout' is not among the files")


def test_there_are_nine_samples() -> None:
    assert len(SAMPLES) == 9


@pytest.mark.parametrize("file", SAMPLES, ids=lambda file: file.stem)
def test_every_flow_of_a_sample_is_covered(file: Path) -> None:
    covered = cover(file)
    assert [str(each) for each in covered.uncovered] == []
    assert covered.coverage.is_complete
    assert all(scenario.ends for scenario in covered.scenarios)


@pytest.mark.parametrize(
    "name",
    [
        "ad_hoc/repeated",
        "boundary/on_repetition",
        "call/mappings",
        "compensation/handler_of_repetition",
        "data/sets",
        "data/states",
        "errors/through_call",
        "multi_instance/sequential",
        "quantities/repeated",
    ],
)
def test_elements_of_all_kinds_are_driven(name: str) -> None:
    """Played on the engine; what is left is left with a reason."""
    covered = cover(SEMANTICS / f"{name}.bpmn")
    assert covered.scenarios
    assert all("moves" in each.reason for each in covered.uncovered)


@pytest.fixture(scope="module")
def choice() -> Cover:
    return cover(CHOICE)


def test_values_are_found_for_conditions(choice: Cover) -> None:
    (large,) = [each for each in choice.scenarios if ("p", "g_large") in each.flows]
    engine = large.play()
    (instance,) = engine.instances.find()
    assert instance.variables["total"] > 100
    assert instance.variables["kind"] == "b"
    engine.expect(instance).completed(at="large")


def test_a_flow_that_cannot_be_taken_is_reported_with_its_condition(choice: Cover) -> None:
    (never,) = choice.uncovered
    assert (never.flow, never.source, never.target) == ("g_never", "g", "never")
    assert "`total > 5 and total < 3`" in never.reason
    assert not choice.is_complete
    assert "not covered: p: g_never" in choice.text()
    assert "not taken: g_never (g -> never)" in choice.text()


def test_a_scenario_says_what_it_does(choice: Cover) -> None:
    scenario = choice.scenarios[0]
    assert str(scenario).startswith("p-")
    assert scenario.text().splitlines()[0].startswith("  1. start p with ")
    assert "check (check) returns {" in scenario.text()


def test_a_scenario_fails_where_the_process_goes_another_way(choice: Cover) -> None:
    (large,) = [each for each in choice.scenarios if ("p", "g_large") in each.flows]
    engine = TestEngine(CHOICE, handlers={"check": lambda work: {"total": 1, "kind": "a"}})
    with pytest.raises(AssertionError, match="did not take g_large"):
        large.play(engine)


def test_own_answers_are_taken_instead_of_generated_ones() -> None:
    covered = cover(CHOICE, answers={"check": [{"total": 1, "kind": "x"}, BpmnError("LOST")]})
    assert {each.flow for each in covered.uncovered} == {"g_large", "g_never"}
    covered = cover(CHOICE, answers={"check": [{"total": 500, "kind": "b"}, {"total": 1, "kind": "x"}]})
    assert {each.flow for each in covered.uncovered} == {"g_never"}


def test_external_tasks_signals_and_conditions_are_served() -> None:
    process = bpmn(
        '<startEvent id="start"/><serviceTask id="outside" bpm:topic="outside" bpm:external="true"/>'
        '<intermediateCatchEvent id="told"><signalEventDefinition signalRef="s"/></intermediateCatchEvent>'
        '<intermediateCatchEvent id="enough"><conditionalEventDefinition><condition>level &gt; 3</condition>'
        '</conditionalEventDefinition></intermediateCatchEvent><endEvent id="end"/>'
        + path("start", "outside", "told", "enough", "end"),
        roots='<signal id="s" name="go"/>',
    )
    covered = cover(process)
    assert covered.is_complete
    assert covered.coverage.is_complete
