"""Random block trees, as hypothesis strategies: at most 5 blocks in a row, 3 branches, depth 3.

Ids are numbered in the order of drawing, so that a shrunk example stays readable.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Options
from dataclasses import dataclass, field, replace
from typing import Literal, TypeVar

from hypothesis import strategies as st
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
    Until,
    walk,
)
from support.generator.drawing import choose, flag, number

T = TypeVar("T")

DEPTH = 3
BLOCKS = 5
BRANCHES = 3


@dataclass(frozen=True, slots=True)
class Shape:
    """What may occur. `any_order`: nothing whose meaning depends on the order of independent branches."""

    depth: int = DEPTH
    blocks: int = BLOCKS
    any_order: bool = False


@dataclass(slots=True)
class Grower:
    draw: st.DrawFn
    shape: Shape
    count: int = 0
    repeated: int = 0  # how many parallel repetitions we are inside of
    beside: int = 0  # how many parallel branches we are inside of
    # Per open scope: its tasks with a handler, and those which a throw in it may name.
    undoable: list[tuple[list[str], list[str]]] = field(default_factory=lambda: [_fresh()])

    def name(self, letter: str) -> str:
        self.count += 1
        return f"{letter}{self.count}"

    def one_of(self, *options: Callable[[], Block]) -> Block:
        return self.choose(options)()

    def choose(self, options: Options[T]) -> T:
        return choose(self.draw, options)

    def flag(self) -> bool:
        return flag(self.draw)

    def number(self, low: int, high: int) -> int:
        return number(self.draw, low, high)

    # ---------------------------------------------------------------- the tree

    def sequence(self, depth: int) -> Block:
        length = self.number(1, self.shape.blocks if depth == self.shape.depth else 2)
        return Sequence(tuple(self.block(depth) for _ in range(length)))

    def block(self, depth: int) -> Block:
        if depth == 0:
            return self.task()
        return self.one_of(
            *[self.task] * 4,
            lambda: self.exclusive(depth - 1),
            lambda: self.parallel(depth - 1),
            lambda: self.inclusive(depth - 1),
            lambda: self.loop(depth - 1),
            lambda: self.sub_process(depth - 1),
            lambda: self.call(depth - 1),
            lambda: self.guarded(depth - 1),
            lambda: self.event_choice(depth - 1),
            lambda: self.repeat(depth - 1),
            lambda: self.transaction(depth - 1),
            lambda: self.again(depth - 1),
            self.ad_hoc,
            lambda: Jump(self.name("j")),
            self.many,
            self.undo,
        )

    def task(self) -> Task:
        kind = self.choose(tuple(TaskKind))
        name = self.name("t")
        undo = kind.rests and self.flag()
        if undo:
            self.undoable[-1][0].append(name)
        failures = self.number(0, 1) if kind in (TaskKind.SERVICE, TaskKind.RULE) else 0
        return Task(name, kind, undo, failures, late=self.number(0, 4) == 0)

    def branches(self, depth: int, least: int = 2) -> tuple[Block, ...]:
        return tuple(self.sequence(depth) for _ in range(self.number(least, BRANCHES)))

    def exclusive(self, depth: int) -> Block:
        name, branches = self.name("x"), self.branches(depth)
        return Exclusive(name, branches, self.number(0, len(branches) - 1), self.flag())

    def parallel(self, depth: int) -> Block:
        name = self.name("p")
        self.beside += 1
        branches = self.branches(depth)
        self.beside -= 1
        return Parallel(name, branches, implicit=self.flag(), complex_join=self.flag())

    def inclusive(self, depth: int) -> Block:
        name = self.name("i")
        self.beside += 1
        branches = self.branches(depth)
        self.beside -= 1
        default = self.flag()
        conditioned = range(len(branches) - 1) if default else range(len(branches))
        taken = frozenset(index for index in conditioned if self.flag())
        if not taken and not default:
            taken = frozenset({self.choose(conditioned)})
        return Inclusive(name, branches, taken, default)

    def loop(self, depth: int) -> Block:
        name = self.name("l")
        local = self.repeated > 0 or self.flag()
        if not local:
            return Loop(name, self.sequence(depth), self.number(1, 3), local)
        with_scope = self.scope(lambda: self.sequence(depth))
        return Loop(name, with_scope, self.number(1, 3), local)

    def scope(self, grow: Callable[[], Block], around: list[str] | None = None) -> Block:
        """What lies in a scope of its own cannot be undone by name from outside, nor see what can.

        Only a throw in an event sub-process sees what is `around` it."""
        own, named = _fresh()
        self.undoable.append((own, named if around is None else around))
        block = grow()
        self.undoable.pop()
        return block

    def sub_process(self, depth: int) -> SubProcess:
        name = self.name("s")
        body = self.scope(lambda: self.sequence(depth))
        return SubProcess(name, body, self.flag(), terminates=self.number(0, 3) == 0)

    def ad_hoc(self) -> Block:
        name = self.name("a")
        tasks = tuple(self.repeated_task() for _ in range(self.number(1, BRANCHES)))
        return AdHoc(name, tasks, self.flag())

    def call(self, depth: int) -> Call:
        name = self.name("c")
        return Call(name, self.scope(lambda: self.sequence(depth)))

    def guarded(self, depth: int) -> Block:
        name = self.name("g")
        trigger = self.trigger()
        interrupting = trigger is Trigger.ERROR or self.flag()
        count = self.number(0, 1 if interrupting or trigger is Trigger.NOTED else 2)
        position = self.choose(tuple(Position))
        inside: list[str] = []
        body = self.scope(lambda: self.remembered(depth, inside))
        around = None if position is Position.BOUNDARY else inside
        handler = self.scope(lambda: self.sequence(depth) if count < 2 else self.plain_task(), around)
        return Guarded(
            name,
            body,
            handler,
            trigger,
            position,
            interrupting,
            count,
            thrower=self.choose(tuple(Thrower)),
            catch_all=self.flag(),
            levels=self.number(0, 2),
            through_calls=self.flag(),
        )

    def trigger(self) -> Trigger:
        """A variable is seen by all items of a repetition at once, so a condition cannot be one item's."""
        return self.choose([each for each in Trigger if each is not Trigger.CONDITION or not self.repeated])

    def transaction(self, depth: int) -> Block:
        name = self.name("k")
        body = self.scope(lambda: self.sequence(depth))
        return Transaction(name, body, self.sequence(depth), self.flag())

    def remembered(self, depth: int, inside: list[str]) -> Block:
        body = self.sequence(depth)
        inside += self.undoable[-1][0]
        return body

    def plain_task(self) -> Task:
        return Task(self.name("t"), TaskKind.SERVICE)

    def event_choice(self, depth: int) -> Block:
        name, branches = self.name("e"), self.branches(depth)
        waits = (Trigger.TIMER, Trigger.MESSAGE, Trigger.SIGNAL)
        triggers = tuple(self.choose(waits) for _ in branches)
        return EventChoice(name, triggers, branches, self.number(0, len(branches) - 1), self.flag())

    def repeat(self, depth: int) -> Block:
        parallel = self.flag()
        self.repeated += parallel
        body = self.one_of(self.repeated_task, lambda: self.sub_process(depth), lambda: self.call(depth))
        self.repeated -= parallel
        assert isinstance(body, Task | SubProcess | Call)
        count = self.number(0, 3)
        until = None if parallel or not self.flag() else self.number(1, 3)
        behavior: Literal["None", "One", "All"] = self.choose(("All", "None", "One"))
        return Repeat(body, parallel, count, until, collection=self.flag(), behavior=behavior)

    def again(self, depth: int) -> Block:
        body = self.one_of(self.repeated_task, lambda: self.sub_process(depth), lambda: self.call(depth))
        assert isinstance(body, Task | SubProcess | Call)
        until = self.choose(tuple(Until))
        return Again(body, self.number(1 if until is Until.CONDITION else 0, 3), until)

    def many(self) -> Block:
        name = self.name("m")
        return Many(name, self.repeated_task(), self.number(2, 3))

    def repeated_task(self) -> Task:
        """Without a handler of its own: how often a repeated task is undone is a scenario's matter."""
        kind = self.choose(tuple(TaskKind))
        return Task(self.name("t"), kind)

    def undo(self) -> Block:
        """Other branches may or may not be done when a throw comes, so it needs a fixed order."""
        if self.shape.any_order and (self.beside or self.repeated):
            return self.task()
        candidates = self.undoable[-1][1]
        activity = self.choose([None, *candidates])
        return Undo(self.name("u"), activity, wait=self.shape.any_order or self.flag())


def _fresh() -> tuple[list[str], list[str]]:
    own: list[str] = []
    return own, own


@st.composite
def trees(draw: st.DrawFn, shape: Shape = Shape()) -> Block:
    """Depth is drawn as well: most examples are small, so that many are seen."""
    depth = number(draw, 1, shape.depth)
    return Grower(draw, replace(shape, depth=depth)).sequence(depth)


def start_variables(tree: Block) -> dict[str, object]:
    """What the process is started with so that it takes the ways that the tree has settled."""
    variables: dict[str, object] = {}
    for block in walk(tree):
        match block:
            case Exclusive():
                variables[f"c_{block.id}"] = block.taken
            case Inclusive():
                for index in range(len(block.branches)):
                    variables[f"c_{block.id}_{index}"] = index in block.taken
            case Repeat() if block.collection:
                variables[f"items_{block.id}"] = list(range(block.count))
            case _:
                pass
    return variables
