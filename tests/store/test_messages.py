"""Messages, deliveries and start subscriptions: matched by name, key and content, taken once, never lost."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Barrier

import pytest
from support import rows as sample

from bpm_engine.core.state import InstanceStatus, SubscriptionKind, SubscriptionStatus, replace
from bpm_engine.store import changes as changing
from bpm_engine.store import messages, signals
from bpm_engine.store.clock import ManualClock
from bpm_engine.store.messages import Message, StartSubscription
from bpm_engine.store.signals import Signal
from bpm_engine.store.statuses import DeliveryStatus, MessageStatus
from bpm_engine.store.store import Store


def message(**fields: object) -> Message:
    values = {
        "id": sample.new_id(),
        "tenant_id": "acme",
        "name": "paid",
        "expires_at": sample.NOW + timedelta(hours=1),
    }
    return Message(**values | fields)


def subscribe(
    store: Store, *waits: dict, status: InstanceStatus = InstanceStatus.RUNNING, tenant: str = "acme"
) -> list:
    owner = sample.instance(status=status, tenant_id=tenant)
    changes = sample.started(owner)
    changes.subscriptions.inserted = [sample.subscription(owner, **wait) for wait in waits]
    with store.transaction() as tx:
        changing.apply(tx, changes)
    return changes.subscriptions.inserted


def start(**fields: object) -> StartSubscription:
    values = {
        "id": sample.new_id(),
        "tenant_id": "acme",
        "definition_id": sample.new_id(),
        "definition_key": "order",
        "node_id": "start",
        "kind": SubscriptionKind.MESSAGE,
        "name": "paid",
    }
    return StartSubscription(**values | fields)


def taker(store: Store, sent: Message) -> str | None:
    with store.transaction() as tx:
        messages.add_messages(tx, [sent])
    with store.reading() as tx:
        found = messages.match_messages(tx, [sent.id])
    return found[0].taker.id if found else None


def test_a_message_goes_to_the_wait_with_its_name_and_key(store: Store) -> None:
    waits = subscribe(
        store, {"correlation_key": "A"}, {"correlation_key": "B"}, {"name": "other", "correlation_key": "B"}
    )
    assert taker(store, message(correlation_key="B")) == waits[1].id
    assert taker(store, message(correlation_key="C")) is None
    assert taker(store, message()) is None
    assert taker(store, message(correlation_key="B", tenant_id="foreign")) is None


def test_the_key_goes_before_a_wait_without_key_and_a_wait_before_a_start(store: Store) -> None:
    starts = [start()]
    with store.transaction() as tx:
        messages.replace_start_subscriptions(tx, "acme", "order", starts)
    assert taker(store, message(correlation_key="A")) == starts[0].id
    (anyone,) = subscribe(store, {})
    assert taker(store, message(correlation_key="A")) == anyone.id
    (exact,) = subscribe(store, {"correlation_key": "A"})
    assert taker(store, message(correlation_key="A")) == exact.id


@pytest.mark.parametrize(
    ("payload", "match", "fits"),
    [
        ({"kind": "card", "n": 1}, {"kind": "card"}, True),
        ({"kind": "card"}, {"kind": "cash"}, False),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1}}, True),
        ({"a": [1, 2, 3]}, {"a": [3, 1]}, True),
        ({"a": [1, 2, 3]}, {"a": [4]}, False),
        ({"a": [{"x": 1, "y": 2}]}, {"a": [{"x": 1}]}, True),
        ({"a": 1}, {"a": 1.0}, True),
        ({"a": 1}, {"a": True}, False),
        ({"a": True}, {"a": True}, True),
        ({"a": None}, {"a": None}, True),
        ({}, {"a": None}, False),
        ({"a": "1"}, {"a": 1}, False),
        ({"a": []}, {"a": []}, True),
        ({"a": {}}, {"a": []}, False),
        ({"a": [[1, 2]]}, {"a": [[2]]}, True),
        ({"a": [1]}, {"a": 1}, False),
        ({'o"dd': "ü"}, {'o"dd': "ü"}, True),
    ],
)
def test_the_payload_must_contain_what_the_wait_asks_for(
    store: Store, payload: dict, match: dict, fits: bool
) -> None:
    """PostgreSQL's own operator is the judge; SQLite must say the same."""
    (wait,) = subscribe(store, {"match": match})
    assert taker(store, message(payload=payload)) == (wait.id if fits else None)


@pytest.mark.parametrize("status", [InstanceStatus.SUSPENDED, InstanceStatus.FAILED])
def test_a_halted_instance_takes_no_message(store: Store, status: InstanceStatus) -> None:
    subscribe(store, {}, status=status)
    assert taker(store, message()) is None


def test_a_closed_wait_takes_no_message(store: Store) -> None:
    subscribe(store, {"status": SubscriptionStatus.CONSUMED}, {"kind": SubscriptionKind.SIGNAL})
    assert taker(store, message()) is None


def test_a_wait_finds_the_oldest_message_that_came_before_it(store: Store) -> None:
    early = [message(correlation_key="A"), message(correlation_key="A"), message(correlation_key="B")]
    with store.transaction() as tx:
        messages.add_messages(tx, early)
    keyed, unkeyed, without = subscribe(store, {"correlation_key": "B"}, {}, {"correlation_key": "X"})
    with store.reading() as tx:
        found = messages.match_subscriptions(tx, [keyed.id, unkeyed.id, without.id])
    assert {m.taker.id: m.message_id for m in found} == {
        keyed.id: early[2].id,
        unkeyed.id: early[0].id,
    }


