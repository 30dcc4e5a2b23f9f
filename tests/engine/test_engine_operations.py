"""What people do to instances: tasks, incidents, suspending, moving, deleting; and what the history tells."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
import sqlalchemy as sa
from support.definitions import path
from support.samples import HOUR, HUMAN, WORK

from bpm_engine import BpmnError, ConflictError, Engine, InvalidInputError, NotFoundError, Retry, Work
from bpm_engine.store.retention import LOG_ROWS
from bpm_engine.store.schema import execution_log, process_instance, scope, token
from bpm_engine.testing import ManualClock


def failing(engine: Engine) -> None:
    @engine.handler("work", retry=Retry(attempts=2, base="10s", jitter=0))
    def work(given: Work) -> dict[str, object]:
        if "good" not in given:
            raise ValueError("no good")
        return {"done": given.attempt}


def stuck(engine: Engine, clock: ManualClock) -> str:
    """An instance whose handler has failed for good."""
    failing(engine)
    engine.deploy(WORK)
    instance = engine.start("p")
    engine.run_until_idle()
    clock.advance("10s")
    engine.run_until_idle()
    assert engine.instances.get(instance.id).status == "Failed"
    return instance.id


# ------------------------------------------------------------------ tasks


def test_a_person_finds_and_completes_a_task(engine: Engine) -> None:
    engine.deploy(HUMAN)
    instance = engine.start("p", {"amount": 7})
    (task,) = engine.tasks.find(candidate_group="clerks")
    assert (task.name, task.status, task.instance_id) == ("Decide", "Open", instance.id)
    assert engine.tasks.find(candidate_group=["bosses"]).items == ()
    done = engine.tasks.complete(task.id, {"approved": True}, user="ann", groups=["clerks"])
    assert (done.status, done.assignee) == ("Completed", "ann")
    assert engine.instances.get(instance.id).variables == {"amount": 7, "approved": True}
    assert engine.tasks.find().items == ()
    assert engine.tasks.find(status="Completed").items == (done,)


def test_of_fifty_who_complete_the_same_task_one_succeeds(engine: Engine) -> None:
    engine.deploy(HUMAN)
    engine.start("p", {"amount": 7})
    (task,) = engine.tasks.find()

    def complete(number: int) -> str:
        try:
            engine.tasks.complete(task.id, {"approved": True}, actor=f"user-{number}")
        except ConflictError as error:
            return str(error)
        return "done"

    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(complete, range(50)))
    assert sorted(answers, reverse=True) == [f"task {task.id}: the task is Completed"] * 49 + ["done"]


@pytest.mark.parametrize(
    ("variables", "error", "words"),
    [
        ({}, InvalidInputError, "the field 'approved' is required"),
        ({"approved": "yes"}, InvalidInputError, "must be of type boolean, not 'yes'"),
        ({"approved": True}, ConflictError, "too much for a clerk"),
        ({"approved": {1}}, InvalidInputError, "variables.approved is a set"),
    ],
)
def test_what_a_form_or_a_guard_refuses_leaves_the_task_open(
    engine: Engine, variables: dict[str, object], error: type[Exception], words: str
) -> None:
    engine.deploy(HUMAN)
    instance = engine.start("p", {"amount": 700})
    (task,) = engine.tasks.find()
    before = engine.history.find(instance.id).items
    with pytest.raises(error, match=words):
        engine.tasks.complete(task.id, variables)
    assert engine.tasks.get(task.id).status == "Open"
    assert engine.history.find(instance.id).items == before


def test_who_is_no_candidate_cannot_complete_a_task(engine: Engine) -> None:
    engine.deploy(HUMAN)
    engine.start("p", {"amount": 7})
    (task,) = engine.tasks.find()
    with pytest.raises(ConflictError, match="is for clerks; 'bob' is none of them"):
        engine.tasks.complete(task.id, {"approved": True}, user="bob", groups=["drivers"])


def test_a_task_of_a_halted_instance_cannot_be_completed(engine: Engine) -> None:
    engine.deploy(HUMAN)
    instance = engine.start("p", {"amount": 7})
    (task,) = engine.tasks.find()
    engine.instances.suspend(instance.id)
    with pytest.raises(ConflictError, match="the instance is Suspended"):
        engine.tasks.complete(task.id, {"approved": True})


# ------------------------------------------------------------------ incidents


def test_an_incident_says_why_where_and_since_when(engine: Engine, clock: ManualClock) -> None:
    instance = stuck(engine, clock)
    (incident,) = engine.incidents.find()
    assert (incident.instance_id, incident.node_id) == (instance, "work")
    assert (incident.code, incident.message, incident.attempts) == ("ValueError", "no good", 2)
    assert incident.since == clock.now
    assert 'raise ValueError("no good")' in incident.traceback
    assert engine.incidents.find(definition="other").items == ()
    assert engine.incidents.find(instance=instance).items == (incident,)
    assert engine.instances.count(incidents=True) == 1


def test_an_incident_is_retried_as_it_is(engine: Engine, clock: ManualClock) -> None:
    instance = stuck(engine, clock)
    (incident,) = engine.incidents.find()
    engine.instances.set_variables(instance, {"good": True}, actor="ops")
    engine.incidents.retry(incident.id, actor="ops")
    engine.run_until_idle()
    assert engine.instances.get(instance).variables == {"good": True, "done": 1}
    with pytest.raises(ConflictError, match=f"incident {incident.id}: "):
        engine.incidents.retry(incident.id)


def test_an_incident_is_resolved_with_better_variables(engine: Engine, clock: ManualClock) -> None:
    instance = stuck(engine, clock)
    engine.incidents.resolve(engine.incidents.find().items[0].id, {"good": 1})
    engine.run_until_idle()
    assert engine.instances.get(instance).status == "Completed"


def test_an_incident_is_skipped_with_a_result(engine: Engine, clock: ManualClock) -> None:
    instance = stuck(engine, clock)
    engine.incidents.skip(engine.incidents.find().items[0].id, {"by hand": True}, actor="ops")
    engine.run_until_idle()
    done = engine.instances.get(instance)
    assert (done.status, done.variables) == ("Completed", {"by hand": True})
    (step,) = [step for step in engine.history.steps(instance) if step.node_id == "work"]
    assert (step.status, step.attempts) == ("skipped", 2)


def test_all_incidents_of_an_instance_are_retried_together(engine: Engine, clock: ManualClock) -> None:
    instance = stuck(engine, clock)
    engine.instances.set_variables(instance, {"good": True})
    assert engine.instances.retry(instance).status == "Running"
    engine.run_until_idle()
    assert engine.instances.get(instance).status == "Completed"


# ------------------------------------------------------------------ history


def test_the_steps_tell_time_attempts_and_the_last_error(engine: Engine, clock: ManualClock) -> None:
    instance = stuck(engine, clock)
    engine.incidents.resolve(engine.incidents.find().items[0].id, {"good": 1})
    clock.advance("5s")
    engine.run_until_idle()
    start, work, end = engine.history.steps(instance)
    assert [step.node_id for step in (start, work, end)] == ["start", "work", "end"]
    assert (start.status, start.attempts, start.duration) == ("completed", 1, timedelta())
    assert (work.status, work.attempts, work.duration) == ("completed", 3, timedelta(seconds=15))
    assert work.error is not None
    assert work.error["message"] == "no good"
    assert work.output == {"done": 1}


CATCH = (
    '<boundaryEvent id="declined" attachedToRef="work"><errorEventDefinition/></boundaryEvent>'
    '<endEvent id="refused"/>' + path("declined", "refused")
)


@pytest.mark.parametrize("caught", [True, False])
def test_a_step_that_threw_a_bpmn_error_was_tried(engine: Engine, clock: ManualClock, caught: bool) -> None:
    """Once after each failed attempt, and once after each retry."""
    answers = [ValueError("away"), BpmnError("DECLINED", "no money"), BpmnError("DECLINED", "no money")]

    @engine.handler("work", retry=Retry(attempts=5, base="5s", jitter=0))
    def work(work: Work) -> None:
        raise answers.pop(0)

    engine.deploy(WORK.replace(b"</process>", f"{CATCH if caught else ''}</process>".encode()))
    instance = engine.start("p").id
    engine.run_until_idle()
    clock.advance("5s")
    engine.run_until_idle()
    step = engine.history.steps(instance)[1]
    assert (step.node_id, step.status, step.attempts) == ("work", "cancelled" if caught else "failed", 2)
    assert step.error is not None
    assert (step.error["code"], step.error["message"]) == ("DECLINED", "no money")
    if not caught:
        engine.instances.retry(instance)
        engine.run_until_idle()
        assert engine.history.steps(instance)[1].attempts == 3


def test_a_step_that_goes_on_has_no_end(engine: Engine) -> None:
    engine.deploy(HUMAN)
    step = engine.history.steps(engine.start("p", {"amount": 1}).id)[-1]
    assert (step.node_id, step.status, step.ended_at, step.duration) == ("decide", "running", None, None)


def test_the_history_comes_in_pages_without_a_gap(engine: Engine) -> None:
    engine.deploy(HUMAN)
    instance = engine.start("p", {"amount": 1}, actor="shop")
    engine.instances.cancel(instance.id, reason="too late", actor="ann")
    whole = engine.history.find(instance.id)
    assert [entry.seq for entry in whole] == list(range(1, len(whole) + 1))
    assert (whole.items[0].actor, whole.items[-1].actor) == ("shop", "ann")
    first = engine.history.find(instance.id, limit=2)
    assert first.items == whole.items[:2]
    assert engine.history.find(instance.id, limit=2, cursor=first.cursor).items == whole.items[2:4]


# ------------------------------------------------------------------ instances


def test_a_cancelled_instance_stays_cancelled(engine: Engine) -> None:
    engine.deploy(HOUR)
    instance = engine.start("p")
    assert engine.instances.cancel(instance.id, reason="no need").status == "Cancelled"
    for change in (engine.instances.cancel, engine.instances.suspend, engine.instances.retry):
        with pytest.raises(ConflictError, match=f"instance {instance.id}: the instance is Cancelled"):
            change(instance.id)


def test_a_suspended_instance_does_not_wake_until_it_is_resumed(engine: Engine, clock: ManualClock) -> None:
    engine.deploy(HOUR)
    instance = engine.start("p")
    engine.instances.suspend(instance.id, reason="audit")
    with pytest.raises(ConflictError, match="suspended already"):
        engine.instances.suspend(instance.id)
    clock.advance("PT2H")
    engine.run_until_idle()
    assert engine.instances.get(instance.id).status == "Suspended"
    engine.instances.resume(instance.id)
    engine.run_until_idle()
    assert engine.instances.get(instance.id).status == "Completed"


def test_a_token_is_moved_by_hand(engine: Engine) -> None:
    engine.deploy(HOUR)
    instance = engine.start("p")
    assert engine.instances.move(instance.id, "pause", "end", actor="ops").status == "Completed"
    other = engine.start("p")
    with pytest.raises(InvalidInputError, match="a token cannot be put at 'moon'"):
        engine.instances.move(other.id, "pause", "moon")
    with pytest.raises(ConflictError, match="no token rests at 'end'"):
        engine.instances.move(other.id, "end", "pause")


def test_instances_are_found_by_what_is_known_of_them(engine: Engine, clock: ManualClock) -> None:
    engine.deploy(HUMAN)
    first = engine.start("p", {"amount": 1, "who": {"name": "ann", "age": 40}}, business_key="A-1")
    clock.advance("1h")
    second = engine.start("p", {"amount": 2}, subject="customer-7", priority=5)
    engine.instances.cancel(second.id)
    find = engine.instances.find
    assert [i.id for i in find()] == [second.id, first.id]
    assert [i.id for i in find(order="oldest")] == [first.id, second.id]
    for wanted in (
        {"business_key": "A-1"},
        {"status": "Running"},
        {"variables": {"who": {"name": "ann"}}},
        {"node": "decide"},
        {"started_before": clock.now},
    ):
        assert [i.id for i in find(**wanted)] == [first.id], wanted  # type: ignore[arg-type]
    for wanted in ({"subject": "customer-7"}, {"status": "Cancelled"}, {"started_after": clock.now}):
        assert [i.id for i in find(**wanted)] == [second.id], wanted  # type: ignore[arg-type]
    assert find(definition="p", version=2).items == ()
    assert engine.instances.count() == 2
    assert engine.instances.count(by="status") == {"Running": 1, "Cancelled": 1}
    assert engine.instances.count(by="definition", status="Running") == {"p": 1}


def test_a_deleted_instance_is_not_found_and_can_be_purged(engine: Engine) -> None:
    engine.deploy(HUMAN)
    instance = engine.start("p", {"amount": 1})
    with pytest.raises(ConflictError, match="is Running; cancel it first"):
        engine.instances.delete(instance.id, reason="by mistake")
    with pytest.raises(ConflictError, match="has not ended; cancel it first"):
        engine.instances.purge(instance.id)
    engine.instances.cancel(instance.id)
    engine.instances.delete(instance.id, reason="asked by the customer", actor="ann")
    for look in (engine.instances.get, engine.history.find, engine.instances.delete):
        with pytest.raises(NotFoundError, match=f"there is no instance '{instance.id}'"):
            look(instance.id)
    assert engine.instances.count() == 0
    engine.instances.purge(instance.id, actor="ann")
    with pytest.raises(NotFoundError):
        engine.instances.purge(instance.id)


def with_a_long_history(engine: Engine) -> str:
    """An ended instance with more history than goes in one transaction."""
    engine.deploy(HUMAN)
    instance = engine.start("p", {"amount": 1})
    engine.instances.cancel(instance.id)
    with engine.begin() as connection:
        (last,) = connection.execute(sa.select(sa.func.max(execution_log.c.seq))).one()
        row = connection.execute(sa.select(execution_log).where(execution_log.c.seq == last)).mappings().one()
        more = [{**row, "seq": last + number} for number in range(1, LOG_ROWS + 2)]
        connection.execute(execution_log.insert(), more)
        connection.execute(scope.update().values(seq=last + len(more)))
    return instance.id


def rows_left(engine: Engine) -> list[int]:
    with engine.begin() as connection:
        tables = (process_instance, scope, token, execution_log)
        return [connection.execute(sa.select(sa.func.count()).select_from(t)).scalar_one() for t in tables]


def test_an_instance_with_a_long_history_is_purged_as_any_other(engine: Engine) -> None:
    instance = with_a_long_history(engine)
    engine.instances.purge(instance)
    assert rows_left(engine) == [0, 0, 0, 0]


def test_an_instance_with_a_long_history_is_gone_with_the_callers_transaction(engine: Engine) -> None:
    instance = with_a_long_history(engine)
    with engine.begin() as connection:
        engine.instances.purge(instance, connection=connection)
    for look in (engine.instances.get, engine.history.find):
        with pytest.raises(NotFoundError):
            look(instance)
    assert engine.instances.find(deleted=True).items == ()
    engine.instances.purge(instance)  # what is left need not wait for retention
    assert rows_left(engine) == [0, 0, 0, 0]


def test_a_deleted_instance_still_guards_its_idempotency_key(engine: Engine) -> None:
    engine.deploy(HUMAN)
    instance = engine.start("p", {"amount": 1}, idempotency_key="web-1")
    engine.instances.cancel(instance.id)
    engine.instances.delete(instance.id)
    with pytest.raises(ConflictError, match="was deleted"):
        engine.start("p", {"amount": 1}, idempotency_key="web-1")
