"""What must happen: a recursive interpreter of block trees, written apart from the engine.

It knows nothing of tokens: a block is played by playing its parts, branches one after the other, from left
to right. That is one of the orders in which the engine may run the process; `support.playing` drives the
engine in just this order, so that even the order of compensation can be compared. For other orders the
multisets hold.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from support.generator.blocks import (
    AdHoc,
    Again,
    Block,
    Call,
    EventChoice,
    Exclusive,
    Guarded,
    Inclusive,
    Jump,
    Loop,
    Many,
    Parallel,
    Position,
    Repeat,
    Sequence,
    SubProcess,
    Task,
    TaskKind,
    Thrower,
    Transaction,
    Trigger,
    Undo,
)

Value = int | list[int]


@dataclass(frozen=True, slots=True)
class Compensated:
    handler: str
    saw: int  # the value its activity had written when it completed, whatever was written since


@dataclass(slots=True)
class Story:
    """What a run must have done."""

    completed: Counter[str] = field(default_factory=Counter)  # activities by id
    answered: list[str] = field(default_factory=list)  # resting tasks, in the order of the tree
    compensated: list[Compensated] = field(default_factory=list)
    variables: dict[str, Value] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Record:
    """A completed activity that can be undone: with its own handler, or by what it contains."""

    activity: str
    value: int = 0
    inner: tuple[Record, ...] | None = None


@dataclass(slots=True)
class Frame:
    """Variables of one level. A closed frame keeps what is written inside; an open one only its own names."""

    outer: Frame | None
    names: dict[str, Value] = field(default_factory=dict)
    closed: bool = False

    def write(self, name: str, value: Value) -> None:
        frame = self
        while not frame.closed and name not in frame.names and frame.outer is not None:
            frame = frame.outer
        frame.names[name] = value


@dataclass(slots=True)
class Place:
    """Where a block is played: its variables, the records of the scope it lies in, and those a throw undoes.

    The latter are the same but for an event sub-process: a throw in it compensates the scope around it.
    """

    frame: Frame
    records: list[Record] = field(default_factory=list)
    around: list[Record] | None = None

    @property
    def thrown_at(self) -> list[Record]:
        return self.records if self.around is None else self.around


class Broken(Exception):  # noqa: N818 - a turn of the story, not a mistake
    """An error or an interruption on its way to the guard that catches it."""


@dataclass(slots=True)
class Oracle:
    story: Story = field(default_factory=Story)
    answers: Counter[str] = field(default_factory=Counter)

    def play(self, block: Block, place: Place) -> None:
        match block:
            case Task():
                self._task(block, place)
            case Sequence():
                for each in block.blocks:
                    self.play(each, place)
            case Exclusive():
                self.play(block.branches[block.taken], place)
            case Parallel():
                self._parallel(block, place)
            case Inclusive():
                for index in sorted(block.taken) or [len(block.branches) - 1]:
                    self.play(block.branches[index], place)
            case Loop():
                self._loop(block, place)
            case SubProcess():
                self._sub_process(block, place)
            case AdHoc():
                with self._scope(block.id, place) as inner:
                    for each in block.tasks:
                        self.play(each, inner)
            case Jump():
                pass
            case Call():
                self._call(block, place)
            case Guarded():
                self._guarded(block, place)
            case EventChoice():
                self.story.answered.append(block.id)
                if block.receive_task and block.triggers[block.winner] is Trigger.MESSAGE:
                    self._done(f"{block.id}_{block.winner}")
                self.play(block.branches[block.winner], place)
            case Repeat():
                self._repeat(block, place)
            case Again():
                self._again(block, place)
            case Many():
                self._done(f"{block.id}_split")
                for _ in range(block.count):
                    self.play(block.body, place)
                self._done(f"{block.id}_join")
            case Undo():
                self._answered(f"{block.id}_gate")
                self._undo(block, place)
            case Transaction():
                self._transaction(block, place)

    # ---------------------------------------------------------------- activities

    def _task(self, task: Task, place: Place) -> None:
        value = 1
        if task.kind.rests:
            self._answered(task.id)
            value = self.answers[task.id]
        else:
            self._done(task.id)
        if task.kind not in (TaskKind.MANUAL, TaskKind.NONE):
            place.frame.write(f"v_{task.id}", value)
        if task.undo:
            place.records.append(Record(task.id, value))

    def _answered(self, node: str) -> None:
        self.answers[node] += 1
        self.story.answered.append(node)
        self._done(node)

    def _done(self, node: str) -> None:
        self.story.completed[node] += 1

    def _parallel(self, block: Parallel, place: Place) -> None:
        if block.implicit:
            self._done(f"{block.id}_split")
        for branch in block.branches:
            self.play(branch, place)

    def _loop(self, loop: Loop, place: Place) -> None:
        if loop.local:
            with self._scope(f"{loop.id}_box", place, names={f"n_{loop.id}": 0}) as inner:
                self._turns(loop, inner)
        else:
            self._done(f"{loop.id}_init")
            place.frame.write(f"n_{loop.id}", 0)
            self._turns(loop, place)

    def _turns(self, loop: Loop, place: Place) -> None:
        for turn in range(loop.times):
            self.play(loop.body, place)
            self._done(f"{loop.id}_count")
            place.frame.write(f"n_{loop.id}", turn + 1)

    def _sub_process(self, block: SubProcess, place: Place) -> None:
        names: dict[str, Value] = {f"i_{block.id}": 7} if block.isolated else {}
        with self._scope(block.id, place, names, closed=block.isolated) as inner:
            self.play(block.body, inner)
            if block.terminates:
                self._answered(f"{block.id}_last")
        if block.isolated:
            place.frame.write(f"o_{block.id}", 8)

    def _call(self, block: Call, place: Place) -> None:
        """The called process has variables and records of its own; what it wrote comes back when it ends."""
        callee = Place(Frame(None, closed=True))
        self.play(block.body, callee)
        for name, value in callee.frame.names.items():
            place.frame.write(name, value)
        self._done(block.id)

    @contextmanager
    def _scope(
        self, node: str, place: Place, names: dict[str, Value] | None = None, closed: bool = False
    ) -> Iterator[Place]:
        """A sub-process: when it ends normally it is done, and what it contains can be undone as one."""
        inner = Place(Frame(place.frame, dict(names or {}), closed))
        yield inner
        self._done(node)
        if inner.records:
            place.records.append(Record(node, inner=tuple(inner.records)))

    # ---------------------------------------------------------------- events

    def _guarded(self, block: Guarded, place: Place) -> None:
        if block.position is Position.EVENT_SUB_PROCESS:
            with self._scope(block.id, place) as inner:
                if self._interrupted(block, inner):
                    self._handler_inside(block, inner)
        elif block.interrupting:
            inner = Place(Frame(place.frame))
            if self._interrupted(block, inner):
                self.play(block.handler, place)  # what the interrupted sub-process recorded is gone
            else:
                self._closed(block.id, inner, place)
        else:
            with self._scope(f"{block.id}_box", place) as box:
                inner = Place(Frame(box.frame))
                self._interrupted(block, inner)
                self._closed(block.id, inner, box)
                for _ in range(block.count):
                    self.play(block.handler, box)

    def _closed(self, node: str, inner: Place, outer: Place) -> None:
        self._done(node)
        if inner.records:
            outer.records.append(Record(node, inner=tuple(inner.records)))

    def _handler_inside(self, block: Guarded, place: Place) -> None:
        with self._scope(f"{block.id}_event", place) as inner:
            inner.around = place.records
            self.play(block.handler, inner)

    def _interrupted(self, block: Guarded, place: Place) -> bool:
        """Plays the body and the stop; true when the event ended them."""
        try:
            self.play(block.body, place)
            self._stop(block, place, block.levels)
        except Broken:
            return True
        if block.position is Position.EVENT_SUB_PROCESS and not block.interrupting:
            for _ in range(block.count):
                self._handler_inside(block, place)
        return False

    def _stop(self, block: Guarded, place: Place, levels: int) -> None:
        if levels:
            node = f"{block.id}_level{levels}"
            self._stop(block, Place(place.frame), levels - 1)
            self._done(node)
            return
        comes = block.interrupting and block.count > 0
        stop = f"{block.id}_stop"
        self.story.answered.append(stop)
        by_end = block.trigger is Trigger.ERROR and block.thrower is Thrower.END_EVENT
        if comes and not by_end and block.trigger not in (Trigger.ESCALATION, Trigger.NOTED):
            raise Broken
        self._done(stop)
        if comes:
            raise Broken

    def _transaction(self, block: Transaction, place: Place) -> None:
        inner = Place(Frame(place.frame))
        self.play(block.body, inner)
        self._answered(f"{block.id}_gate")
        if block.cancelled:
            self._compensate(inner.records)
            self.play(block.handler, place)
        else:
            self._closed(block.id, inner, place)

    # ---------------------------------------------------------------- repetition and compensation

    def _repeat(self, block: Repeat, place: Place) -> None:
        turns = block.count if block.until is None else min(block.until, block.count)
        items: list[Record] = []
        for index in range(turns):
            frame = Frame(place.frame, {"loopCounter": index}, closed=block.collection)
            self.play(block.body, Place(frame, items))
        if items:
            place.records.append(Record(block.id, inner=tuple(items)))
        heard = {"None": turns, "One": min(turns, 1), "All": 0}[block.behavior]
        for _ in range(heard):
            self._done(f"{block.id}_note")
        if block.collection and turns == block.count:
            place.frame.write(f"out_{block.id}", [index * 10 for index in range(block.count)])

    def _again(self, block: Again, place: Place) -> None:
        items: list[Record] = []
        for index in range(block.times):
            self.play(block.body, Place(Frame(place.frame, {"loopCounter": index}), items))
        if items:
            place.records.append(Record(block.id, inner=tuple(items)))

    def _undo(self, throw: Undo, place: Place) -> None:
        chosen = [record for record in place.thrown_at if throw.activity in (None, record.activity)]
        for record in chosen:
            place.thrown_at.remove(record)
        self._compensate(chosen)

    def _compensate(self, records: list[Record]) -> None:
        for record in reversed(records):
            if record.inner is not None:
                self._compensate(list(record.inner))
            else:
                self._done(f"{record.activity}_undo")
                self.story.compensated.append(Compensated(f"{record.activity}_undo", record.value))


def tell(block: Block) -> Story:
    """The story of the whole process."""
    oracle = Oracle()
    place = Place(Frame(None, closed=True))
    oracle.play(block, place)
    oracle.story.variables = dict(place.frame.names)
    return oracle.story
