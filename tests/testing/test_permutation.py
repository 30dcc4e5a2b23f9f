"""Many orders and accidents, one end; or the seed that ends otherwise."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from support.definitions import bpmn, path
from support.samples import HUMAN, WAIT, WORK

from bpm_engine import InvalidInputError, Work
from bpm_engine.testing import Incoming, TestEngine, permute

BOTH = bpmn(
    '<startEvent id="start"/><parallelGateway id="fork"/><serviceTask id="a" bpm:topic="a"/>'
    '<serviceTask id="b" bpm:topic="b"/><parallelGateway id="join"/><endEvent id="end"/>'
    + path("start", "fork", "a", "join", "end")
    + path("fork", "b", "join")
)


def _both(engine: TestEngine) -> None:
    engine.stub("a", returns={"x": 1})
    engine.stub("b", returns={"y": 2})
    engine.start("p")


def test_a_sound_process_ends_the_same_in_every_order() -> None:
    tried = permute(BOTH, run=_both, seeds=12)
    (ended,) = tried.outcome.instances
    assert ended.variables == {"x": 1, "y": 2}
    assert tried.outcome.effects == {"a": 1, "b": 1}
    assert tried.orders > 4
    assert tried.happened["crash"] > 0
    assert tried.happened["late answer"] > 0
    assert re.match(r"12 seeds, \d+ different orders: .*crash", str(tried))


def test_two_branches_that_write_the_same_variable_are_found() -> None:
    def race(engine: TestEngine) -> None:
        engine.stub("a", returns={"winner": "a"})
        engine.stub("b", returns={"winner": "b"})
        engine.start("p")

    with pytest.raises(AssertionError, match="ends otherwise") as failure:
        permute(BOTH, run=race, seeds=30, crashes=False)
    told = str(failure.value)
    assert "expected: winner = 'b'" in told
    assert "actual:   winner = 'a'" in told
    assert "1. work: b" in told
    seed = int(re.search(r"seeds=\[(\d+)\]", told)[1])  # type: ignore[index]
    with pytest.raises(AssertionError) as again:
        permute(BOTH, run=race, seeds=[seed], crashes=False)
    assert str(again.value) == told


def test_an_effect_that_happens_twice_after_a_crash_is_found_by_the_state_of_the_test() -> None:
    def careless(engine: TestEngine) -> Callable[[], object]:
        booked: list[str] = []

        @engine.handler("work")
        def book(work: Work) -> None:
            booked.append("order")

        engine.start("p")
        return lambda: booked

    def careful(engine: TestEngine) -> Callable[[], object]:
        booked: set[str] = set()

        @engine.handler("work")
        def book(work: Work) -> dict[str, str]:
            booked.add(work.idempotency_key)
            return {"booking": work.idempotency_key}

        engine.start("p")
        return lambda: sorted(booked)

    with pytest.raises(AssertionError, match=r"expected: \['order'\]\n.*actual:   \['order', 'order'\]"):
        permute(WORK, run=careless, seeds=20)
    assert permute(WORK, run=careful, seeds=20).happened["crash"] > 0


def test_messages_come_at_any_time_and_twice() -> None:
    def waiting(engine: TestEngine) -> None:
        engine.start("p", {"order": "A-1"})

    paid = Incoming(name="paid", correlation_key="A-1", payload={"amount": 5})
    tried = permute(WAIT, run=waiting, messages=[paid], seeds=5)
    (ended,) = tried.outcome.instances
    assert (ended.status, ended.variables["amount"]) == ("Completed", 5)
    assert tried.happened["duplicate"] == 5


def test_people_answer_as_told_and_other_tasks_stay_open() -> None:
    def start(engine: TestEngine) -> None:
        engine.start("p", {"amount": 5})

    tried = permute(HUMAN, run=start, people={"decide": {"approved": True}}, seeds=2)
    assert tried.outcome.instances[0].status == "Completed"
    left = permute(HUMAN, run=start, seeds=2)
    assert left.outcome.instances[0].waiting == {"decide": 1}


def test_timers_fire_late_and_the_horizon_ends_the_run() -> None:
    reminders = bpmn(
        '<startEvent id="start"/><userTask id="task"/><endEvent id="end"/>'
        '<boundaryEvent id="daily" attachedToRef="task" cancelActivity="false"><timerEventDefinition>'
        '<timeCycle>R/P1D</timeCycle></timerEventDefinition></boundaryEvent><endEvent id="told"/>'
        + path("start", "task", "end")
        + path("daily", "told")
    )

    def start(engine: TestEngine) -> None:
        engine.start("p")

    tried = permute(reminders, run=start, seeds=3, horizon="P3DT1H")
    assert tried.outcome.instances[0].path["told"] == 3


def test_at_least_one_seed_is_needed() -> None:
    with pytest.raises(InvalidInputError, match="at least one seed"):
        permute(BOTH, run=_both, seeds=0)
