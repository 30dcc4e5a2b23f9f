"""The outbox: in order per instance, one dispatcher per instance at a time, back-off, dead, requeue,
purge.
"""

from __future__ import annotations

from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Barrier, Lock

import pytest
from support import rows as sample

from bpm_engine.core.changes import Changes
from bpm_engine.core.state import Instance
from bpm_engine.store import changes as changing
from bpm_engine.store import outbox, search
from bpm_engine.store.clock import ManualClock
from bpm_engine.store.statuses import OutboxStatus
from bpm_engine.store.store import Store

LEASE = timedelta(seconds=30)


def write(store: Store, owner: Instance, *numbers: int) -> list[str]:
    changes = Changes(outbox=[sample.event(owner, number) for number in numbers])
    with store.transaction() as tx:
        changing.apply(tx, changes)
    return [event.id for event in changes.outbox]


def lease(store: Store, owner: str = "d", limit: int = 100) -> list[outbox.OutboxRow]:
    with store.transaction() as tx:
        return outbox.lease_events(tx, owner=owner, limit=limit, lease=LEASE)


def test_events_are_leased_in_order_and_to_one_dispatcher_only(store: Store) -> None:
    one, two = sample.instance(), sample.instance()
    first, second = write(store, one, 1, 2, 3), write(store, two, 1)
    got = lease(store, "a", 2)
    assert [e.instance_id for e in got].count(one.id) <= 2
    rest = lease(store, "b")
    assert {e.instance_id for e in got}.isdisjoint({e.instance_id for e in rest})
    with store.transaction() as tx:
        outbox.mark_published(tx, "a", [e.id for e in got])
        outbox.mark_published(tx, "b", [e.id for e in rest])
    assert {e.id for e in [*got, *rest, *lease(store, "c")]} == {*first, *second}


def test_no_later_event_of_an_instance_is_handed_out_before_the_earlier_is_done(store: Store) -> None:
    owner = sample.instance()
    first, *later = write(store, owner, 1, 2, 3)
    assert [e.id for e in lease(store, "a", 1)] == [first]
    assert lease(store, "b") == []
    with store.transaction() as tx:
        assert outbox.mark_published(tx, "a", [first]) == {first}
    assert [e.id for e in lease(store, "b")] == later


def test_marking_is_fenced_by_the_owner(store: Store, clock: ManualClock) -> None:
    (event,) = write(store, sample.instance(), 1)
    lease(store, "a")
    clock.advance(LEASE + timedelta(seconds=1))
    assert [e.id for e in lease(store, "b")] == [event]
    with store.transaction() as tx:
        assert outbox.mark_published(tx, "a", [event]) == frozenset()
        assert outbox.mark_published(tx, "b", [event]) == {event}
        assert outbox.mark_published(tx, "b", [event]) == frozenset()


def test_a_failed_event_backs_off_and_holds_back_its_instance_only(store: Store, clock: ManualClock) -> None:
    bad, good = sample.instance(), sample.instance()
    head, follower = write(store, bad, 1, 2)
    lease(store, "a")
    with store.transaction() as tx:
        later = clock.now + timedelta(minutes=1)
        assert outbox.postpone_events(tx, "a", [(head, later, "500")], attempts=3) == frozenset()
    (other,) = write(store, good, 1)
    write(store, bad, 3)
    assert [e.id for e in lease(store)] == [other]
    clock.advance(timedelta(minutes=1))
    again = lease(store)
    assert [e.id for e in again][:2] == [head, follower]
    assert (again[0].attempts, again[0].error) == (1, "500")


def test_a_dead_event_is_visible_lets_the_rest_go_on_and_can_be_requeued(
    store: Store, clock: ManualClock
) -> None:
    dead, follower = write(store, sample.instance(), 1, 2)
    lease(store, "a", 1)
    with store.transaction() as tx:
        assert outbox.postpone_events(tx, "a", [(dead, clock.now, "gone")], attempts=1) == {dead}
    assert [e.id for e in lease(store)] == [follower]
    with store.transaction() as tx:
        page = search.find_events(tx, "acme")
        assert [(e.id, e.error) for e in page.items] == [(dead, "gone")]
        assert search.find_events(tx, "foreign").items == []
        assert outbox.count_events(tx) == {OutboxStatus.PENDING: 1, OutboxStatus.DEAD: 1}
        assert outbox.requeue_events(tx, "foreign", [dead]) == frozenset()
        assert outbox.requeue_events(tx, "acme", [dead, follower]) == {dead}
    assert [e.id for e in lease(store)] == [dead]


@pytest.mark.parametrize("data", ['{"x": 1e5000}', "[1]", '"text"', "7", "null"])
def test_an_event_that_cannot_be_read_is_dead_at_once_and_in_nobodys_way(store: Store, data: str) -> None:
    spoilt, follower = write(store, sample.instance(), 1, 2)
    with store.transaction() as tx:
        tx.connection.exec_driver_sql(f"UPDATE event_outbox SET data = '{data}' WHERE id = '{spoilt}'")
    assert [e.id for e in lease(store)] == [follower]
    with store.transaction() as tx:
        (dead,) = search.find_events(tx, "acme").items
        assert (dead.id, dead.lease_owner) == (spoilt, None)
        assert dead.error is not None
        assert dead.error.startswith("its data cannot be read: ")
        assert outbox.drop_events(tx, "foreign", [spoilt]) == frozenset()
        assert outbox.drop_events(tx, "acme", [spoilt, follower]) == {spoilt}
        assert search.find_events(tx, "acme").items == []


def test_released_events_can_be_leased_at_once(store: Store) -> None:
    events = write(store, sample.instance(), 1, 2)
    lease(store, "a")
    with store.transaction() as tx:
        assert outbox.release_events(tx, "b", events) == 0
        assert outbox.release_events(tx, "a", events) == 2
    assert [e.id for e in lease(store, "b")] == events


def test_published_events_are_purged_by_age_and_never_the_others(store: Store, clock: ManualClock) -> None:
    done, _pending = write(store, sample.instance(), 1, 2)
    lease(store, "a")
    with store.transaction() as tx:
        outbox.mark_published(tx, "a", [done])
        assert outbox.purge_events(tx, clock.now, 10) == 0
        assert outbox.purge_events(tx, clock.now + timedelta(days=9), 10) == 1
        assert outbox.count_events(tx) == {OutboxStatus.PENDING: 1}


def test_four_dispatchers_publish_everything_once_and_in_order(store: Store) -> None:
    owners = [sample.instance() for _ in range(10)]
    for start in range(0, 12, 4):
        for owner in owners:
            write(store, owner, *range(start + 1, start + 5))
    published: dict[str, list[int]] = defaultdict(list)
    guard, barrier = Lock(), Barrier(4)

    def dispatch(name: str) -> None:
        barrier.wait()
        misses = 0
        while misses < 30:
            events = lease(store, name, 7)
            misses = 0 if events else misses + 1
            with guard:
                for event in events:
                    published[event.instance_id].append(event.seq)
            with store.transaction() as tx:
                outbox.mark_published(tx, name, [event.id for event in events])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(dispatch, "abcd"))
    assert published == {owner.id: list(range(1, 13)) for owner in owners}
