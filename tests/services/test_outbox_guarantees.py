"""Events are neither lost nor reordered, whatever happens to dispatchers and receivers meanwhile."""

from __future__ import annotations

import random
import signal
import threading
from collections import Counter
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import monotonic

import pytest
from support import rows
from support.dispatching import run_as_process
from support.events import Receiver, dispatcher, outbox_rows, run_until_idle, write_events

from bpm_engine.core.changes import Changes
from bpm_engine.core.state import Instance
from bpm_engine.publishers import CloudEvent
from bpm_engine.services.loop import Service, Services
from bpm_engine.store import changes as changing
from bpm_engine.store.clock import ManualClock
from bpm_engine.store.config import StoreConfig
from bpm_engine.store.outbox import OutboxStatus
from bpm_engine.store.store import Store


class UndoneError(Exception):
    pass


class Unreliable:
    """Refuses some events, and says of others that it has not got them although it has."""

    def __init__(self, seed: int, expected: int) -> None:
        self._random = random.Random(seed)
        self._lock = threading.Lock()
        self._expected = expected
        self._seen: set[str] = set()
        self.receiver = Receiver()
        self.complete = threading.Event()

    def publish(self, event: CloudEvent) -> None:
        with self._lock:
            fate = self._random.random()
        if fate < 0.1:
            raise ConnectionError("refused")
        self.receiver.publish(event)
        with self._lock:
            self._seen.add(event.id)
            if len(self._seen) == self._expected:
                self.complete.set()
        if fate < 0.2:
            raise TimeoutError("the answer got lost")

    def close(self) -> None:
        pass


def write_in_steps(store: Store, owners: list[Instance], events: int, seed: int) -> None:
    """One event each of up to ten instances per transaction; some are undone and written again."""
    dice = random.Random(seed)
    for number in range(1, events + 1):
        for first in range(0, len(owners), 10):
            together = owners[first : first + 10]
            if dice.random() < 0.1:
                with suppress(UndoneError), store.transaction() as tx:
                    changing.apply(tx, one_event_each(together, number))
                    raise UndoneError
            with store.transaction() as tx:
                changing.apply(tx, one_event_each(together, number))
                tx.wake()


def one_event_each(owners: list[Instance], number: int) -> Changes:
    changes = Changes()
    changes.outbox += [rows.event(owner, number) for owner in owners]
    return changes


def deliver_all(
    store: Store, *, writers: int, dispatchers: int, instances: int, events: int, seed: int
) -> None:
    outside = Unreliable(seed, writers * instances * events)
    services = Services(
        [
            Service(
                name=f"outbox-{n}",
                run_once=dispatcher(
                    store,
                    outside,
                    attempts=10_000,
                    pause=timedelta(milliseconds=20),
                    threads=4,  # type: ignore[arg-type]
                ).run_once,
                poll=0.05,
            )
            for n in range(dispatchers)
        ],
        store.wakeups,
    )
    owners = [write_events(store, instances, events=0) for _ in range(writers)]
    threads = [
        threading.Thread(target=write_in_steps, args=(store, mine, events, seed + n))
        for n, mine in enumerate(owners)
    ]
    services.start()
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert outside.complete.wait(400)
    finally:
        assert services.stop(30)
    committed = {row.id for row in outbox_rows(store)}
    assert set(outside.receiver.ids) == committed
    assert all(
        numbers == list(range(1, events + 1)) for numbers in outside.receiver.first_deliveries().values()
    )


@pytest.mark.parametrize("dispatchers", [1, 3])
def test_received_equals_committed_and_first_deliveries_are_in_order(
    live_store: Store, dispatchers: int
) -> None:
    deliver_all(live_store, writers=2, dispatchers=dispatchers, instances=8, events=12, seed=dispatchers)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_hundred_thousand_events_reach_an_unreliable_receiver(live_store: Store) -> None:
    deliver_all(live_store, writers=4, dispatchers=4, instances=250, events=100, seed=1)


