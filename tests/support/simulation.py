"""The whole engine in one thread, on SQLite in memory, with chance in the hands of a seed.

A few workers, clients and a clock take turns, action by action. Workers die before any statement and after
any COMMIT, and come back as new engines on the same database; they pause with work in hand beyond its lease;
statements fail, answers of COMMITs get lost, messages come twice, timers late. Then everything heals, and
what was accepted must have happened, exactly once. One seed is one run: `Run.trace` tells it.
"""

from __future__ import annotations

import hashlib
import random
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache
from typing import Any
from unittest import mock
from uuid import UUID

import sqlalchemy as sa
from support.faulty import Faults
from support.simulated_models import MODELS, PARTS

from bpm_engine import Config, ConflictError, Engine, UnavailableError
from bpm_engine.handlers import Work
from bpm_engine.services import committer, step
from bpm_engine.services.step import Submission
from bpm_engine.store.failures import CommitUnknownError
from bpm_engine.store.invariants import LIVENESS
from bpm_engine.store.sqlite import SQLite
from bpm_engine.testing import ManualClock

ACTIONS = 60
HEALING = 300
LEASE = 30.0
IDLE = {invariant.name for invariant in LIVENESS}


class Death(BaseException):
    """The process is gone: nothing in it runs on."""


@cache
def _template() -> tuple[sqlite3.Connection, Engine]:
    """A database in memory with the models deployed, to copy; its engine has compiled what all runs need."""
    engine = Engine("sqlite://", config=Config(), clock=ManualClock())
    for text in (*PARTS, *(model.bpmn for model in MODELS)):
        engine.deploy(text)
    database = engine._runtime.store.database
    assert isinstance(database, SQLite)
    return database._connect(), engine


@dataclass(slots=True, eq=False)
class Worker:
    number: int
    engine: Engine
    dies: bool = False  # at its next statement
    dies_after_commit: bool = False
    in_hand: list[Submission] = field(default_factory=list)  # done, not handed in


