"""Plays a generated process in the core, answering as its block tree says.

`Performance` knows at each moment what could be answered; `first` chooses as the oracle does, from left to
right. Timers fire only when the tree says so: the clock is moved for that one timer alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from support.generator.blocks import (
    AdHoc,
    Block,
    Call,
    EventChoice,
    Guarded,
    Repeat,
    SubProcess,
    Task,
    TaskKind,
    Thrower,
    Transaction,
    Trigger,
    Undo,
    children,
    walk,
)
from support.generator.trees import start_variables
from support.generator.xml import PROCESS, to_xml
from support.oracle import Compensated, Story
from support.player import Player
from support.waits import unexplained

from bpm_engine.bpmn.compile import compile_process
from bpm_engine.bpmn.document import read_document
from bpm_engine.bpmn.graph import Graph, Kind
from bpm_engine.bpmn.parse import parse
from bpm_engine.core import stimuli
from bpm_engine.core.changes import Applied, Changes
from bpm_engine.core.state import (
    LogKind,
    ScopeState,
    Subscription,
    SubscriptionKind,
    SubscriptionStatus,
    TaskStatus,
    Timer,
    TimerStatus,
    Token,
    TokenState,
    Waiting,
)
from bpm_engine.core.waits import DATA

Key = tuple[int, ...]
Choose = Callable[[Sequence["Pending"]], "Pending"]
MOST_ANSWERS = 2_000


class Board(Player):
    """A player whose timers wait to be told, and which looks for waits without a reason after every write."""

    def _write(self, changes: Changes) -> None:
        super()._write(changes)
        assert (found := unexplained(self.world)) == [], found

    def _due(self, until: datetime) -> list[Timer]:
        return []


@dataclass(frozen=True, slots=True)
class Pending:
    """A token that rests until something outside answers it. Keys rise from left to right in the tree."""

    key: Key
    token: Token


def first(pending: Sequence[Pending]) -> Pending:
    return min(pending, key=lambda each: (each.key, each.token.id))


def graphs_of(tree: Block) -> list[Graph]:
    return compiled(to_xml(tree))


def compiled(text: str) -> list[Graph]:
    """Through the real parser and compiler, without the checks: these take most of the time and change
    nothing."""
    definitions, _ = parse(read_document(text.encode()))
    graphs = [compile_process(process, definitions)[0] for process in definitions.processes]
    return [graph for graph in graphs if graph is not None]


@dataclass(slots=True)
class Performance:
    tree: Block
    player: Player
    answered: list[str] = field(default_factory=list)
    compensated: list[Compensated] = field(default_factory=list)
    sent: list[stimuli.Stimulus] = field(default_factory=list)
    _calls: Counter[str] = field(default_factory=Counter)
    _failures: Counter[tuple[str, int]] = field(default_factory=Counter)
    _blocks: dict[str, Block] = field(default_factory=dict)
    _positions: dict[str, int] = field(default_factory=dict)
    _batch: list[stimuli.Stimulus] | None = None

    def __post_init__(self) -> None:
        for block in walk(self.tree):
            for node in _resting_nodes(block):
                self._blocks[node] = block
        for node in _left_to_right(self.tree):
            self._positions[node] = len(self._positions)

    def run(self, choose: Choose = first) -> None:
        self.begin()
        for _ in range(MOST_ANSWERS):
            pending = self.pending()
            if not pending:
                return
            self.answer(choose(pending))
        raise AssertionError(f"still not at an end after {MOST_ANSWERS} answers")

    def begin(self) -> None:
        self.player.start(start_variables(self.tree), key=PROCESS)

    # ---------------------------------------------------------------- what can be answered

    def pending(self) -> list[Pending]:
        return [
            Pending(self._key(token), token) for token in self.player.tokens() if self._rests_outside(token)
        ]

    def _rests_outside(self, token: Token) -> bool:
        if token.node_id.endswith("_idle"):
            return False  # nobody does it
        if token.state is TokenState.READY:
            return not token.held
        outside = (Waiting.HUMAN, Waiting.EVENT, Waiting.RETRY)
        return token.state is TokenState.WAITING and token.waiting_for in outside

    def _key(self, token: Token) -> Key:
        key: list[int] = [self._positions[token.node_id]]
        for each in self._outwards(token):
            if each.loop_index is not None:
                key[:0] = [self._positions[each.node_id], each.loop_index]
        return tuple(key)

    def _outwards(self, token: Token) -> list[Token]:
        """The token, the token around its scope, and so on through the callers."""
        world, chain = self.player.world, [token]
        while True:
            scope = world.scopes[chain[-1].scope_id]
            outer = scope.token_id or world.instances[scope.instance_id].parent_token_id
            if outer is None:
                return chain
            chain.append(world.tokens[outer])

    # ---------------------------------------------------------------- answering

    def alone(self, pending: Pending) -> bool:
        """Whether the answer is one stimulus at the present time: no other needed, no clock moved for it."""
        if pending.token.waiting_for is Waiting.RETRY or self._lacks_data(pending.token):
            return False
        block = self._blocks[pending.token.node_id]
        if isinstance(block, EventChoice):
            return block.triggers[block.winner] is not Trigger.TIMER
        return isinstance(block, Task)

    def answer_all(self, pending: Sequence[Pending]) -> None:
        """The answers to several, in one batch."""
        self._batch = []
        for each in pending:
            self.answer(each)
        batch, self._batch = self._batch, None
        for outcome in self.player.play(*batch):
            assert isinstance(outcome, Applied), outcome

    def answer(self, pending: Pending) -> None:
        token, node = pending.token, pending.token.node_id
        if token.waiting_for is Waiting.RETRY:
            return self._fire(self._timer(lambda timer: timer.token_id == token.id))
        block = self._blocks[node]
        if node.endswith("_undo"):
            return self._undo(token)
        if self._lacks_data(token):
            given = {f"d_{node}": 1}
            return self._play(stimuli.VariablesSet(instance_id=token.instance_id, variables=given))
        if isinstance(block, Task) and self._fails(block, token):
            return None
        self.answered.append(node)
        match block:
            case Task():
                self._do(block, token)
            case Guarded():
                self._stop(block, token)
            case EventChoice():
                self._deliver(block.triggers[block.winner], self._wait(f"{node}_{block.winner}", token))
            case _:
                self._complete(token, {})
        return None

    def _lacks_data(self, token: Token) -> bool:
        rows = self.player.world.subscriptions.values()
        own = (row for row in rows if row.token_id == token.id and row.status is SubscriptionStatus.OPEN)
        return any(row.event == DATA for row in own)

    def _fails(self, task: Task, token: Token) -> bool:
        attempt = (token.id, token.activation)
        if self._failures[attempt] >= task.failures:
            return False
        self._failures[attempt] += 1
        failure = stimuli.Failure(code="GENERATED", message="for a while")
        self._play(stimuli.WorkFailed(claim=self.player.claim(token), failure=failure))
        return True

    def _do(self, task: Task, token: Token) -> None:
        self._calls[task.id] += 1
        result = {f"v_{task.id}": self._calls[task.id]}
        match task.kind:
            case TaskKind.USER:
                tasks = self.player.world.tasks.values()
                (opened,) = (t for t in tasks if t.token_id == token.id and t.status is TaskStatus.OPEN)
                self._play(stimuli.TaskCompleted(task_id=opened.id, variables=result))
            case TaskKind.RECEIVE:
                wait = self._wait(task.id, token)
                assert isinstance(wait, Subscription)
                self._play(stimuli.MessageDelivered(subscription_id=wait.id, payload=result))
            case _:
                self._complete(token, result)

    def _complete(self, token: Token, result: dict[str, int]) -> None:
        self._play(stimuli.WorkCompleted(claim=self.player.claim(token), variables=result))

    def _undo(self, token: Token) -> None:
        activity = token.node_id.removesuffix("_undo")
        seen = self.player.seen_by(token)
        self.compensated.append(Compensated(token.node_id, seen[f"v_{activity}"]))
        self._complete(token, {})

    def _stop(self, block: Guarded, token: Token) -> None:
        if block.count and block.trigger is Trigger.ERROR:
            if block.thrower is Thrower.HANDLER:
                self._play(stimuli.ErrorThrown(claim=self.player.claim(token), code=f"E_{block.id}"))
            else:
                self._complete(token, {})
            return
        if block.trigger is Trigger.NOTED and block.count:
            self._deliver(block.trigger, self._watch(block, token))
        if block.trigger in (Trigger.ESCALATION, Trigger.NOTED):
            self._complete(self.player.world.tokens[token.id], {})
            return
        for _ in range(block.count * (2 if block.trigger is Trigger.BOTH else 1)):
            self._deliver(block.trigger, self._watch(block, token))
        if not (block.interrupting and block.count):
            self._complete(self.player.world.tokens[token.id], {})

    # ---------------------------------------------------------------- events

    def _watch(self, block: Guarded, token: Token) -> Timer | Subscription:
        """What waits for the block's event, around this very token."""
        for each in self._outwards(token):
            scope = self.player.world.scopes[each.scope_id]
            for wait in self._waits():
                boundary = wait.token_id == each.id and wait.node_id == f"{block.id}_event"
                inside = wait.token_id is None and wait.scope_id == scope.id
                if boundary or (inside and wait.node_id in (f"{block.id}_trigger", f"{block.id}_event")):
                    return wait
        raise AssertionError(f"nothing waits for the event of {block.id}")

    def _wait(self, node: str, token: Token) -> Timer | Subscription:
        (wait,) = (each for each in self._waits() if each.node_id == node and each.token_id == token.id)
        return wait

    def _waits(self) -> list[Timer | Subscription]:
        world = self.player.world
        timers = [timer for timer in world.timers.values() if timer.status is TimerStatus.SCHEDULED]
        rows = world.subscriptions.values()
        return [*timers, *(row for row in rows if row.status is SubscriptionStatus.OPEN)]

    def _timer(self, wanted: Callable[[Timer], bool]) -> Timer:
        timers = self.player.world.timers.values()
        return next(timer for timer in timers if timer.status is TimerStatus.SCHEDULED and wanted(timer))

    def _deliver(self, trigger: Trigger, wait: Timer | Subscription) -> None:
        if isinstance(wait, Timer):
            self._fire(wait)
        elif trigger is Trigger.CONDITION:
            self._toggle(wait, f"x_{wait.node_id.rpartition('_')[0]}")
        elif wait.kind is SubscriptionKind.SIGNAL:
            self._play(stimuli.SignalDelivered(subscription_id=wait.id))
        else:
            self._play(stimuli.MessageDelivered(subscription_id=wait.id))

    def _toggle(self, wait: Subscription, name: str) -> None:
        """On, and off again where the instance still runs: the next time is a new one."""
        place = self.player.world.scopes[wait.scope_id]
        while name not in place.variables:
            place = self.player.world.scopes[place.parent_id or ""]
        for value in (True, False):
            if place.state is ScopeState.ACTIVE:
                changed = stimuli.VariablesSet(
                    instance_id=wait.instance_id, variables={name: value}, scope_id=place.id
                )
                self._play(changed)
                place = self.player.world.scopes[place.id]  # whoever reads rows has a new world by now

    def _fire(self, timer: Timer) -> None:
        self.player.now = max(self.player.now, timer.due_at)
        self._play(stimuli.TimerFired(timer_id=timer.id))

    def _play(self, stimulus: stimuli.Stimulus) -> None:
        self.sent.append(stimulus)
        if self._batch is not None:
            self._batch.append(stimulus)
            return
        outcome = self.player.play(stimulus)[0]
        assert isinstance(outcome, Applied), outcome

    # ---------------------------------------------------------------- what happened

    def story(self) -> Story:
        graphs = list(self.player.definitions.graphs.values())
        activities = {
            n.id for g in graphs for n in g.nodes.values() if n.is_activity and n.kind is not Kind.REPEAT
        }
        completed = Counter(
            entry.node_id
            for entry in self.player.log
            if entry.kind is LogKind.COMPLETED and entry.node_id in activities
        )
        ignored = start_variables(self.tree).keys() | set(_unstated(self.tree))
        variables = {name: value for name, value in self.player.variables.items() if name not in ignored}
        return Story(completed, self.answered, self.compensated, variables)


