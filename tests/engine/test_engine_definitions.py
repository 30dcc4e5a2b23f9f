"""Definitions, their versions and their timer starts; events that could not be published."""

from __future__ import annotations

from datetime import timedelta

import pytest
import sqlalchemy as sa
from support.definitions import bpmn, path
from support.samples import HOURLY, HUMAN, STARTED_BY_MESSAGE, WORK

from bpm_engine import ConflictError, DefinitionError, Engine, InvalidInputError, NotFoundError
from bpm_engine.testing import ManualClock


def test_the_same_content_is_the_same_version(engine: Engine) -> None:
    first = engine.deploy(WORK, actor="ann")
    assert engine.deploy(WORK, actor="bob") == first
    second = engine.deploy(HUMAN.decode())
    assert [d.version for d in (first.definitions[0], second.definitions[0])] == [1, 2]
    assert engine.definitions.get("p").version == 2
    assert engine.definitions.get("p", 1).deployed_by == "ann"
    assert [d.version for d in engine.definitions.find(key="p")] == [2, 1]
    assert engine.definitions.xml("p", 1).encode() == WORK


def test_instances_go_on_with_the_version_they_began_with(engine: Engine) -> None:
    engine.deploy(HUMAN)
    old = engine.start("p", {"amount": 1})
    engine.deploy(WORK)
    assert engine.start("p").definition_version == 2
    assert engine.start("p", {"amount": 1}, version=1).definition_version == 1
    engine.tasks.complete(engine.tasks.find(instance=old.id).items[0].id, {"approved": True})
    assert engine.instances.get(old.id).status == "Completed"


def tagged(tag: str, task: str) -> bytes:
    body = f'<startEvent id="s"/><userTask id="{task}"/><endEvent id="e"/>' + path("s", task, "e")
    return bpmn(body, process=f'isExecutable="true" bpm:versionTag="{tag}"')


def test_a_version_is_chosen_by_its_tag(engine: Engine) -> None:
    for tag, task in (("spring", "a"), ("spring", "b"), ("autumn", "c")):
        engine.deploy(tagged(tag, task))
    assert engine.definitions.get("p", version_tag="spring").version == 2
    assert engine.start("p", version_tag="spring").definition_version == 2
    assert engine.start("p").definition_version == 3
    with pytest.raises(NotFoundError, match="has no version with the tag 'winter'; the latest is version 3"):
        engine.start("p", version_tag="winter")
    with pytest.raises(NotFoundError):
        engine.start("p", version=1, version_tag="autumn")


def test_a_version_that_instances_use_is_not_deleted(engine: Engine) -> None:
    engine.deploy(HUMAN)
    engine.deploy(WORK)
    instance = engine.start("p", {"amount": 1}, version=1)
    with pytest.raises(ConflictError, match="version 1 of 'p' is used by instances"):
        engine.definitions.delete("p", 1, actor="ann")
    engine.instances.cancel(instance.id)
    with pytest.raises(ConflictError, match="purge those that have ended"):
        engine.definitions.delete("p", 1)
    engine.instances.purge(instance.id)
    engine.definitions.delete("p", 1, actor="ann")
    assert [d.version for d in engine.definitions.find(key="p")] == [2]
    for look in (engine.definitions.get, engine.definitions.xml, engine.definitions.delete):
        with pytest.raises(NotFoundError, match="process 'p' has no version 1"):
            look("p", 1)  # type: ignore[operator]
    with pytest.raises(NotFoundError, match="process 'p' has no version 1"):
        engine.start("p", version=1)


def test_the_number_of_a_deleted_version_is_not_used_again(engine: Engine) -> None:
    engine.deploy(HUMAN)
    engine.deploy(WORK)
    engine.definitions.delete("p", 2)
    assert engine.definitions.get("p").version == 1
    assert engine.deploy(HUMAN).definitions[0].version == 1, "the same content is still the latest"
    assert engine.deploy(WORK).definitions[0].version == 3
    for version in (1, 3):
        engine.definitions.delete("p", version)
    with pytest.raises(NotFoundError, match="no process 'p' is deployed"):
        engine.start("p")


def test_when_the_latest_is_deleted_the_one_before_starts_again(engine: Engine, clock: ManualClock) -> None:
    engine.deploy(HOURLY)
    engine.deploy(STARTED_BY_MESSAGE)
    assert engine.send_message("paid") == "started"
    engine.batches.cancel(status="Running")
    (ended,) = engine.instances.find()
    engine.instances.purge(ended.id)
    engine.definitions.delete("p", 2)
    assert engine.send_message("paid") == "buffered"
    clock.advance("1h")
    engine.run_until_idle()
    assert engine.instances.count(by="version") == {"p:1": 1}


