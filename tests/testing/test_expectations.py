"""Assertions in a user's test: quiet when right, telling when wrong."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from support.samples import HUMAN, WORK

from bpm_engine.testing import Expectation, TestEngine


@pytest.fixture
def done() -> Expectation:
    engine = TestEngine(WORK)
    engine.stub("work", returns={"done": True})
    instance = engine.start("p", {"n": 1}, business_key="A-1")
    engine.run_until_idle()
    return engine.expect(instance)


def test_what_is_right_is_quiet(done: Expectation) -> None:
    (
        done.completed(at="end")
        .status("Completed")
        .waiting_at()
        .path("start", "work", "end")
        .passed("start", "end")
        .not_passed("elsewhere")
        .variables({"n": 1}, done=True)
        .incidents()
        .called("work", times=1, variables={"n": 1})
        .published("instance.completed", times=1)
        .published("activity.completed", {"node_id": "work"})
    )


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (lambda e: e.waiting_at("ship"), ["does not wait", "expected: ship", "actual:   (nothing)"]),
        (lambda e: e.path("start", "pay", "end"), ["another path", "start -pay +work end"]),
        (lambda e: e.passed("end", "work"), ["did not pass work", "expected: end, work"]),
        (lambda e: e.not_passed("work"), ["passed work"]),
        (lambda e: e.completed(at="stop"), ["elsewhere", "expected: stop", "actual:   end"]),
        (lambda e: e.status("Running"), ["expected: Running", "actual:   Completed"]),
        (lambda e: e.variables(n=2, m=3), ["n = 2", "n = 1", "m = 3", "m = (not set)"]),
        (lambda e: e.incidents("work"), ["other incidents", "expected: work", "actual:   (nothing)"]),
        (lambda e: e.called("work", times=2), ["expected: 2 times", "actual:   1 times", "call 1 at work"]),
        (lambda e: e.called("work", variables={"n": 9}), ["expected: {'n': 9}", "call 1 at work: {'n': 1}"]),
        (lambda e: e.called("other"), ["'other' is not stubbed", "stubbed are: work"]),
        (lambda e: e.published("sold"), ["expected: sold", "actual:   instance.completed"]),
    ],
)
def test_what_is_wrong_is_told(
    done: Expectation, wrong: Callable[[Expectation], object], told: list[str]
) -> None:
    with pytest.raises(AssertionError) as failure:
        wrong(done)
    for part in told:
        assert part in str(failure.value)
    if "not stubbed" not in str(failure.value):
        assert "p A-1 (Completed)" in str(failure.value)
        assert "+0s  work   completed" in str(failure.value)


def test_the_timeline_says_when_and_why_it_waits() -> None:
    engine = TestEngine(HUMAN)
    instance = engine.start("p", {"amount": 1})
    engine.clock.advance("P1DT2H")
    with pytest.raises(AssertionError, match="decide  running, waits for human"):
        engine.expect(instance).completed()
    (task,) = engine.tasks.find()
    engine.tasks.complete(task.id, {"approved": True})
    assert engine.expect(instance).timeline().splitlines()[-1].split() == ["+1d2h", "end", "completed"]


def test_incidents_are_named_with_their_reason() -> None:
    engine = TestEngine(WORK)
    engine.stub("work", raises=ValueError("no such card"))
    instance = engine.start("p")
    for _ in range(3):
        engine.run_until_idle()
        engine.clock.advance("1h")
    engine.expect(instance).incidents("work", code="ValueError")
    with pytest.raises(AssertionError, match=r"expected: \(nothing\)(.|\n)*work: ValueError: no such card"):
        engine.expect(instance).incidents()
    with pytest.raises(AssertionError, match=r"another reason(.|\n)*expected: timeout"):
        engine.expect(instance).incidents("work", code="timeout")
