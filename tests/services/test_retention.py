"""The end of old rows: whole ended trees, messages, deliveries and events; never what still runs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta

import psycopg
import pytest
import sqlalchemy as sa
from support import rows
from support.events import Receiver, dispatcher, outbox_rows, run_until_idle, write_events
from support.postgres.databases import libpq_url

from bpm_engine import crash
from bpm_engine.core.state import Instance, InstanceStatus, SubscriptionKind
from bpm_engine.errors import UnavailableError
from bpm_engine.services.retention import RetentionConfig, RetentionSweep
from bpm_engine.store import changes as changing
from bpm_engine.store import messages, schema, signals
from bpm_engine.store.clock import ManualClock
from bpm_engine.store.config import StoreConfig
from bpm_engine.store.messages import Message
from bpm_engine.store.outbox import OutboxStatus
from bpm_engine.store.signals import Signal
from bpm_engine.store.statuses import DeliveryStatus
from bpm_engine.store.store import Store

MONTH = timedelta(days=30)
ENDED = {"status": InstanceStatus.COMPLETED, "ended_at": rows.NOW, "retention": int(MONTH.total_seconds())}


def write(store: Store, *instances: Instance, entries: int = 0) -> None:
    changes = rows.started(*instances, tokens=0)
    changes.scopes.inserted = [rows.root_scope(each, seq=entries) for each in instances]
    changes.log += [rows.log(each, seq) for each in instances for seq in range(1, entries + 1)]
    with store.transaction() as tx:
        changing.apply(tx, changes)


def child(of: Instance, **fields: object) -> Instance:
    return rows.instance(
        root_instance_id=of.root_instance_id, parent_instance_id=of.id, depth=of.depth + 1, **fields
    )


def count(store: Store, table: sa.Table) -> int:
    with store.reading() as tx:
        return int(tx.execute(sa.select(sa.func.count()).select_from(table)).scalar_one())


def left(store: Store) -> set[str]:
    with store.reading() as tx:
        return {row.id for row in tx.execute(sa.select(schema.process_instance.c.id))}


def sweep(store: Store, **settings: object) -> list[int]:
    """What each round took, until nothing is left."""
    service = RetentionSweep(store, RetentionConfig(**settings))  # type: ignore[arg-type]
    taken = []
    while number := service.run_once():
        taken.append(number)
    return taken


def test_an_ended_instance_goes_when_its_retention_is_over_and_not_before(
    store: Store, clock: ManualClock
) -> None:
    ended = rows.instance(**ENDED)
    write(store, ended, entries=3)
    clock.advance(MONTH - timedelta(seconds=1))
    assert sweep(store) == []
    clock.advance(timedelta(seconds=1))
    assert sweep(store) == [1]
    assert [count(store, t) for t in (schema.process_instance, schema.scope, schema.execution_log)] == [
        0,
        0,
        0,
    ]


@pytest.mark.parametrize("status", [InstanceStatus.RUNNING, InstanceStatus.FAILED, InstanceStatus.SUSPENDED])
def test_an_instance_that_has_not_ended_is_never_swept(
    store: Store, clock: ManualClock, status: InstanceStatus
) -> None:
    running = rows.instance(status=status, retention=1)
    write(store, running)
    clock.advance(timedelta(days=3650))
    assert sweep(store) == []
    assert left(store) == {running.id}


def test_a_tree_goes_as_a_whole_and_not_while_a_part_of_it_runs(store: Store, clock: ManualClock) -> None:
    whole, torn = rows.instance(**ENDED), rows.instance(**ENDED)
    called, running = child(whole, **ENDED), child(torn)
    grandchild = child(called, **ENDED)
    write(store, whole, torn, called, running, grandchild, entries=2)
    clock.advance(MONTH)
    assert sweep(store) == [1]
    assert left(store) == {torn.id, running.id}


def test_rounds_are_bounded_in_trees(store: Store, clock: ManualClock) -> None:
    write(store, *[rows.instance(**ENDED) for _ in range(7)])
    clock.advance(MONTH)
    assert sweep(store, trees=3) == [3, 3, 1]


def test_rounds_are_bounded_in_rows_and_a_bigger_tree_goes_in_several(
    store: Store, clock: ManualClock
) -> None:
    write(store, rows.instance(**ENDED), entries=60)
    write(store, *[rows.instance(**ENDED) for _ in range(4)], entries=10)
    clock.advance(MONTH)
    service = RetentionSweep(store, RetentionConfig(log_rows=25))
    found = []
    while service.run_once():
        found.append((len(left(store)), count(store, schema.execution_log)))
    assert found == [(3, 56), (1, 11), (0, 0)]


def test_a_sweep_that_dies_within_a_big_tree_is_finished_by_the_next(
    store: Store, clock: ManualClock
) -> None:
    write(store, rows.instance(**ENDED), entries=60)
    clock.advance(MONTH)
    service = RetentionSweep(store, RetentionConfig(log_rows=25))
    assert service.run_once()
    crash.arm("retention.purged", 1, "raise")
    try:
        with pytest.raises(crash.CrashError):
            service.run_once()
    finally:
        crash.disarm()
    assert left(store) != set()
    assert sweep(store, log_rows=25) != []
    assert [count(store, table) for table in (schema.process_instance, schema.execution_log)] == [0, 0]


def test_a_sweep_that_dies_in_between_leaves_everything(store: Store, clock: ManualClock) -> None:
    write(store, rows.instance(**ENDED), entries=2)
    clock.advance(MONTH)
    crash.arm("retention.purged", 1, "raise")
    try:
        with pytest.raises(crash.CrashError):
            RetentionSweep(store).run_once()
    finally:
        crash.disarm()
    assert count(store, schema.execution_log) == 2
    assert sweep(store) == [1]


def test_an_error_in_one_kind_does_not_keep_the_others(store: Store, clock: ManualClock) -> None:
    write(store, rows.instance(**ENDED))
    with store.transaction() as tx:
        soon = tx.now() + timedelta(seconds=1)
        message = Message(id=rows.new_id(), tenant_id="t", name="late", expires_at=soon)
        messages.add_messages(tx, [message])
    clock.advance(MONTH)
    crash.arm("retention.purged", 1, "raise")  # at the first kind: the messages
    try:
        with pytest.raises(crash.CrashError):
            RetentionSweep(store).run_once()
    finally:
        crash.disarm()
    assert left(store) == set()


def test_a_statement_that_takes_too_long_does_not_keep_the_other_kinds(url_of: Callable[[str], str]) -> None:
    """It is told like a database that is away."""
    clock = ManualClock()
    config = StoreConfig(url=url_of("postgresql"), statement_timeout=0.5, lock_timeout=0.0)
    with Store(config, clock) as store:
        write(store, rows.instance(**ENDED))
        clock.advance(MONTH)
        with psycopg.connect(libpq_url(config.url)) as other:
            other.execute("LOCK TABLE message IN ACCESS EXCLUSIVE MODE")
            with pytest.raises(UnavailableError, match="timeout"):
                RetentionSweep(store).run_once()
        assert left(store) == set()


def test_many_sweeps_at_once_take_each_tree_once(store: Store, clock: ManualClock) -> None:
    write(store, *[rows.instance(**ENDED) for _ in range(60)], entries=2)
    clock.advance(MONTH)
    taken: list[int] = []
    threads = [threading.Thread(target=lambda: taken.extend(sweep(store, trees=5))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert left(store) == set()
    assert sum(taken) == 60


def test_published_events_are_kept_for_seven_days_and_others_for_good(
    store: Store, clock: ManualClock
) -> None:
    (refused,) = write_events(store, instances=1, events=1)

    def refuse(event: object) -> None:
        raise ConnectionError

    run_until_idle(dispatcher(store, Receiver(refuse), attempts=1))  # dead
    (published,) = write_events(store, instances=1, events=2)
    run_until_idle(dispatcher(store, Receiver()))
    (waiting,) = write_events(store, instances=1, events=1)
    clock.advance(timedelta(days=7))
    assert sweep(store) == []
    clock.advance(timedelta(seconds=1))
    assert sweep(store) == [2]
    assert {(row.instance_id, row.status) for row in outbox_rows(store)} == {
        (refused.id, OutboxStatus.DEAD),
        (waiting.id, OutboxStatus.PENDING),
    }
    assert published.id not in {row.instance_id for row in outbox_rows(store)}


def test_without_a_publisher_events_wait_for_one_for_seven_days(store: Store, clock: ManualClock) -> None:
    write_events(store, instances=2, events=2)
    clock.advance(timedelta(days=6))
    write_events(store, instances=1, events=1)
    assert sweep(store, has_publisher=False) == []
    clock.advance(timedelta(days=1, seconds=1))
    assert sweep(store) == []
    assert sweep(store, has_publisher=False, rows=3) == [3, 1]
    receiver = Receiver()
    run_until_idle(dispatcher(store, receiver))
    assert len(receiver.ids) == 1


def test_events_on_their_way_outlive_their_instance(store: Store, clock: ManualClock) -> None:
    ended = rows.instance(**ENDED)
    changes = rows.started(ended, tokens=0)
    changes.outbox.append(rows.event(ended, 1))
    with store.transaction() as tx:
        changing.apply(tx, changes)
    clock.advance(MONTH)
    assert sweep(store) == [1]
    receiver = Receiver()
    run_until_idle(dispatcher(store, receiver))
    assert receiver.first_deliveries() == {ended.id: [1]}
    assert "definition" not in receiver.received[0].extensions


def message(**fields: object) -> Message:
    values = {"id": rows.new_id(), "tenant_id": rows.TENANT, "name": "paid"}
    return Message(**values | {"expires_at": rows.NOW + timedelta(hours=1)} | fields)  # type: ignore[arg-type]


def test_messages_expire_and_are_purged_when_their_time_is_over(store: Store, clock: ManualClock) -> None:
    taken, forgotten = message(), message()
    lasting = message(expires_at=rows.NOW + timedelta(days=1))
    with store.transaction() as tx:
        messages.add_messages(tx, [taken, forgotten, lasting])
        messages.consume_messages(tx, {taken.id: rows.new_id()})
    assert sweep(store) == []
    clock.advance(timedelta(hours=1, seconds=1))
    sweep(store)
    with store.reading() as tx:
        found = messages.load_messages(tx, [taken.id, forgotten.id, lasting.id])
    assert [each.id for each in found] == [lasting.id]


def test_finished_deliveries_are_purged_and_pending_ones_are_not(store: Store, clock: ManualClock) -> None:
    owner = rows.instance()
    changes = rows.started(owner, tokens=0)
    changes.subscriptions.inserted += [
        rows.subscription(owner, kind=SubscriptionKind.SIGNAL, name=name) for name in ("done", "pending")
    ]
    done, pending = (Signal(id=rows.new_id(), tenant_id=owner.tenant_id, name=n) for n in ("done", "pending"))
    with store.transaction() as tx:
        changing.apply(tx, changes)
        signals.fan_out(tx, [done, pending])
        key = (done.id, changes.subscriptions.inserted[0].id)
        assert signals.finish_deliveries(tx, [key], DeliveryStatus.DONE) == 1
    clock.advance(timedelta(days=7, seconds=1))
    assert sweep(store) == [1]
    with store.reading() as tx:
        assert [each.signal_id for each in signals.pending_deliveries(tx, 10)] == [pending.id]
