"""Messages to an instance that another transaction holds: they wait for it, and the answer is still true."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
import sqlalchemy as sa
from support.definitions import bpmn, path
from support.samples import HUMAN, WAIT

from bpm_engine import Config, ConflictError, Engine
from bpm_engine.testing import ManualClock

WAITERS = (
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
)


@pytest.fixture
def url(url_of: Callable[[str], str]) -> str:
    return url_of("postgresql")


@pytest.fixture
def engine(url: str, clock: ManualClock) -> Iterator[Engine]:
    with Engine(url, config=Config(lock_timeout=20.0), clock=clock) as engine:
        yield engine
        assert engine.doctor() == []


def until_somebody_waits(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        while connection.execute(WAITERS).fetchone() == (0,):
            pass


@pytest.mark.parametrize("ttl", ["1h", 0])
def test_a_message_to_a_busy_instance_is_delivered_when_it_is_free(
    engine: Engine, url: str, ttl: str | int
) -> None:
    engine.deploy(WAIT)
    instance = engine.start("p", {"order": "A-1"})
    with ThreadPoolExecutor(1) as threads:
        with engine.begin() as connection:
            engine.instances.set_variables(instance.id, {"held": True}, connection=connection)
            answer = threads.submit(engine.send_message, "paid", "A-1", {"amount": 7}, ttl=ttl)
            until_somebody_waits(url)
        assert answer.result() == "delivered"
    assert engine.instances.get(instance.id).variables == {"order": "A-1", "held": True, "amount": 7}


@pytest.mark.parametrize(("ttl", "expected"), [("1h", "buffered"), (0, "dropped")])
def test_a_message_whose_receiver_goes_meanwhile_is_not_lost(
    engine: Engine, url: str, ttl: str | int, expected: str
) -> None:
    engine.deploy(WAIT)
    instance = engine.start("p", {"order": "A-1"})
    with ThreadPoolExecutor(1) as threads:
        with engine.begin() as connection:
            engine.instances.cancel(instance.id, connection=connection)
            answer = threads.submit(engine.send_message, "paid", "A-1", ttl=ttl)
            until_somebody_waits(url)
        assert answer.result() == expected
    later = engine.start("p", {"order": "A-1"})
    engine.run_until_idle()
    assert (engine.instances.get(later.id).status == "Completed") == (expected == "buffered")


def test_the_same_message_id_in_two_transactions_is_heard_once(engine: Engine, url: str) -> None:
    engine.deploy(WAIT)
    first, second = engine.start("p", {"order": "A-1"}), engine.start("p", {"order": "A-1"})
    with ThreadPoolExecutor(1) as threads:
        with engine.begin() as connection:
            assert engine.send_message("paid", "A-1", message_id="m", connection=connection) == "delivered"
            answer = threads.submit(engine.send_message, "paid", "A-1", message_id="m")
            until_somebody_waits(url)
        assert answer.result() == "duplicate"
    states = {engine.instances.get(instance.id).status for instance in (first, second)}
    assert states == {"Running", "Completed"}


def test_of_cancel_and_complete_at_once_exactly_one_wins(engine: Engine, url: str) -> None:
    engine.deploy(HUMAN)
    instance = engine.start("p", {"amount": 1})
    (task,) = engine.tasks.find()
    with ThreadPoolExecutor(1) as threads:
        with engine.begin() as connection:
            engine.instances.cancel(instance.id, connection=connection)
            answer = threads.submit(engine.tasks.complete, task.id, {"approved": True})
            until_somebody_waits(url)
        assert isinstance(answer.exception(), ConflictError)
    assert engine.instances.get(instance.id).status == "Cancelled"


def test_many_results_of_one_instance_are_committed_together(engine: Engine) -> None:
    """Two committing threads must not chase each other around one tree until each result goes alone."""
    engine.handler("item")(lambda work: None)
    engine.deploy(
        bpmn(
            '<startEvent id="start"/><serviceTask id="each" bpm:topic="item">'
            "<multiInstanceLoopCharacteristics"
            ' bpm:collection="items" bpm:elementVariable="item"/></serviceTask><endEvent id="end"/>'
            + path("start", "each", "end")
        )
    )
    instance = engine.start("p", {"items": list(range(1_000))})
    commits: list[object] = []
    sa.event.listen(engine._runtime.store.database.engine, "commit", commits.append)
    with engine.running(only=["executor"]):
        while engine.instances.get(instance.id).status == "Running":
            pass
    assert len(commits) < 60


def test_who_asks_while_another_thread_is_at_the_tree_is_served_when_it_is_done(engine: Engine) -> None:
    engine.deploy(WAIT)
    instance = engine.start("p", {"order": "A-1"})
    committer = engine._runtime.committer
    with ThreadPoolExecutor(1) as threads:
        committer._committing.add(instance.id)  # as a thread does that commits something of this tree
        asked = threads.submit(engine.instances.set_variables, instance.id, {"seen": True})
        while not committer._queue:
            pass
        committer._let_go({instance.id})
        asked.result(timeout=30)
    assert engine.instances.get(instance.id).variables["seen"] is True
