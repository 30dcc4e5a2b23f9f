"""Handlers that keep failing: their topic is left alone for a while; others and first attempts go on."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa
from prometheus_client import CollectorRegistry
from support.fault_models import one_task
from support.workers import wait_until

from bpm_engine.config import Config
from bpm_engine.core.state import Token, TokenState
from bpm_engine.engine import Engine
from bpm_engine.handlers import BpmnError, Retry, RetryLater, Work
from bpm_engine.observability import Metrics
from bpm_engine.services.breaker import RUNS
from bpm_engine.services.budget import FREE
from bpm_engine.store.records import TOKEN
from bpm_engine.store.schema import token

QUICK: dict[str, Any] = {"poll": 0.02, "worker_threads": 2}
MANY = 100
LATER = Retry(attempts=3, base="1h")
AGAIN = Retry(attempts=9, base="10ms", kind="fixed")


def _engine(url: str, **settings: Any) -> Engine:
    engine = Engine(url, config=Config(**QUICK | settings))
    engine.deploy(one_task("bad", "bank"))
    engine.deploy(one_task("good", "mail"))
    return engine


def _tokens(engine: Engine) -> list[Token]:
    query = sa.select(*TOKEN.columns).where(token.c.topic == "bank")
    with engine._runtime.store.reading() as tx:
        return TOKEN.read(tx.execute(query))


def _states(engine: Engine) -> Counter[str]:
    return Counter(str(each.state) for each in _tokens(engine))


class Bank:
    """A handler that fails until it is mended."""

    def __init__(self) -> None:
        self.runs: Counter[str] = Counter()
        self.is_closed = True

    def __call__(self, work: Work) -> None:
        self.runs[work.token_id] += 1
        if self.is_closed:
            raise ConnectionError("the bank is closed")


def test_a_topic_that_keeps_failing_is_left_alone_and_uses_up_no_attempts(
    database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    bank, registry = Bank(), CollectorRegistry()
    with _engine(database_url, circuit_pause=600.0) as engine:
        engine.observe(Metrics(registry, database=False))
        engine.handler("bank", retry=LATER)(bank)
        engine.handler("mail")(lambda work: None)
        for _ in range(MANY):
            engine.start("good")
        with engine.running():  # quick handlers: from now on much is held for the threads
            wait_until(lambda: engine.instances.count(status="Completed") == MANY, "they are done")
        for _ in range(MANY):
            engine.start("bad")
        with engine.running():
            wait_until(lambda: engine._runtime.executor.breakers.open == {"bank"}, "its circuit opens")
            wait_until(lambda: not _states(engine)[TokenState.EXECUTING], "what was taken is given back")
            for _ in range(MANY):
                engine.start("good")
                engine.start("bad")
            wait_until(lambda: engine.instances.count(status="Completed") == 2 * MANY, "others are served")
            waiting = next(each for each in _tokens(engine) if each.state is TokenState.READY)
            assert engine.instances.explain(waiting.instance_id).tokens[0].kind == "paused"
            assert registry.get_sample_value("bpm_topics_paused", {"topic": "bank"}) == 1
        ran = sum(bank.runs.values())
        assert RUNS <= ran < RUNS + 10, "those that had begun"
        assert Counter(each.attempt for each in _tokens(engine)) == {0: 2 * MANY - ran, 1: ran}
        assert _states(engine) == {TokenState.READY: 2 * MANY - ran, TokenState.WAITING: ran}
    assert "20 of the last 20 runs of 'bank' failed" in caplog.text


def test_when_it_works_again_everything_goes_on_and_there_is_no_incident(
    database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "bpm_engine.executor")
    bank, registry = Bank(), CollectorRegistry()
    with _engine(database_url, circuit_pause=0.05) as engine:
        engine.observe(Metrics(registry, database=False))
        engine.handler("bank", retry=AGAIN)(bank)
        for _ in range(MANY):
            engine.start("bad")
        with engine.running():
            wait_until(lambda: engine._runtime.executor.breakers.open == {"bank"}, "its circuit opens")
            bank.is_closed = False
            wait_until(lambda: engine.instances.count(status="Completed") == MANY, "all have ended")
        assert registry.get_sample_value("bpm_topics_paused", {"topic": "bank"}) == 0
    assert "the handler of 'bank' works again" in caplog.text


def test_a_handler_that_never_works_still_ends_in_incidents(database_url: str) -> None:
    bank = Bank()
    with _engine(database_url, circuit_pause=0.01) as engine:
        engine.handler("bank", retry=Retry(attempts=1))(bank)
        for _ in range(RUNS + 5):
            engine.start("bad")
        with engine.running():
            wait_until(lambda: engine.incidents.count() == RUNS + 5, "each has its incident")
    assert set(bank.runs.values()) == {1}


def _unlucky(work: Work) -> None:
    raise BpmnError("DECLINED")


def _busy(work: Work) -> None:
    raise RetryLater("1h")


@pytest.mark.parametrize(
    ("handler", "settings"), [(_unlucky, {}), (_busy, {}), (Bank(), {"circuit_pause": 0})]
)
def test_only_technical_failures_open_a_circuit_and_none_where_it_is_switched_off(
    handler: Callable[[Work], None], settings: dict[str, Any]
) -> None:
    with _engine("sqlite://", **settings) as engine:
        engine.handler("bank", retry=Retry(attempts=1))(handler)
        for _ in range(MANY):
            engine.start("bad")
        with engine.running():
            wait_until(lambda: not _states(engine)[TokenState.READY], "all have run")
        assert not engine._runtime.executor.breakers.open


def test_async_handlers_have_circuits_as_well() -> None:
    is_closed = True

    async def ask(work: Work) -> None:
        if is_closed:
            raise ConnectionError

    with _engine("sqlite://", circuit_pause=0.05, worker_tasks=5) as engine:
        engine.handler("bank", retry=AGAIN)(ask)
        for _ in range(MANY):
            engine.start("bad")
        with engine.running():
            wait_until(lambda: engine._runtime.executor.breakers.open == {"bank"}, "its circuit opens")
            assert engine.instances.count(status="Completed") == 0
            is_closed = False
            wait_until(lambda: engine.instances.count(status="Completed") == MANY, "all have ended")


def test_in_the_foreground_everything_is_run_however_much_of_it_fails() -> None:
    bank = Bank()
    with _engine("sqlite://") as engine:
        engine.handler("bank", retry=Retry(attempts=1))(bank)
        for _ in range(MANY):
            engine.start("bad")
        engine.run_until_idle()
        assert engine.incidents.count() == MANY


def test_retries_do_not_crowd_out_first_attempts(database_url: str) -> None:
    """They are older than what waits, and the oldest go first: each would be run again at once."""
    attempts: list[int] = []
    number = 4 * FREE

    def fail_twice(work: Work) -> None:
        attempts.append(work.attempt)
        if work.attempt < 3:
            raise ConnectionError

    with _engine(database_url, circuit_pause=0, worker_threads=1, batch=1, direct_handoff=False) as engine:
        engine.handler("bank", retry=Retry(base="0s"))(fail_twice)
        for _ in range(number):
            engine.start("bad")
        with engine.running(only=["executor", "timers"]):
            wait_until(lambda: len(attempts) >= number, "as many have run")
    retries = [attempt for attempt in attempts[:number] if attempt > 1]
    assert 0 < len(retries) < FREE + number * 0.2, "some come back at once, the others have a tenth"
