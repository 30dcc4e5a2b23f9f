"""The blocks of which generated processes are built: a tree that says the whole story of a run.

Every choice is settled in the tree: which branch is taken, which event comes, how often a loop turns, what a
handler throws. So the tree is at once the model (see `xml`), the script of what happens outside (see
`support.playing`) and the input of the oracle (see `support.oracle`).

Blocks nest properly. What happens "from outside" happens at a task that rests, so that a driver which always
answers the first resting thing of the tree plays the tree from left to right.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal


class TaskKind(StrEnum):
    SERVICE = "serviceTask"
    RULE = "businessRuleTask"
    USER = "userTask"
    RECEIVE = "receiveTask"
    SCRIPT = "scriptTask"
    MANUAL = "manualTask"
    NONE = "task"

    @property
    def rests(self) -> bool:
        return self not in (TaskKind.SCRIPT, TaskKind.MANUAL, TaskKind.NONE)


@dataclass(frozen=True, slots=True)
class Task:
    """Writes `v_<id>`: how often it was answered (a script: 1). `undo`: has a compensation handler
    `<id>_undo`."""

    id: str
    kind: TaskKind = TaskKind.SERVICE
    undo: bool = False
    failures: int = 0  # technical failures before each answer; a handler is tried again
    late: bool = False  # waits for its data, the variable `d_<id>`


@dataclass(frozen=True, slots=True)
class Sequence:
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class Exclusive:
    id: str
    branches: tuple[Block, ...]
    taken: int
    default: bool = False  # the last branch is the default flow


@dataclass(frozen=True, slots=True)
class Parallel:
    id: str
    branches: tuple[Block, ...]
    implicit: bool = False  # split by a task with several outgoing flows instead of a gateway
    complex_join: bool = False  # joined by a complex gateway that waits for all


@dataclass(frozen=True, slots=True)
class Inclusive:
    id: str
    branches: tuple[Block, ...]
    taken: frozenset[int]  # empty: the last branch, by default
    default: bool = False


@dataclass(frozen=True, slots=True)
class Loop:
    """Do, then ask: the body runs `times` times. `local`: the counter lives in a sub-process of its own."""

    id: str
    body: Block
    times: int
    local: bool = False


@dataclass(frozen=True, slots=True)
class SubProcess:
    """`isolated`: input `i_<id>` = 7 and output `o_<id>` = i + 1, so that nothing else written inside gets
    out. `terminates`: when a task `<id>_last` is done, a terminate event ends it beside a task `<id>_idle`
    that nobody does."""

    id: str
    body: Block
    isolated: bool = False
    terminates: bool = False


@dataclass(frozen=True, slots=True)
class AdHoc:
    """An ad-hoc sub-process all of whose tasks begin by themselves: at once, or one after the other."""

    id: str
    tasks: tuple[Task, ...]
    sequential: bool = False


@dataclass(frozen=True, slots=True)
class Jump:
    """A pair of link events."""

    id: str


@dataclass(frozen=True, slots=True)
class Call:
    id: str
    body: Block


class Trigger(StrEnum):
    TIMER = "timer"
    MESSAGE = "message"
    SIGNAL = "signal"
    ERROR = "error"
    ESCALATION = "escalation"
    CONDITION = "condition"  # becomes true when `x_<id>` is set
    EITHER = "message or signal"
    BOTH = "message and signal"
    NOTED = "message and escalation"  # the message comes first


class Position(StrEnum):
    BOUNDARY = "boundary"
    EVENT_SUB_PROCESS = "event sub-process"


class Thrower(StrEnum):
    HANDLER = "handler"
    END_EVENT = "end event"


@dataclass(frozen=True, slots=True)
class Guarded:
    """A sub-process `<id>` of the body and a last task `<id>_stop`, watched by an event.

    At the stop the event comes `count` times; 0: it does not come. An interrupting event (count at most 1)
    ends the sub-process there. `levels`: how many sub-processes (or calls, `through_calls`) lie between the
    stop and the catcher. An escalation is thrown behind the stop. The handler follows the boundary event, or
    lies in the event sub-process.
    """

    id: str
    body: Block
    handler: Block
    trigger: Trigger
    position: Position
    interrupting: bool
    count: int
    thrower: Thrower = Thrower.HANDLER
    catch_all: bool = False
    levels: int = 0
    through_calls: bool = False


@dataclass(frozen=True, slots=True)
class EventChoice:
    id: str
    triggers: tuple[Trigger, ...]  # what comes from outside: time, messages, signals
    branches: tuple[Block, ...]
    winner: int
    receive_task: bool = False  # message triggers are receive tasks


@dataclass(frozen=True, slots=True)
class Repeat:
    """Multi-instance: `body` is a Task, SubProcess or Call. Sequential ones may stop after `until` items.

    `collection`: over `items_<id>` instead of a cardinality, with outputs `out_<id>`. `behavior`: each
    run, or the first, throws an escalation, and a task `<id>_note` beside it is done for each that was heard.
    """

    body: Task | SubProcess | Call
    parallel: bool
    count: int
    until: int | None = None
    collection: bool = False
    behavior: Literal["None", "One", "All"] = "All"

    @property
    def id(self) -> str:
        return self.body.id


class Until(StrEnum):
    CONDITION = "tested after each run"
    WHILE = "tested before each run"
    MAXIMUM = "so many times"


@dataclass(frozen=True, slots=True)
class Again:
    """A standard loop: `body` runs `times` times; tested after each run, at least once."""

    body: Task | SubProcess | Call
    times: int
    until: Until

    @property
    def id(self) -> str:
        return self.body.id


@dataclass(frozen=True, slots=True)
class Many:
    """A task `<id>_split` that gives `count` tokens, the task for each of them, a task `<id>_join` that needs
    them all."""

    id: str
    body: Task
    count: int


@dataclass(frozen=True, slots=True)
class Undo:
    """A task `<id>_gate`, then a compensation throw event `<id>`: its own scope, or one task of it.

    One that does not `wait` goes on at once; handlers come before all else from left to right."""

    id: str
    activity: str | None = None
    wait: bool = True


@dataclass(frozen=True, slots=True)
class Transaction:
    """A transaction `<id>` of the body and a task `<id>_gate`, and then it is cancelled or not.

    Cancelled, what completed in it is undone and the handler follows its cancel event.
    """

    id: str
    body: Block
    handler: Block
    cancelled: bool


Block = (
    Task
    | Sequence
    | Exclusive
    | Parallel
    | Inclusive
    | Loop
    | SubProcess
    | AdHoc
    | Jump
    | Call
    | Guarded
    | EventChoice
    | Repeat
    | Again
    | Many
    | Undo
    | Transaction
)


def children(block: Block) -> tuple[Block, ...]:
    match block:
        case Task() | Undo() | Jump():
            return ()
        case AdHoc():
            return block.tasks
        case Sequence():
            return block.blocks
        case Exclusive() | Parallel() | Inclusive() | EventChoice():
            return block.branches
        case Guarded() | Transaction():
            return (block.body, block.handler)
        case Loop() | SubProcess() | Call() | Repeat() | Again() | Many():
            return (block.body,)


def walk(block: Block) -> Iterator[Block]:
    """The block and all inside it, in the order in which the oracle visits them."""
    yield block
    for child in children(block):
        yield from walk(child)
