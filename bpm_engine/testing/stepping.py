"""An engine driven one step at a time: the caller says which work is done next, and when time passes.

`run_until_idle` does what it finds in an order of its own. Scenarios must do one thing after the other, and
permutations must choose the order; both go through here, on the real engine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import sqlalchemy as sa

from bpm_engine.api.views import ExternalTask
from bpm_engine.core.changes import Applied
from bpm_engine.core.state import TimerStatus
from bpm_engine.core.stimuli import LeaseExpired
from bpm_engine.services.committer import claim_of
from bpm_engine.services.step import Submission
from bpm_engine.store import work as claims
from bpm_engine.store.schema import timer
from bpm_engine.testing.engine import TestEngine

WORKER = "robot"
FOREVER = "P3650D"
MOST_TURNS = 10_000  # without an end: the process goes round by itself


@dataclass(slots=True)
class Stepper:
    engine: TestEngine
    _external: list[ExternalTask] = field(default_factory=list)  # fetched, not answered

    # -------------------------------------------------------------- what happens by itself

    def settle(self) -> None:
        """Everything that needs neither a handler nor time."""
        runtime = self.engine._runtime
        for _ in range(MOST_TURNS):
            done = runtime.committer.run_once() + runtime.correlator.run_once()
            if not done and not self.do(_without_topic):
                return
        raise AssertionError(f"the process did not come to rest in {MOST_TURNS} turns")

    # -------------------------------------------------------------- handlers

    def ready(self) -> list[claims.Work]:
        """The work that handlers could do now, in order of its age."""
        found: list[claims.Work] = []

        def look(work: Sequence[claims.Work]) -> None:
            found.extend(each for each in work if each.token.topic is not None)

        self.engine._runtime.executor.run_chosen(look)
        return sorted(found, key=lambda each: each.token.id)

    def do(self, choose: Callable[[Sequence[claims.Work]], claims.Work | None]) -> bool:
        """Run what is chosen and commit its result; whether there was any."""
        submission, any_done = self.attempt(choose)
        if submission is not None:
            self.hand_in(submission)
        return any_done

    def attempt(
        self, choose: Callable[[Sequence[claims.Work]], claims.Work | None]
    ) -> tuple[Submission | None, bool]:
        """Run what is chosen; its result is not handed in. None: it has committed its own step."""
        chosen: list[claims.Work] = []

        def noting(work: Sequence[claims.Work]) -> claims.Work | None:
            picked = choose(sorted(work, key=lambda each: each.token.id))
            chosen.extend([picked] if picked is not None else [])
            return picked

        submission = self.engine._runtime.executor.run_chosen(noting)
        return submission, bool(chosen)

    def hand_in(self, submission: Submission) -> bool:
        """Commit a result; whether it took effect. A late one does not."""
        self.engine._runtime.committer.perform([submission])
        return isinstance(submission.outcome, Applied)

    def lose(self, submission: Submission) -> None:
        """The worker has died with this result: its lease runs out, the work is ready again."""
        claim = claim_of(submission.stimulus)
        assert claim is not None
        expired = LeaseExpired(token_id=claim.token_id, version=claim.version)
        self.engine._runtime.committer.perform([Submission(stimulus=expired, root=submission.root)])

    def external(self, process: str, node: str, topic: str, rank: int = 0) -> ExternalTask:
        """Work at a node for external workers; of several, by their age."""
        self._external += self.engine.external.fetch([topic], worker=WORKER, limit=100, lease=FOREVER)
        here = [each for each in self._external if (each.definition_key, each.node_id) == (process, node)]
        if rank >= len(here):
            raise AssertionError(f"there is no external work at {node}")
        task = sorted(here, key=lambda each: each.id)[rank]
        self._external.remove(task)
        return task

    # -------------------------------------------------------------- time

    def next_due(self) -> datetime | None:
        return self.engine._runtime.timers.next_due()

    def due_after(self, moment: datetime) -> datetime | None:
        """When the first timer is due that is due later than this."""
        waiting = sa.and_(timer.c.status == TimerStatus.SCHEDULED, timer.c.due_at > moment)
        with self.engine._runtime.store.reading() as tx:
            found: datetime | None = tx.execute(
                sa.select(sa.func.min(timer.c.due_at)).where(waiting)
            ).scalar()
        return found

    def pass_until(self, moment: datetime) -> None:
        """Time passes, and the timers that are due by then fire."""
        self.engine.clock.now = max(self.engine.clock.now, moment)
        while self.engine._runtime.timers.run_once():
            pass
        self.settle()

    def start_schedules(self) -> None:
        """Time passes until the next scheduled start; the ones after it are left out."""
        due = [each.due_at for each in self.engine.schedules.find(status="Active") if each.due_at]
        self.engine.clock.now = max(self.engine.clock.now, min(due))
        self.engine._runtime.schedules.run_once()
        self.settle()

    def stop_schedules(self) -> None:
        for schedule in self.engine.schedules.find(status="Active"):
            self.engine.schedules.pause(schedule.id)


def _without_topic(work: Sequence[claims.Work]) -> claims.Work | None:
    return next((each for each in work if each.token.topic is None), None)
