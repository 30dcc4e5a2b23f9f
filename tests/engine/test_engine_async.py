"""Async callers have the same surface."""

from __future__ import annotations

import asyncio

import pytest
from support.samples import HUMAN, WAIT

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
    for name in ("begin", "handler", "running", "_runtime"):
        with pytest.raises(AttributeError, match="call it on the engine itself"):
            getattr(engine.aio, name)
