"""Timer starts as operators see them: pause, resume, what was missed meanwhile, what comes next."""

from __future__ import annotations

from datetime import timedelta

import pytest
from support.definitions import bpmn, path
from support.samples import HOURLY

from bpm_engine import ConflictError, Engine, InvalidInputError, crash
from bpm_engine.testing import ManualClock

HOUR = timedelta(hours=1)


def hourly(catch_up: str = "once") -> bytes:
    return bpmn(
        '<startEvent id="tick"><timerEventDefinition><timeCycle>R/PT1H</timeCycle></timerEventDefinition>'
        '</startEvent><endEvent id="end"/>' + path("tick", "end"),
        process=f'isExecutable="true" bpm:catchUp="{catch_up}"',
    )


def only(engine: Engine) -> str:
    (schedule,) = engine.schedules.find(status="Active")
    return schedule.id


def started(engine: Engine) -> int:
    engine.run_until_idle()
    return engine.instances.count()


def test_schedules_are_found_by_status_and_got_by_id(engine: Engine, clock: ManualClock) -> None:
    engine.deploy(hourly())
    old = only(engine)
    engine.deploy(hourly("all"))
    new = engine.schedules.get(only(engine))
    assert (new.definition_key, new.node_id, new.status, new.catch_up) == ("p", "tick", "Active", "all")
    assert (new.due_at, new.fired) == (clock.now + HOUR, 0)
    assert [each.id for each in engine.schedules.find(status="Ended")] == [old]
    assert engine.schedules.find(status="Paused").items == ()
    with pytest.raises(InvalidInputError, match="status is one of"):
        engine.schedules.find(status="gone")


@pytest.mark.parametrize(("catch_up", "starts"), [("once", 1), ("all", 3), ("skip", 0)])
def test_the_model_says_what_becomes_of_missed_times(
    engine: Engine, clock: ManualClock, catch_up: str, starts: int
) -> None:
    engine.deploy(hourly(catch_up))
    schedule = only(engine)
    engine.schedules.pause(schedule)
    clock.advance("3h")
    clock.advance("30m")
    assert started(engine) == 0
    later = (clock.now + HOUR / 2, clock.now + HOUR * 1.5)
    assert engine.schedules.preview(schedule, starts + 2) == (clock.now,) * starts + later
    engine.schedules.resume(schedule)
    assert started(engine) == starts
    assert engine.schedules.preview(schedule, 2) == later
    clock.advance("30m")
    assert started(engine) == starts + 1


@pytest.mark.parametrize(("catch_up", "starts"), [("all", 3), ("once", 1)])
def test_an_operator_chooses_another_policy(
    engine: Engine, clock: ManualClock, catch_up: str, starts: int
) -> None:
    engine.deploy(hourly("once" if catch_up == "all" else "all"))
    schedule = only(engine)
    engine.schedules.pause(schedule)
    clock.advance("3h")
    assert engine.schedules.resume(schedule, catch_up=catch_up, actor="ops").catch_up == catch_up
    assert started(engine) == starts
    assert engine.schedules.get(schedule).catch_up == catch_up
    with pytest.raises(InvalidInputError, match="catch_up is once, all, skip"):
        engine.schedules.resume(schedule, catch_up="maybe")


def test_a_paused_schedule_stays_paused_with_a_new_version(engine: Engine, clock: ManualClock) -> None:
    engine.deploy(hourly())
    engine.schedules.pause(only(engine), actor="ops")
    engine.deploy(hourly("all"))
    (paused,) = engine.schedules.find(status="Paused")
    assert paused.catch_up == "all"
    clock.advance("1h")
    assert started(engine) == 0
    engine.schedules.resume(paused.id)
    assert started(engine) == 1


def test_each_time_starts_once_and_the_last_one_ends_it(engine: Engine, clock: ManualClock) -> None:
    engine.deploy(HOURLY)
    schedule = only(engine)
    for number in (1, 2, 3):
        clock.advance("1h")
        assert started(engine) == number
        assert started(engine) == number
    assert engine.schedules.get(schedule).status == "Ended"
    assert engine.schedules.get(schedule).fired == 3
    for change in (engine.schedules.pause, engine.schedules.resume):
        with pytest.raises(ConflictError, match="is Ended already"):
            change(schedule)


def test_what_was_passed_over_does_not_count_as_fired(engine: Engine, clock: ManualClock) -> None:
    engine.deploy(hourly("skip"))
    schedule = only(engine)
    clock.advance("5h")
    assert started(engine) == engine.schedules.get(schedule).fired == 0
    clock.advance("1h")
    assert started(engine) == engine.schedules.get(schedule).fired == 1


def test_pausing_can_join_a_transaction(engine: Engine) -> None:
    engine.deploy(hourly())
    schedule = only(engine)

    def pause_and_fall() -> None:
        with engine.begin() as connection:
            engine.schedules.pause(schedule, connection=connection)
            assert engine.schedules.get(schedule, connection=connection).status == "Paused"
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        pause_and_fall()
    assert engine.schedules.get(schedule).status == "Active"


def test_a_time_that_has_its_instance_already_does_not_hold_the_schedule_up(
    engine: Engine, clock: ManualClock
) -> None:
    engine.deploy(hourly())
    schedule = engine.schedules.get(only(engine))
    assert schedule.due_at is not None
    engine.start("p", at="tick", idempotency_key=f"schedule:{schedule.id}:{schedule.due_at.isoformat()}")
    clock.advance(HOUR)
    assert started(engine) == 1
    assert engine.schedules.get(schedule.id).due_at == clock.now + HOUR
    clock.advance(HOUR)
    assert started(engine) == 2


@pytest.mark.reliable
def test_a_start_that_fails_once_comes_about_once(engine: Engine, clock: ManualClock) -> None:
    for key in ("p", "q"):
        engine.deploy(hourly().replace(b'id="p"', f'id="{key}"'.encode()))
    clock.advance(HOUR)
    crash.arm("step.loaded", 1, "raise")
    try:
        assert started(engine) == 2
    finally:
        crash.disarm()
    assert [(each.fired, each.due_at) for each in engine.schedules.find()] == [(1, clock.now + HOUR)] * 2
    clock.advance(HOUR)
    assert started(engine) == 4
