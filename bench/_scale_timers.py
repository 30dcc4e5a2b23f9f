"""S1: a million timers are overdue after a downtime, and the engine starts.

One worker fires half of them while a caller starts instances and timers of another tenant become due. Then
workers are killed, one after the other, and a last one goes on to the end. History must tell of each timer
once, and of none before it was due.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
from _scale_processes import LOOK, Watch, Watching, Worker, call, warm_up
from _scale_rows import Span, fill_waiting
from _scale_setting import OTHER, at_most, call_alone, compared, engine_on_empty, figure, memory, say, settle
from _workloads import seed
from engine import Measured
from support.postgres.databases import Databases

from bpm_engine import Engine

NUMBER = 1_000_000
KILLS = 5
QUIET = 0.5  # the part of the timers that is fired before the first kill
OTHERS = 100  # timers of the other tenant
IN_TIME = 5  # seconds after they are due
STUCK = 60  # seconds without any progress
EXAMINED = 50_000  # instances up to which the doctor looks at every row in reasonable time

UNFINISHED = "SELECT count(*) FROM process_instance WHERE status = 'Running'"
FIRED = "FROM execution_log l JOIN timer t USING (instance_id) WHERE l.kind = 'fired'"


class Backlog:
    """The timers of the database, which fire in the order in which they were due."""

    def __init__(self, connection: psycopg.Connection, due: Span) -> None:
        self._connection = connection
        self._due = due

    def ask(self, query: str) -> float:
        """A number."""
        return float(self._value(query) or 0)

    def done(self) -> float:
        """The part of the overdue ones that has fired."""
        first = self._value("SELECT min(due_at) FROM timer WHERE status = 'Scheduled'")
        if first is None:
            return 1.0
        return float(min(1.0, (first - self._due.first) / (self._due.last - self._due.first)))

    def wait(self, share: float) -> None:
        """Until so much is done, with 1 also what followed; or nothing has happened for long."""
        last, since = -1.0, time.monotonic()
        while (done := self.done()) < share or (share == 1 and self.ask(UNFINISHED)):
            if done > last:
                last, since = done, time.monotonic()
            elif time.monotonic() - since > STUCK:
                return
            time.sleep(LOOK)

    def _value(self, query: str) -> Any:
        row = self._connection.execute(query).fetchone()
        return row[0] if row is not None else None


def overdue(server: Databases, size: float, rounds: int) -> list[Measured]:
    """All in one round: it takes long enough."""
    number = int(NUMBER * size)
    now = datetime.now(UTC)
    due = Span(now - timedelta(days=2), now - timedelta(days=1))
    with engine_on_empty(server) as (url, engine), psycopg.connect(url, autocommit=True) as connection:
        alone = call_alone(url, engine)
        fill_waiting(url, engine, number, due, say)
        settle(url)
        backlog = Backlog(connection, due)
        with Worker(url, "w8") as worker:
            watch = Watch(worker)
            _seed_others(engine, number)
            begun = time.perf_counter()
            worker.go()
            with Watching(watch, backlog.done):
                warm_up(engine, worker)
                beside = call(engine, worker, lambda calls: calls < 2 or watch.done < QUIET)
            rate = number * watch.done / (time.perf_counter() - begun)
            say(f"{watch.done:.0%} fired, {rate:,.0f} per second; now {KILLS} kills")
            worker.kill()
        _kill_the_others(url, backlog)
        seconds = time.perf_counter() - begun
        return [
            figure("S1 overdue timers, one worker", "timers/s", rate, f"{number:,} overdue"),
            figure(f"S1 the same with {KILLS} kills", "timers/s", number / seconds, f"{seconds:.0f} s"),
            *compared("S1", "overdue timers", alone, beside),
            *memory("S1", watch, QUIET),
            *_facts(backlog),
            *_doctor(engine, number),
        ]


def _seed_others(engine: Engine, number: int) -> None:
    """Timers of another tenant, due one by one from now on, while there is a backlog."""
    begin, last = datetime.now(UTC) + timedelta(seconds=1), timedelta(seconds=number / 10_000)
    dues = [begin + last * n / OTHERS for n in range(OTHERS)]
    seed(engine.tenant(OTHER), "w4", [{"due": due.isoformat()} for due in dues])


def _kill_the_others(url: str, backlog: Backlog) -> None:
    """One is dead already; the last is spared."""
    for number in range(1, KILLS + 1):
        with Worker(url) as worker:
            worker.go()
            if number == KILLS:
                backlog.wait(1)
            else:
                backlog.wait(QUIET + (1 - QUIET) * number / KILLS)
                worker.kill()
                say(f"killed at {backlog.done():.0%}")


def _facts(backlog: Backlog) -> list[Measured]:
    timers = backlog.ask("SELECT count(*) FROM timer")
    fired = backlog.ask(f"SELECT count(*) {FIRED}")
    instances = backlog.ask(f"SELECT count(DISTINCT l.instance_id) {FIRED}")
    early = backlog.ask(f"SELECT count(*) {FIRED} AND l.at < t.due_at")
    waited = f"SELECT extract(epoch FROM max(l.at - t.due_at)) {FIRED} AND t.tenant_id = '{OTHER}'"
    return [
        at_most("S1 another tenant's timer: the latest", "s after due", backlog.ask(waited), IN_TIME),
        at_most("S1 timers that did not fire", "timers", timers - instances, 0),
        at_most("S1 timers that fired twice", "timers", fired - instances, 0),
        at_most("S1 timers that fired early", "timers", early, 0),
        at_most("S1 instances that did not end", "instances", backlog.ask(UNFINISHED), 0),
    ]


def _doctor(engine: Engine, number: int) -> list[Measured]:
    if number > EXAMINED:
        return []
    found = [finding for each in (engine, engine.tenant(OTHER)) for finding in each.doctor()]
    return [at_most("S1 findings of the doctor", "findings", len(found), 0, ", ".join(f.name for f in found))]
