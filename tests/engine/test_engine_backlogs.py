"""Much that is due at once: what is due now does not wait for it. What a worker holds is not read again."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
import sqlalchemy as sa
from support.faulty import persistent
from support.samples import WORK
from support.workers import wait_until

from bpm_engine import Engine
from bpm_engine.testing import ManualClock

SLEEP = """
<definitions xmlns="http://www.omg.org/spec/BPMN/20100524/MODEL" id="file" targetNamespace="urn:test">
  <process id="sleep" isExecutable="true">
    <startEvent id="start"/>
    <intermediateCatchEvent id="wait">
      <timerEventDefinition><timeDate>${due}</timeDate></timerEventDefinition>
    </intermediateCatchEvent>
    <endEvent id="end"/>
    <sequenceFlow id="a" sourceRef="start" targetRef="wait"/>
    <sequenceFlow id="b" sourceRef="wait" targetRef="end"/>
  </process>
</definitions>
"""


@pytest.mark.reliable  # one sweep is looked at: a fault has it swept again
def test_what_becomes_due_now_does_not_wait_for_a_backlog(
    opening: Callable[..., Engine], clock: ManualClock
) -> None:
    engine = opening(timer_batch=2)
    engine.deploy(SLEEP)
    now = clock.now
    for _ in range(100):
        engine.start("sleep", {"due": (now + timedelta(hours=1)).isoformat()})
    fresh = engine.tenant("acme")
    fresh.deploy(SLEEP)
    instance = fresh.start("sleep", {"due": (now + timedelta(hours=9)).isoformat()})
    clock.advance("PT9H")
    engine._runtime.timers.run_once()
    assert fresh.instances.get(instance.id).status == "Completed"
    assert engine.instances.count(status="Running"), "the backlog is not over"
    engine.run_until_idle()
    assert not engine.instances.count(status="Running")


@pytest.mark.reliable  # what was claimed by a lost answer waits for recovery, which does not run here
def test_who_comes_behind_a_long_queue_does_not_wait_for_all_of_it(opening: Callable[..., Engine]) -> None:
    engine = opening(worker_threads=1, batch=1)
    ran: list[str] = []
    engine.handler("work")(lambda given: ran.append(given.tenant_id))
    loud, quiet = engine.tenant("loud"), engine.tenant("quiet")
    for tenant in (loud, quiet):
        tenant.deploy(WORK)
    for _ in range(60):
        loud.start("p")
    quiet.start("p", priority=-1)
    with engine.running(only=["executor"]):
        wait_until(lambda: len(ran) == 61, "all has run")
    assert ran.index("quiet") < 40


@pytest.mark.reliable
def test_a_step_reads_the_root_scope_and_nothing_that_its_worker_holds(
    opening: Callable[..., Engine],
) -> None:
    engine = opening()
    engine.deploy(WORK)
    engine.handler("work")(lambda given: {"done": True})
    instance = engine.start("p")
    read: list[str] = []

    def note(connection: object, cursor: object, statement: str, *_: object) -> None:
        words = statement.split()
        if words[0] == "SELECT":
            read.append(words[words.index("FROM") + 1].strip("(,"))

    runtime = engine._runtime
    submission = runtime.executor.run_chosen(lambda work: work[0])
    assert submission is not None
    sa.event.listen(runtime.store.database.engine, "before_cursor_execute", note)
    runtime.committer.perform([submission])
    sa.event.remove(runtime.store.database.engine, "before_cursor_execute", note)
    assert read == ["scope"]
    assert engine.instances.get(instance.id).status == "Completed"


def test_a_step_sees_what_became_of_its_instance_while_the_handler_ran(
    opening: Callable[..., Engine],
) -> None:
    engine = opening()
    engine.deploy(WORK)
    engine.handler("work")(lambda given: {"done": True})
    instance = engine.start("p")
    submission = persistent(engine._runtime.executor.run_chosen)(lambda work: work[0])
    assert submission is not None
    engine.instances.suspend(instance.id)
    engine._runtime.committer.perform([submission])
    seen = engine.instances.get(instance.id)
    assert (seen.status, seen.variables) == ("Suspended", {"done": True})
    assert [token.state for token in seen.tokens] == ["Ready"], "the node is done, and the token rests"
    engine.instances.resume(instance.id)
    engine.run_until_idle()
    assert engine.instances.get(instance.id).status == "Completed"
