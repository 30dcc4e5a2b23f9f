"""pgqueuer: a bare job queue in PostgreSQL, on which the workloads are built by hand.

A job is done when it is out of the queue: its end is written with those of others some time after its
function has returned, and until then a crash repeats it. So an instance is a row, and each job changes it in
a way that does nothing when it is repeated. W1: a job moves the row on by a step and enqueues the next job,
in one transaction. W2: four jobs per instance, each marks its branch. W3: a message is a job that marks who
waits. W4: jobs that may be executed from a moment on; they mark who waits, too.

`pgqueuer, bare jobs` has no rows: W1 is a job that enqueues the next one, W4 a job that does nothing. That is
the least that a step or a timer can be, and not durable as the others are: a job of W1 that a crash repeats
enqueues the next one once more, and from there on the instance runs twice.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import psycopg
from _peers import Outcome, Peer, Shift, Task, after, crew, until

BATCH = 50
SENDERS = 32
CONNECTIONS = 10
ROWS = "CREATE TABLE bench_row (id bigint PRIMARY KEY, done int NOT NULL)"  # steps, or a bit per branch
SEED = "INSERT INTO bench_row SELECT n, 0 FROM generate_series(0, $1::bigint) AS n"
MOVE = "UPDATE bench_row SET done = $2 + 1 WHERE id = $1 AND done = $2 RETURNING id"
ARRIVE = "UPDATE bench_row SET done = done | (1 << $2) WHERE id = $1 RETURNING done"
DELIVER = "UPDATE bench_row SET done = 1 WHERE id = $1"
LEFT = "SELECT count(*) FROM pgqueuer"
DUE = "SELECT extract(epoch FROM max(execute_after))::float FROM pgqueuer"
BARE = "pgqueuer, bare jobs"
BRANCHES = 4
JOBS = {"W2": BRANCHES}  # of one instance at the same time
LAST = 4  # step of W1, from 0


def run(task: Task) -> Outcome:
    import uvloop

    uvloop.run(_install(task))
    if task.workload in ("W1", "W2"):
        uvloop.run(_seed(task))
    with crew(_work, task, lead=2 + task.number / 5_000) as workers, _counting(task) as done:
        if task.workload == "W4":
            uvloop.run(_seed(task, workers.due()))
            return after(_due(task), done, task)
        if task.workload == "W3":
            return uvloop.run(_send(task, done))
        return until(done, task.number, task.seconds)


@contextmanager
def _counting(task: Task) -> Iterator[Callable[[], int]]:
    """How many instances have no job left, once all of them have had one."""
    with psycopg.connect(task.url, autocommit=True) as connection:

        def done() -> int:
            (left,) = connection.execute(LEFT).fetchone() or (0,)
            return task.number - min(task.number, -(-left // JOBS.get(task.workload, 1)))

        yield done


def _due(task: Task) -> float:
    """As the queue understood it: it is told a distance in time, and its own clock counts from the insert."""
    with psycopg.connect(task.url) as connection:
        (due,) = connection.execute(DUE).fetchone() or (0.0,)
        return float(due)


async def _install(task: Task) -> None:
    import asyncpg
    from pgqueuer.db import AsyncpgDriver
    from pgqueuer.queries import Queries

    connection = await asyncpg.connect(task.url)
    await Queries(AsyncpgDriver(connection)).install()
    await connection.execute(ROWS)
    await connection.execute(SEED, task.number)
    await connection.close()


async def _seed(task: Task, due: float | None = None) -> None:
    import asyncpg
    from pgqueuer.db import AsyncpgDriver
    from pgqueuer.queries import Queries

    connection = await asyncpg.connect(task.url)
    jobs = [f"{n}:{branch}" for n in range(task.number) for branch in range(JOBS.get(task.workload, 1))]
    await Queries(AsyncpgDriver(connection)).enqueue(
        [task.workload] * len(jobs),
        [job.encode() for job in jobs],
        [0] * len(jobs),
        [timedelta(seconds=0 if due is None else due - time.time())] * len(jobs),
    )
    await connection.close()


async def _send(task: Task, done: Callable[[], int]) -> Outcome:
    import asyncpg
    from pgqueuer.db import AsyncpgDriver
    from pgqueuer.queries import Queries

    connections = [await asyncpg.connect(task.url) for _ in range(SENDERS)]

    async def send(sender: int) -> None:
        queries = Queries(AsyncpgDriver(connections[sender]))
        for number in range(sender, task.number, SENDERS):
            await queries.enqueue("W3", f"{number}:0".encode())

    begun = time.perf_counter()
    await asyncio.gather(*(send(sender) for sender in range(SENDERS)))
    outcome = await asyncio.to_thread(until, done, task.number, task.seconds)
    return Outcome(outcome.done, time.perf_counter() - begun, outcome.note)


def _work(shift: Shift, share: range, task: Task) -> None:
    import uvloop

    uvloop.run(_worker(shift, task))


async def _worker(shift: Shift, task: Task) -> None:
    import asyncpg
    from pgqueuer import PgQueuer
    from pgqueuer.db import AsyncpgDriver
    from pgqueuer.models import Job
    from pgqueuer.queries import Queries

    pool = await asyncpg.create_pool(task.url, min_size=CONNECTIONS, max_size=CONNECTIONS)
    app = PgQueuer.from_asyncpg_pool(pool)
    queries: Any = app.qm.queries

    def numbers(job: Job) -> tuple[int, int]:
        instance, step = (job.payload or b"").split(b":")
        return int(instance), int(step)

    @app.entrypoint("W1")
    async def step(job: Job) -> None:
        instance, number = numbers(job)
        following = f"{instance}:{number + 1}".encode()
        if task.peer == BARE:
            if number < LAST:
                await queries.enqueue("W1", following)
            return
        async with pool.acquire() as connection, connection.transaction():
            moved = await connection.fetchval(MOVE, instance, number)
            if moved is not None and number < LAST:
                await Queries(AsyncpgDriver(connection)).enqueue("W1", following)

    @app.entrypoint("W2")
    async def branch(job: Job) -> None:
        await pool.fetchval(ARRIVE, *numbers(job))

    @app.entrypoint("W3")
    async def message(job: Job) -> None:
        await pool.execute(DELIVER, numbers(job)[0])

    @app.entrypoint("W4")
    async def timer(job: Job) -> None:
        if task.peer != BARE:
            await pool.execute(DELIVER, numbers(job)[0])

    shift.begin()
    await app.run(batch_size=BATCH)


def _peer(name: str, supports: frozenset[str]) -> Peer:
    return Peer(
        name=name,
        package="pgqueuer",
        modules=("pgqueuer", "asyncpg", "uvloop"),
        database="PostgreSQL",
        supports=supports,
        processes=(1, 2, 4),
        pace=0.2,
        run=run,
        timers=1.0,
        is_durable=name != BARE,
    )


PEERS = (
    _peer("pgqueuer", frozenset({"W1", "W2", "W3", "W4"})),
    _peer(BARE, frozenset({"W1", "W4"})),
)