@pytest.mark.parametrize("point", ["outbox.published", "outbox.marked"])
def test_a_killed_dispatcher_loses_nothing_and_breaks_no_order(
    database_url: str, tmp_path: Path, point: str
) -> None:
    journal = tmp_path / "journal"
    clock = ManualClock(datetime.now(UTC) - timedelta(minutes=1))  # the process has the database's
    with Store(StoreConfig(url=database_url), clock) as store:
        owners = write_events(store, instances=4, events=12)
        assert run_as_process(database_url, journal, f"{point}:2:kill") == -signal.SIGKILL
        published = journal.read_text().split("\n")[:-1]
        marked = [row for row in outbox_rows(store) if row.status is OutboxStatus.PUBLISHED]
        assert len(published) > len(marked), "killed where nothing could be lost"

        clock.advance(timedelta(hours=1))  # the lease of the killed one is over
        receiver = Receiver()
        run_until_idle(dispatcher(store, receiver))
        again = [f"{e.id} {e.subject} {e.extensions['sequence']}" for e in receiver.received]
        deliveries = [line.split() for line in published + again]
        assert {identity for identity, *_ in deliveries} == {row.id for row in outbox_rows(store)}
        for owner in owners:
            first = dict.fromkeys(int(number) for _, of, number in deliveries if of == owner.id)
            assert list(first) == list(range(1, 13))
        assert {row.status for row in outbox_rows(store)} == {OutboxStatus.PUBLISHED}


def test_what_one_dispatcher_holds_another_does_not_publish_before_the_lease_is_over(
    store: Store, clock: ManualClock
) -> None:
    (owner,) = write_events(store, instances=1, events=3)
    gate, begun = threading.Event(), threading.Event()

    def answer(event: CloudEvent) -> None:
        begun.set()
        gate.wait(60)

    slow, other = Receiver(answer), Receiver()
    holder = dispatcher(store, slow)
    holder.run_once()
    assert begun.wait(10)
    run_until_idle(dispatcher(store, other))
    assert not other.received
    clock.advance(timedelta(seconds=31))
    run_until_idle(dispatcher(store, other))
    assert other.first_deliveries() == {owner.id: [1, 2, 3]}
    gate.set()
    run_until_idle(holder)
    attempts = Counter(row.attempts for row in outbox_rows(store, owner.id))
    assert attempts == {0: 3}, "a stale result was written"
    assert {row.status for row in outbox_rows(store)} == {OutboxStatus.PUBLISHED}


@pytest.mark.parametrize("wakeups", [True, False])
def test_a_committed_event_goes_out_by_a_wake_up_or_by_polling_alone(
    live_store: Store, wakeups: bool
) -> None:
    received = threading.Event()
    service = dispatcher(live_store, Receiver(lambda event: received.set()))
    services = Services(
        [
            Service(
                name="outbox",
                run_once=service.run_once,
                next_due=service.next_due,
                drain=service.drain,
                poll=3600 if wakeups else 0.01,
            )
        ],
        live_store.wakeups if wakeups else None,
    )
    services.start()
    try:
        write_events(live_store, instances=1, events=1)
        assert received.wait(30)
    finally:
        assert services.stop(30)
    assert {row.status for row in outbox_rows(live_store)} == {OutboxStatus.PUBLISHED}


def seconds_to_deliver(store: Store, poisoned: int) -> float:
    """How long the healthy ones of 200 instances take while the receivers of some do not answer."""
    owners = write_events(store, instances=200, events=3)
    sick = {owner.id for owner in owners[:poisoned]}
    expected = 3 * (len(owners) - poisoned)
    gate, complete = threading.Event(), threading.Event()
    receiver = Receiver()

    def answer(event: CloudEvent) -> None:
        if event.subject in sick:
            gate.wait(60)
        elif len(receiver.received) + 1 >= expected:
            complete.set()

    receiver.answer = answer
    service = dispatcher(store, receiver, threads=32)
    services = Services(
        [Service(name="outbox", run_once=service.run_once, drain=service.drain)], store.wakeups
    )
    begun = monotonic()
    services.start()
    try:
        assert complete.wait(60)
        return monotonic() - begun
    finally:
        gate.set()
        assert services.stop(30)


def test_receivers_of_one_percent_that_do_not_answer_delay_the_others_by_less_than_a_second(
    live_store: Store,
) -> None:
    healthy = seconds_to_deliver(live_store, poisoned=0)
    assert seconds_to_deliver(live_store, poisoned=2) < healthy + 1
