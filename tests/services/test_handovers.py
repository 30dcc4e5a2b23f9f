"""What becomes of work whose worker stops, forks or runs in the foreground while a handler is at it."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from contextlib import suppress
from typing import Any

import pytest
import sqlalchemy as sa
from support.fault_models import one_task
from support.workers import wait_until

from bpm_engine.config import Config
from bpm_engine.engine import Engine
from bpm_engine.errors import ConflictError
from bpm_engine.handlers import Retry, Work
from bpm_engine.store.schema import token


def _engine(**settings: Any) -> Engine:
    engine = Engine("sqlite://", config=Config(**settings))
    engine.deploy(one_task("p", "job"))
    return engine


def test_work_that_outlives_the_drain_is_given_back_and_its_late_result_is_dropped(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "bpm_engine.executor")
    begun, go_on, runs = threading.Event(), threading.Event(), []
    with _engine(drain_timeout=0.1, lease=3600) as engine:

        @engine.handler("job")
        def job(work: Work) -> dict[str, int]:
            runs.append(work.attempt)
            begun.set()
            if len(runs) == 1:
                go_on.wait(20)
                return {"by": 1}
            return {"by": 2}

        instance = engine.start("p")
        with engine.running():
            assert begun.wait(20)
        (waiting,) = engine.instances.get(instance.id).tokens
        assert waiting.state == "Ready", "others need not wait until its lease is over"
        engine.run_until_idle()
        go_on.set()
        wait_until(lambda: not engine._runtime.executor._places._taken[False], "the first one has ended")
        view = engine.instances.get(instance.id)
        assert (view.status, view.variables, runs) == ("Completed", {"by": 2}, [1, 1])
        assert not engine.doctor()
    told = [message.partition(";")[0] for message in caplog.messages]
    assert told == ["handlers that still run: 1", "handlers that took too long to end: 1"]


@pytest.mark.parametrize("is_async", [False, True])
def test_a_handler_in_the_foreground_may_extend_its_lease(is_async: bool) -> None:
    with _engine() as engine:

        def job(work: Work) -> None:
            work.heartbeat()

        async def job_async(work: Work) -> None:
            work.heartbeat()

        engine.handler("job", retry=Retry(attempts=1))(job_async if is_async else job)
        instance = engine.start("p")
        engine.run_until_idle()
        assert engine.instances.get(instance.id).status == "Completed"


@pytest.mark.parametrize("in_foreground", [False, True])
def test_a_transactional_handler_may_ask_for_its_lease(in_foreground: bool) -> None:
    with _engine() as engine:

        @engine.handler("job", transactional=True, retry=Retry(attempts=1))
        def job(work: Work, connection: sa.Connection) -> None:
            connection.execute(sa.text("SELECT 1"))
            work.heartbeat()

        instance = engine.start("p")
        if in_foreground:
            engine.run_until_idle()
        else:
            with engine.running():
                wait_until(lambda: engine.instances.get(instance.id).status != "Running", "it has ended")
        assert engine.instances.get(instance.id).status == "Completed"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
def test_a_process_forked_from_running_services_is_told_so_instead_of_waiting_for_ever() -> None:
    with _engine() as engine, engine.running():
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                engine.start("p")
            except ConflictError as refused:
                status = 0 if "make an Engine of its own after the fork" in str(refused) else 2
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


@pytest.mark.parametrize("obeys", [True, False])
def test_an_async_handler_that_outlives_the_drain_leaves_its_work_to_others(obeys: bool) -> None:
    """Whether it ends when it is cancelled, after some cleaning up, or not at all."""
    begun, ends = threading.Event(), threading.Event()
    with _engine(drain_timeout=0.1, lease=3600) as engine:

        @engine.handler("job")
        async def job(work: Work) -> None:
            begun.set()
            try:
                await asyncio.sleep(3600)
            finally:
                await asyncio.sleep(0.05)
                while not obeys and not ends.is_set():
                    with suppress(asyncio.CancelledError):
                        await asyncio.sleep(0.01)

        instance = engine.start("p")
        with engine.running():
            assert begun.wait(20)
        (waiting,) = engine.instances.get(instance.id).tokens
        assert waiting.state == ("Waiting" if obeys else "Ready"), "others need not wait for its lease"
        assert not engine._runtime.committer._queue
        ends.set()


def test_a_handler_that_comes_while_services_run_has_its_lease_extended() -> None:
    """The leases of the others are long, so that nobody would have looked in time."""
    begun, go_on = threading.Event(), threading.Event()
    with _engine(lease=3600, lease_extension=1200) as engine, engine.running():

        @engine.handler("job", lease="1s")
        def job(work: Work) -> None:
            begun.set()
            go_on.wait(60)

        instance = engine.start("p")
        assert begun.wait(20)
        seen: set[object] = set()

        def extended() -> bool:
            with engine._runtime.store.reading() as tx:
                seen.update(
                    tx.execute(sa.select(token.c.lease_until).where(token.c.state == "Executing")).scalars()
                )
            return len(seen) > 3

        wait_until(extended, "its lease was extended again and again")
        go_on.set()
        wait_until(lambda: engine.instances.get(instance.id).status == "Completed", "it has completed")
        assert not [e for e in engine.history.find(instance.id).items if e.kind == "recovered"]
