"""Processes played in the core alone, without a database: every position can be kept and gone on from.

A `Position` never changes; a move makes a new one. That makes searching cheap: a step takes a fraction
of a millisecond, and going back costs nothing.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from msgspec.structs import replace as changed

from bpm_engine.bpmn.graph import Graph
from bpm_engine.core import stimuli
from bpm_engine.core.advance import AdvanceError, advance
from bpm_engine.core.changes import Applied, Changes
from bpm_engine.core.context import Context, DefinitionRef, Resolved, Unknown
from bpm_engine.core.lifecycle import TERMINAL_INSTANCES, TERMINAL_TOKENS
from bpm_engine.core.retry import RetryPolicy
from bpm_engine.core.snapshot import Snapshot, apply
from bpm_engine.core.state import (
    Instance,
    LogEntry,
    Subscription,
    SubscriptionKind,
    SubscriptionStatus,
    ThrownMessage,
    Timer,
    TimerStatus,
    Token,
    TokenState,
    Variables,
)
from bpm_engine.testing.steps import Step

TENANT = "t"
OWNER = "board"
NOON = datetime(2030, 1, 1, tzinfo=UTC)
MOST_TURNS = 500  # that follow from one move by themselves


class Library:
    """The graphs of a file as the core asks for them: each deployed once, as version 1."""

    def __init__(self, graphs: Sequence[Graph]) -> None:
        self._graphs = {graph.key: graph for graph in graphs}

    def graph(self, definition_id: str) -> Graph | None:
        return self._graphs.get(definition_id)

    def version(self, definition_id: str) -> int:
        return 1

    def resolve(self, reference: DefinitionRef) -> Resolved | Unknown | None:
        graph = self._graphs.get(reference.key)
        return Unknown.ABSENT if graph is None else Resolved(graph.key, 1, graph)


@dataclass(frozen=True, slots=True)
class Position:
    snapshot: Snapshot
    now: datetime = NOON
    log: tuple[LogEntry, ...] = ()
    steps: tuple[Step, ...] = ()
    messages: tuple[ThrownMessage, ...] = ()  # thrown and not taken yet

    @property
    def tokens(self) -> list[Token]:
        return [token for token in self.snapshot.tokens.values() if token.state not in TERMINAL_TOKENS]

    @property
    def subscriptions(self) -> list[Subscription]:
        every = self.snapshot.subscriptions.values()
        return [each for each in every if each.status is SubscriptionStatus.OPEN]

    @property
    def timers(self) -> list[Timer]:
        """In the order in which they are due."""
        waiting = [t for t in self.snapshot.timers.values() if t.status is TimerStatus.SCHEDULED]
        return sorted(waiting, key=lambda timer: (timer.due_at, timer.id))

    def instance(self, instance_id: str) -> Instance:
        return self.snapshot.instances[instance_id]

    @property
    def is_over(self) -> bool:
        return all(each.status in TERMINAL_INSTANCES for each in self.snapshot.instances.values())

    def visible(self, scope_id: str | None, local: Variables | None = None) -> Variables:
        """The variables that are seen from a scope."""
        layers = [local or {}]
        while scope_id is not None:
            scope = self.snapshot.scopes[scope_id]
            layers.append(scope.variables)
            scope_id = scope.parent_id
        return {name: value for layer in reversed(layers) for name, value in layer.items()}


@dataclass(slots=True)
class Board:
    library: Library
    moves: int = 0  # made so far: what a search has cost
    _numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    def new_id(self) -> str:
        return f"{next(self._numbers):08d}"

    def empty(self) -> Position:
        return Position(Snapshot(whole=True))

    def play(self, position: Position, step: Step, told: stimuli.Stimulus) -> Position | None:
        """The position after a step, once nothing more happens by itself; None: the step is refused."""
        self.moves += 1
        after = self._advanced(position, told)
        return None if after is None else self._settled(replace(after, steps=(*position.steps, step)))

    def broadcast(self, position: Position, step: Step, name: str, payload: Variables) -> Position | None:
        """A signal comes from outside."""
        self.moves += 1
        after = self._heard(position, name, payload, frozenset())
        return self._settled(replace(after, steps=(*position.steps, step)))

    def fire(self, position: Position, step: Step) -> Position | None:
        """Time passes until the next timer is due."""
        self.moves += 1
        due = position.timers[0].due_at
        position = replace(position, now=max(position.now, due), steps=(*position.steps, step))
        for timer in [each for each in position.timers if each.due_at <= due]:
            position = self._advanced(position, stimuli.TimerFired(timer_id=timer.id)) or position
        return self._settled(position)

    def claim(self, position: Position, token: Token) -> tuple[Position, stimuli.Claim]:
        """What the store does when a worker takes a token."""
        claimed = changed(token, state=TokenState.EXECUTING, version=token.version + 1, lease_owner=OWNER)
        snapshot = replace(position.snapshot, tokens={**position.snapshot.tokens, token.id: claimed})
        claim = stimuli.Claim(token_id=token.id, version=claimed.version, owner=OWNER)
        return replace(position, snapshot=snapshot), claim

    def _advanced(self, position: Position, told: stimuli.Stimulus) -> Position | None:
        context = Context(
            now=position.now, new_id=self.new_id, retry=RetryPolicy(jitter=0), handles=lambda topic: True
        )
        try:
            changes = advance(self.library, position.snapshot, [told], context)
        except AdvanceError:
            return None
        if not isinstance(changes, Changes) or not isinstance(changes.outcomes[0], Applied):
            return None
        after = replace(
            position,
            snapshot=apply(position.snapshot, changes),
            log=(*position.log, *changes.log),
            messages=(*position.messages, *changes.messages),
        )
        for signal in changes.signals:
            after = self._heard(after, signal.name, signal.payload, frozenset(signal.later))
        return after

    def _settled(self, position: Position) -> Position | None:
        for _ in range(MOST_TURNS):
            after = self._turn(position)
            if after is None:
                return position
            position = after
        return None

    def _turn(self, position: Position) -> Position | None:
        """The next thing that happens by itself; None: nothing does."""
        for token in position.tokens:
            if token.state is TokenState.READY and token.topic is None and not token.held:
                claimed, claim = self.claim(position, token)
                return self._advanced(claimed, stimuli.Continued(claim=claim))
        for message in position.messages:
            for each in position.subscriptions:
                if is_for(message, each):
                    rest = tuple(other for other in position.messages if other is not message)
                    told = stimuli.MessageDelivered(subscription_id=each.id, payload=message.payload)
                    return self._advanced(replace(position, messages=rest), told)
        return None

    def _heard(self, position: Position, name: str, payload: Variables, served: frozenset[str]) -> Position:
        for each in position.subscriptions:
            if each.kind is SubscriptionKind.SIGNAL and each.name == name and each.id not in served:
                told = stimuli.SignalDelivered(subscription_id=each.id, payload=payload)
                position = self._advanced(position, told) or position
        return position


def is_for(message: ThrownMessage, subscription: Subscription) -> bool:
    return (
        subscription.kind is SubscriptionKind.MESSAGE
        and subscription.name == message.name
        and subscription.correlation_key in (None, message.correlation_key)
        and all(message.payload.get(name) == value for name, value in (subscription.match or {}).items())
    )
