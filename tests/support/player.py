"""Plays processes in memory, without a database: all rows here, all decisions in the core.

    player = Player(bpmn("…"))                 # bytes of BPMN files, or compiled graphs
    player.start({"total": 12})                # at=, key=, start_at=; returns the instance's id
    player.complete("charge", {"ok": True})    # claims the work at that node and answers it
    player.fail("charge", "BOOM")              # a failed attempt; final=True: no retry
    player.throw_error("charge", "DECLINED")   # BpmnError
    player.message("paid", "A-1", {...})       # delivered | buffered;  player.signal("stop")
    player.finish_task("approve", {...})       # a person
    player.tick("PT1H")                        # time passes; timers fire in order of due time
    player.run({"topic": handler})             # answers all work until none is left
    player.cancel() .suspend() .resume() .retry() .skip(node) .set(…) .move(from_, to) .expire(node)
    player.status .variables .at .path .incidents .instance() .tokens() .log

`reload=True` forgets everything between two stimuli: each is played on a snapshot as narrow as a
database would load, and `player.rounds` counts how often the core had to ask for more. Every change is
checked against the invariants of `support.invariants` when `check=True` (the default).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from msgspec.structs import replace
from support.invariants import violations
from support.world import Loader, World

from bpm_engine.bpmn import Graph, load
from bpm_engine.bpmn.expressions import parse_duration
from bpm_engine.core import stimuli as s
from bpm_engine.core.advance import advance
from bpm_engine.core.changes import Applied, Changes, Outcome, Refused
from bpm_engine.core.context import Context, DefinitionRef, Limits, Resolved, Unknown
from bpm_engine.core.history import path
from bpm_engine.core.lifecycle import TERMINAL_TOKENS
from bpm_engine.core.loading import foreseen, named
from bpm_engine.core.needs import Needs
from bpm_engine.core.retry import RetryPolicy
from bpm_engine.core.state import (
    Instance,
    InstanceStatus,
    LogEntry,
    OutboxEvent,
    Scope,
    ScopeState,
    SubscriptionKind,
    SubscriptionStatus,
    TaskStatus,
    ThrownMessage,
    Timer,
    TimerStatus,
    Token,
    TokenState,
    Variables,
)

Handler = Callable[[Variables], Any]
START = datetime(2026, 1, 1, tzinfo=UTC)
TENANT = "t"
OWNER = "worker"


class Library:
    """Definitions: each graph is deployed once, as version 1, unless several share a key."""

    def __init__(self, graphs: Iterable[Graph]) -> None:
        self.graphs: dict[str, Graph] = {}
        self.versions: dict[str, int] = {}
        for graph in graphs:
            version = 1 + sum(other.key == graph.key for other in self.graphs.values())
            definition_id = f"{graph.key}:{version}"
            self.graphs[definition_id] = graph
            self.versions[definition_id] = version

    def graph(self, definition_id: str) -> Graph | None:
        return self.graphs.get(definition_id)

    def version(self, definition_id: str) -> int:
        return self.versions[definition_id]

    def latest(self, key: str) -> str | None:
        found = [definition_id for definition_id, graph in self.graphs.items() if graph.key == key]
        return found[-1] if found else None

    def resolve(self, reference: DefinitionRef) -> Resolved | Unknown | None:
        match reference.binding:
            case int(version):
                definition_id: str | None = f"{reference.key}:{version}"
            case ("tag", tag):
                matching = [
                    d for d, g in self.graphs.items() if g.key == reference.key and g.version_tag == tag
                ]
                definition_id = matching[-1] if matching else None
            case _:
                definition_id = self.latest(reference.key)
        if definition_id is None or definition_id not in self.graphs:
            return Unknown.ABSENT
        return Resolved(definition_id, self.versions[definition_id], self.graphs[definition_id])


class Player:
    def __init__(
        self,
        *sources: bytes | Graph,
        reload: bool = False,
        check: bool = True,
        limits: Limits | None = None,
        retry: RetryPolicy | None = None,
        on_failure: str = "fail",
    ) -> None:
        graphs = [
            g
            for x in sources
            for g in ((x,) if isinstance(x, Graph) else load(x, soundness=False).require().graphs)
        ]
        self.definitions = Library(graphs)
        self.world = World()
        self.now = START
        self.reload = reload
        self.check = check
        self.rounds = 0
        self.asked: list[Needs] = []
        self.log: list[LogEntry] = []
        self.outbox: list[OutboxEvent] = []
        self.buffer: list[ThrownMessage] = []
        self.root = ""
        self._numbers = itertools.count(1)
        self.limits = limits or Limits()
        self._retry = retry or RetryPolicy(jitter=0)
        self._on_failure = on_failure

    # ------------------------------------------------------------------ playing

    def new_id(self) -> str:
        return f"{next(self._numbers):06d}"

    def context(self) -> Context:
        return Context(
            now=self.now,
            new_id=self.new_id,
            limits=self.limits,
            retry=self._retry,
            on_failure=self._on_failure,  # type: ignore[arg-type]
        )

    def play(self, *stimuli: s.Stimulus) -> list[Outcome]:
        """One batch, then whatever the engine itself goes on with: rested tokens, thrown messages."""
        changes = self._advance(stimuli)
        self._write(changes)
        self._go_on()
        return changes.outcomes

    def _play_one(self, stimulus: s.Stimulus) -> Outcome:
        return self.play(stimulus)[0]

    def _advance(self, stimuli: tuple[s.Stimulus, ...]) -> Changes:
        if not self.reload:
            changes = advance(self.definitions, self.world.whole(), stimuli, self.context())
            assert isinstance(changes, Changes), changes
            return changes
        loader = Loader(self.world)
        loader.load(named(stimuli))
        loader.load(foreseen(self.definitions, loader.snapshot, stimuli))
        for _ in range(20):
            changes = advance(self.definitions, loader.snapshot, stimuli, self.context())
            if isinstance(changes, Changes):
                return changes
            self.rounds += 1
            self.asked.append(changes)
            loader.load(changes)
        raise AssertionError(f"the core asks again and again: {changes}")

    def _write(self, changes: Changes) -> None:
        self.world.write(changes)
        self.log += changes.log
        self.outbox += changes.outbox
        if self.check:
            assert (found := violations(self.world, self.definitions, self.log)) == [], found
        self.buffer += changes.messages
        for signal in changes.signals:
            self._broadcast(signal.name, signal.payload, signal.later)
        for message in [m for m in self.buffer if m in changes.messages]:
            self._correlate(message)

    def _go_on(self) -> None:
        """What an engine does by itself: resting tokens, due timers, buffered messages."""
        while True:
            if ready := self._ready(lambda token: token.topic is None):
                changes = self._advance((s.Continued(claim=self.claim(ready[0])),))
            elif due := self._due(self.now):
                changes = self._advance((s.TimerFired(timer_id=due[0].id),))
                if not isinstance(changes.outcomes[0], Applied) and not changes.timers:
                    return self._write(changes)
            else:
                break
            self._write(changes)
        for message in list(self.buffer):
            if self._correlate(message):
                return self._go_on()
        return None

    # ------------------------------------------------------------------ stimuli

    def start(self, variables: Variables | None = None, *, key: str | None = None, **fields: Any) -> str:
        definition_id = next(iter(self.definitions.graphs)) if key is None else self.definitions.latest(key)
        assert definition_id is not None
        instance_id = fields.pop("instance_id", None) or self.new_id()
        self.root = instance_id
        outcome = self._play_one(
            s.Started(
                instance_id=instance_id,
                tenant_id=TENANT,
                definition_id=definition_id,
                variables=variables or {},
                **fields,
            )
        )
        assert isinstance(outcome, Applied), outcome
        return str(instance_id)

    def claim(self, token: Token) -> s.Claim:
        """What the store does when a worker takes a token."""
        assert token.state is TokenState.READY
        assert not token.held
        claimed = replace(token, state=TokenState.EXECUTING, version=token.version + 1, lease_owner=OWNER)
        self.world.tokens[token.id] = claimed
        return s.Claim(token_id=token.id, version=claimed.version, owner=OWNER)

    def claim_at(self, node: str) -> s.Claim:
        return self.claim(self.work_at(node))

    def work_at(self, node: str) -> Token:
        ready = self._ready(lambda token: token.node_id == node and token.topic is not None)
        assert ready, f"no work at {node}; tokens rest at {self.at}"
        return ready[0]

    def complete(self, node: str, variables: Variables | None = None) -> Outcome:
        return self._play_one(s.WorkCompleted(claim=self.claim_at(node), variables=variables or {}))

    def fail(self, node: str, code: str = "BOOM", message: str = "", **fields: Any) -> Outcome:
        failure = s.Failure(code=code, message=message)
        return self._play_one(s.WorkFailed(claim=self.claim_at(node), failure=failure, **fields))

    def throw_error(
        self, node: str, code: str, message: str = "", variables: Variables | None = None
    ) -> Outcome:
        claim = self.claim_at(node)
        return self._play_one(
            s.ErrorThrown(claim=claim, code=code, message=message, variables=variables or {})
        )

    def expire(self, node: str) -> Outcome:
        claim = self.claim_at(node)
        return self._play_one(s.LeaseExpired(token_id=claim.token_id, version=claim.version))

    def run(self, handlers: dict[str, Handler | Variables] | None = None) -> None:
        """Answer all work, oldest first; a handler gets what the token sees. Missing handlers answer {}."""
        while ready := self._ready(lambda token: token.topic is not None):
            handler = (handlers or {}).get(ready[0].topic or "", {})
            result = handler(self.seen_by(ready[0])) if callable(handler) else handler
            self._play_one(s.WorkCompleted(claim=self.claim(ready[0]), variables=result or {}))

    def finish_task(self, node: str, variables: Variables | None = None, user: str | None = None) -> Outcome:
        open_tasks = [
            t for t in self.world.tasks.values() if t.node_id == node and t.status is TaskStatus.OPEN
        ]
        assert open_tasks, f"no task at {node}; tokens rest at {self.at}"
        return self._play_one(s.TaskCompleted(task_id=open_tasks[0].id, variables=variables or {}, user=user))

    def message(self, name: str, key: str | None = None, payload: Variables | None = None) -> str:
        message = ThrownMessage(
            id=self.new_id(),
            tenant_id=TENANT,
            instance_id="",
            root_instance_id="",
            name=name,
            correlation_key=key,
            payload=payload or {},
        )
        self.buffer.append(message)
        if self._correlate(message):
            self._go_on()
            return "delivered"
        return "buffered"

    def _correlate(self, message: ThrownMessage) -> bool:
        for subscription in list(self.world.subscriptions.values()):
            if (
                subscription.status is SubscriptionStatus.OPEN
                and subscription.kind is SubscriptionKind.MESSAGE
                and subscription.name == message.name
                and subscription.correlation_key in (None, message.correlation_key)
                and _contains(message.payload, subscription.match or {})
            ):
                stimulus = s.MessageDelivered(subscription_id=subscription.id, payload=message.payload)
                changes = self._advance((stimulus,))
                if isinstance(changes.outcomes[0], Refused):
                    self._write(changes)
                    continue
                self.buffer = [other for other in self.buffer if other.id != message.id]
                self._write(changes)
                return True
        return False

    def signal(self, name: str, payload: Variables | None = None) -> int:
        count = self._broadcast(name, payload or {})
        self._go_on()
        return count

    def _broadcast(self, name: str, payload: Variables, later: Sequence[str] = ()) -> int:
        waiting = [
            subscription.id
            for subscription in self.world.subscriptions.values()
            if subscription.status is SubscriptionStatus.OPEN
            and subscription.kind is SubscriptionKind.SIGNAL
            and subscription.name == name
            and subscription.id not in later
        ]
        for subscription_id in waiting:
            stimulus = s.SignalDelivered(subscription_id=subscription_id, payload=payload)
            self._write(self._advance((stimulus,)))
        return len(waiting)

    def tick(self, duration: str) -> None:
        until = parse_duration(duration).add(self.now)
        while due := self._due(until):
            self.now = max(self.now, due[0].due_at)
            before = self.world.timers[due[0].id]
            self._go_on()
            if self.world.timers[due[0].id] is before:
                break
        self.now = until
        self._go_on()

    def jump(self, duration: str) -> None:
        """Time passes while the engine is down; then it comes back."""
        self.now = parse_duration(duration).add(self.now)
        self._go_on()

    def cancel(self, instance_id: str | None = None) -> Outcome:
        return self._play_one(s.CancelRequested(instance_id=instance_id or self.root))

    def suspend(self) -> Outcome:
        return self._play_one(s.SuspendRequested(instance_id=self.root))

    def resume(self) -> Outcome:
        return self._play_one(s.ResumeRequested(instance_id=self.root))

    def retry(
        self, node: str | None = None, variables: Variables | None = None, instance_id: str | None = None
    ) -> Outcome:
        token_id = self.failed_at(node).id if node is not None else None
        return self._play_one(
            s.RetryRequested(
                instance_id=instance_id or self.root, token_id=token_id, variables=variables or {}
            )
        )

    def skip(self, node: str, variables: Variables | None = None) -> Outcome:
        return self._play_one(s.SkipRequested(token_id=self.failed_at(node).id, variables=variables or {}))

    def set(self, variables: Variables) -> Outcome:
        return self._play_one(s.VariablesSet(instance_id=self.root, variables=variables))

    def activate(self, node: str, variables: Variables | None = None) -> Outcome:
        """In the oldest activation of the ad-hoc sub-process around the node."""
        place = active_scope_around(self.definitions.graphs.values(), self.world.scopes.values(), node)
        stimulus = s.ActivitySelected(
            instance_id=self.root, node_id=node, variables=dict(variables or {}), scope_id=place
        )
        return self._play_one(stimulus)

    def move(self, from_node: str | None, to_node: str | None) -> Outcome:
        return self._play_one(s.TokensMoved(instance_id=self.root, from_node=from_node, to_node=to_node))

    def migrate(
        self, definition_id: str, mapping: dict[str, str] | None = None, instance_id: str | None = None
    ) -> Outcome:
        """To another of the given files: `p:2` is the second one with the key `p`."""
        stimulus = s.MigrationRequested(
            instance_id=instance_id or self.root, definition_id=definition_id, mapping=mapping or {}
        )
        return self._play_one(stimulus)

    # ------------------------------------------------------------------ looking

    def instance(self, instance_id: str | None = None) -> Instance:
        return self.world.instances[instance_id or self.root]

    @property
    def status(self) -> InstanceStatus:
        return self.instance().status

    @property
    def variables(self) -> Variables:
        return self.world.scopes[self.root].variables

    @property
    def at(self) -> list[str]:
        """Where live tokens are, sorted."""
        return sorted(token.node_id for token in self.tokens())

    @property
    def path(self) -> list[str]:
        """Node ids in order of entry, called instances included."""
        return path(self.log)

    @property
    def incidents(self) -> list[str]:
        """code@node of failed tokens, sorted."""
        failed = [token for token in self.tokens() if token.state is TokenState.FAILED]
        return sorted(f"{(token.error or {})['code']}@{token.node_id}" for token in failed)

    def failed_at(self, node: str) -> Token:
        return next(t for t in self.tokens() if t.state is TokenState.FAILED and t.node_id == node)

    def tokens(self) -> list[Token]:
        return [token for token in self.world.tokens.values() if token.state not in TERMINAL_TOKENS]

    def open_waits(self) -> list[str]:
        timers = [t.node_id for t in self.world.timers.values() if t.status is TimerStatus.SCHEDULED]
        rows = self.world.subscriptions.values()
        return sorted(timers + [row.node_id for row in rows if row.status is SubscriptionStatus.OPEN])

    def seen_by(self, token: Token) -> Variables:
        """What a handler receives: the token's own, then scope by scope outwards."""
        layers: list[Variables] = [token.local or {}]
        place: str | None = token.scope_id
        while place is not None:
            scope = self.world.scopes[place]
            layers += [scope.variables, scope.loop or {}]
            place = scope.parent_id
        merged: Variables = {}
        for layer in reversed(layers):
            merged.update(layer)
        return merged

    def _ready(self, wanted: Callable[[Token], bool]) -> list[Token]:
        rows = self.world.tokens.values()
        return [t for t in rows if t.state is TokenState.READY and not t.held and wanted(t)]

    def _due(self, until: datetime) -> list[Timer]:
        running = {i.id for i in self.world.instances.values() if i.status is InstanceStatus.RUNNING}
        due = [
            timer
            for timer in self.world.timers.values()
            if timer.status is TimerStatus.SCHEDULED
            and timer.due_at <= until
            and timer.instance_id in running
        ]
        return sorted(due, key=lambda timer: (timer.due_at, timer.id))


def active_scope_around(graphs: Iterable[Graph], scopes: Iterable[Scope], node: str) -> str | None:
    """The oldest active scope in which the node, or the repetition around it, lies."""
    graph = next(graph for graph in graphs if node in graph.nodes)
    around = graph.scopes[graph.nodes[node].scope]
    wanted = around.parent if around.kind == "repeat" else around.id
    active = [s.id for s in scopes if s.node_id == wanted and s.state is ScopeState.ACTIVE]
    return min(active, default=None)


def _contains(payload: Any, wanted: Any) -> bool:
    if isinstance(wanted, dict):
        return isinstance(payload, dict) and all(
            key in payload and _contains(payload[key], value) for key, value in wanted.items()
        )
    return bool(payload == wanted)
