"""What is due: timers, expired leases and schedules, with their trees locked, page by page."""

from __future__ import annotations

from datetime import timedelta

import pytest
import sqlalchemy as sa
from support import rows as sample

from bpm_engine.core.changes import Changes
from bpm_engine.core.state import InstanceStatus, TimerStatus, TokenState, replace
from bpm_engine.store import changes as changing
from bpm_engine.store import schema, timers, trees
from bpm_engine.store.statuses import ScheduleStatus
from bpm_engine.store.store import Store
from bpm_engine.store.timers import Schedule

NOW = sample.NOW
SECOND = timedelta(seconds=1)


def apply(store: Store, changes: Changes) -> None:
    with store.transaction() as tx:
        changing.apply(tx, changes)


def test_due_timers_come_earliest_first_and_never_early(store: Store) -> None:
    changes = Changes()
    for seconds in (3, -2, 0, -1):
        owner = sample.instance()
        started = sample.started(owner)
        changes.instances.inserted += started.instances.inserted
        changes.scopes.inserted += started.scopes.inserted
        changes.timers.inserted.append(sample.timer(owner, due_at=NOW + seconds * SECOND))
    apply(store, changes)
    late, early, now, middle = changes.timers.inserted
    with store.transaction() as tx:
        assert timers.next_due(tx) == early.due_at
        assert timers.due_timers(tx, NOW, 10) == [early, middle, now]
        assert timers.due_timers(tx, NOW, 1) == [early]
        assert timers.due_timers(tx, NOW, 10, (early.due_at, early.id)) == [middle, now]
        assert timers.due_timers(tx, late.due_at - timedelta(microseconds=1), 10)[-1] == now


def test_the_latest_timers_come_last_first_and_never_before_an_earlier_one_of_their_instance(
    store: Store,
) -> None:
    changes = Changes()
    due: dict[str, list[int]] = {"a": [-3], "b": [-2, -1], "c": [0], "d": [1]}
    for seconds in due.values():
        owner = sample.instance()
        started = sample.started(owner)
        changes.instances.inserted += started.instances.inserted
        changes.scopes.inserted += started.scopes.inserted
        changes.timers.inserted += [sample.timer(owner, due_at=NOW + each * SECOND) for each in seconds]
    apply(store, changes)
    a, b, b_later, c, d = changes.timers.inserted
    with store.transaction() as tx:
        assert timers.latest_timers(tx, NOW, 10) == [c, b, a]
        assert timers.latest_timers(tx, NOW, 1) == [c]
        assert timers.latest_timers(tx, NOW - SECOND, 10) == [b, a]
    fired = Changes()
    fired.timers.updated = [replace(b, status=TimerStatus.FIRED)]
    apply(store, fired)
    with store.transaction() as tx:
        assert timers.latest_timers(tx, d.due_at, 10) == [d, c, b_later, a]


def test_timers_that_are_not_scheduled_or_whose_instance_is_halted_do_not_fire(store: Store) -> None:
    for owner, status in (
        (sample.instance(), TimerStatus.FIRED),
        (sample.instance(), TimerStatus.CANCELLED),
        (sample.instance(status=InstanceStatus.SUSPENDED), TimerStatus.SCHEDULED),
        (sample.instance(status=InstanceStatus.FAILED), TimerStatus.SCHEDULED),
    ):
        changes = sample.started(owner)
        changes.timers.inserted = [sample.timer(owner, status=status)]
        apply(store, changes)
    with store.transaction() as tx:
        assert timers.due_timers(tx, NOW, 10) == []


def test_due_timers_of_halted_instances_step_aside_until_they_go_on(store: Store) -> None:
    halted, running = sample.instance(status=InstanceStatus.SUSPENDED), sample.instance()
    for owner in (halted, running):
        changes = sample.started(owner)
        changes.timers.inserted = [
            sample.timer(owner, due_at=NOW - SECOND),
            sample.timer(owner, due_at=NOW + SECOND),
        ]
        apply(store, changes)
    with store.transaction() as tx:
        assert timers.park_timers(tx, NOW, 10) == 1
        assert timers.park_timers(tx, NOW, 10) == 0
        due = timers.due_timers(tx, NOW, 10)
        assert [t.instance_id for t in due] == [running.id]
        assert timers.park_timers(tx, NOW + SECOND, 10) == 1
    fired = Changes()
    fired.timers.updated = [replace(due[0], status=TimerStatus.FIRED)]
    apply(store, fired)
    with store.transaction() as tx:
        assert timers.next_due(tx) == NOW + SECOND, "nothing that is overdue keeps a sweeper awake"
    resumed = Changes()
    resumed.instances.updated = [replace(halted, status=InstanceStatus.RUNNING, version=2)]
    apply(store, resumed)
    with store.transaction() as tx:
        assert timers.next_due(tx) == NOW - SECOND
        assert [t.instance_id for t in timers.due_timers(tx, NOW, 10)] == [halted.id]
        assert len(timers.due_timers(tx, NOW + SECOND, 10)) == 3


