"""absurd: durable functions in PostgreSQL, each step a checkpoint.

W1 is a task of five steps, W2 gathers four steps of one task, W3 awaits an event, W4 sleeps until a moment.
An async worker shares one connection among its tasks, so that each process runs several of them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import psycopg
from _peers import Outcome, Peer, Shift, Task, after, crew, until

QUEUE = "bench"
WORKERS = 4  # per process, each with its own connection
CONCURRENCY = 20  # tasks of one worker at the same time
POLL = 0.02
SENDERS = 16


def run(task: Task) -> Outcome:
    from absurd_sdk import Absurd
    from absurdctl import BUNDLED_SCHEMA_SQL

    with psycopg.connect(task.url, autocommit=True) as connection:
        connection.execute(BUNDLED_SCHEMA_SQL)

        def counted(state: str) -> int:
            rows = connection.execute(f"SELECT count(*) FROM absurd.t_{QUEUE} WHERE state = %s", [state])
            return int(rows.fetchall()[0][0])

        def spawn(due: float = 0.0) -> None:
            for number in range(task.number):
                app.spawn(task.workload, {"order": number, "due": due}, queue=QUEUE)

        app = Absurd(task.url, queue_name=QUEUE)
        app.create_queue(QUEUE)
        if task.workload in ("W1", "W2"):
            spawn()
        with crew(_work, task, lead=2 + task.number / 100) as workers:
            if task.workload in ("W3", "W4"):
                spawn(workers.due())
                until(lambda: counted("sleeping"), task.number, task.seconds)
            if task.workload == "W4":
                return after(workers.due(), lambda: counted("completed"), task)
            if task.workload == "W3":
                return _messages(task, lambda: counted("completed"))
            return until(lambda: counted("completed"), task.number, task.seconds)


def _messages(task: Task, completed: Callable[[], int]) -> Outcome:
    from absurd_sdk import Absurd

    clients = [Absurd(task.url, queue_name=QUEUE) for _ in range(SENDERS)]

    def send(sender: int) -> None:
        for number in range(sender, task.number, SENDERS):
            clients[sender].emit_event(f"paid:{number}", {"paid": True})

    with ThreadPoolExecutor(SENDERS) as senders:
        begun = time.perf_counter()
        sent = [senders.submit(send, sender) for sender in range(SENDERS)]
        outcome = until(completed, task.number, task.seconds)
        for each in sent:
            each.result()
    return Outcome(outcome.done, time.perf_counter() - begun, outcome.note)


def _work(shift: Shift, share: range, task: Task) -> None:
    shift.begin()
    asyncio.run(_workers(task.url))


async def _workers(url: str) -> None:
    await asyncio.gather(*(_worker(url) for _ in range(WORKERS)))


async def _worker(url: str) -> None:
    from absurd_sdk import AsyncAbsurd, AsyncTaskContext

    app = AsyncAbsurd(url, queue_name=QUEUE)

    async def count() -> dict[str, int]:
        return {"n": 1}

    @app.register_task("W1")
    async def sequence(parameters: dict[str, float], context: AsyncTaskContext) -> None:
        for name in "abcde":
            await context.step(name, count)

    @app.register_task("W2")
    async def fork(parameters: dict[str, float], context: AsyncTaskContext) -> None:
        await asyncio.gather(*(context.step(name, count) for name in "abcd"))

    @app.register_task("W3")
    async def message(parameters: dict[str, float], context: AsyncTaskContext) -> None:
        await context.await_event(f"paid:{parameters['order']}")

    @app.register_task("W4")
    async def timer(parameters: dict[str, float], context: AsyncTaskContext) -> None:
        await context.sleep_until("wait", datetime.fromtimestamp(parameters["due"], UTC))

    await app.start_worker(concurrency=CONCURRENCY, poll_interval=POLL)


PEERS = (
    Peer(
        name="absurd",
        package="absurd-sdk",
        modules=("absurd_sdk", "absurdctl"),
        database="PostgreSQL",
        supports=frozenset({"W1", "W2", "W3", "W4"}),
        processes=(1, 2, 4),
        pace=0.1,
        run=run,
    ),
)
