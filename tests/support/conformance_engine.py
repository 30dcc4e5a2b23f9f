"""The execution cases of others on a whole engine: the same rehearsal as in the core, another stage.

`EngineStage` answers to what a `Rehearsal` asks of its stage, with rows from a database and steps of an
engine.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from types import SimpleNamespace
from typing import cast

from support.conformance import Case, Rehearsal, Result, refused
from support.faulty import persistent
from support.scenarios.core_driver import Stage
from support.scenarios.engine_driver import EngineDriver, Engines, claimable, rows_of, take

from bpm_engine.bpmn.expressions.durations import parse_duration
from bpm_engine.bpmn.load import load
from bpm_engine.core.state import Instance, InstanceStatus, Timer, TimerStatus, Token, TokenState, Variables
from bpm_engine.core.stimuli import Claim, Stimulus
from bpm_engine.engine import Engine
from bpm_engine.store.work import load_work


def run_on(engines: Engines, engine: Callable[[], Engine], case: Case) -> Result:
    loaded = load(case.bpmn, support=True, soundness=False)
    if loaded.errors:
        return refused(loaded)
    engines.begin(case.id)
    try:
        rehearsal = Rehearsal(cast(Stage, EngineStage(engines, engine, case.bpmn)), case)
        rehearsal.run()
        return Result(rehearsal.outcome(), [rehearsal.state(instance) for instance in rehearsal.instances])
    finally:
        engines.end()


class EngineStage:
    def __init__(self, engines: Engines, engine: Callable[[], Engine], bpmn: bytes) -> None:
        self._clock = engines.clock
        self._engine = engine
        self._driver = EngineDriver(engine, engines.clock)
        self._driver.deploy(bpmn)
        graphs = {graph.key: graph for graph in load(bpmn, support=True, soundness=False).require().graphs}
        deployed = persistent(engine().definitions.find)()
        self.definitions = SimpleNamespace(graphs={each.id: graphs[each.key] for each in deployed})

    @property
    def now(self) -> datetime:
        return self._clock.now

    @now.setter
    def now(self, moment: datetime) -> None:
        self._clock.now = moment

    def start(self, variables: Variables, *, key: str) -> str:
        instance = persistent(self._engine().start)(key, variables)
        self._driver.settle()
        return instance.id

    def play(self, stimulus: Stimulus) -> None:
        claim = getattr(stimulus, "claim")  # noqa: B009 - a rehearsal plays answers to work only
        (token,) = (t for t in rows_of(self._engine()).tokens if t.id == claim.token_id)
        self._driver.perform(stimulus, token.root_instance_id)

    def jump(self, duration: str) -> None:
        self._driver.pause(parse_duration(duration))

    def claim(self, token: Token) -> Claim:
        return take(self._engine(), token).claim

    def seen_by(self, token: Token) -> Variables:
        return self._driver.look(lambda tx: load_work(tx, [token]))[0].variables

    def tokens(self) -> list[Token]:
        return rows_of(self._engine()).live

    def instance(self, instance_id: str) -> Instance:
        return rows_of(self._engine()).instances[instance_id]

    @property
    def incidents(self) -> list[str]:
        failed = [token for token in self.tokens() if token.state is TokenState.FAILED]
        return sorted(f"{(token.error or {})['code']}@{token.node_id}" for token in failed)

    def _ready(self, wanted: Callable[[Token], bool]) -> list[Token]:
        return [token for token in self.tokens() if claimable(token) and wanted(token)]

    def _due(self, until: datetime) -> list[Timer]:
        rows = rows_of(self._engine())
        running = {i.id for i in rows.instances.values() if i.status is InstanceStatus.RUNNING}
        due = [
            timer
            for timer in rows.timers
            if timer.status is TimerStatus.SCHEDULED
            and timer.due_at <= until
            and timer.instance_id in running
        ]
        return sorted(due, key=lambda timer: (timer.due_at, timer.id))
