"""Many at once: slow handlers that must hold no connection, and a backlog of timers beside fresh work."""

from __future__ import annotations

import asyncio
import resource
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from time import monotonic

import pytest
from sqlalchemy.pool import QueuePool
from support.databases import SHARED
from support.definitions import bpmn, path
from support.samples import HOUR

from bpm_engine import Config, Engine, Work
from bpm_engine.core.stimuli import Started
from bpm_engine.services.step import Submission, new_id
from bpm_engine.store.schema import timer

ASYNC, SYNC = 500, 50


def one_task(key: str, topic: str) -> bytes:
    body = f'<startEvent id="start"/><serviceTask id="task" bpm:topic="{topic}"/><endEvent id="end"/>'
    file = bpmn(body + path("start", "task", "end"))
    return file.replace(b'<process id="p"', f'<process id="{key}"'.encode())


def seed(engine: Engine, key: str, number: int) -> None:
    """Many instances in a few transactions."""
    definition = engine.definitions.get(key).id
    submissions = []
    for _ in range(number):
        instance = new_id()
        start = Started(instance_id=instance, tenant_id="default", definition_id=definition)
        submissions.append(Submission(stimulus=start, root=instance))
    engine._runtime.committer.perform(submissions)


@pytest.fixture(params=SHARED)
def live(request: pytest.FixtureRequest, url_of: Callable[[str], str]) -> Iterator[Engine]:
    """With the database's own clock, since services run."""
    with Engine(url_of(request.param), config=Config(worker_threads=SYNC + 2, auto_migrate=True)) as engine:
        yield engine


def test_hundreds_of_sleeping_handlers_hold_no_connection_and_starve_nobody(live: Engine) -> None:
    awake = threading.Event()
    asleep = threading.Semaphore(0)

    @live.handler("async-sleep")
    async def sleep_async(work: Work) -> None:
        asleep.release()
        while not awake.is_set():
            await asyncio.sleep(0.01)

    @live.handler("sync-sleep")
    def sleep_sync(work: Work) -> None:
        asleep.release()
        awake.wait(60)

    live.handler("quick")(lambda work: None)
    for key, topic in (("a", "async-sleep"), ("b", "sync-sleep"), ("c", "quick")):
        live.deploy(one_task(key, topic))
    seed(live, "a", ASYNC)
    seed(live, "b", SYNC)
    pool = live._runtime.store.database.engine.pool
    assert isinstance(pool, QueuePool)
    with live.running():
        try:
            for _ in range(ASYNC + SYNC):
                assert asleep.acquire(timeout=60)
            quick = live.start("c")
            while live.instances.get(quick.id).status == "Running":
                pass
            # Services look at the database now and then and give it back; what a handler held would stay.
            deadline = monotonic() + 30
            while pool.checkedout():
                assert monotonic() < deadline
        finally:
            awake.set()
        while live.instances.count(status="Running"):
            pass


def test_a_worker_keeps_nothing_of_what_has_ended(live: Engine) -> None:
    """Memory must stay flat over any number of instances."""
    live.handler("quick")(lambda work: None)
    live.handler("booked", transactional=True)(lambda work, connection: None)
    for key, topics in (("plain", ("quick", "quick")), ("mixed", ("quick", "booked"))):
        body = "".join(f'<serviceTask id="t{n}" bpm:topic="{topic}"/>' for n, topic in enumerate(topics))
        file = bpmn(f'<startEvent id="start"/>{body}<endEvent id="end"/>' + path("start", "t0", "t1", "end"))
        live.deploy(file.replace(b'<process id="p"', f'<process id="{key}"'.encode()))
        seed(live, key, 50)
    executor = live._runtime.executor
    with live.running():
        while live.instances.count(status="Running"):
            pass
    assert executor.hands.is_empty()
    assert executor._places._taken.total() == executor._places._returning.total() == 0


@pytest.mark.slow
def test_a_backlog_of_timers_neither_stops_fresh_work_nor_grows_memory(live: Engine) -> None:
    live.handler("quick")(lambda work: None)
    live.deploy(HOUR)
    live.deploy(one_task("c", "quick"))
    for _ in range(20):
        seed(live, "p", 1_000)
    database = live._runtime.store.database.engine
    with database.begin() as connection:
        connection.execute(timer.update().values(due_at=datetime.now(UTC) - timedelta(days=30)))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with live.running():
        fresh = live.start("c")
        while live.instances.get(fresh.id).status == "Running":
            pass
        assert live.instances.count(definition="p", status="Running") > 0, "there was still a backlog"
        while live.instances.count(status="Running"):
            pass
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    assert grown < 60