def _unstated(tree: Block) -> Iterator[str]:
    """Variables of which the oracle says nothing: outputs of a repetition that stopped early, triggers."""
    for block in walk(tree):
        if isinstance(block, Guarded):
            yield f"x_{block.id}"
        if isinstance(block, Task):
            yield f"d_{block.id}"
        if isinstance(block, Repeat) and block.behavior != "All":  # what it says carries its counters
            yield from ("nrOfInstances", "nrOfActiveInstances", "nrOfCompletedInstances")
        if isinstance(block, Repeat) and block.until is not None and block.until < block.count:
            yield f"out_{block.id}"


def _resting_nodes(block: Block) -> tuple[str, ...]:
    match block:
        case Task():
            return (block.id, f"{block.id}_undo")
        case Guarded():
            return (f"{block.id}_stop",)
        case Undo() | Transaction():
            return (f"{block.id}_gate",)
        case EventChoice():
            return (block.id,)
        case SubProcess() if block.terminates:
            return (f"{block.id}_last",)
        case _:
            return ()


def _left_to_right(block: Block) -> list[str]:
    """All nodes at which a key is asked for, in the order in which the oracle comes to them."""
    match block:
        case Guarded():
            return [*_left_to_right(block.body), f"{block.id}_stop", *_left_to_right(block.handler)]
        case Transaction():
            return [*_left_to_right(block.body), f"{block.id}_gate", *_left_to_right(block.handler)]
        case SubProcess():
            return [block.id, *_left_to_right(block.body), f"{block.id}_last"]
        case _:
            inner = [node for child in children(block) for node in _left_to_right(child)]
            return [*_own_nodes(block), *inner]


def _own_nodes(block: Block) -> tuple[str, ...]:
    return (block.id,) if isinstance(block, SubProcess | AdHoc | Call) else _resting_nodes(block)
