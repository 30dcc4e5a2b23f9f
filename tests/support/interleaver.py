"""Engine threads that take turns statement by statement, in an order that a schedule decides.

Each actor is a thread with an engine of its own, as if in another process. It stops at a gate before every
statement and every COMMIT; one of those that can go on is let through at a time. On PostgreSQL an actor that
waits for a lock of another is seen through `pg_blocking_pids` and passed over until it is free; on SQLite one
that would begin to write while another writes is not let through.

A schedule is a seed, or one of all with at most so many preemptions: both repeat exactly.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import Any, Protocol

import psycopg
import sqlalchemy as sa

from bpm_engine import Engine

LOOK = 0.002  # seconds without news before the database is asked who waits for whom
PATIENCE = 60.0  # seconds after which a schedule is stuck
BLOCKED = "SELECT pid FROM unnest(%s::int[]) AS pid WHERE cardinality(pg_blocking_pids(pid)) > 0"


class Place(Enum):
    GATE = "before a statement"
    FREE = "let through, not back yet"
    DONE = "ended"


@dataclass(slots=True, eq=False)
class Actor:
    number: int
    call: Callable[[], Any]
    place: Place = Place.FREE
    statement: str = ""
    backend: int | None = None
    writes: bool = False  # SQLite: inside BEGIN IMMEDIATE
    result: Any = None
    error: BaseException | None = None


class Schedule(Protocol):
    def choose(self, ready: Sequence[int], last: int | None) -> int:
        """Which of these actors goes on; `last` is who went last."""


class Seeded:
    """Any order, by chance."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._chance = random.Random(seed)

    def __repr__(self) -> str:
        return f"Seeded({self.seed})"

    def choose(self, ready: Sequence[int], last: int | None) -> int:
        return self._chance.choice(ready)


@dataclass(slots=True)
class Chosen:
    """Follows `prefix`, then goes straight on; keeps the trail of what else was possible."""

    prefix: list[int]
    preemptions: int
    trail: list[tuple[int, int]] = field(default_factory=list)  # option taken, number of options

    def choose(self, ready: Sequence[int], last: int | None) -> int:
        options = self._options(ready, last)
        taken = self.prefix[len(self.trail)] if len(self.trail) < len(self.prefix) else 0
        taken = min(taken, len(options) - 1)
        self.trail.append((taken, len(options)))
        if last in ready and options[taken] != last:
            self.preemptions -= 1
        return options[taken]

    def _options(self, ready: Sequence[int], last: int | None) -> list[int]:
        if last is None or last not in ready:
            return list(ready)
        others = [number for number in ready if number != last]
        return [last, *others] if self.preemptions > 0 else [last]


def every_schedule(preemptions: int) -> Iterator[Chosen]:
    """All orders in which a running actor is interrupted at most so often. Run each before asking for the
    next."""
    prefix: list[int] = []
    while True:
        schedule = Chosen(prefix, preemptions)
        yield schedule
        trail = schedule.trail
        while trail and trail[-1][0] + 1 >= trail[-1][1]:
            trail.pop()
        if not trail:
            return
        prefix = [taken for taken, _ in trail]
        prefix[-1] += 1


class Interleaver:
    """Runs one function per engine, in the order of a schedule."""

    def __init__(self, url: str, engines: Sequence[Engine]) -> None:
        self.engines = engines
        self.statements = 0
        self._news = threading.Condition()
        self._actors: dict[int, Actor] = {}  # by thread
        self._monitor = None if url.startswith("sqlite") else psycopg.connect(url, autocommit=True)
        for engine in engines:
            database = engine._runtime.store.database.engine
            sa.event.listen(database, "before_cursor_execute", self._before_statement)
            sa.event.listen(database, "commit", self._before_commit)
            sa.event.listen(database, "rollback", self._rolled_back)

    def close(self) -> None:
        if self._monitor is not None:
            self._monitor.close()

    def run(self, calls: Sequence[Callable[[Engine], Any]], schedule: Schedule) -> list[Actor]:
        """Each call with its engine, in a thread of its own; what became of each."""
        actors = [
            Actor(number, partial(call, engine))
            for number, (call, engine) in enumerate(zip(calls, self.engines, strict=False))
        ]
        threads = [threading.Thread(target=self._act, args=(actor,), daemon=True) for actor in actors]
        last: int | None = None
        for thread in threads:
            thread.start()
        while ready := self._ready(actors):
            last = schedule.choose(ready, last)
            self._let_through(actors[last])
        for thread in threads:
            thread.join()
        self._actors.clear()
        return actors

    # ---------------------------------------------------------------- the actor's side

    def _act(self, actor: Actor) -> None:
        self._actors[threading.get_ident()] = actor
        try:
            actor.result = actor.call()
        except Exception as error:  # noqa: BLE001 - told to who asked for the schedule
            actor.error = error
        with self._news:
            actor.place, actor.writes = Place.DONE, False
            self._news.notify_all()

    def _stop(self, actor: Actor, statement: str) -> None:
        with self._news:
            actor.statement, actor.place = statement, Place.GATE
            self._news.notify_all()
            self._news.wait_for(lambda: actor.place is Place.FREE)

    def _before_statement(
        self, connection: sa.Connection, cursor: Any, statement: str, parameters: Any, *_: Any
    ) -> None:
        actor = self._actors.get(threading.get_ident())
        if actor is None:
            return
        if self._monitor is not None:
            driver = connection.connection.driver_connection
            assert isinstance(driver, psycopg.Connection)
            actor.backend = driver.info.backend_pid
        self._stop(actor, statement)
        if statement.startswith("BEGIN IMMEDIATE"):
            actor.writes = True

    def _before_commit(self, connection: sa.Connection) -> None:
        actor = self._actors.get(threading.get_ident())
        if actor is not None:
            self._stop(actor, "COMMIT")
            actor.writes = False

    def _rolled_back(self, connection: sa.Connection) -> None:
        actor = self._actors.get(threading.get_ident())
        if actor is not None:
            actor.writes = False

    # ---------------------------------------------------------------- the scheduler's side

    def _ready(self, actors: Sequence[Actor]) -> list[int]:
        """Who can go on, once nobody is on the way; empty: all have ended."""
        with self._news:
            for _ in range(round(PATIENCE / LOOK)):
                on_the_way = [actor for actor in actors if actor.place is Place.FREE]
                if on_the_way and self._news.wait(LOOK):
                    continue
                if len(self._waiting_for_locks(on_the_way)) == len(on_the_way):
                    ready = [a.number for a in actors if a.place is Place.GATE and self._may_go(a, actors)]
                    if ready or not on_the_way:
                        return ready
        raise AssertionError(f"stuck: {[(a.number, a.place, a.statement[:80]) for a in actors]}")

    def _waiting_for_locks(self, on_the_way: Sequence[Actor]) -> list[Actor]:
        backends = [actor.backend for actor in on_the_way if actor.backend is not None]
        if self._monitor is None or not backends:
            return []
        blocked = {row[0] for row in self._monitor.execute(BLOCKED, [backends])}
        return [actor for actor in on_the_way if actor.backend in blocked]

    def _may_go(self, actor: Actor, actors: Sequence[Actor]) -> bool:
        wants_to_write = actor.statement.startswith("BEGIN IMMEDIATE")
        return not (wants_to_write and any(other.writes for other in actors))

    def _let_through(self, actor: Actor) -> None:
        self.statements += 1
        with self._news:
            actor.place = Place.FREE
            self._news.notify_all()