def test_two_sweepers_do_not_get_the_same_tree(postgresql_store: Store) -> None:
    changes = Changes()
    for _ in range(4):
        owner = sample.instance()
        started = sample.started(owner)
        changes.instances.inserted += started.instances.inserted
        changes.scopes.inserted += started.scopes.inserted
        changes.timers.inserted.append(sample.timer(owner))
    apply(postgresql_store, changes)
    with postgresql_store.transaction() as one, postgresql_store.transaction() as other:
        first = timers.due_timers(one, NOW, 2)
        second = timers.due_timers(other, NOW, 10)
        assert len(first) == 2
        assert {t.id for t in first}.isdisjoint({t.id for t in second})
        assert len(second) == 2
        assert trees.take_roots(other, [first[0].root_instance_id]).ids == frozenset()


def test_expired_leases_are_found_and_live_ones_left_alone(store: Store) -> None:
    changes = sample.started(
        sample.instance(), tokens=3, state=TokenState.EXECUTING, lease_owner="w", lease_until=NOW
    )
    expired, live, ready = changes.tokens.inserted
    changes.tokens.inserted[1] = replace(live, lease_until=NOW + SECOND)
    changes.tokens.inserted[2] = replace(ready, state=TokenState.READY)
    apply(store, changes)
    with store.transaction() as tx:
        assert [t.id for t in timers.expired_leases(tx, NOW, 10)] == [expired.id]
        assert timers.expired_leases(tx, NOW - SECOND, 10) == []
        assert timers.expired_leases(tx, NOW, 10, expired.id) == []
        assert len(timers.expired_leases(tx, NOW + SECOND, 10)) == 2


@pytest.mark.parametrize("statement", ["UPDATE timer SET due_at = {}", "UPDATE schedule SET due_at = {}"])
def test_a_time_that_python_cannot_read_is_refused_by_the_database(store: Store, statement: str) -> None:
    owner = sample.instance()
    changes = sample.started(owner)
    changes.timers.inserted = [sample.timer(owner)]
    apply(store, changes)
    with store.transaction() as tx:
        timers.replace_schedules(tx, "acme", "order", [schedule()])
        far = {"postgresql": "'20000-01-01T00:00:00Z'"}.get(tx.connection.dialect.name, str(10**18))
    with pytest.raises(sa.exc.IntegrityError, match="readable_times"), store.transaction() as tx:
        tx.connection.exec_driver_sql(statement.format(far))


def test_a_poisoned_token_does_not_stop_the_sweep_and_is_found_as_well(store: Store) -> None:
    changes = sample.started(
        sample.instance(), sample.instance(), state=TokenState.EXECUTING, lease_owner="w", lease_until=NOW
    )
    apply(store, changes)
    bad, good = changes.tokens.inserted
    with store.transaction() as tx:
        tx.connection.exec_driver_sql(f"UPDATE token SET local = '{{\"x\": 1e5000}}' WHERE id = '{bad.id}'")
    with store.transaction() as tx:
        assert [t.id for t in timers.expired_leases(tx, NOW, 10)] == sorted([bad.id, good.id])


def schedule(**fields: object) -> Schedule:
    values = {
        "id": sample.new_id(),
        "tenant_id": "acme",
        "definition_id": sample.new_id(),
        "definition_key": "order",
        "node_id": "start",
        "due_at": NOW,
        "cycle": "R/PT1H",
    }
    return Schedule(**values | fields)


def test_schedules_fire_when_due_and_move_on_by_version(store: Store) -> None:
    due, paused = schedule(), schedule(node_id="other", status=ScheduleStatus.PAUSED)
    with store.transaction() as tx:
        timers.replace_schedules(tx, "acme", "order", [due, paused])
        assert timers.due_schedules(tx, NOW - SECOND, 10) == []
        assert timers.due_schedules(tx, NOW, 10) == [due]
        moved = replace(due, due_at=NOW + timedelta(hours=1), fired=1, version=2)
        assert timers.update_schedules(tx, [moved]) == {due.id}
        assert timers.update_schedules(tx, [moved]) == frozenset()
        assert timers.due_schedules(tx, NOW, 10) == []
        assert timers.next_due(tx) == moved.due_at


def test_a_new_version_ends_the_schedules_of_the_former(store: Store) -> None:
    old, new = schedule(), schedule()
    with store.transaction() as tx:
        timers.replace_schedules(tx, "acme", "order", [old])
        timers.replace_schedules(tx, "acme", "order", [new])
        assert timers.due_schedules(tx, NOW, 10) == [new]
        assert tx.execute(sa.select(sa.func.count()).select_from(schema.schedule)).scalar() == 2