def test_a_message_id_is_accepted_once_per_tenant_and_name(store: Store) -> None:
    first = message(message_id="m-1")
    with store.transaction() as tx:
        assert messages.add_messages(tx, [first]) == {first.id}
        assert (
            messages.add_messages(tx, [message(message_id="m-1"), message(message_id="m-1")]) == frozenset()
        )
        others = [
            message(message_id="m-1", name="x"),
            message(message_id="m-1", tenant_id="t"),
            message(),
            message(),
        ]
        assert len(messages.add_messages(tx, others)) == 4
        assert messages.find_message(tx, "acme", "paid", "m-1") == first


def test_a_message_is_consumed_once_however_many_try(store: Store) -> None:
    sent = message()
    with store.transaction() as tx:
        messages.add_messages(tx, [sent])
    barrier = Barrier(6)

    def consume(_: int) -> int:
        barrier.wait()
        with store.transaction() as tx:
            return len(messages.consume_messages(tx, {sent.id: sample.new_id()}))

    with ThreadPoolExecutor(6) as pool:
        assert sum(pool.map(consume, range(6))) == 1
    assert taker(store, replace(sent, id=sample.new_id())) is None


def test_messages_expire_and_are_purged_when_nobody_needs_their_id(store: Store, clock: ManualClock) -> None:
    old, used = message(message_id="a"), message(message_id="b")
    with store.transaction() as tx:
        messages.add_messages(tx, [old, used])
        messages.consume_messages(tx, {used.id: sample.new_id()})
        assert messages.expire_messages(tx, 10) == []
    clock.advance(timedelta(hours=1))
    subscribe(store, {})
    with store.transaction() as tx:
        assert messages.match_messages(tx, [old.id]) == []
        assert [m.id for m in messages.expire_messages(tx, 10)] == [old.id]
        assert messages.load_messages(tx, [old.id])[0].status is MessageStatus.EXPIRED
        assert messages.purge_messages(tx, old.expires_at, 10) == 0
        assert messages.purge_messages(tx, old.expires_at + timedelta(seconds=1), 10) == 2


def test_the_sweep_pairs_leftovers_page_by_page(store: Store) -> None:
    sent = [message(correlation_key=str(i)) for i in range(5)]
    with store.transaction() as tx:
        messages.add_messages(tx, sent)
    waits = subscribe(store, {"correlation_key": "4"}, {"correlation_key": "1"})
    found, after = [], None
    with store.reading() as tx:
        while True:
            matches, after = messages.pair_buffered(tx, 2, after)
            found += [(m.message_id, m.taker.id) for m in matches]
            if after is None:
                break
    assert sorted(found) == sorted([(sent[4].id, waits[0].id), (sent[1].id, waits[1].id)])


def test_a_signal_is_delivered_once_to_every_wait_of_the_tenant(store: Store) -> None:
    signal = {"kind": SubscriptionKind.SIGNAL, "name": "closed"}
    waits = [*subscribe(store, signal, signal, {**signal, "name": "other"}), *subscribe(store, signal)]
    subscribe(store, signal, tenant="foreign")
    begin = start(kind=SubscriptionKind.SIGNAL, name="closed")
    sent = Signal(id=sample.new_id(), tenant_id="acme", name="closed", payload={"why": "night"})
    with store.transaction() as tx:
        messages.replace_start_subscriptions(tx, "acme", "order", [begin])
        assert signals.fan_out(tx, [sent]) == 4
        assert signals.fan_out(tx, [sent]) == 0
        found = signals.pending_deliveries(tx, 10)
        assert {d.subscription_id for d in found} == {waits[0].id, waits[1].id, waits[3].id, begin.id}
        assert {d.definition_id for d in found} == {None, begin.definition_id}
        assert all(d.payload == {"why": "night"} for d in found)
        first = signals.pending_deliveries(tx, 3)
        rest = signals.pending_deliveries(tx, 3, (first[-1].signal_id, first[-1].subscription_id))
        assert [d.subscription_id for d in first + rest] == [d.subscription_id for d in found]
        key = (found[0].signal_id, found[0].subscription_id)
        assert signals.finish_deliveries(tx, [key], DeliveryStatus.DONE) == 1
        assert signals.finish_deliveries(tx, [key], DeliveryStatus.FAILED, "late") == 0
        assert len(signals.pending_deliveries(tx, 10)) == 3


def test_a_new_version_replaces_the_start_subscriptions_of_its_key_only(store: Store) -> None:
    old, new, other = start(), start(name="ordered"), start(definition_key="invoice", name="billed")
    with store.transaction() as tx:
        messages.replace_start_subscriptions(tx, "acme", "order", [old])
        messages.replace_start_subscriptions(tx, "acme", "invoice", [other])
        messages.replace_start_subscriptions(tx, "acme", "order", [new])
    assert taker(store, message(name="paid")) is None
    assert taker(store, message(name="ordered")) == new.id
    assert taker(store, message(name="billed")) == other.id


def test_a_subscription_of_an_instance_and_one_of_a_definition_are_told_apart(store: Store) -> None:
    (wait,) = subscribe(store, {"name": "paid", "correlation_key": "A-1"})
    begin = start()
    with store.transaction() as tx:
        messages.replace_start_subscriptions(tx, "acme", "order", [begin])
        arriving = [
            messages.Arriving(sample.new_id(), "acme", "paid", key, {}) for key in ("A-1", "A-2", "A-1")
        ]
        found = dict(messages.match_arriving(tx, arriving))
    taken = messages.Waiting(wait.id, wait.root_instance_id)
    assert [found[each.id] for each in arriving] == [taken, begin, taken]
