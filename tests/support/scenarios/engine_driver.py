"""Scenarios on a whole engine: deploy, claims, the one writer, sweeps and correlation, on a real database.

The driver is the worker: it claims through the store and hands in answers like the executor, one at a time
and in a known order, because scenarios say when each answer comes. Everything else the engine does by itself
is done after each step, in the foreground, by its own services. Time is a manual clock.

`engine` gives the engine for the next thing to do, so that one scenario may be played by a fresh engine each
time or by several engines that take turns on one database. With `BPM_TEST_FAULTS` their database fails now
and then, and the driver tries again, as those who call are told to.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeVar

import sqlalchemy as sa
from support.databases import empty
from support.faulty import faults_of, persistent, seed_of
from support.player import active_scope_around
from support.scenarios.core_driver import FAILURE, reply
from support.scenarios.driver import Handler, Report, Seen
from support.scenarios.engine_rows import Rows, read_rows, report
from support.scenarios.format import Answer, Reply, Variables

from bpm_engine.bpmn.expressions.durations import Duration
from bpm_engine.bpmn.graph import Graph
from bpm_engine.bpmn.load import load
from bpm_engine.config import Config
from bpm_engine.core import stimuli
from bpm_engine.core.changes import Outcome, Refused
from bpm_engine.core.retry import RetryPolicy
from bpm_engine.core.state import HumanTask, TaskStatus, Token, TokenState
from bpm_engine.engine import Engine
from bpm_engine.services.intake import MessageResult
from bpm_engine.services.step import Submission, new_id
from bpm_engine.store import records, schema, work
from bpm_engine.store.clock import ManualClock
from bpm_engine.store.transaction import Transaction
from bpm_engine.store.work import Topics

T = TypeVar("T")
WORKER = "worker"
LEASE = timedelta(days=10_000)
ONLY_AUTOMATIC = Topics(automatic=True)
POLICY = RetryPolicy(jitter=0)
CONFIG = Config(soundness="off", sqlite_synchronous="NORMAL", auto_migrate=False, pool_size=2)
ROUNDS = 1_000


class Engines:
    """Two engines on one database, made once for many scenarios: compiling their SQL is what takes long.

    One of them alone plays a scenario; or both, and chance, repeatable by its seed, says whose turn it is; or
    each time a fresh one that knows nothing but what is in the database.
    """

    def __init__(self, url: str) -> None:
        self.clock = ManualClock()
        self._url = url
        self._faults = faults_of(url)
        self._engines = [self._new() for _ in range(2)]
        self._random = random.Random()
        if self._faults is not None:
            for engine in self._engines:
                self._faults.spoil(engine)

    def _new(self) -> Engine:
        return Engine(self._url, config=CONFIG, clock=self.clock)

    def one(self) -> Engine:
        return self._engines[0]

    def either(self) -> Engine:
        return self._random.choice(self._engines)

    def fresh(self) -> Engine:
        """All its own but the connections and the compiled statements."""
        engine = self._new()
        engine._runtime.store.database = self._engines[0]._runtime.store.database
        if self._faults is not None:
            self._faults.spoil_commits(engine)
        return engine

    def begin(self, seed: str) -> None:
        """A new scenario on an empty database."""
        self.clock.now = ManualClock().now
        self._random.seed(seed)
        faults = seed_of(seed)
        if self._faults is not None and faults is not None:
            self._faults.begin(faults)

    def end(self) -> None:
        empty(self._url)

    def close(self) -> None:
        for engine in self._engines:
            engine.close()


@dataclass(frozen=True, slots=True)
class Claimed:
    work: work.Work
    answer: Answer

    @property
    def token(self) -> Token:
        return self.work.token


class EngineDriver:
    """The driver protocol on engines that share a database and a clock."""

    def __init__(self, engine: Callable[[], Engine], clock: ManualClock) -> None:
        self.seen: list[Seen] = []
        self._engine = engine
        self._clock = clock
        self._root = ""
        self._graphs: tuple[Graph, ...] = ()
        self._claimed: dict[str, Claimed] = {}

    def deploy(self, bpmn: bytes) -> None:
        self._graphs = tuple(load(bpmn, support=True, soundness=False).require().graphs)
        engine = self._engine()
        persistent(engine.deploy)(bpmn)

    def start(self, process: str | None, at: str | None, variables: Variables) -> str | None:
        engine = self._engine()
        definition = persistent(engine.definitions.get)(process or self._graphs[0].key)
        self._root = new_id()
        started = stimuli.Started(
            instance_id=self._root,
            tenant_id="default",
            definition_id=definition.id,
            variables=dict(variables),
            at=at,
        )
        engine = self._engine()
        (outcome,) = perform(engine, started, self._root)
        self.settle()
        return outcome.code if isinstance(outcome, Refused) else None

    # ---------------------------------------------------------------- work

    def work(self, handler: Handler, node: str | None = None) -> bool:
        claimed = self._claim(handler, node)
        if claimed is None:
            return False
        self._answer(claimed)
        return True

    def claim(self, handler: Handler, node: str) -> None:
        claimed = self._claim(handler, node)
        assert claimed is not None, f"there is no work at {node}"
        self._claimed[node] = claimed

    def finish(self, node: str) -> Reply:
        return self._answer(self._claimed[node])

    def expire(self, node: str) -> Reply:
        """Only this lease runs out; no time passes for anything else."""
        token = self._claimed[node].token
        over = schema.token.update().values(lease_until=self._clock.now).where(schema.token.c.id == token.id)
        engine = self._engine()

        def run_out() -> None:
            with engine._runtime.store.transaction() as tx:
                tx.execute(over.where(schema.token.c.version == token.version))

        persistent(run_out)()
        found = persistent(engine._runtime.recovery.run_once)()
        self.settle()
        return "applied" if found else "stale"

    def _claim(self, handler: Handler, node: str | None) -> Claimed | None:
        engine = self._engine()
        taken = _take_one(engine, node)
        if taken is None:
            return None
        self.seen.append(Seen(taken.token.node_id, taken.variables))
        return Claimed(taken, handler(taken.token.node_id, taken.variables))

    def _answer(self, claimed: Claimed) -> Reply:
        claim, answer = claimed.work.claim, claimed.answer
        stimulus: stimuli.Stimulus
        if answer.error is not None:
            stimulus = stimuli.ErrorThrown(claim=claim, code=answer.error, variables=dict(answer.result))
        elif answer.failure is not None:
            failure = stimuli.Failure(code=FAILURE, message=answer.failure)
            stimulus = stimuli.WorkFailed(claim=claim, failure=failure, final=answer.final, policy=POLICY)
        else:
            stimulus = stimuli.WorkCompleted(claim=claim, variables=dict(answer.result))
        return self.perform(stimulus, claimed.token.root_instance_id)

    # ---------------------------------------------------------------- events

    def advance(self, by: Duration) -> None:
        until = by.add(self._clock.now)
        while (due := self._next_due(until)) is not None:
            self._clock.now = due
            self.settle()
        self._clock.now = until
        self.settle()

    def pause(self, by: Duration) -> None:
        self._clock.now = by.add(self._clock.now)
        self.settle()

    def _next_due(self, until: datetime) -> datetime | None:
        times = []
        for table, status in ((schema.timer, "Scheduled"), (schema.schedule, "Active")):
            due = table.c.due_at
            later = sa.select(sa.func.min(due)).where(
                table.c.status == status, due > self._clock.now, due <= until
            )
            times.append(self._first(later))
        return min((moment for moment in times if moment is not None), default=None)

    def _first(self, query: sa.Select[tuple[datetime]]) -> datetime | None:
        return self.look(lambda tx: tx.execute(query).scalar())

    def message(self, name: str, key: str | None, payload: Variables, message_id: str | None) -> Reply:
        engine = self._engine()
        result = persistent(engine.send_message)(name, key, payload, message_id=message_id)
        self.settle()
        return "applied" if result in (MessageResult.DELIVERED, MessageResult.STARTED) else "stale"

    def signal(self, name: str, payload: Variables) -> None:
        engine = self._engine()
        persistent(engine.send_signal)(name, payload)
        self.settle()

    # ---------------------------------------------------------------- people

    def complete(self, node: str, variables: Variables) -> Reply:
        query = sa.select(*records.TASK.columns).where(schema.human_task.c.node_id == node)
        ordered = query.order_by(schema.human_task.c.id)
        tasks: list[HumanTask] = self.look(lambda tx: records.TASK.read(tx.execute(ordered)))
        chosen = next((task for task in tasks if task.status is TaskStatus.OPEN), tasks[-1])
        return self.perform(
            stimuli.TaskCompleted(task_id=chosen.id, variables=dict(variables)), chosen.root_instance_id
        )

    def cancel(self) -> Reply:
        self._find_root()
        return self.perform(stimuli.CancelRequested(instance_id=self._root))

    def suspend(self) -> Reply:
        self._find_root()
        return self.perform(stimuli.SuspendRequested(instance_id=self._root))

    def resume(self) -> Reply:
        self._find_root()
        return self.perform(stimuli.ResumeRequested(instance_id=self._root))

    def retry(self, node: str, variables: Variables) -> Reply:
        failed = self._failed_at(node)
        request = stimuli.RetryRequested(
            instance_id=failed.instance_id, token_id=failed.id, variables=dict(variables)
        )
        return self.perform(request, failed.root_instance_id)

    def skip(self, node: str, variables: Variables) -> Reply:
        failed = self._failed_at(node)
        request = stimuli.SkipRequested(token_id=failed.id, variables=dict(variables))
        return self.perform(request, failed.root_instance_id)

    def set_variables(self, variables: Variables) -> Reply:
        self._find_root()
        return self.perform(stimuli.VariablesSet(instance_id=self._root, variables=dict(variables)))

    def activate(self, node: str, variables: Variables) -> Reply:
        scopes = rows_of(self._engine()).scopes.values()
        place = active_scope_around(self._graphs, scopes, node)
        return self.perform(
            stimuli.ActivitySelected(
                instance_id=self._root, node_id=node, variables=dict(variables), scope_id=place
            )
        )

    def move(self, source: str, target: str) -> Reply:
        return self.perform(stimuli.TokensMoved(instance_id=self._root, from_node=source, to_node=target))

    def _failed_at(self, node: str) -> Token:
        engine = self._engine()
        live = rows_of(engine).live
        return next(t for t in live if t.state is TokenState.FAILED and t.node_id == node)

    def perform(self, stimulus: stimuli.Stimulus, root: str = "") -> Reply:
        engine = self._engine()
        (outcome,) = perform(engine, stimulus, root or self._root)
        self.settle()
        return reply(outcome)

    # ---------------------------------------------------------------- what the engine does by itself

    def settle(self) -> None:
        for _ in range(ROUNDS):
            if not any([self._let(_continue), self._let(_queued), self._let(_sweep), self._let(_correlate)]):
                return
        raise AssertionError(f"the engine does not come to rest within {ROUNDS} rounds")

    def _let(self, do: Callable[[Engine], int]) -> int:
        engine = self._engine()
        return do(engine)

    def look(self, look: Callable[[Transaction], T]) -> T:
        store = self._engine()._runtime.store

        def once() -> T:
            with store.reading() as tx:
                return look(tx)

        return persistent(once)()

    def _find_root(self) -> None:
        """Of what a message or signal has started, the first."""
        if not self._root:
            instances = rows_of(self._engine()).instances.values()
            self._root = min((row.id for row in instances if row.depth == 0), default="")

    def report(self) -> Report:
        engine = self._engine()
        self._find_root()
        findings = [str(finding) for finding in persistent(engine.doctor)()]
        assert findings == [], findings
        return report(rows_of(engine), self._root, self._graphs, self.seen)


def perform(engine: Engine, stimulus: stimuli.Stimulus, root: str) -> list[Outcome]:
    return persistent(engine._runtime.perform)([Submission(stimulus=stimulus, root=root)])


def rows_of(engine: Engine) -> Rows:
    return persistent(read_rows)(engine._runtime.store)


def _continue(engine: Engine) -> int:
    """Tokens that rest without needing a handler."""
    tokens = _claim_automatic(engine)
    for token in tokens:
        claim = stimuli.Claim(token_id=token.id, version=token.version, owner=WORKER)
        perform(engine, stimuli.Continued(claim=claim), token.root_instance_id)
    return len(tokens)


@persistent
def _claim_automatic(engine: Engine) -> list[Token]:
    with engine._runtime.store.transaction() as tx:
        return work.claim_tokens(tx, owner=WORKER, limit=1, lease=LEASE, topics=ONLY_AUTOMATIC)


def _queued(engine: Engine) -> int:
    return persistent(engine._runtime.committer.run_once)()


def _sweep(engine: Engine) -> int:
    return persistent(engine._runtime.timers.run_once)() + persistent(engine._runtime.schedules.run_once)()


def _correlate(engine: Engine) -> int:
    return persistent(engine._runtime.correlator.run_once)()


def _take_one(engine: Engine, node: str | None) -> work.Work | None:
    live = rows_of(engine).live
    ready = [t for t in live if t.topic and claimable(t) and node in (None, t.node_id)]
    return take(engine, ready[0]) if ready else None


@persistent
def take(engine: Engine, token: Token) -> work.Work:
    """Claims by topic as a worker does; what is not wanted is given back as it is when a worker stops."""
    wanted = Topics(names=frozenset({token.topic or ""}), automatic=False)
    with engine._runtime.store.transaction() as tx:
        tokens = work.claim_tokens(tx, owner=WORKER, limit=1_000, lease=LEASE, topics=wanted)
        (chosen,) = (each for each in tokens if each.id == token.id)
        others = [
            stimuli.Claim(token_id=t.id, version=t.version, owner=WORKER) for t in tokens if t is not chosen
        ]
        work.release_tokens(tx, others)
        (taken,) = work.load_work(tx, [chosen])
        return taken


def claimable(token: Token) -> bool:
    return token.state is TokenState.READY and not token.held
