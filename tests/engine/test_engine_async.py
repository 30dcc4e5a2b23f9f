"""Async callers have the same surface."""

from __future__ import annotations

import asyncio
import os

import pytest
from support.samples import HUMAN, WAIT, WORK

from bpm_engine import NotFoundError
from bpm_engine.testing import TestEngine


def test_async_callers_use_the_same_calls() -> None:
    engine = TestEngine(HUMAN)

    async def application() -> str:
        instance = await engine.aio.start("p", {"amount": 7}, business_key="A-1")
        (task,) = await engine.aio.tasks.find(instance=instance.id)
        await engine.aio.tasks.complete(task.id, {"approved": True}, user="ann", groups=["clerks"])
        return str((await engine.aio.instances.get(instance.id)).status)

    assert asyncio.run(application()) == "Completed"


def test_workers_operators_and_people_are_async_too() -> None:
    engine = TestEngine(WORK.replace(b'bpm:topic="work"', b'bpm:topic="work" bpm:external="true"'))

    async def application() -> str:
        instance = await engine.aio.start("p")
        (work,) = await engine.aio.external.fetch("work", worker="w", wait="10s")
        await engine.aio.external.fail(work.lock, "no use", final=True)
        (incident,) = await engine.aio.incidents.find(code="external_failure")
        task = await engine.aio.incidents.route(incident.id, assignee="ann")
        await engine.aio.tasks.comment(task.id, "done by hand", actor="ann")
        await engine.aio.tasks.complete(task.id, user="ann")
        return str((await engine.aio.instances.get(instance.id)).status)

    assert asyncio.run(application()) == "Completed"


def test_many_async_callers_at_once() -> None:
    engine = TestEngine(WAIT)

    async def order(number: int) -> str:
        await engine.aio.start("p", {"order": f"A-{number}"})
        return str(await engine.aio.send_message("paid", f"A-{number}"))

    async def application() -> list[str]:
        return await asyncio.gather(*(order(n) for n in range(20)))

    assert asyncio.run(application()) == ["delivered"] * 20


def test_errors_and_tenants_are_the_same() -> None:
    engine = TestEngine(HUMAN)
    with pytest.raises(NotFoundError, match="no process 'p' is deployed"):
        asyncio.run(engine.aio.tenant("zeta").start("p"))


def test_only_what_makes_sense_is_async() -> None:
    engine = TestEngine()
    assert {"start", "instances", "tenant", "doctor"} <= set(dir(engine.aio))
    for name in ("begin", "data_store", "drain_timeout", "handler", "running", "_runtime"):
        with pytest.raises(AttributeError, match="call it on the engine itself"):
            getattr(engine.aio, name)


def test_calls_that_wait_for_long_do_not_keep_others_from_theirs() -> None:
    engine = TestEngine(HUMAN)
    waiting = 2 * (os.cpu_count() or 1) + 8  # more than asyncio has threads

    async def application() -> int:
        fetching = [
            asyncio.create_task(engine.aio.external.fetch("pack", worker=f"w{n}", wait="3s"))
            for n in range(waiting)
        ]
        await asyncio.sleep(0)
        found = len(await engine.aio.instances.find())
        assert not any(task.done() for task in fetching)
        await asyncio.gather(*fetching)
        return found

    assert asyncio.run(application()) == 0
