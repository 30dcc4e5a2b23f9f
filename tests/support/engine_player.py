"""Plays a generated process through whole engines on a database, with the interface of `support.player`.

What `Performance` looks at is read from the tables after every step, by an engine of its own. The engines
that act take turns, may be replaced by new ones after every step, and may have faults. A database in memory
is that of the observer, which the others open by its address.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from support.faulty import Faults, persistent
from support.generator.xml import PROCESS
from support.player import Player
from support.scenarios.engine_rows import read_rows
from support.world import World

from bpm_engine import Config, Engine
from bpm_engine.bpmn.graph import Graph
from bpm_engine.core import stimuli as s
from bpm_engine.core.changes import Outcome
from bpm_engine.core.state import Token, Variables
from bpm_engine.services.step import Submission
from bpm_engine.store import records
from bpm_engine.store import work as claims
from bpm_engine.store.sqlite import SQLite
from bpm_engine.testing import ManualClock

CONFIG = Config(auto_migrate=False, pool_size=2, lease=86_400, recoveries=1_000)
MOST_TURNS = 1_000
MEMORY = "sqlite://"


class EnginePlayer(Player):
    def __init__(
        self,
        url: str,
        xml: str,
        *graphs: Graph,
        engines: int = 1,
        restarts: bool = False,
        faults: Faults | None = None,
        config: Config = CONFIG,
    ) -> None:
        self._clock = ManualClock()
        super().__init__(*graphs, check=False)
        self._url, self._restarts, self._faults, self._config = url, restarts, faults, config
        self.observer = Engine(url, config=replace(config, auto_migrate=url == MEMORY), clock=self._clock)
        self.observer.deploy(xml)
        self._engines = [self._open() for _ in range(engines)]

    def close(self) -> None:
        for engine in (self.observer, *self._engines):
            engine.close()

    def _open(self) -> Engine:
        engine = Engine(self._url, config=self._config, clock=self._clock)
        _share(self.observer, engine)
        if self._faults is not None:
            self._faults.spoil(engine)
        return engine

    def _next(self) -> Engine:
        """Whose turn it is; a new one where engines do not live longer than a step."""
        engine = self._engines.pop(0)
        if self._restarts:
            engine.close()
            engine = self._open()
        self._engines.append(engine)
        return engine

    @property
    def now(self) -> datetime:
        return self._clock.now

    @now.setter
    def now(self, moment: datetime) -> None:
        self._clock.now = moment

    # ---------------------------------------------------------------- stimuli

    def start(self, variables: Variables | None = None, *, key: str | None = None, **fields: Any) -> str:
        begin = persistent(self._next().start)
        self.root = begin(key or PROCESS, variables, idempotency_key="the one").id
        self._go_on()
        return self.root

    def play(self, *stimuli: s.Stimulus) -> list[Outcome]:
        submissions = [Submission(stimulus=stimulus, root=self.root) for stimulus in stimuli]
        outcomes = persistent(self._next()._runtime.perform)(submissions)
        self._go_on()
        return outcomes

    def message(self, name: str, key: str | None = None, payload: Variables | None = None) -> str:
        result = persistent(self._next().send_message)(name, key, payload, message_id=self.new_id())
        self._go_on()
        return result

    def claim(self, token: Token) -> s.Claim:
        (chosen,) = self._claimed(lambda work: work.token.id == token.id)
        return chosen.claim

    def _claimed(self, wanted: Callable[[claims.Work], bool]) -> list[claims.Work]:
        """One that is wanted, claimed; the others are ready again. Whoever cannot claim tries again."""
        executor = self._next()._runtime.executor
        work = persistent(executor.claims.claim)(1_000, executor.claims.wanted())
        chosen = [each for each in work if wanted(each)][:1]
        with self.observer._runtime.store.transaction() as tx:
            claims.release_tokens(tx, [each.claim for each in work if each not in chosen])
        return chosen

    def _go_on(self) -> None:
        """What an engine does by itself, but for timers, which fire when told."""
        for _ in range(MOST_TURNS):
            runtime = self._next()._runtime
            done = persistent(runtime.committer.run_once)() + persistent(runtime.correlator.run_once)()
            rested = self._claimed(lambda work: work.token.topic is None)
            for each in rested:
                going_on = Submission(stimulus=s.Continued(claim=each.claim), root=self.root)
                persistent(self._next()._runtime.perform)([going_on])
            if not done and not rested:
                self._look()
                return
        raise AssertionError(f"the process did not come to rest in {MOST_TURNS} turns")

    # ---------------------------------------------------------------- looking

    def _look(self) -> None:
        store = self.observer._runtime.store
        rows, world = read_rows(store), World()
        world.instances.update_rows(rows.instances.values())
        world.scopes.update_rows(rows.scopes.values())
        world.tokens.update_rows(rows.tokens)
        world.timers.update_rows(rows.timers)
        world.subscriptions.update_rows(rows.subscriptions)
        with store.reading() as tx:
            world.tasks.update_rows(records.TASK.read(tx.execute(sa.select(*records.TASK.columns))))
        self.world = world
        self.log = [entry for entries in rows.log.values() for entry in entries]


def _share(owner: Engine, guest: Engine) -> None:
    """The address of the database, also where it is in memory."""
    known, other = owner._runtime.store.database, guest._runtime.store.database
    if isinstance(known, SQLite) and isinstance(other, SQLite):
        other._uri = known._uri
