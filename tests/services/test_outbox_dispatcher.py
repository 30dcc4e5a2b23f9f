"""The dispatcher: at least once, in order per instance, past what fails and what is slow."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from datetime import timedelta

import pytest
import sqlalchemy as sa
from support import rows
from support.events import Receiver, add_events, dispatcher, outbox_rows, run_until_idle, write_events

from bpm_engine import crash
from bpm_engine.publishers import CloudEvent, LogPublisher
from bpm_engine.store import outbox
from bpm_engine.store.clock import ManualClock
from bpm_engine.store.outbox import OutboxStatus
from bpm_engine.store.store import Store


class RefusedError(Exception):
    pass


def statuses(store: Store, instance_id: str) -> list[OutboxStatus]:
    return [row.status for row in outbox_rows(store, instance_id)]


def refuse(*numbers: int, of: str) -> Receiver:
    def answer(event: CloudEvent) -> None:
        if event.subject == of and event.data["number"] in numbers:
            raise RefusedError("no,\nnot this one")

    return Receiver(answer)


def test_every_event_is_published_once_and_marked(store: Store) -> None:
    write_events(store, instances=7, events=30)  # more than one batch
    receiver = Receiver()
    run_until_idle(dispatcher(store, receiver))
    assert len(receiver.ids) == len(set(receiver.ids)) == 210
    assert set(receiver.ids) == {row.id for row in outbox_rows(store)}
    assert {row.status for row in outbox_rows(store)} == {OutboxStatus.PUBLISHED}
    assert all(numbers == list(range(1, 31)) for numbers in receiver.first_deliveries().values())


def test_a_log_that_listens_gets_every_event(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "bpm_engine.events")
    write_events(store, instances=2, events=3)
    run_until_idle(dispatcher(store, LogPublisher()))
    assert len([record for record in caplog.records if record.name == "bpm_engine.events"]) == 6


def test_an_empty_outbox_is_no_work(store: Store) -> None:
    assert dispatcher(store, Receiver()).run_once() == 0


def test_an_idle_dispatcher_makes_one_query_per_look_and_still_finds_what_comes(store: Store) -> None:
    receiver = Receiver()
    service = dispatcher(store, receiver)
    run_until_idle(service)
    statements: list[str] = []

    def note(connection: object, cursor: object, statement: str, *_: object) -> None:
        if not statement.startswith("BEGIN"):
            statements.append(statement)

    sa.event.listen(store.database.engine, "before_cursor_execute", note)
    assert service.run_once() == 0
    assert [statement.split()[0] for statement in statements] == ["SELECT"]
    write_events(store, instances=1, events=1)
    run_until_idle(service)
    assert len(receiver.received) == 1


def test_the_next_due_time_is_that_of_the_next_attempt(store: Store, clock: ManualClock) -> None:
    (owner,) = write_events(store, instances=1, events=2)
    service = dispatcher(store, refuse(1, of=owner.id))
    assert service.next_due() == clock.now
    run_until_idle(service)
    assert service.next_due() == outbox_rows(store, owner.id)[0].next_at


def test_the_envelope_tells_where_the_event_comes_from(store: Store) -> None:
    (owner,) = write_events(store, instances=1, events=1)
    receiver = Receiver()
    run_until_idle(dispatcher(store, receiver, source="https://shop.example/engine"))
    (event,) = receiver.received
    assert (event.source, event.type, event.subject) == (
        "https://shop.example/engine/acme",
        "order.paid",
        owner.id,
    )
    assert (event.time, event.data) == (rows.NOW, {"number": 1})
    assert event.extensions == {
        "tenant": "acme",
        "sequence": "000000000001",
        "rootinstance": owner.id,
        "definition": "order",
        "definitionversion": 1,
        "businesskey": "A-0",
        "correlationid": "c-0",
    }


def test_the_engines_own_types_carry_its_prefix_and_named_ones_do_not(store: Store) -> None:
    (owner,) = write_events(store, instances=1, events=1)
    add_events(store, [rows.event(owner, 2, type="instance.completed")])
    receiver = Receiver()
    run_until_idle(dispatcher(store, receiver))
    assert [event.type for event in receiver.received] == ["order.paid", "bpm.instance.completed"]


def test_a_tenant_is_spelled_so_that_the_source_stays_a_uri(store: Store) -> None:
    owner = rows.instance(tenant_id="a b/ü")
    add_events(store, [rows.event(owner, 1)])
    receiver = Receiver()
    run_until_idle(dispatcher(store, receiver))
    assert receiver.received[0].source == "/bpm-engine/a%20b%2F%C3%BC"
    assert receiver.received[0].extensions["tenant"] == "a b/ü"


def test_a_failing_event_holds_back_its_own_instance_only(store: Store, clock: ManualClock) -> None:
    first, second = write_events(store, instances=2, events=4)
    receiver = refuse(2, of=first.id)
    service = dispatcher(store, receiver)
    run_until_idle(service)
    assert receiver.first_deliveries() == {first.id: [1], second.id: [1, 2, 3, 4]}
    assert statuses(store, first.id) == [OutboxStatus.PUBLISHED] + [OutboxStatus.PENDING] * 3
    failed = outbox_rows(store, first.id)[1]
    assert (failed.attempts, failed.error) == (1, "RefusedError: no, not this one")
    assert clock.now < failed.next_at <= clock.now + timedelta(seconds=1)
    assert failed.lease_owner is None


def test_a_failed_event_is_tried_again_when_its_pause_is_over(store: Store, clock: ManualClock) -> None:
    (owner,) = write_events(store, instances=1, events=3)
    receiver = refuse(2, of=owner.id)
    service = dispatcher(store, receiver)
    run_until_idle(service)
    receiver.answer = lambda event: None
    run_until_idle(service)
    assert receiver.first_deliveries()[owner.id] == [1]
    clock.advance(timedelta(seconds=1))
    run_until_idle(service)
    assert receiver.first_deliveries()[owner.id] == [1, 2, 3]
    assert outbox_rows(store, owner.id)[1].error is None


def test_pauses_grow_up_to_their_limit(store: Store, clock: ManualClock) -> None:
    (owner,) = write_events(store, instances=1, events=1)
    service = dispatcher(store, refuse(1, of=owner.id), attempts=100)
    pauses = []
    for _ in range(12):
        run_until_idle(service)
        pause = outbox_rows(store, owner.id)[0].next_at - clock.now
        pauses.append(pause)
        clock.advance(pause)
    for failures, pause in enumerate(pauses):
        longest = min(timedelta(seconds=2**failures), timedelta(minutes=5))
        assert longest / 2 <= pause <= longest


def test_an_event_is_dead_after_its_last_attempt_and_the_instance_goes_on(
    store: Store, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    (owner,) = write_events(store, instances=1, events=3)
    receiver = refuse(2, of=owner.id)
    service = dispatcher(store, receiver, attempts=3)
    for _ in range(3):
        run_until_idle(service)
        clock.advance(timedelta(minutes=1))
    run_until_idle(service)
    assert receiver.first_deliveries()[owner.id] == [1, 3]
    assert statuses(store, owner.id) == [OutboxStatus.PUBLISHED, OutboxStatus.DEAD, OutboxStatus.PUBLISHED]
    assert [r.levelno for r in caplog.records] == [logging.WARNING, logging.WARNING, logging.ERROR]
    assert "is dead" in caplog.messages[-1]
    assert {vars(r)["instance_id"] for r in caplog.records} == {owner.id}
    assert {vars(r)["definition"] for r in caplog.records} == {owner.definition_key}


def test_when_an_event_dies_its_followers_go_out_at_once(store: Store) -> None:
    (owner,) = write_events(store, instances=1, events=3)
    receiver = refuse(1, of=owner.id)
    run_until_idle(dispatcher(store, receiver, attempts=1))
    assert receiver.first_deliveries()[owner.id] == [2, 3]


def test_a_dead_event_can_be_requeued(store: Store) -> None:
    (owner,) = write_events(store, instances=1, events=2)
    receiver = refuse(1, of=owner.id)
    service = dispatcher(store, receiver, attempts=1)
    run_until_idle(service)
    receiver.answer = lambda event: None
    dead = outbox_rows(store, owner.id)[0]
    with store.transaction() as tx:
        assert outbox.requeue_events(tx, owner.tenant_id, [dead.id]) == {dead.id}
    run_until_idle(service)
    assert receiver.received[-1].id == dead.id
    assert statuses(store, owner.id) == [OutboxStatus.PUBLISHED] * 2


def test_whatever_a_receiver_raises_is_a_failed_attempt(store: Store) -> None:
    (owner,) = write_events(store, instances=1, events=1)

    def leave(event: CloudEvent) -> None:
        raise SystemExit(1)

    run_until_idle(dispatcher(store, Receiver(leave)))
    assert outbox_rows(store, owner.id)[0].error == "SystemExit: 1"


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """Opened at the end, so that no thread stays behind."""
    event = threading.Event()
    yield event
    event.set()


def hang(gate: threading.Event, of: str) -> Receiver:
    def answer(event: CloudEvent) -> None:
        if event.subject == of:
            gate.wait(60)

    return Receiver(answer)


def test_a_receiver_that_hangs_does_not_keep_other_instances_waiting(
    store: Store, gate: threading.Event
) -> None:
    slow, *others = write_events(store, instances=4, events=100)  # each fills a batch
    receiver = hang(gate, of=slow.id)
    service = dispatcher(store, receiver)
    while any(status is OutboxStatus.PENDING for other in others for status in statuses(store, other.id)):
        assert service.run_once(), "it takes itself for idle while events wait"
    assert slow.id not in receiver.first_deliveries()
    gate.set()
    run_until_idle(service)
    assert receiver.first_deliveries()[slow.id] == list(range(1, 101))


def test_retries_that_hang_leave_the_places_of_other_instances_free(
    store: Store, clock: ManualClock, gate: threading.Event
) -> None:
    sick = {owner.id for owner in write_events(store, instances=8, events=1)}

    def refuse(event: CloudEvent) -> None:
        raise RefusedError

    receiver = Receiver(refuse)
    service = dispatcher(store, receiver, threads=4)
    run_until_idle(service)
    clock.advance(timedelta(seconds=1))

    def hang(event: CloudEvent) -> None:
        if event.subject in sick:
            gate.wait(60)

    receiver.answer = hang
    service.run_once()  # all that failed before are under way again, and take their time
    (other,) = write_events(store, instances=1, events=1)
    for _ in range(20):  # a few seconds at most, long before those that hang are given up
        service.run_once()
        if statuses(store, other.id) == [OutboxStatus.PUBLISHED]:
            break
    assert receiver.first_deliveries() == {other.id: [1]}
    gate.set()
    run_until_idle(service)
    assert len(receiver.received) == 9


def test_a_call_that_outlives_its_lease_is_a_failed_attempt_and_its_place_is_free_again(
    store: Store, gate: threading.Event
) -> None:
    (stuck,) = write_events(store, instances=1, events=2)
    receiver = hang(gate, of=stuck.id)
    service = dispatcher(store, receiver, threads=1, lease=timedelta(milliseconds=50))
    run_until_idle(service)
    failed, follower = outbox_rows(store, stuck.id)
    assert (failed.attempts, failed.error) == (1, "no answer before the lease was over")
    assert follower.attempts == 0
    (other,) = write_events(store, instances=1, events=1)
    run_until_idle(service)
    assert receiver.first_deliveries() == {other.id: [1]}


def test_a_lane_begins_no_event_late_in_its_lease(store: Store) -> None:
    (owner,) = write_events(store, instances=1, events=100)
    service = dispatcher(store, Receiver(), lease=timedelta(0))
    assert service.run_once()
    assert statuses(store, owner.id) == [OutboxStatus.PENDING] * 100
    assert {(row.attempts, row.lease_owner) for row in outbox_rows(store, owner.id)} == {(0, None)}


def test_draining_finishes_what_is_under_way_and_gives_the_rest_back(
    store: Store, gate: threading.Event
) -> None:
    (owner,) = write_events(store, instances=1, events=3)
    begun = threading.Event()

    def answer(event: CloudEvent) -> None:
        begun.set()
        gate.wait(60)

    receiver = Receiver(answer)
    service = dispatcher(store, receiver)
    service.run_once()
    assert begun.wait(10)
    draining = threading.Thread(target=service.drain, args=(60.0,))
    draining.start()
    gate.set()
    draining.join(10)
    assert not draining.is_alive()
    published = receiver.first_deliveries()[owner.id]
    assert published == list(range(1, len(published) + 1))
    left = outbox_rows(store, owner.id)[len(published) :]
    assert [row.lease_owner for row in left] == [None] * len(left)
    run_until_idle(service)
    assert receiver.first_deliveries()[owner.id] == [1, 2, 3]
    assert len(receiver.received) == 3


def test_what_could_not_be_marked_is_marked_by_the_next_run(store: Store) -> None:
    (owner,) = write_events(store, instances=1, events=2)
    receiver = Receiver()
    service = dispatcher(store, receiver)
    crash.arm("outbox.marked", 1, "raise")
    try:
        with pytest.raises(crash.CrashError):
            run_until_idle(service)
    finally:
        crash.disarm()
    assert OutboxStatus.PUBLISHED not in statuses(store, owner.id)
    run_until_idle(service)
    assert statuses(store, owner.id) == [OutboxStatus.PUBLISHED] * 2
    assert len(receiver.received) == 2, "published again although it was known to be out"
