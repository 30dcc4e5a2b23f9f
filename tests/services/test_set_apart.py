"""A topic that is set apart: ordinary workers leave it alone, a lane takes nothing else."""

from __future__ import annotations

from threading import Event

import sqlalchemy as sa
from prometheus_client import CollectorRegistry
from support.fault_models import one_task
from support.workers import wait_until

from bpm_engine.config import Config
from bpm_engine.core.state import TokenState
from bpm_engine.engine import Engine
from bpm_engine.handlers import Work
from bpm_engine.observability import Metrics
from bpm_engine.store.schema import token

APART = frozenset({"bank"})
MANY = 30


def _engine(url: str) -> Engine:
    engine = Engine(url, config=Config(poll=0.02, worker_threads=2, missing_handler="leave"))
    engine.deploy(one_task("set_apart", "bank"))
    engine.deploy(one_task("good", "mail"))
    engine.handler("mail")(lambda work: None)
    return engine


def _held(engine: Engine) -> int:
    query = sa.select(sa.func.count()).where(token.c.state == TokenState.EXECUTING)
    with engine._runtime.store.reading() as tx:
        return int(tx.execute(query).scalar_one())


def _completed(engine: Engine, definition: str) -> int:
    return engine.instances.count(definition=definition, status="Completed")


def test_what_waits_is_given_back_what_runs_goes_on_and_nothing_new_is_begun(database_url: str) -> None:
    may_end, runs, registry = Event(), [], CollectorRegistry()

    def bank(work: Work) -> None:
        runs.append(work.token_id)
        may_end.wait(30)

    with _engine(database_url) as engine:
        executor = engine._runtime.executor
        engine.observe(Metrics(registry, database=False))
        engine.handler("bank")(bank)
        for _ in range(MANY):
            engine.start("good")
        with engine.running():  # quick handlers: from now on much is held for the threads
            wait_until(lambda: _completed(engine, "good") == MANY, "they are done")
            for _ in range(MANY):
                engine.start("set_apart")
            wait_until(lambda: len(runs) == 2 and _held(engine) > 2, "some run and others wait")
            executor.keep_apart(APART, is_lane=False)
            wait_until(lambda: _held(engine) == 2, "what waited is given back")
            assert registry.get_sample_value("bpm_topics_paused", {"topic": "bank"}) == 1
            may_end.set()
            engine.start("good")
            wait_until(lambda: _completed(engine, "good") == MANY + 1, "others are served")
            wait_until(lambda: _completed(engine, "set_apart") == 2, "what ran has ended")
            assert len(runs) == 2
            assert executor.handles("bank"), "nobody may think that it has no handler"
            executor.keep_apart(frozenset(), is_lane=False)
            wait_until(lambda: _completed(engine, "set_apart") == MANY, "it is let back")
            assert registry.get_sample_value("bpm_topics_paused", {"topic": "bank"}) == 0


def test_a_lane_takes_what_is_set_apart_and_nothing_else(database_url: str) -> None:
    with _engine(database_url) as engine:
        engine.handler("bank")(lambda work: None)
        engine._runtime.executor.keep_apart(APART, is_lane=True)
        for _ in range(3):
            engine.start("good")
            engine.start("set_apart")
        with engine.running():
            wait_until(lambda: _completed(engine, "set_apart") == 3, "its own work is done")
        assert _completed(engine, "good") == 0
