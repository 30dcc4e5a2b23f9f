"""One run of a permutation: turn after turn, chosen by chance from what is possible, with accidents.

Without chance it is the ordinary run that all others are compared with: the oldest work first, then people,
then messages in their order, then time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

from bpm_engine.core.changes import Changes
from bpm_engine.core.state import Instance
from bpm_engine.handlers import Work
from bpm_engine.services.step import Submission
from bpm_engine.store import work as claims
from bpm_engine.store.statistics import Load
from bpm_engine.testing.engine import TestEngine
from bpm_engine.testing.outcome import Outcome, outcome_of
from bpm_engine.testing.stepping import Stepper

if TYPE_CHECKING:
    from bpm_engine.testing.permutation import Incoming

MOST_TURNS = 5_000
CRASH = 0.25  # of the runs of handlers
CRASHES = 2  # of one piece of work: more would make it an incident
DUPLICATE = 0.3  # of the turns while there is something to repeat
LATE_ANSWER = 0.5  # of the dead workers turn out to live
LATEST = timedelta(hours=1)


@dataclass(slots=True)
class Calls:
    """Watches handlers run: an effect is named by its idempotency key."""

    nodes: dict[str, str] = field(default_factory=dict)  # idempotency key -> node

    def attached(self, load: Callable[[], Load]) -> None:
        """Nothing to prepare."""

    def committed(self, changes: Sequence[Changes], instances: Mapping[str, Instance]) -> None:
        """What is committed is read in the end."""

    def swept(self, what: str, number: int) -> None:
        """Nothing is swept here."""

    def refused(self, kind: str) -> None:
        """One caller is no overload."""

    def paused(self, topic: str, is_paused: bool) -> None:
        """Topics are paused by services alone."""

    def running(self, work: Work) -> AbstractContextManager[None]:
        return self._noted(work)

    @contextmanager
    def _noted(self, work: Work) -> Iterator[None]:
        self.nodes[work.idempotency_key] = work.node_id
        yield


class Run:
    def __init__(
        self,
        engine: TestEngine,
        chance: Random | None,
        people: Mapping[str, Mapping[str, Any]],
        messages: list[Incoming],
        *,
        crashes: bool,
        late: bool,
        horizon: timedelta,
    ) -> None:
        self._engine = engine
        self._stepper = Stepper(engine)
        self._chance = chance
        self._people = people
        self._coming = list(enumerate(messages))
        self._sent: list[tuple[int, Incoming]] = []
        self._crashes: Counter[str] = Counter()
        self._crashing = crashes and chance is not None
        self._late = late and chance is not None
        self._until = engine.clock.now + horizon
        self._dead: list[tuple[str, Submission]] = []  # answers of workers that are taken for dead
        self._calls = Calls()
        self._wrong: list[str] = []
        self.turns: list[str] = []
        self.happened: Counter[str] = Counter()

    def play(self, setup: Callable[[TestEngine], Any]) -> Outcome:
        self._engine.observe(self._calls)
        tell = setup(self._engine)
        self._stepper.stop_schedules()
        for _ in range(MOST_TURNS):
            self._stepper.settle()
            if not self._turn():
                state = tell() if callable(tell) else None
                return outcome_of(self._engine, self._calls.nodes, state, self._wrong)
        raise AssertionError(f"no rest after {MOST_TURNS} turns; a shorter horizon may help")

    # -------------------------------------------------------------- turns

    def _turn(self) -> bool:
        """Do one of the things that can be done; False: nothing is left."""
        possible = [*self._work(), *self._tasks(), *self._messages()]
        extra = [*self._late_answers(), *self._duplicates()]
        if extra and (not possible or self._happens(DUPLICATE)):
            possible = extra
        if possible:
            self._choose(possible)()
            return True
        return self._time()

    def _happens(self, share: float) -> bool:
        return self._chance is not None and self._chance.random() < share

    def _choose(self, possible: Sequence[Callable[[], None]]) -> Callable[[], None]:
        return possible[0] if self._chance is None else self._chance.choice(possible)

    def _note(self, kind: str, what: str) -> None:
        self.happened[kind] += 1
        self.turns.append(f"{kind}: {what}")

    # -------------------------------------------------------------- work

    def _work(self) -> Iterator[Callable[[], None]]:
        for work in self._stepper.ready():
            yield partial(self._do, work)

    def _do(self, wanted: claims.Work) -> None:
        token = wanted.token

        def choose(work: Sequence[claims.Work]) -> claims.Work | None:
            return next((each for each in work if each.token.id == token.id), None)

        submission, _ = self._stepper.attempt(choose)
        if submission is None:  # a transactional handler: its effect and its step are one commit
            self._note("work", token.node_id)
        elif self._crashing and self._crashes[token.id] < CRASHES and self._happens(CRASH):
            self._crashes[token.id] += 1
            self._stepper.lose(submission)
            self._note("crash", f"{token.node_id}: the worker died with its answer")
            if self._happens(LATE_ANSWER):
                self._dead.append((token.node_id, submission))
        else:
            self._stepper.hand_in(submission)
            self._note("work", token.node_id)

    def _late_answers(self) -> Iterator[Callable[[], None]]:
        for number in range(len(self._dead)):
            yield partial(self._answer_late, number)

    def _answer_late(self, number: int) -> None:
        node, submission = self._dead.pop(number)
        self._note("late answer", f"{node}: the worker lives after all")
        if self._stepper.hand_in(submission):
            self._wrong.append(f"{node}: the answer of a worker that had lost its lease took effect")

    # -------------------------------------------------------------- people, messages, time

    def _tasks(self) -> Iterator[Callable[[], None]]:
        for task in sorted(self._engine.tasks.find(limit=500), key=lambda task: task.id):
            if task.node_id in self._people:
                yield partial(self._complete, task.id, task.node_id)

    def _complete(self, task_id: str, node: str) -> None:
        self._note("person", node)
        self._engine.tasks.complete(task_id, dict(self._people[node]))

    def _messages(self) -> Iterator[Callable[[], None]]:
        for index in range(len(self._coming)):
            yield partial(self._send, index)

    def _send(self, index: int) -> None:
        coming = self._coming.pop(index)
        self._sent.append(coming)
        self._deliver("message", coming)

    def _duplicates(self) -> Iterator[Callable[[], None]]:
        for index in range(len(self._sent)):
            yield partial(self._repeat, index)

    def _repeat(self, index: int) -> None:
        self._deliver("duplicate", self._sent.pop(index))

    def _deliver(self, kind: str, coming: tuple[int, Incoming]) -> None:
        number, message = coming
        self._note(kind, message.name)
        self._engine.send_message(
            message.name,
            message.correlation_key,
            dict(message.payload),
            message_id=f"message-{number}",
            ttl="P3650D",
        )

    def _time(self) -> bool:
        due = self._stepper.next_due()
        if due is None or due > self._until or not self._engine.instances.count(ended=False):
            return False
        self._note("time", "passes")
        self._stepper.pass_until(due + self._lateness(due))
        return True

    def _lateness(self, due: datetime) -> timedelta:
        """At most half of what is left until the next timer: their order is the model's affair."""
        if not self._late or self._chance is None:
            return timedelta()
        following = self._stepper.due_after(due)
        room = LATEST if following is None else min(LATEST, (following - due) / 2)
        return timedelta(seconds=int(room.total_seconds() * self._chance.random()))
