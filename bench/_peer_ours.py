"""This engine, measured as its peers are: by worker processes of its own on an empty database.

History and outbox are on and all services run, as by default. The instances are there before the workers
begin; messages are sent by threads of the workers, each its share. Settings such as BPM_BATCH come from the
environment.
"""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from _peers import Outcome, Peer, Shift, Task, after, crew, until

if TYPE_CHECKING:
    from bpm_engine import Engine

SENDERS = 400  # threads, of all workers together
LEAD = 3.0  # seconds until timers are due, and a moment for each of them


def run(task: Task) -> Outcome:
    from _workloads import FORK, MESSAGE, SEQUENCE, TIMER, seed

    files = {"W1": SEQUENCE, "W2": FORK, "W3": MESSAGE, "W4": TIMER}
    with _engine(task.url) as engine:
        engine.deploy(files[task.workload])
        key = task.workload.lower()

        def done() -> int:
            return task.number - engine.instances.count(definition=key, status="Running")

        if task.workload != "W4":
            seed(engine, key, [{"n": 0, "order": f"A-{n}"} for n in range(task.number)])
        with crew(_work, task, lead=LEAD + task.number / 1_000) as workers:
            if task.workload == "W4":
                due = datetime.fromtimestamp(workers.due(), UTC).isoformat()
                seed(engine, key, [{"due": due}] * task.number)
                return after(workers.due(), done, task)
            return until(done, task.number, task.seconds)


def run_in_memory(task: Task) -> Outcome:
    """Seconds of the processor, as for SpiffWorkflow."""
    from core import SEQUENCE, ours

    return Outcome(task.number, ours(SEQUENCE, task.number, 100, reload=False).seconds)


def _engine(url: str) -> Engine:
    from bpm_engine import Config, Engine

    return Engine(url, config=Config.from_environment(auto_migrate=True))


def _work(shift: Shift, share: range, task: Task) -> None:
    from _workloads import register, send_messages

    with _engine(task.url) as engine:
        register(engine)
        shift.begin()
        with engine.running():
            if task.workload == "W3":
                send_messages(engine, share, SENDERS // task.processes)
            threading.Event().wait()


def _peer(name: str, database: str, workers: int) -> Peer:
    return Peer(
        name=name,
        package="bpm-engine",
        modules=("bpm_engine",),
        database=database,
        supports=frozenset({"W1", "W2", "W3", "W4"}),
        processes=(workers,),
        pace=1.0,
        run=run,
        timers=1.0,
    )


PEERS = (
    _peer("bpm_engine", "PostgreSQL", 1),
    _peer("bpm_engine, two workers", "PostgreSQL", 2),
    _peer("bpm_engine on SQLite", "SQLite", 1),
    Peer(
        name="bpm_engine in memory",
        package="bpm-engine",
        modules=("bpm_engine",),
        database="none",
        supports=frozenset({"W5"}),
        processes=(1,),
        pace=1.0,
        run=run_in_memory,
    ),
)
