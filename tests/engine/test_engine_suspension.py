"""A suspended instance does nothing and loses nothing: what came meanwhile takes effect when it goes on."""

from __future__ import annotations

import asyncio

import pytest
from support.definitions import bpmn, flow, path
from support.samples import HOUR, HUMAN, LISTEN, PAPERS, WAIT, WORK

from bpm_engine import BpmnError, ConflictError, Engine, Retry, Work
from bpm_engine.testing import ManualClock

ENDS = '<startEvent id="start"/><endEvent id="end"/>'
CALLER = bpmn(ENDS + '<callActivity id="call" calledElement="p"/>' + path("start", "call", "end")).replace(
    b'process id="p"', b'process id="caller"'
)
CAUGHT = bpmn(
    ENDS + '<serviceTask id="work" bpm:topic="work"/><userTask id="repair"/>'
    '<boundaryEvent id="oops" attachedToRef="work"><errorEventDefinition errorRef="x"/></boundaryEvent>'
    + path("start", "work", "end")
    + path("oops", "repair")
    + flow("repair", "end"),
    roots='<error id="x" errorCode="X"/>',
)
JOIN = bpmn(
    ENDS
    + '<parallelGateway id="fork"/><serviceTask id="a" bpm:topic="a"/><serviceTask id="b" bpm:topic="b"/>'
    '<parallelGateway id="join"/>' + path("start", "fork", "a", "join", "end") + path("fork", "b", "join")
)


def test_a_message_sent_meanwhile_is_kept_and_taken(engine: Engine) -> None:
    engine.deploy(WAIT)
    instance = engine.start("p", {"order": "A-1"})
    engine.instances.suspend(instance.id)
    assert engine.send_message("paid", "A-1", {"sum": 7}) == "buffered"
    engine.run_until_idle()
    assert engine.instances.get(instance.id).status == "Suspended"
    engine.instances.resume(instance.id)
    engine.run_until_idle()
    done = engine.instances.get(instance.id)
    assert (done.status, done.variables["sum"]) == ("Completed", 7)


def test_several_messages_sent_meanwhile_all_take_effect(engine: Engine) -> None:
    engine.deploy(PAPERS)
    instance = engine.start("p", {"order": "A-1"})
    engine.instances.suspend(instance.id)
    for number in range(3):
        engine.send_message("paid", "A-1", message_id=f"m-{number}")
    engine.instances.resume(instance.id)
    engine.run_until_idle()
    assert [step.node_id for step in engine.history.steps(instance.id)].count("filed") == 3


def test_a_signal_sent_meanwhile_is_delivered(engine: Engine) -> None:
    engine.deploy(LISTEN)
    instance = engine.start("p")
    engine.instances.suspend(instance.id)
    assert engine.send_signal("closed", {"by": "ann"}) == 1
    engine.run_until_idle()
    assert engine.instances.get(instance.id).status == "Suspended"
    engine.instances.resume(instance.id)
    engine.run_until_idle()
    assert engine.instances.get(instance.id).variables == {"by": "ann"}


def test_a_timer_that_came_due_fires_when_the_instance_goes_on(engine: Engine, clock: ManualClock) -> None:
    engine.deploy(HOUR)
    instance = engine.start("p")
    engine.instances.suspend(instance.id)
    clock.advance("PT2H")
    assert engine.run_until_idle() == 0
    engine.instances.resume(instance.id)
    engine.run_until_idle()
    assert engine.instances.get(instance.id).status == "Completed"


def test_the_answer_of_a_running_handler_is_kept(engine: Engine) -> None:
    @engine.handler("work")
    def work(given: Work) -> dict[str, int]:
        engine.instances.suspend(given.instance_id, actor="ops")
        return {"done": 1}

    engine.deploy(WORK)
    instance = engine.start("p")
    engine.run_until_idle()
    halted = engine.instances.get(instance.id)
    assert (halted.status, halted.variables) == ("Suspended", {"done": 1})
    assert [token.node_id for token in halted.tokens] == ["work"]
    engine.instances.resume(instance.id)
    engine.run_until_idle()
    assert engine.instances.get(instance.id).status == "Completed"


