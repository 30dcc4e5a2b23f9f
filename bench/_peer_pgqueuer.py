"""pgqueuer: a bare job queue in PostgreSQL, on which the workloads are built by hand.

W1: each job enqueues the next one. W2: four jobs per instance, and a row that counts down to the join. W3: a
message is a job that marks the row of who waits. W4: jobs that may be executed from a moment on; they mark
that row as well, since elsewhere what waits is an instance that ends. `pgqueuer, empty jobs` leaves it out:
nothing happens but that the queue notes the job's end, which is the least that a timer can be.

A job is done when it is out of the queue: its end is written with those of others some time after its
function has returned, and until then a crash repeats it.
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
SENDERS = 16
CONNECTIONS = 10
ROWS = "CREATE TABLE bench_row (id bigint PRIMARY KEY, missing int NOT NULL)"
SEED = "INSERT INTO bench_row SELECT n, 4 FROM generate_series(0, $1::bigint) AS n"
ARRIVE = "UPDATE bench_row SET missing = missing - 1 WHERE id = $1 RETURNING missing"
DELIVER = "UPDATE bench_row SET missing = 0 WHERE id = $1"
LEFT = "SELECT count(*) FROM pgqueuer"
DUE = "SELECT extract(epoch FROM max(execute_after))::float FROM pgqueuer"
EMPTY = "pgqueuer, empty jobs"
JOBS = {"W2": 4}  # of one instance at the same time


def run(task: Task) -> Outcome:
    import uvloop

    uvloop.run(_install(task))
    if task.workload in ("W1", "W2"):
        uvloop.run(_seed(task))
    with crew(_work, task, lead=2 + task.number / 500) as workers, _counting(task) as done:
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
    jobs = [f"{n}:0" for n in range(task.number) for _ in range(4 if task.workload == "W2" else 1)]
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
    from pgqueuer.models import Job

    pool = await asyncpg.create_pool(task.url, min_size=CONNECTIONS, max_size=CONNECTIONS)
    app = PgQueuer.from_asyncpg_pool(pool)
    queries: Any = app.qm.queries

    def numbers(job: Job) -> tuple[int, int]:
        instance, step = (job.payload or b"").split(b":")
        return int(instance), int(step)

    @app.entrypoint("W1")
    async def step(job: Job) -> None:
        instance, number = numbers(job)
        if number < 4:
            await queries.enqueue("W1", f"{instance}:{number + 1}".encode())

    @app.entrypoint("W2")
    async def branch(job: Job) -> None:
        await pool.fetchval(ARRIVE, numbers(job)[0])

    @app.entrypoint("W3")
    async def message(job: Job) -> None:
        await pool.execute(DELIVER, numbers(job)[0])

    @app.entrypoint("W4")
    async def timer(job: Job) -> None:
        if task.peer != EMPTY:
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
    )


PEERS = (
    _peer("pgqueuer", frozenset({"W1", "W2", "W3", "W4"})),
    _peer(EMPTY, frozenset({"W4"})),
)
