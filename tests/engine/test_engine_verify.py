"""Verifying an instance: what foreign hands did to its rows contradicts its history, and is said."""

from __future__ import annotations

import asyncio

import pytest
import sqlalchemy as sa
from support.definitions import bpmn, path

from bpm_engine import Engine, NotFoundError, Retry, Work
from bpm_engine.testing import ManualClock

ENDS = '<startEvent id="start"/><endEvent id="end"/>'


def process(ask: str = "ask", join: str = "join") -> bytes:
    """A person and some work meet at a join; then a person again."""
    return bpmn(
        f'{ENDS}<parallelGateway id="fork"/><userTask id="{ask}"/><serviceTask id="work" bpm:topic="work"/>'
        f'<parallelGateway id="{join}"/><userTask id="last"/>'
        + path("start", "fork", ask, join, "last", "end")
        + path("fork", "work", join)
    )


def parked(engine: Engine) -> str:
    """One token rests with a person, one at the join."""
    engine.handler("work")(lambda work: {"done": True})
    engine.deploy(process())
    instance = engine.start("p")
    engine.run_until_idle()
    return instance.id


def damaged(engine: Engine, instance_id: str, statement: str) -> tuple[str, ...]:
    """What is found after a change that is taken back again, so that the rows are sound in the end."""
    found: tuple[str, ...] = ()
    try:
        with engine.begin() as connection:
            connection.execute(sa.text(statement), {"id": instance_id} if ":id" in statement else {})
            found = engine.instances.verify(instance_id, connection=connection).findings
            raise InterruptedError
    except InterruptedError:
        return found


def test_what_nobody_touched_is_sound(engine: Engine, clock: ManualClock) -> None:
    instance_id = parked(engine)
    verification = engine.instances.verify(instance_id)
    assert (verification.is_sound, verification.findings) == (True, ())
    assert str(verification) == f"instance {instance_id}: history, definition and tokens agree"
    for _ in range(2):
        (task,) = engine.tasks.find()
        engine.tasks.complete(task.id)
        assert engine.instances.verify(instance_id).is_sound
    assert engine.instances.get(instance_id).status == "Completed"


def test_an_incident_at_the_winner_of_an_event_gateway_is_sound(engine: Engine, clock: ManualClock) -> None:
    """History has no entry of the winner until it is done: nothing rests there but by an incident."""
    caught = (
        '<intermediateCatchEvent id="paid"><extensionElements><bpm:output name="y" value="${amount / rate}"/>'
        '</extensionElements><messageEventDefinition messageRef="m"/></intermediateCatchEvent>'
    )
    late = '<intermediateCatchEvent id="late"><timerEventDefinition><timeDuration>P1D</timeDuration>'
    late += "</timerEventDefinition></intermediateCatchEvent>"
    ways = path("start", "gate", "paid", "end") + path("gate", "late", "end")
    body = ENDS + '<eventBasedGateway id="gate"/>' + caught + late + ways
    engine.deploy(bpmn(body, roots='<message id="m" name="paid"/>'))
    instance = engine.start("p")
    engine.send_message("paid", payload={"amount": 4})
    (incident,) = engine.incidents.find()
    assert engine.instances.verify(instance.id).findings == ()
    engine.incidents.resolve(incident.id, {"rate": 2})
    assert engine.instances.get(instance.id).variables == {"rate": 2, "y": 2}
    assert engine.instances.verify(instance.id).findings == ()


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("DELETE FROM token WHERE waiting_for = 'human'", "last seen at 'ask', is not there"),
        ("DELETE FROM token WHERE waiting_for = 'join'", "last seen at 'work', is not there"),
        ("UPDATE token SET node_id = 'last' WHERE waiting_for = 'human'", "by its history it rests at 'ask'"),
        ("UPDATE token SET node_id = 'nowhere' WHERE waiting_for = 'human'", "the definition does not have"),
        ("UPDATE token SET node_id = 'ask' WHERE waiting_for = 'join'", "nothing in its history leads there"),
        (
            "UPDATE token SET state = 'Completed', waiting_for = NULL WHERE waiting_for = 'human'",
            "is Completed; by its history it rests at 'ask'",
        ),
        (
            "UPDATE token SET state = 'Completed', waiting_for = NULL WHERE waiting_for = 'join'",
            "1 tokens must wait at 'join' by 'work_join', and 0 do",
        ),
        (
            "UPDATE token SET activation = 1 WHERE waiting_for = 'join'",
            "nothing in its history leads there",
        ),
        (
            "UPDATE token SET state = 'Failed' WHERE waiting_for = 'human'",
            "is Failed; by its history it has none",
        ),
        (
            "UPDATE token SET state = 'Waiting', waiting_for = 'human', phase = 'inside' "
            "WHERE state = 'Completed'",
            "its history does not know of it",
        ),
        (
            "UPDATE process_instance SET status = 'Suspended' WHERE id = :id",
            "the instance is Suspended; by its history it is Running",
        ),
        (
            "UPDATE process_instance SET definition_version = 7 WHERE id = :id",
            "the instance is of version 7, of which its history does not know",
        ),
        ("UPDATE scope SET seq = 99 WHERE id = :id", "the instance has written 99"),
        (
            "INSERT INTO execution_log SELECT tenant_id, instance_id, root_instance_id, seq + 50, kind, at, "
            "node_id, token_id, scope_id, activation, actor, data FROM execution_log WHERE seq = 1",
            "the history has no entry",
        ),
    ],
)
def test_what_was_altered_is_found(engine: Engine, statement: str, words: str) -> None:
    instance_id = parked(engine)
    found = damaged(engine, instance_id, statement)
    assert any(words in each for each in found), found
    assert engine.instances.verify(instance_id).is_sound


def test_incidents_and_retries_are_sound(engine: Engine, clock: ManualClock) -> None:
    @engine.handler("work", retry=Retry(attempts=2, base="10s", jitter=0))
    def work(given: Work) -> None:
        if "good" not in given:
            raise ValueError("no good")

    engine.deploy(process())
    instance = engine.start("p")
    for _ in range(2):
        engine.run_until_idle()
        assert engine.instances.verify(instance.id).is_sound
        clock.advance("10s")
    assert engine.instances.get(instance.id).status == "Failed"
    engine.incidents.resolve(engine.incidents.find().items[0].id, {"good": True})
    engine.run_until_idle()
    assert engine.instances.verify(instance.id).is_sound


def test_what_operators_do_is_sound(engine: Engine) -> None:
    instance_id = parked(engine)
    engine.deploy(process("question", "meet"))
    engine.instances.suspend(instance_id)
    engine.instances.migrate(instance_id, 2, mapping={"ask": "question", "join": "meet"})
    assert engine.instances.verify(instance_id).is_sound
    engine.instances.resume(instance_id)
    engine.instances.move(instance_id, "question", "last")
    engine.run_until_idle()
    verification = engine.instances.verify(instance_id)
    assert verification.findings == ()
    found = damaged(engine, instance_id, "UPDATE token SET node_id = 'ask' WHERE waiting_for = 'human'")
    assert any("'ask', which the definition does not have" in each for each in found)


def test_a_foreign_instance_is_not_found(engine: Engine) -> None:
    instance_id = parked(engine)
    with pytest.raises(NotFoundError):
        engine.tenant("other").instances.verify(instance_id)
    assert asyncio.run(engine.aio.instances.verify(instance_id)).is_sound
