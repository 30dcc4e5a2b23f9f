"""What operators see of incidents and dead events, and what they do about them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
import sqlalchemy as sa
from support.definitions import bpmn, flow, path
from support.faulty import persistent
from support.samples import END, HOUR, HUMAN, START, WORK

from bpm_engine import ConflictError, Engine, EngineError, InvalidInputError, NotFoundError, Retry, Work
from bpm_engine.store import work as claims
from bpm_engine.testing import ManualClock

Opening = Callable[..., Engine]
# Put there by foreign hands: a number that Python cannot read, and what is no object.
BAD = pytest.mark.parametrize("bad", ["""'{"x": 1e5000}'""", "'[1]'", "'7'"])
# start -> work, with an alarm after a day -> end
GUARDED = bpmn(
    f'{START}<serviceTask id="work" bpm:topic="work" bpm:resultVariable="answer"/>{END}'
    '<boundaryEvent id="alarm" attachedToRef="work"><timerEventDefinition><timeDuration>P1D</timeDuration>'
    '</timerEventDefinition></boundaryEvent><endEvent id="late"/>'
    + path("start", "work", "end")
    + flow("alarm", "late")
)
SCRIPT = bpmn(
    f'{START}<scriptTask id="sum"><script>x = a + b</script></scriptTask>{END}' + path("start", "sum", "end")
)
CHOICE = bpmn(
    f'{START}<exclusiveGateway id="which"/>{END}'
    '<sequenceFlow id="f" sourceRef="start" targetRef="which"/><sequenceFlow id="g" sourceRef="which" '
    'targetRef="end"><conditionExpression>${false}</conditionExpression></sequenceFlow>'
)


def failing(engine: Engine, model: bytes = WORK) -> Engine:
    @engine.handler("work", retry=Retry(attempts=2, base="10s", jitter=0))
    def work(given: Work) -> dict[str, object]:
        if "good" not in given:
            raise KeyError(given.get("missing", "good"))
        return {"done": given.attempt}

    engine.deploy(model)
    return engine


def stuck(engine: Engine, clock: ManualClock, **variables: object) -> str:
    """The id of the incident of a new instance."""
    instance = engine.start("p", variables, business_key="A-17")
    engine.run_until_idle()
    clock.advance("10s")
    engine.run_until_idle()
    return engine.incidents.find(instance=instance.id).items[0].id


def write(engine: Engine, statement: str) -> None:
    with engine.begin() as connection:
        connection.exec_driver_sql(statement)


# ------------------------------------------------------------------ looking


def test_every_attempt_is_told_with_its_traceback(engine: Engine, clock: ManualClock) -> None:
    incident = engine.incidents.get(stuck(failing(engine), clock))
    assert (incident.definition_key, incident.business_key, incident.since) == ("p", "A-17", clock.now)
    first, second = engine.incidents.attempts(incident.id)
    assert (first.number, first.code, second.number) == (1, "KeyError", 2)
    assert second.at - first.at == timedelta(seconds=10)
    assert "in work" in first.traceback
    assert "raise KeyError" in second.traceback


def test_incidents_are_found_and_counted_by_cause(engine: Engine, clock: ManualClock) -> None:
    failing(engine)
    first = stuck(engine, clock)
    began = clock.now
    clock.advance("1h")
    engine.deploy(CHOICE)
    engine.start("p", business_key="B-1")
    find = engine.incidents.find
    other = find(business_key="B-1").items[0]
    assert [i.id for i in find()] == [first, other.id]
    assert [i.id for i in find(order="newest")] == [other.id, first]
    assert [i.id for i in find(code="KeyError", node="work", definition="p")] == [first]
    assert [i.id for i in find(since_after=clock.now)] == [other.id]
    assert [i.id for i in find(since_before=began + timedelta(seconds=1))] == [first]
    assert engine.incidents.count() == 2
    assert engine.incidents.count(by="code", node="work") == {"KeyError": 1}
    assert engine.incidents.count(by="node") == {"work": 1, "which": 1}
    assert engine.incidents.count(by="definition") == {"p": 2}
    page = find(limit=1)
    assert [i.id for i in find(limit=1, cursor=page.cursor)] == [other.id]


def test_what_has_failed_again_is_the_newest_incident(engine: Engine, clock: ManualClock) -> None:
    failing(engine)
    first, second, third = (stuck(engine, clock) for _ in range(3))
    engine.incidents.retry(first)
    engine.run_until_idle()
    clock.advance("10s")
    engine.run_until_idle()
    for order, expected in {"oldest": [second, third, first], "newest": [first, third, second]}.items():
        found, cursor = [], None
        for _ in expected:
            page = engine.incidents.find(order=order, limit=1, cursor=cursor)
            found += [incident.id for incident in page]
            cursor = page.cursor
        assert (found, cursor) == (expected, None)


def test_what_was_dealt_with_is_no_incident_any_more(engine: Engine, clock: ManualClock) -> None:
    incident = stuck(failing(engine), clock)
    engine.incidents.skip(incident)
    with pytest.raises(NotFoundError, match="any more"):
        engine.incidents.get(incident)
    for change in (engine.incidents.retry, engine.incidents.skip, engine.incidents.route):
        with pytest.raises(ConflictError, match=f"incident {incident}: "):
            change(incident)


# ------------------------------------------------------------------ retrying all of one cause


def test_all_incidents_of_one_cause_are_retried(engine: Engine, clock: ManualClock) -> None:
    failing(engine)
    same = [stuck(engine, clock) for _ in range(3)]
    engine.deploy(CHOICE)
    other = engine.start("p")
    for incident in same:
        engine.instances.set_variables(engine.incidents.get(incident).instance_id, {"good": True})
    assert engine.incidents.retry_all(code="KeyError", actor="ops") == 3
    engine.run_until_idle()
    assert engine.instances.count(status="Completed") == 3
    assert [i.instance_id for i in engine.incidents.find()] == [other.id]
    assert engine.incidents.retry_all(code="KeyError") == 0


def test_what_fails_again_at_once_is_not_retried_for_ever(engine: Engine) -> None:
    engine.deploy(CHOICE)
    for _ in range(3):
        engine.start("p")
    assert engine.incidents.retry_all() == 3
    with engine.begin() as connection:
        assert engine.incidents.retry_all(connection=connection) == 3
    assert engine.incidents.count() == 3


# ------------------------------------------------------------------ a person instead


def test_a_person_does_what_the_handler_could_not(engine: Engine, clock: ManualClock) -> None:
    incident = stuck(failing(engine, GUARDED), clock)
    task = engine.incidents.route(
        incident, candidate_groups=["support"], name="Charge by hand", due_at=clock.now, actor="ops"
    )
    assert (task.name, task.candidate_groups, task.overdue) == ("Charge by hand", ("support",), True)
    instance = engine.instances.get(task.instance_id)
    assert (instance.status, [t.waiting_for for t in instance.tokens]) == ("Running", ["human"])
    assert engine.incidents.count() == 0
    with pytest.raises(ConflictError, match="the task is for support"):
        engine.tasks.complete(task.id, {"receipt": 7}, user="bob")
    engine.tasks.complete(task.id, {"receipt": 7}, user="ann", groups=["support"])
    done = engine.instances.get(task.instance_id)
    assert (done.status, done.variables) == ("Completed", {"answer": {"receipt": 7}})


def test_a_routed_task_keeps_its_boundary_events(engine: Engine, clock: ManualClock) -> None:
    task = engine.incidents.route(stuck(failing(engine, GUARDED), clock), assignee="ann")
    clock.advance("P1D")
    engine.run_until_idle()
    assert engine.tasks.get(task.id).status == "Cancelled"
    assert engine.instances.get(task.instance_id).status == "Completed"


def test_a_script_can_be_done_by_a_person_and_a_gateway_cannot(engine: Engine) -> None:
    engine.deploy(SCRIPT)
    instance = engine.start("p", {"a": 1})
    (incident,) = engine.incidents.find()
    task = engine.incidents.route(incident.id, assignee="ann")
    engine.tasks.complete(task.id, {"x": 3}, user="ann")
    assert engine.instances.get(instance.id).variables == {"a": 1, "x": 3}
    engine.deploy(CHOICE)
    engine.start("p")
    (incident,) = engine.incidents.find()
    with pytest.raises(ConflictError, match="'which' is no task that a person could do"):
        engine.incidents.route(incident.id)


def test_an_incident_of_a_user_task_is_given_to_another_person(engine: Engine) -> None:
    engine.deploy(HUMAN.replace(b"bpm:candidateGroups", b'bpm:assignee="${who.name}" bpm:candidateGroups'))
    engine.start("p", {"who": 3, "amount": 1})
    (incident,) = engine.incidents.find()
    task = engine.incidents.route(incident.id, assignee="ann")
    assert task.name == "Decide"
    with pytest.raises(InvalidInputError, match="'approved' is required"):  # its form still counts
        engine.tasks.complete(task.id, user="ann")
    engine.tasks.complete(task.id, {"approved": True}, user="ann")


# ------------------------------------------------------------------ work that nobody takes


def test_work_that_nobody_takes_for_long_is_an_incident(opening: Opening, clock: ManualClock) -> None:
    engine = opening(missing_handler="leave", unclaimed=600.0)
    engine.deploy(WORK)
    instance = engine.start("p")
    clock.advance("599s")
    assert engine.run_until_idle() == 0
    clock.advance("1s")
    engine.run_until_idle()
    (incident,) = engine.incidents.find(instance=instance.id)
    assert incident.code == "no_handler_registered"
    assert "no worker has a handler for 'work'" in incident.message
    engine.handler("work")(lambda work: None)
    engine.incidents.retry(incident.id)
    engine.run_until_idle()
    assert engine.instances.get(instance.id).status == "Completed"


def claim_one(engine: Engine, topic: str) -> None:
    """As another worker does."""
    topics = claims.Topics(names=frozenset({topic}))
    with engine._runtime.store.transaction() as tx:
        claims.claim_tokens(tx, owner="w", limit=1, lease=timedelta(hours=1), topics=topics)


def test_work_whose_topic_is_worked_on_is_only_behind(opening: Opening, clock: ManualClock) -> None:
    engine = opening(missing_handler="leave", unclaimed=600.0)
    engine.deploy(WORK)
    engine.start("p")
    engine.start("p")
    clock.advance("601s")
    persistent(claim_one)(engine, "work")
    engine.run_until_idle()
    assert engine.incidents.count() == 0


# ------------------------------------------------------------------ rows that cannot be read


@BAD
def test_an_instance_whose_rows_cannot_be_read_becomes_an_incident(
    engine: Engine, clock: ManualClock, bad: str
) -> None:
    engine.deploy(HOUR)
    instance, sound = engine.start("p"), engine.start("p")
    write(engine, f"UPDATE scope SET variables = {bad} WHERE id = '{instance.id}'")
    clock.advance("1h")
    engine.run_until_idle()
    assert engine.instances.get(sound.id).status == "Completed"
    (incident,) = engine.incidents.find()
    assert (incident.instance_id, incident.code, incident.node_id) == (
        instance.id,
        "unreadable_rows",
        "pause",
    )
    assert f"scope {instance.id}: variables: " in incident.message
    (failed,) = engine.instances.find(status="Failed")
    assert (failed.id, failed.variables) == (instance.id, {})
    assert [entry.kind for entry in engine.history.find(instance.id)][-2:] == ["incident", "failed"]
    types = [event.type for event in engine.outbox.find(status="Pending", instance=instance.id)]
    assert types[-2:] == ["incident.created", "instance.failed"]
    with pytest.raises(EngineError, match="cannot be read"):
        engine.incidents.retry(incident.id)
    write(engine, f"UPDATE scope SET variables = '{{}}' WHERE id = '{instance.id}'")  # repaired
    assert engine.incidents.retry_all(code="unreadable_rows") == 1
    engine.run_until_idle()
    assert engine.instances.get(instance.id).status == "Completed"


@BAD
def test_a_token_that_cannot_be_read_is_taken_from_the_queue(
    engine: Engine, clock: ManualClock, bad: str
) -> None:
    done: list[str] = []
    engine.handler("work")(lambda work: done.append(work.instance_id))
    engine.deploy(WORK)
    spoilt, sound = engine.start("p"), engine.start("p")
    write(engine, f"UPDATE token SET local = {bad} WHERE instance_id = '{spoilt.id}'")
    engine.run_until_idle()
    assert done == [sound.id]
    clock.advance("31s")  # its lease, which nobody could use, is over
    engine.run_until_idle()
    (incident,) = engine.incidents.find()
    assert (incident.instance_id, incident.code) == (spoilt.id, "unreadable_rows")
    assert engine.run_until_idle() == 0  # and is not met again
    write(engine, f"UPDATE token SET local = NULL WHERE instance_id = '{spoilt.id}'")
    engine.incidents.retry(incident.id)
    engine.run_until_idle()
    assert done == [sound.id, spoilt.id]


# ------------------------------------------------------------------ dead events


@pytest.fixture
def dead(engine: Engine) -> list[str]:
    engine.deploy(HUMAN)
    first, second = engine.start("p", {"amount": 1}), engine.start("p", {"amount": 2})
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE event_outbox SET status = 'Dead', error = 'gone'"))
    return [first.id, second.id]


def test_dead_events_are_found_and_requeued_together(engine: Engine, dead: list[str]) -> None:
    assert {event.instance_id for event in engine.outbox.find(type="instance.started")} == set(dead)
    assert engine.outbox.find(type="other").items == ()
    of_first = engine.outbox.find(instance=dead[0]).items
    assert {event.instance_id for event in of_first} == {dead[0]}
    assert engine.outbox.requeue_all(instance=dead[0], actor="ops") == len(of_first)
    assert engine.outbox.requeue_all(type="instance.started") == 1
    assert engine.outbox.requeue_all() == len(engine.outbox.find()) == 0


def test_a_dead_event_is_purged(engine: Engine, dead: list[str]) -> None:
    event, *others = engine.outbox.find().items
    engine.outbox.purge(event.id, actor="ops")
    assert list(engine.outbox.find()) == others
    engine.outbox.requeue(others[0].id)
    for gone in (event.id, others[0].id):  # what is not dead cannot be purged
        with pytest.raises(NotFoundError, match="there is no dead event"):
            engine.outbox.purge(gone)
