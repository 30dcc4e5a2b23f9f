"""Stub handlers in a user's test."""

from __future__ import annotations

import pytest
from support.definitions import bpmn, path
from support.samples import WORK

from bpm_engine import BpmnError, ConflictError, Work
from bpm_engine.testing import TestEngine

TWO = bpmn(
    '<startEvent id="start"/><serviceTask id="a" bpm:topic="one"/><serviceTask id="b" bpm:topic="two"/>'
    '<endEvent id="end"/>' + path("start", "a", "b", "end")
)


def test_a_stub_answers_and_remembers_its_calls() -> None:
    engine = TestEngine(WORK)
    stub = engine.stub("work", returns={"done": True})
    instance = engine.start("p", {"n": 1}, business_key="A-1")
    engine.run_until_idle()
    (call,) = stub.calls
    assert (call.node_id, call["n"], call.business_key, call.attempt) == ("work", 1, "A-1", 1)
    assert call.instance_id == instance.id
    assert engine.instances.get(instance.id).variables == {"n": 1, "done": True}


def test_answers_come_in_order_and_the_last_one_stays() -> None:
    engine = TestEngine(WORK)
    stub = engine.stub("work", returns={"n": 1}, then=[{"n": 2}, lambda work: {"n": work["given"]}])
    given = [engine.start("p", {"given": number}) for number in range(4)]
    engine.run_until_idle()
    assert [engine.instances.get(each.id).variables["n"] for each in given] == [1, 2, 2, 3]
    assert stub.called
    assert stub.effects == 4


def test_a_failed_attempt_is_a_call_and_the_same_piece_of_work() -> None:
    engine = TestEngine(WORK)
    stub = engine.stub("work", raises=OSError("away"), then=[{"n": 2}])
    instance = engine.start("p")
    engine.run_until_idle()
    engine.clock.advance("1h")
    engine.run_until_idle()
    engine.expect(instance).completed().called("work", times=2)
    assert [call.attempt for call in stub.calls] == [1, 2]
    assert stub.effects == 1


def test_an_error_of_the_process_is_raised_as_such() -> None:
    engine = TestEngine(WORK)
    engine.stub("work", raises=BpmnError("REFUSED", "no"))
    instance = engine.start("p")
    engine.run_until_idle()
    assert engine.instances.get(instance.id).status == "Failed"


def test_what_a_stub_returns_is_a_copy() -> None:
    answer = {"items": [1]}

    def change(work: Work) -> None:
        work["items"].append(2)

    engine = TestEngine(TWO)
    engine.stub("one", returns=answer)
    engine.stub("two", returns=change)
    engine.start("p")
    engine.run_until_idle()
    assert answer == {"items": [1]}


def test_a_topic_that_nothing_takes_fails_the_test_and_says_which() -> None:
    engine = TestEngine(TWO)
    engine.stub("one")
    engine.start("p")
    with pytest.raises(AssertionError, match=r"engine.stub\(topic\)(.|\n)*b \(p\): .*'two'(.|\n)*known.*one"):
        engine.run_until_idle()


def test_a_stub_can_change_its_mind_but_not_hide_a_handler() -> None:
    engine = TestEngine(WORK, handlers={"real": lambda work: None})
    first = engine.stub("work", returns={"n": 1})
    assert engine.stub("work", returns={"n": 2}) is first
    instance = engine.start("p")
    engine.run_until_idle()
    engine.expect(instance).variables(n=2)
    with pytest.raises(ConflictError, match="has a real handler"):
        engine.stub("real")
