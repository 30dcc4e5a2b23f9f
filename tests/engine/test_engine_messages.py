"""Messages go to exactly one receiver, or start an instance, or wait; signals go to everyone."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import sqlalchemy as sa
from support.faulty import persistent
from support.samples import HUMAN, LISTEN, PAPERS, STARTED_BY_MESSAGE, WAIT
from support.workers import wait_until

from bpm_engine import Engine, InvalidInputError, MessageResult, UnavailableError
from bpm_engine.store.schema import message
from bpm_engine.testing import ManualClock


def test_a_waiting_instance_takes_the_message_with_its_key(engine: Engine) -> None:
    engine.deploy(WAIT)
    other, mine = engine.start("p", {"order": "A-1"}), engine.start("p", {"order": "A-2"})
    assert engine.send_message("paid", "A-2", {"amount": 7}, actor="bank") is MessageResult.DELIVERED
    done = engine.instances.get(mine.id)
    assert (done.status, done.variables) == ("Completed", {"order": "A-2", "amount": 7})
    assert engine.instances.get(other.id).status == "Running"
    told = [entry for entry in engine.history.find(mine.id) if entry.kind == "delivered"]
    assert [entry.actor for entry in told] == ["bank"]


@pytest.mark.parametrize(("message_id", "kept"), [(None, 0), ("m-1", 1)])
def test_a_message_that_is_taken_at_once_is_kept_only_for_its_id(
    engine: Engine, message_id: str | None, kept: int
) -> None:
    engine.deploy(WAIT)
    engine.start("p", {"order": "A-1"})
    assert engine.send_message("paid", "A-1", message_id=message_id) is MessageResult.DELIVERED
    with engine.begin() as connection:
        assert connection.scalar(sa.select(sa.func.count()).select_from(message)) == kept


def test_a_message_that_comes_early_waits_for_its_instance(engine: Engine) -> None:
    engine.deploy(WAIT)
    assert engine.send_message("paid", "A-1", {"amount": 7}) == "buffered"
    instance = engine.start("p", {"order": "A-1"})
    engine.run_until_idle()
    assert engine.instances.get(instance.id).variables["amount"] == 7


def test_a_message_that_nobody_waits_for_is_dropped_when_it_may_not_wait(engine: Engine) -> None:
    engine.deploy(WAIT)
    assert engine.send_message("paid", "A-1", ttl=0) == "dropped"
    instance = engine.start("p", {"order": "A-1"})
    engine.run_until_idle()
    assert engine.instances.get(instance.id).status == "Running"


def test_a_dropped_message_may_be_sent_again_under_its_id(engine: Engine) -> None:
    engine.deploy(WAIT)
    assert engine.send_message("paid", "A-1", ttl=0, message_id="m-1") == "dropped"
    engine.start("p", {"order": "A-1"})
    assert engine.send_message("paid", "A-1", ttl=0, message_id="m-1") == "delivered"
    assert engine.send_message("paid", "A-1", ttl=0, message_id="m-1") == "duplicate"


def test_a_message_is_gone_after_its_time_to_live(engine: Engine, clock: ManualClock) -> None:
    engine.deploy(WAIT)
    engine.send_message("paid", "A-1", ttl="10s")
    clock.advance("11s")
    instance = engine.start("p", {"order": "A-1"})
    engine.run_until_idle()
    assert engine.instances.get(instance.id).status == "Running"


@pytest.mark.parametrize("buffered", [True, False])
def test_a_short_time_to_live_does_not_shorten_the_memory_of_an_id_that_was_taken(
    engine: Engine, clock: ManualClock, buffered: bool
) -> None:
    engine.deploy(WAIT)
    if not buffered:
        engine.start("p", {"order": "A-1"})
    engine.send_message("paid", "A-1", ttl="1s", message_id="m-1")
    if buffered:
        engine.start("p", {"order": "A-1"})
        engine.run_until_idle()
    clock.advance("10m")
    while persistent(engine._runtime.retention.run_once)():  # as its loop is
        pass
    second = engine.start("p", {"order": "A-1"})
    assert engine.send_message("paid", "A-1", ttl="1s", message_id="m-1") == "duplicate"
    assert engine.instances.get(second.id).status == "Running"
    clock.advance("51m")
    while persistent(engine._runtime.retention.run_once)():  # as its loop is
        pass
    assert engine.send_message("paid", "A-1", message_id="m-1") == "delivered"


@pytest.mark.parametrize("buffered", [True, False])
def test_a_message_id_takes_effect_once(engine: Engine, buffered: bool) -> None:
    engine.deploy(WAIT)
    if buffered:
        assert engine.send_message("paid", "A-1", message_id="m-1") == "buffered"
    first = engine.start("p", {"order": "A-1"})
    if not buffered:
        assert engine.send_message("paid", "A-1", message_id="m-1") == "delivered"
    engine.run_until_idle()
    second = engine.start("p", {"order": "A-1"})
    assert engine.send_message("paid", "A-1", message_id="m-1") == "duplicate"
    assert engine.instances.get(first.id).status == "Completed"
    assert engine.instances.get(second.id).status == "Running"


def test_a_message_starts_an_instance_when_nobody_waits(engine: Engine) -> None:
    engine.deploy(STARTED_BY_MESSAGE)
    assert engine.send_message("paid", "A-1", {"amount": 7}, message_id="m-1") == "started"
    assert engine.send_message("paid", "A-1", {"amount": 7}, message_id="m-1") == "duplicate"
    (instance,) = engine.instances.find()
    assert (instance.business_key, instance.variables) == ("A-1", {"amount": 7})


def test_many_messages_in_one_batch_start_as_many_instances(engine: Engine) -> None:
    engine.deploy(STARTED_BY_MESSAGE)
    with ThreadPoolExecutor(8) as threads:
        results = list(threads.map(lambda n: engine.send_message("paid", f"A-{n}"), range(24)))
    assert results == ["started"] * 24
    assert engine.instances.count() == 24


def test_of_many_who_send_the_same_id_at_once_one_is_heard(engine: Engine) -> None:
    engine.deploy(WAIT)
    engine.start("p", {"order": "A-1"})
    with ThreadPoolExecutor(8) as threads:
        sent = threads.map(lambda _: engine.send_message("paid", "A-1", message_id="m-1"), range(16))
        results = sorted(sent)
    assert results == ["delivered"] + ["duplicate"] * 15


@pytest.mark.parametrize(
    ("kept", "told"),
    [
        pytest.param({"ttl": 0}, ["dropped", "dropped"], id="dropped"),
        pytest.param({}, ["UnavailableError", "UnavailableError"], id="refused"),
    ],
)
def test_of_two_with_one_id_in_one_batch_none_is_a_duplicate_of_what_is_not_kept(
    opening: Callable[..., Engine], kept: dict[str, Any], told: list[str]
) -> None:
    engine = opening(message_buffer=1)
    engine.send_message("paid")

    def send(_: int) -> str:
        try:
            return str(engine.send_message("paid", "A-1", message_id="m-1", **kept))
        except UnavailableError as error:
            return type(error).__name__

    committer = engine._runtime.committer
    with ThreadPoolExecutor(2) as threads:
        with committer._turn:  # so that both are in one batch
            sent = threads.map(send, range(2))
            wait_until(lambda: len(committer._queue) == 2, "both are queued")
        assert list(sent) == told


def test_messages_to_one_receiver_at_once_all_arrive_while_it_takes_more(engine: Engine) -> None:
    engine.deploy(PAPERS)
    instance = engine.start("p", {"order": "A-1"})
    with ThreadPoolExecutor(8) as threads:
        results = list(threads.map(lambda n: engine.send_message("paid", "A-1", {f"n{n}": n}), range(16)))
    assert results == ["delivered"] * 16
    assert len(engine.instances.get(instance.id).variables) == 17


def test_as_many_messages_as_receivers_with_one_key_all_arrive(engine: Engine) -> None:
    """Several of one batch are meant for the oldest receiver at first; none may be dropped for that."""
    engine.deploy(WAIT)
    instances = [engine.start("p", {"order": "A-1"}) for _ in range(12)]
    with ThreadPoolExecutor(12) as threads:
        results = list(threads.map(lambda n: engine.send_message("paid", "A-1", {"n": n}, ttl=0), range(12)))
    assert results == ["delivered"] * 12
    assert sorted(engine.instances.get(instance.id).variables["n"] for instance in instances) == list(
        range(12)
    )


def test_a_halted_instance_takes_its_messages_when_it_goes_on(engine: Engine) -> None:
    engine.deploy(WAIT)
    instance = engine.start("p", {"order": "A-1"})
    engine.instances.suspend(instance.id)
    assert engine.send_message("paid", "A-1") == "buffered"
    engine.run_until_idle()
    assert engine.instances.get(instance.id).status == "Suspended"
    engine.instances.resume(instance.id)
    engine.run_until_idle()
    assert engine.instances.get(instance.id).status == "Completed"


def test_unclaimed_messages_cannot_fill_the_database(opening: Callable[..., Engine]) -> None:
    engine = opening(message_buffer=3)
    for _ in range(3):
        assert engine.send_message("paid") == "buffered"
    with pytest.raises(UnavailableError, match="3 messages named 'paid' wait already"):
        engine.send_message("paid")
    assert engine.send_message("other") == "buffered"
    engine.deploy(STARTED_BY_MESSAGE)
    assert engine.send_message("paid") == "started"


def test_a_message_shares_the_transaction_of_its_caller(engine: Engine) -> None:
    engine.deploy(WAIT)
    instance = engine.start("p", {"order": "A-1"})
    with engine.begin() as connection:
        assert engine.send_message("paid", "A-1", connection=connection) == "delivered"
        connection.rollback()
    assert engine.instances.get(instance.id).status == "Running"
    with engine.begin() as connection:
        engine.send_message("paid", "A-1", message_id="m-1", connection=connection)
        assert engine.send_message("paid", "A-1", message_id="m-1", connection=connection) == "duplicate"
    assert engine.instances.get(instance.id).status == "Completed"


BAD_MESSAGES: list[tuple[dict[str, Any], str]] = [
    ({"name": ""}, "the name of the message must be a text that is not empty"),
    ({"name": "paid", "correlation_key": ""}, "correlation_key must be a text that is not empty"),
    ({"name": "paid", "correlation_key": "k" * 1_000_000}, "correlation_key has 1000000 characters"),
    ({"name": "paid", "correlation_key": "a\x00b"}, "correlation_key contains the character U\\+0000"),
    ({"name": "paid", "message_id": ""}, "message_id must be a text"),
    ({"name": "paid", "payload": {"a": float("nan")}}, "payload.a is nan"),
    ({"name": "paid", "payload": ["a"]}, "payload must be an object"),
    ({"name": "paid", "ttl": "soon"}, "ttl"),
    ({"name": "paid", "ttl": -1}, "ttl"),
    ({"name": "paid", "ttl": "P200000D"}, "ttl: the duration .* is longer than 100 years"),
    ({"name": "paid", "actor": ""}, "actor"),
]


def test_a_bad_message_is_refused_in_words(engine: Engine) -> None:
    for arguments, words in BAD_MESSAGES:
        with pytest.raises(InvalidInputError, match=words):
            engine.send_message(**arguments)
    engine.deploy(STARTED_BY_MESSAGE)
    engine.run_until_idle()
    assert engine.instances.count() == 0


def test_a_key_is_text_whatever_it_looks_like(engine: Engine) -> None:
    engine.deploy(WAIT)
    key = "' OR 1=1--"
    wrong, right = engine.start("p", {"order": "A-1"}), engine.start("p", {"order": key})
    assert engine.send_message("paid", key) == "delivered"
    assert engine.instances.get(wrong.id).status == "Running"
    assert engine.instances.get(right.id).status == "Completed"


def test_a_signal_reaches_everyone_who_waits(engine: Engine) -> None:
    engine.deploy(LISTEN)
    instances = [engine.start("p") for _ in range(3)]
    assert engine.send_signal("closed", {"why": "inventory"}) == 3
    engine.run_until_idle()
    for instance in instances:
        done = engine.instances.get(instance.id)
        assert (done.status, done.variables) == ("Completed", {"why": "inventory"})
    assert engine.send_signal("closed") == 0


def test_the_history_names_who_sent_a_signal(engine: Engine) -> None:
    engine.deploy(LISTEN)
    instance = engine.start("p", actor="ann")
    engine.send_signal("closed", actor="bob")
    engine.run_until_idle()
    actors = {entry.kind: entry.actor for entry in engine.history.find(instance.id)}
    assert (actors["started"], actors["delivered"], actors["completed"]) == ("ann", "bob", "bob")


def test_the_history_names_who_sent_a_message_that_had_to_wait(engine: Engine) -> None:
    engine.deploy(WAIT)
    engine.send_message("paid", "A-1", actor="bank")
    instance = engine.start("p", {"order": "A-1"}, actor="ann")
    engine.run_until_idle()
    actors = {entry.kind: entry.actor for entry in engine.history.find(instance.id)}
    assert (actors["started"], actors["delivered"]) == ("ann", "bank")


def test_a_signal_to_a_halted_instance_waits_and_the_engine_comes_to_rest(engine: Engine) -> None:
    engine.deploy(LISTEN)
    halted, other = engine.start("p"), engine.start("p")
    engine.instances.suspend(halted.id)
    assert engine.send_signal("closed") == 2
    engine.run_until_idle()
    assert engine.instances.get(other.id).status == "Completed"
    engine.instances.resume(halted.id)
    engine.run_until_idle()
    assert engine.instances.get(halted.id).status == "Completed"


def test_signals_and_messages_stay_inside_their_tenant(engine: Engine) -> None:
    acme, zeta = engine.tenant("acme"), engine.tenant("zeta")
    for tenant in (acme, zeta):
        tenant.deploy(LISTEN)
        tenant.start("p")
    assert acme.send_signal("closed") == 1
    acme.deploy(HUMAN)
    engine.run_until_idle()
    assert zeta.instances.count(status="Running") == 1
    zeta.deploy(STARTED_BY_MESSAGE)
    assert acme.send_message("paid", message_id="m-1") == "buffered"
    assert zeta.send_message("paid", message_id="m-1") == "started"