def test_an_error_of_a_running_handler_finds_its_catcher(engine: Engine) -> None:
    @engine.handler("work")
    def work(given: Work) -> None:
        engine.instances.suspend(given.instance_id)
        raise BpmnError("X")

    engine.deploy(CAUGHT)
    instance = engine.start("p")
    engine.run_until_idle()
    assert engine.instances.get(instance.id).status == "Suspended"
    engine.instances.resume(instance.id)
    engine.run_until_idle()
    assert [token.node_id for token in engine.instances.get(instance.id).tokens] == ["repair"]


def test_a_failed_attempt_of_a_running_handler_is_retried_afterwards(
    engine: Engine, clock: ManualClock
) -> None:
    attempts: list[int] = []

    @engine.handler("work", retry=Retry(attempts=3, base="10s", jitter=0))
    def work(given: Work) -> None:
        attempts.append(given.attempt)
        if len(attempts) == 1:
            engine.instances.suspend(given.instance_id)
            raise ValueError("not now")

    engine.deploy(WORK)
    instance = engine.start("p")
    engine.run_until_idle()
    clock.advance("1h")
    engine.run_until_idle()
    assert len(attempts) == 1
    engine.instances.resume(instance.id)
    engine.run_until_idle()
    assert engine.instances.get(instance.id).status == "Completed"


def test_branches_that_end_meanwhile_still_meet(engine: Engine) -> None:
    @engine.handler("a")
    def a(given: Work) -> None:
        engine.instances.suspend(given.instance_id)

    @engine.handler("b")
    def b(given: Work) -> None:
        """Nothing to do."""

    engine.deploy(JOIN)
    instance = engine.start("p")
    engine.run_until_idle()
    engine.instances.resume(instance.id)
    engine.run_until_idle()
    assert engine.instances.get(instance.id).status == "Completed"


def test_called_instances_are_suspended_and_resumed_with_their_caller(
    engine: Engine, clock: ManualClock
) -> None:
    engine.deploy(HOUR)
    engine.deploy(CALLER)
    top = engine.start("caller")
    (called,) = engine.instances.find(parent=top.id)
    engine.instances.suspend(top.id)
    assert engine.instances.get(called.id).status == "Suspended"
    clock.advance("2h")
    engine.run_until_idle()
    engine.instances.resume(top.id)
    engine.run_until_idle()
    assert engine.instances.get(top.id).status == "Completed"


def test_a_person_is_told_that_the_task_must_wait(engine: Engine) -> None:
    engine.deploy(HUMAN)
    instance = engine.start("p", {"amount": 1})
    (task,) = engine.tasks.find()
    engine.instances.suspend(instance.id)
    with pytest.raises(ConflictError, match="the instance is Suspended"):
        engine.tasks.complete(task.id, {"approved": True})
    engine.instances.resume(instance.id)
    engine.tasks.complete(task.id, {"approved": True})
    assert engine.instances.get(instance.id).status == "Completed"


def test_suspending_joins_the_callers_transaction(engine: Engine) -> None:
    engine.deploy(HOUR)
    instance = engine.start("p")

    def suspend_and_think_better_of_it() -> None:
        with engine.begin() as connection:
            engine.instances.suspend(instance.id, connection=connection, actor="ops")
            assert engine.instances.get(instance.id, connection=connection).status == "Suspended"
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        suspend_and_think_better_of_it()
    assert engine.instances.get(instance.id).status == "Running"


def test_async_callers_suspend_as_well(engine: Engine) -> None:
    engine.deploy(HOUR)
    instance = engine.start("p")
    assert asyncio.run(engine.aio.instances.suspend(instance.id)).status == "Suspended"
