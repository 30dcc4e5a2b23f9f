"""DBOS: durable functions, on PostgreSQL and on SQLite.

W1 is a workflow of five steps, W2 gathers four steps, W3 receives a message, W4 sleeps. Each process starts
its share of the workflows itself, as a service that embeds DBOS does.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from _peers import Outcome, Peer, Shift, Task, after, crew, until

AT_ONCE = 32  # workflows of one process at the same time
SENDERS = 16
READY = 60.0  # seconds for all to wait


def run(task: Task) -> Outcome:
    with crew(_work, task, lead=3 + task.number / 100) as workers:
        if task.workload == "W4":
            workers.all_waiting()
            return after(workers.due(), workers.count, task)
        return until(workers.count, task.number, task.seconds)


def _work(shift: Shift, share: range, task: Task) -> None:
    from dbos import DBOS, SetWorkflowID

    DBOS(
        config={
            "name": "bench",
            "system_database_url": task.url,
            "log_level": "ERROR",
            "application_version": "bench",
            "executor_id": f"worker-{share.start}",
            "notification_listener_polling_interval_sec": 0.02,
        }
    )
    entered: list[int] = []

    @DBOS.step()
    def count(n: int) -> int:
        return n + 1

    @DBOS.step()
    async def count_async(n: int) -> int:
        return n + 1

    @DBOS.workflow()
    def sequence(number: int) -> int:
        n = 0
        for _ in range(5):
            n = count(n)
        return n

    @DBOS.workflow()
    async def fork(number: int) -> None:
        await asyncio.gather(*(count_async(0) for _ in range(4)))

    @DBOS.workflow()
    async def message(number: int) -> None:
        entered.append(number)
        await DBOS.recv_async("paid", timeout_seconds=600)

    @DBOS.workflow()
    async def timer(number: int, due: float) -> None:
        entered.append(number)
        await DBOS.sleep_async(max(0.0, due - time.time()))

    DBOS.launch()

    async def one(workflow: Callable[..., Coroutine[Any, Any, None]], *values: float) -> None:
        with SetWorkflowID(f"w-{values[0]}"):
            await workflow(*values)
        shift.done()

    async def all_waiting() -> None:
        given_up = time.monotonic() + READY
        while len(entered) < len(share) and time.monotonic() < given_up:
            await asyncio.sleep(0.02)

    async def forks() -> None:
        places = asyncio.Semaphore(AT_ONCE)

        async def placed(number: int) -> None:
            async with places:
                await one(fork, number)

        shift.begin()
        await asyncio.gather(*(placed(number) for number in share))

    async def messages() -> None:
        running = [asyncio.create_task(one(message, number)) for number in share]
        await all_waiting()
        with ThreadPoolExecutor(SENDERS) as senders:
            shift.begin()
            sending = asyncio.get_running_loop().run_in_executor
            await asyncio.gather(*(sending(senders, DBOS.send, f"w-{n}", True, "paid") for n in share))
        await asyncio.gather(*running)

    async def timers() -> None:
        due = shift.begin()
        running = [asyncio.create_task(one(timer, number, due)) for number in share]
        await all_waiting()
        shift.waiting()
        await asyncio.gather(*running)

    match task.workload:
        case "W1":
            shift.begin()
            with ThreadPoolExecutor(AT_ONCE) as callers:
                for _ in callers.map(sequence, share):
                    shift.done()
        case "W2":
            asyncio.run(forks())
        case "W3":
            asyncio.run(messages())
        case "W4":
            asyncio.run(timers())


def _peer(database: str, processes: tuple[int, ...]) -> Peer:
    return Peer(
        name=f"DBOS on {database}",
        package="dbos",
        modules=("dbos",),
        database=database,
        supports=frozenset({"W1", "W2", "W3", "W4"}),
        processes=processes,
        pace=0.05,
        run=run,
    )


PEERS = (_peer("PostgreSQL", (1, 2, 4)), _peer("SQLite", (1,)))