@dataclass(slots=True)
class Run:
    seed: int
    trace: list[str] = field(default_factory=list)
    deaths: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    started: dict[str, str] = field(default_factory=dict)  # business key -> model
    effects: dict[str, Counter[str]] = field(default_factory=dict)  # business key -> node -> distinct work
    _keys: set[str] = field(default_factory=set)
    _chance: random.Random = field(init=False)
    _clock: ManualClock = field(init=False)
    _workers: list[Worker] = field(default_factory=list)
    _anchor: sqlite3.Connection = field(init=False)
    _uri: str = ""
    _injected: Faults | None = None

    def __post_init__(self) -> None:
        self._chance = random.Random(self.seed)
        self._clock = ManualClock()

    # ---------------------------------------------------------------- the run

    def play(self) -> str:
        """The digest of all that happened; raises AssertionError where a promise was broken."""
        with self._deterministic():
            self._uri = f"file:/simulation-{self.seed}-{id(self)}?vfs=memdb"
            self._anchor = sqlite3.connect(self._uri, uri=True)
            _template()[0].backup(self._anchor)
            try:
                self._disturbed()
                self._heal()
                return self._judge()
            finally:
                for worker in self._workers:
                    worker.engine.close()
                self._anchor.close()

    def _disturbed(self) -> None:
        # As FoundationDB does: each run has faults of its own mixture, so that runs differ.
        rate = self._chance.choice((0.0, 0.005, 0.01, 0.03))
        deadly = self._chance.choice((0.0, 0.02, 0.08))
        self._injected = Faults(self._chance.randrange(2**32), rate)
        self._workers = [self._open(number) for number in range(self._chance.randint(2, 4))]
        actions = (
            (self._start, 3),
            (self._work, 6),
            (self._hand_in, 3),
            (self._sweep, 4),
            (self._send, 3),
            (self._person, 2),
            (self._pass_time, 2),
        )
        for _ in range(ACTIONS):
            worker = self._chance.choice(self._workers)
            if self._chance.random() < deadly:
                worker.dies, worker.dies_after_commit = self._chance.choice(((True, False), (False, True)))
            (action,) = self._chance.choices([a for a, _ in actions], [w for _, w in actions])
            self._attempt(worker, action)
        self.faults = self._injected.happened

    def _attempt(self, worker: Worker, action: Callable[[Worker], object]) -> None:
        name = action.__name__.strip("_")
        try:
            told = action(worker)
        except Death:
            told = "death"
            self._replace(worker)
        except CommitUnknownError:
            told = "unknown"
        except UnavailableError:
            told = "away"
        except ConflictError as error:
            told = f"refused: {type(error).__name__}"
        self.trace.append(f"{worker.number} {name}: {told}")

    # ---------------------------------------------------------------- actions

    def _start(self, worker: Worker) -> str:
        model = self._chance.choice(MODELS)
        key = f"{model.key}-{len(self.started)}"
        self.started[key] = model.key  # whatever the answer: the client asks again with the same key
        self._ask_for(worker.engine, key)
        return key

    def _ask_for(self, engine: Engine, key: str) -> None:
        engine.start(self.started[key], {"order": key}, business_key=key, idempotency_key=key)

    def _work(self, worker: Worker) -> str:
        """Claim and run one piece of work; the result stays in hand."""
        handed = worker.engine._runtime.executor.run_chosen(
            lambda work: self._chance.choice(work) if work else None
        )
        if handed is not None:
            worker.in_hand.append(handed)
        return "done" if handed else "nothing"

    def _hand_in(self, worker: Worker) -> int:
        results, worker.in_hand = worker.in_hand, []
        worker.engine._runtime.committer.perform(results)
        return len(results)

    def _sweep(self, worker: Worker) -> str:
        runtime = worker.engine._runtime
        sweeps = {
            "timers": runtime.timers.run_once,
            "recovery": runtime.recovery.run_once,
            "correlation": runtime.correlator.run_once,
            "queue": runtime.committer.run_once,
        }
        name = self._chance.choice(list(sweeps))
        return f"{name} {sweeps[name]()}"

    def _send(self, worker: Worker) -> str:
        if not self.started:
            return "nobody"
        key = self._chance.choice(list(self.started))
        name = self._chance.choice(("paid", "signed"))
        return self._tell(worker.engine, name, key)

    def _tell(self, engine: Engine, name: str, key: str) -> str:
        return str(engine.send_message(name, key, {name: key}, message_id=f"{name} {key}", ttl="PT10H"))

    def _person(self, worker: Worker) -> str:
        open_tasks = worker.engine.tasks.find(limit=100).items
        if not open_tasks:
            return "no task"
        task = self._chance.choice(open_tasks)
        worker.engine.tasks.complete(task.id, {"decided": True})
        return f"completes {task.node_id}"

    def _pass_time(self, worker: Worker) -> float:
        """Also back: somebody sets the clock of the server right."""
        seconds = self._chance.choice((0.1, 1, 5, LEASE + 1, 3_600, -5, -LEASE - 1))
        self._clock.now += timedelta(seconds=seconds)
        return seconds

    # ---------------------------------------------------------------- afterwards

    def _heal(self) -> None:
        """No faults any more: clients ask again, people and time go on, until nothing moves."""
        for worker in self._workers:
            worker.engine.close()
        self._injected = None
        healed = self._open(99)
        self._workers = [healed]
        engine = healed.engine
        for key in self.started:
            self._ask_for(engine, key)
            for name in ("paid", "signed"):
                self._tell(engine, name, key)
        for _ in range(HEALING):
            engine.run_until_idle()
            for task in engine.tasks.find(limit=100).items:
                engine.tasks.complete(task.id, {"decided": True})
            if not engine.instances.find(status="Running", limit=1).items:
                return
            self._clock.advance("PT10M")
        raise AssertionError(f"still running: {engine.instances.find(status='Running').items}")

    def _judge(self) -> str:
        engine = self._workers[0].engine
        assert [finding for finding in engine.doctor() if finding.name not in IDLE] == []
        told: list[str] = [*self.trace]
        for key, model_key in self.started.items():
            (view,) = engine.instances.find(business_key=key, definition=model_key).items
            assert view.status == "Completed", (key, view)
            passed = Counter(entry.node_id for entry in engine.history.steps(view.id))
            model = next(model for model in MODELS if model.key == model_key)
            assert model.allows(passed), (key, passed)
            assert model.effects(passed) == self.effects.get(key, Counter()), (
                key,
                passed,
                self.effects.get(key),
            )
            assert not model.order or tuple(self.effects[key]) == model.order, (key, self.effects[key])
            told.append(f"{key} {sorted(passed.items())}")
        return hashlib.sha256("\n".join(told).encode()).hexdigest()

    # ---------------------------------------------------------------- workers

    def _open(self, number: int) -> Worker:
        config = Config(
            worker_id=f"w{number}",
            lease=LEASE,
            auto_migrate=False,
            recoveries=1_000,
            pool_size=2,
            message_ttl=86_400,
        )
        engine = Engine("sqlite://", config=config, clock=self._clock)
        worker = Worker(number, engine)
        store = engine._runtime.store
        assert isinstance(store.database, SQLite)
        store.database._uri = self._uri
        self._share_what_is_compiled(engine)
        sa.event.listen(
            store.database.engine, "before_cursor_execute", lambda *_: self._die(worker, before=True)
        )
        if self._injected is not None:
            self._injected.spoil(engine)
        commit = store._commit

        def commit_and_die(connection: sa.Connection) -> None:
            commit(connection)
            self._die(worker, before=False)

        store._commit = commit_and_die  # type: ignore[method-assign]
        engine.handler("work")(self._effect)
        return worker

    def _share_what_is_compiled(self, engine: Engine) -> None:
        """Most of a run would be spent on compiling the same processes in each new engine."""
        template, runtime = _template()[1]._runtime, engine._runtime
        runtime.cache._compiled = template.cache._compiled

    def _effect(self, work: Work) -> dict[str, Any]:
        """Outside the engine: known by its key, so doing it again changes nothing."""
        if work.idempotency_key not in self._keys:
            self._keys.add(work.idempotency_key)
            self.effects.setdefault(str(work["order"]), Counter())[work.node_id] += 1
        return {}

    def _die(self, worker: Worker, *, before: bool) -> None:
        if worker.dies if before else worker.dies_after_commit:
            worker.dies = worker.dies_after_commit = False
            self.deaths += 1
            raise Death

    def _replace(self, worker: Worker) -> None:
        worker.engine.close()
        index = self._workers.index(worker)
        self._workers[index] = self._open(worker.number)

    @contextmanager
    def _deterministic(self) -> Iterator[None]:
        """Ids in order, jitter by seed, no pauses."""
        numbers = iter(range(1, 2**40))

        def next_id() -> UUID:
            return UUID(int=(0x0190 << 112) | (7 << 76) | (2 << 62) | next(numbers))

        before = random.getstate()
        random.seed(self.seed)
        try:
            with (
                mock.patch.object(step, "uuid7", next_id),
                mock.patch.object(committer.Committer, "_pause", return_value=None),
            ):
                yield
        finally:
            random.setstate(before)
