"""More callers than the database can serve: some wait for a turn, the rest is refused, work always ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from time import monotonic

import pytest
import sqlalchemy as sa
from support.databases import SHARED
from support.definitions import bpmn, path
from support.samples import END, START
from support.workers import wait_until

from bpm_engine import Engine, UnavailableError
from bpm_engine.api.views import InstanceView
from bpm_engine.services.admission import LEAST

# In memory there is one connection, which readers wait for as well.
pytestmark = [pytest.mark.reliable, pytest.mark.parametrize("opening", SHARED, indirect=True)]

LATENCY = 0.1  # so much that nothing here takes as long by itself
ASK = bpmn(f'{START}<userTask id="ask"/>{END}' + path("start", "ask", "end"))
STARTS = 14  # of LEAST: messages have the rest
CALLERS = 3 * LEAST
ROUNDS = 6  # each halves what may be done at the same time; there may be quick transactions in between


@contextmanager
def held(engine: Engine) -> Iterator[sa.Connection]:
    """Nobody can write meanwhile: the database serves nothing."""
    with engine.begin() as connection:
        if connection.dialect.name == "postgresql":
            connection.execute(sa.text("LOCK TABLE process_instance IN EXCLUSIVE MODE"))
        yield connection


def _slow_down(engine: Engine, callers: ThreadPoolExecutor) -> None:
    """Its transactions take too long, one after the other."""
    for _ in range(ROUNDS):
        with held(engine):
            begun = monotonic()
            start = callers.submit(engine.start, "p")
            wait_until(lambda since=begun: monotonic() - since > 1.2 * LATENCY, "it has waited")
        start.result(20)
    assert engine._runtime.turns.limit == LEAST


def _refused(calls: list[Future[InstanceView]]) -> list[Future[InstanceView]]:
    return [call for call in calls if call.done() and isinstance(call.exception(), UnavailableError)]


@pytest.fixture
def engine(opening: Callable[..., Engine]) -> Engine:
    engine = opening(latency=LATENCY, lock_timeout=30.0, pool_timeout=30.0, statement_timeout=60.0)
    engine.deploy(ASK)
    return engine


@pytest.fixture
def callers() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2 * CALLERS) as pool:
        yield pool


def test_of_three_times_too_many_callers_those_that_fit_are_served_and_completions_all_are(
    engine: Engine, callers: ThreadPoolExecutor
) -> None:
    tasks = [engine.tasks.find(instance=engine.start("p").id).items[0].id for _ in range(LEAST)]
    suspended = engine.start("p")
    with engine.running():
        _slow_down(engine, callers)
        before = engine.instances.count()
        with held(engine):
            starts = [callers.submit(engine.start, "p") for _ in range(CALLERS)]
            wait_until(lambda: engine._runtime.turns._waiting == CALLERS - STARTS, "the others wait")
            ends = [callers.submit(engine.tasks.complete, task) for task in tasks]
            halt = callers.submit(engine.instances.suspend, suspended.id)
            wait_until(lambda: len(_refused(starts)) == CALLERS - STARTS, "they have waited in vain")
            assert not any(call.done() for call in (*ends, halt)), "nothing is served, nor refused"
        accepted = [call.result(20) for call in starts if call not in _refused(starts)]
        for end in ends:
            end.result(20)
        assert halt.result(20).status == "Suspended"
        assert len(accepted) == STARTS
        assert engine.instances.count() == before + STARTS, "what was refused left nothing behind"
        assert engine.instances.count(status="Completed") == len(tasks)
        again = [callers.submit(engine.start, "p") for _ in range(CALLERS)]
        assert {call.result(20).status for call in again} == {"Running"}, "the load is gone"


def test_a_crowd_on_a_database_that_keeps_up_is_not_refused(engine: Engine) -> None:
    with engine.running(), ThreadPoolExecutor(200) as crowd:
        calls = [crowd.submit(engine.start, "p") for _ in range(400)]
        sent = [crowd.submit(engine.send_message, f"m-{n}", ttl=0) for n in range(400)]
        assert {call.result(60).status for call in calls} == {"Running"}
        assert {call.result(60) for call in sent} == {"dropped"}
    assert engine.instances.count() == 400


def test_who_has_a_transaction_open_is_not_held_up(engine: Engine, callers: ThreadPoolExecutor) -> None:
    _slow_down(engine, callers)
    before = engine.instances.count()
    with held(engine) as connection:
        starts = [callers.submit(engine.start, "p") for _ in range(CALLERS)]
        wait_until(lambda: engine._runtime.turns._waiting == CALLERS - STARTS, "there is no room")
        engine.start("p", connection=connection)
        engine.send_signal("closed", connection=connection)
    accepted = [call for call in starts if call.exception(20) is None]
    assert engine.instances.count() == before + len(accepted) + 1


def test_without_a_target_nobody_waits_for_a_turn(
    opening: Callable[..., Engine], callers: ThreadPoolExecutor
) -> None:
    engine = opening(latency=0, lock_timeout=30.0, pool_timeout=30.0, statement_timeout=60.0)
    engine.deploy(ASK)
    for _ in range(5):
        with held(engine):
            begun = monotonic()
            start = callers.submit(engine.start, "p")
            wait_until(lambda since=begun: monotonic() - since > 0.25, "it takes long")
        start.result(20)
    assert engine._runtime.turns.limit is None
