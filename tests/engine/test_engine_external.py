"""Work for workers outside the process: locks, leases, long polling, and answers that come too late."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa
from support.damage import spoil_definition
from support.definitions import bpmn, flow, path
from support.samples import END, START

from bpm_engine import ConflictError, Engine, InvalidInputError, NotFoundError, UnavailableError
from bpm_engine.store.schema import token
from bpm_engine.testing import ManualClock

EXTERNAL = bpmn(
    f'{START}<serviceTask id="pack" bpm:topic="pack" bpm:external="true">'
    '<extensionElements><bpm:retry attempts="2" kind="fixed" base="PT10S" jitter="0"/>'
    '<bpm:property name="box" value="small"/></extensionElements></serviceTask>'
    f'{END}<boundaryEvent id="broken" attachedToRef="pack"><errorEventDefinition errorRef="e"/>'
    "</boundaryEvent>"
    '<endEvent id="returned"/>' + path("start", "pack", "end") + flow("broken", "returned"),
    roots='<error id="e" errorCode="BROKEN"/>',
)
QUICK = bpmn(
    f'{START}<serviceTask id="pack" bpm:topic="pack" bpm:external="true" bpm:lease="PT20S"/>{END}'
    + path("start", "pack", "end")
)
CAMUNDA = bpmn(
    f'{START}<serviceTask id="pack" xmlns:camunda="http://camunda.org/schema/1.0/bpmn" '
    f'camunda:type="external" camunda:topic="pack"/>{END}' + path("start", "pack", "end")
)


@pytest.fixture
def packing(engine: Engine) -> Engine:
    engine.deploy(EXTERNAL)
    return engine


def status(engine: Engine, instance_id: str) -> str:
    return engine.instances.get(instance_id).status


def test_a_worker_fetches_locks_and_completes(packing: Engine, clock: ManualClock) -> None:
    instance = packing.start("p", {"order": "A-17"}, business_key="A-17", priority=3)
    assert packing.instances.get(instance.id).tokens[0].waiting_for == "pack"
    (task,) = packing.external.fetch(["pack", "ship"], worker="w-1", lease="2m")
    assert (task.topic, task.worker, task.node_id, task.priority) == ("pack", "w-1", "pack", 3)
    assert (task.instance_id, task.business_key, task.definition_key) == (instance.id, "A-17", "p")
    assert (task.variables, task.properties) == ({"order": "A-17"}, {"box": "small"})
    assert (task.attempt, task.idempotency_key) == (1, f"{task.id}:2")
    assert task.locked_until - clock.now == task.locked_until.resolution * 120_000_000
    assert packing.external.fetch("pack", worker="w-2") == ()
    packing.external.complete(task.lock, {"box": 7})
    done = packing.instances.get(instance.id)
    assert (done.status, done.variables) == ("Completed", {"order": "A-17", "box": 7})
    assert [e.actor for e in packing.history.find(instance.id) if e.node_id == "end"] == ["w-1"]


def test_handlers_of_this_process_leave_it_alone(packing: Engine) -> None:
    packing.handler("pack")(lambda work: pytest.fail("this is for external workers"))
    packing.start("p")
    assert packing.run_until_idle() == 0
    assert len(packing.external.fetch("pack", worker="w")) == 1


def test_the_highest_priority_comes_first_and_then_the_oldest(packing: Engine) -> None:
    first, second, urgent = (packing.start("p", priority=p).id for p in (0, 0, 9))
    fetched = [t.instance_id for t in packing.external.fetch("pack", worker="w", limit=2)]
    assert fetched == [urgent, first]
    assert [t.instance_id for t in packing.external.fetch("pack", worker="w")] == [second]


def test_an_answer_with_a_lost_lock_is_a_conflict_and_changes_nothing(
    packing: Engine, clock: ManualClock
) -> None:
    instance = packing.start("p")
    (old,) = packing.external.fetch("pack", worker="w", lease="1m")
    clock.advance("61s")
    packing.run_until_idle()  # the lease is taken back
    (new,) = packing.external.fetch("pack", worker="w", lease="1m")
    assert (new.id, new.idempotency_key, new.attempt) == (old.id, old.idempotency_key, 1)
    before = packing.history.find(instance.id).items
    answers: list[Callable[[], None]] = [
        lambda: packing.external.complete(old.lock, {"late": True}),
        lambda: packing.external.fail(old.lock, "late"),
        lambda: packing.external.throw_error(old.lock, "BROKEN"),
        lambda: packing.external.extend(old.lock, "1h"),
    ]
    for answer in answers:
        with pytest.raises(ConflictError, match=f"external task {old.id}: the "):
            answer()
    assert packing.history.find(instance.id).items == before
    packing.external.complete(new.lock)
    assert packing.instances.get(instance.id).variables == {}
    with pytest.raises(ConflictError, match="has gone on since it was claimed"):
        packing.external.complete(new.lock)


def test_a_lock_is_extended(packing: Engine, clock: ManualClock) -> None:
    packing.start("p")
    (task,) = packing.external.fetch("pack", worker="w", lease="1m")
    packing.external.extend(task.lock, "10m")
    clock.advance("9m")
    packing.run_until_idle()
    assert packing.external.fetch("pack", worker="other") == ()
    packing.external.complete(task.lock)


def test_a_lock_whose_row_somebody_reads_for_update_is_not_lost(packing: Engine, clock: ManualClock) -> None:
    """PostgreSQL passes over a row that another transaction has locked; in a file there is one at a time."""
    packing.start("p")
    (task,) = packing.external.fetch("pack", worker="w", lease="1m")
    if packing._runtime.store.database.is_embedded:
        return
    with packing._runtime.store.transaction() as tx:
        tx.execute(sa.select(token.c.id).where(token.c.id == task.id).with_for_update())
        with pytest.raises(UnavailableError, match="its lock still holds, try again"):
            packing.external.extend(task.lock, "10m")
    packing.external.extend(task.lock, "10m")
    packing.external.complete(task.lock)


def test_the_model_may_say_how_long_a_lock_lasts(engine: Engine, clock: ManualClock) -> None:
    engine.deploy(QUICK)
    engine.start("p")
    (task,) = engine.external.fetch("pack", worker="w")
    assert (task.locked_until - clock.now).total_seconds() == 20
    clock.advance("21s")
    engine.run_until_idle()
    (task,) = engine.external.fetch("pack", worker="w", lease="5s")
    assert (task.locked_until - clock.now).total_seconds() == 5


def test_a_failed_attempt_is_offered_again_and_then_an_incident(packing: Engine, clock: ManualClock) -> None:
    instance = packing.start("p")
    (task,) = packing.external.fetch("pack", worker="w")
    packing.external.fail(task.lock, "no boxes", code="EMPTY", details="line 1\nline 2", retry_after="1m")
    assert packing.external.fetch("pack", worker="w") == ()
    clock.advance("59s")
    packing.run_until_idle()
    assert packing.external.fetch("pack", worker="w") == ()
    clock.advance("1s")
    packing.run_until_idle()
    (task,) = packing.external.fetch("pack", worker="w")
    assert task.attempt == 2
    packing.external.fail(task.lock, "still no boxes", code="EMPTY")
    (incident,) = packing.incidents.find(instance=instance.id)
    assert (incident.code, incident.message, incident.attempts) == ("EMPTY", "still no boxes", 2)
    packing.incidents.retry(incident.id)
    (task,) = packing.external.fetch("pack", worker="w")
    packing.external.fail(task.lock, "no use", final=True)
    assert status(packing, instance.id) == "Failed"


def test_a_modelled_error_leaves_by_its_boundary_event(packing: Engine) -> None:
    instance = packing.start("p")
    (task,) = packing.external.fetch("pack", worker="w")
    packing.external.throw_error(task.lock, "BROKEN", "it fell", {"pieces": 3})
    done = packing.instances.get(instance.id)
    assert (done.status, done.variables) == ("Completed", {"pieces": 3})
    assert "returned" in [step.node_id for step in packing.history.steps(instance.id)]


def test_a_halted_instance_offers_nothing(packing: Engine) -> None:
    instance = packing.start("p")
    packing.instances.suspend(instance.id)
    assert packing.external.fetch("pack", worker="w") == ()
    packing.instances.resume(instance.id)
    assert len(packing.external.fetch("pack", worker="w")) == 1


def test_tenants_with_names_that_look_alike_get_their_own_work(engine: Engine) -> None:
    for name in ("a", "a/b", "a%2Fb"):
        tenant = engine.tenant(name)
        tenant.deploy(EXTERNAL)
        tenant.start("p", {"of": name})
    for name in ("a", "a/b", "a%2Fb"):
        tasks = engine.tenant(name).external.fetch(["pack", "b/pack"], worker="w")
        assert [task.variables for task in tasks] == [{"of": name}]


def test_fetching_and_answering_can_join_a_transaction(packing: Engine) -> None:
    instance = packing.start("p")

    def fetch_and_fall() -> None:
        with packing.begin() as connection:
            (task,) = packing.external.fetch("pack", worker="w", connection=connection)
            packing.external.complete(task.lock, connection=connection)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fetch_and_fall()
    assert status(packing, instance.id) == "Running"
    (task,) = packing.external.fetch("pack", worker="w")
    with packing.begin() as connection:
        packing.external.complete(task.lock, connection=connection)
    assert status(packing, instance.id) == "Completed"


def test_an_external_task_of_camunda_is_one_here(engine: Engine) -> None:
    engine.deploy(CAMUNDA)
    engine.start("p")
    assert engine.run_until_idle() == 0
    assert [task.topic for task in engine.external.fetch("pack", worker="w")] == ["pack"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"topics": [], "worker": "w"}, "at least one topic"),
        ({"topics": "pack", "worker": ""}, "worker must be a text"),
        ({"topics": "pack", "worker": "w", "lease": "0s"}, "lease must be longer than nothing"),
        ({"topics": "pack", "worker": "w", "wait": "2h"}, "wait may be at most an hour"),
        ({"topics": "pack", "worker": "w", "limit": 0}, "limit must be a whole number"),
    ],
)
def test_what_makes_no_sense_is_refused(engine: Engine, arguments: dict[str, object], words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        engine.external.fetch(**arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize("lock", ["", "x", "x:1:w", "00000000-0000-0000-0000-000000000000:1:w", "a:b:c"])
def test_an_unknown_lock_is_not_found(engine: Engine, lock: str) -> None:
    with pytest.raises(NotFoundError, match="there is no external task with the lock"):
        engine.external.complete(lock)


def test_a_worker_that_waits_gets_the_work_as_soon_as_there_is_some(packing: Engine) -> None:
    waiting = threading.Event()
    fetched: list[object] = []

    def work() -> None:
        waiting.set()
        fetched.extend(packing.external.fetch("pack", worker="w", wait="60s"))

    thread = threading.Thread(target=work)
    thread.start()
    waiting.wait()
    packing.start("p")
    thread.join(30)
    assert len(fetched) == 1


def test_a_wait_without_work_ends(packing: Engine) -> None:
    assert packing.external.fetch("pack", worker="w", wait=timedelta(milliseconds=20)) == ()
    with packing.begin() as connection, pytest.raises(InvalidInputError, match="there is no wait"):
        packing.external.fetch("pack", worker="w", wait="1s", connection=connection)


def test_of_many_workers_each_piece_of_work_goes_to_one(packing: Engine) -> None:
    instances = sorted(packing.start("p").id for _ in range(40))

    def work(number: int) -> list[str]:
        done = []
        while tasks := packing.external.fetch("pack", worker=f"w-{number}", limit=3):
            for task in tasks:
                packing.external.complete(task.lock)
                done.append(task.instance_id)
        return done

    with ThreadPoolExecutor(4) as threads:
        done = [each for some in threads.map(work, range(4)) for each in some]
    assert sorted(done) == instances
    assert packing.instances.count(status="Completed") == 40


@pytest.mark.parametrize("fetched", [True, False])
def test_a_process_that_cannot_be_read_stands_in_nobodys_way(tmp_path: Path, fetched: bool) -> None:
    """Its file was damaged by foreign hands, past the trigger that guards it."""
    url = f"sqlite:///{tmp_path / 'bpm.db'}"
    body = '<serviceTask id="do" bpm:topic="do" bpm:external="true"/>' if fetched else '<userTask id="do"/>'
    model = bpmn(START + body + END + path("start", "do", "end"))
    with Engine(url) as engine:
        for key in ("spoilt", "other"):
            engine.deploy(model.replace(b'id="p"', f'id="{key}"'.encode()))
            engine.start(key)
        spoil_definition(engine, "spoilt")
    with Engine(url) as fresh:
        found = fresh.external.fetch("do", worker="w") if fetched else fresh.tasks.find().items
        assert "other" in {each.definition_key for each in found}
        if fetched:
            fresh.external.complete(next(iter(found)).lock)
            assert fresh.instances.count(status="Completed") == 1