def test_a_file_that_is_wrong_is_refused_with_all_its_problems(engine: Engine) -> None:
    with pytest.raises(DefinitionError) as refused:
        engine.deploy(WORK.replace(b'targetRef="end"', b'targetRef="nowhere"'))
    assert "nowhere" in str(refused.value)
    assert refused.value.problems
    with pytest.raises(NotFoundError):
        engine.definitions.get("p")


def test_a_file_that_is_not_there_is_said_so(engine: Engine) -> None:
    with pytest.raises(InvalidInputError, match=r"cannot read 'processes/missing\.bpmn': "):
        engine.deploy("processes/missing.bpmn")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_a_file_may_have_any_encoding_that_xml_names(engine: Engine, encoding: str) -> None:
    name = "utf-16" if encoding == "utf-16" else "utf-8"
    text = f'<?xml version="1.0" encoding="{name}"?>' + WORK.decode().replace(
        'id="work"', 'id="wörk"'
    ).replace('Ref="work"', 'Ref="wörk"')
    engine.deploy(text.encode(encoding))
    assert engine.start("p").tokens[0].node_id == "wörk"
    assert engine.deploy(engine.definitions.xml("p")).definitions[0].version == 1, "kept as the same text"


# ------------------------------------------------------------------ schedules


def test_a_cycle_starts_instances_until_it_ends(engine: Engine, clock: ManualClock) -> None:
    engine.deploy(HOURLY)
    (schedule,) = engine.schedules.find(definition="p")
    begin, hour = clock.now, timedelta(hours=1)
    assert schedule.due_at == begin + hour
    assert engine.schedules.preview(schedule.id) == tuple(begin + n * hour for n in (1, 2, 3))
    assert engine.schedules.preview(schedule.id, 2) == (begin + hour, begin + 2 * hour)
    for fired in (1, 2, 3):
        clock.advance("PT1H")
        engine.run_until_idle()
        assert engine.instances.count() == fired
    (ended,) = engine.schedules.find()
    assert (ended.status, ended.due_at, ended.fired) == ("Ended", None, 3)
    assert engine.schedules.preview(schedule.id) == ()
    with pytest.raises(ConflictError, match="is Ended already"):
        engine.schedules.pause(schedule.id)


def test_a_paused_schedule_starts_nothing(engine: Engine, clock: ManualClock) -> None:
    engine.deploy(HOURLY)
    (schedule,) = engine.schedules.find()
    assert engine.schedules.pause(schedule.id, actor="ops").status == "Paused"
    with pytest.raises(ConflictError, match="is Paused already"):
        engine.schedules.pause(schedule.id)
    clock.advance("PT90M")
    engine.run_until_idle()
    assert engine.instances.count() == 0
    assert engine.schedules.resume(schedule.id).status == "Active"
    engine.run_until_idle()
    assert engine.instances.count() == 1


def test_a_new_version_replaces_the_schedules_of_the_old_one(engine: Engine, clock: ManualClock) -> None:
    engine.deploy(HOURLY)
    engine.deploy(WORK)
    clock.advance("PT1H")
    engine.run_until_idle()
    assert [schedule.status for schedule in engine.schedules.find()] == ["Ended"]
    assert engine.instances.count() == 0


@pytest.mark.parametrize("count", [0, 1001, "3", True])
def test_a_preview_has_a_sensible_length(engine: Engine, count: int) -> None:
    with pytest.raises(InvalidInputError, match="count must be a whole number from 1 to 1000"):
        engine.schedules.preview("x", count)


# ------------------------------------------------------------------ outbox


def test_a_dead_event_is_found_and_tried_again(engine: Engine) -> None:
    engine.deploy(WORK)
    instance = engine.start("p")
    assert engine.outbox.find().items == ()
    (pending,) = engine.outbox.find(status="Pending")
    assert (pending.type, pending.instance_id) == ("instance.started", instance.id)
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE event_outbox SET status = 'Dead', attempts = 20, error = 'gone'"))
    (dead,) = engine.outbox.find()
    assert (dead.id, dead.attempts, dead.error) == (pending.id, 20, "gone")
    engine.outbox.requeue(dead.id, actor="ops")
    assert engine.outbox.find().items == ()
    with pytest.raises(NotFoundError, match="there is no dead event"):
        engine.outbox.requeue(dead.id)
