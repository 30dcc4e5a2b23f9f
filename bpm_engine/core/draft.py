"""The rows as the current advance has changed them so far, over a snapshot that stays untouched.

Reading falls through to the snapshot; what neither has is `Lacking`, unless it is known not to exist.
Every write can be taken back to a mark, so that a step that fails leaves nothing half-written. In the
end the draft becomes a `Changes`. It knows rows, not BPMN.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping
from typing import Any, Generic, TypeVar

import msgspec
from msgspec.structs import replace

from bpm_engine.core.changes import Changes, Rows
from bpm_engine.core.needs import Lacking, Needs
from bpm_engine.core.snapshot import JoinKey, Snapshot
from bpm_engine.core.state import (
    CompensationRecord,
    HumanTask,
    Instance,
    Join,
    LogEntry,
    OutboxEvent,
    Scope,
    Subscription,
    SubscriptionKind,
    SubscriptionStatus,
    TaskStatus,
    ThrownMessage,
    ThrownSignal,
    Timer,
    TimerStatus,
    Token,
    Variables,
)

K = TypeVar("K", bound=Hashable)
R = TypeVar("R")


class Touched(msgspec.Struct, frozen=True, gc=False):
    """Variables that a conditional event may read were written, or a conditional wait was opened."""

    instance_id: str
    names: Collection[str] = ()
    subscription_id: str | None = None


A = TypeVar("A", LogEntry, OutboxEvent, ThrownMessage, ThrownSignal, Touched)
Undo = list[Any]  # a dict or a tally, a key and what it held; or a list that grew by one
NOTHING: Any = object()

# See `marking` on words.
SCHEDULED, AWAITED, TO_DO = TimerStatus.SCHEDULED, SubscriptionStatus.OPEN, TaskStatus.OPEN


class Tally(msgspec.Struct, gc=False):
    """The counters of an instance as they are now; in the end they are written to its root scope."""

    seq: int
    population: int
    steps: int
    conditional: int


class Table(msgspec.Struct, Generic[K, R]):
    """One table: the snapshot's rows, the draft's rows over them, and groups by column made on demand.

    The columns that rows are grouped by never change in a row's life, so groups only grow.
    """

    base: Mapping[K, R]
    undo: Undo
    current: dict[K, R] = {}
    groups: dict[str, dict[Any, dict[K, None]]] | None = None

    def get(self, key: K) -> R | None:
        row = self.current.get(key)
        return row if row is not None else self.base.get(key)

    def put(self, key: K, row: R) -> None:
        current = self.current
        before = current.get(key, NOTHING)
        self.undo.append((current, key, before))
        current[key] = row
        if before is NOTHING and self.groups is not None:
            for column, group in self.groups.items():
                group.setdefault(getattr(row, column), {})[key] = None

    def where(self, column: str, value: object) -> list[R]:
        if self.groups is None:
            self.groups = {}
        group = self.groups.get(column)
        if group is None:
            group = self.groups[column] = self._grouped(column)
        return [row for key in group.get(value, ()) if (row := self.get(key)) is not None]

    def is_new(self, key: K) -> bool:
        return key not in self.base

    def rows(self) -> Rows[R]:
        inserted: list[R] = []
        updated: list[R] = []
        for key, row in self.current.items():
            before = self.base.get(key)
            if before is None:
                inserted.append(row)
            elif row != before:
                updated.append(row)
        return Rows(inserted, updated, self.base)

    def _grouped(self, column: str) -> dict[Any, dict[K, None]]:
        group: dict[Any, dict[K, None]] = {}
        for rows in (self.base, self.current):
            for key, row in rows.items():
                group.setdefault(getattr(row, column), {})[key] = None
        return group


class Draft:
    __slots__ = (
        "compensations",
        "heard_by",
        "instances",
        "joins",
        "log",
        "messages",
        "outbox",
        "patches",
        "places",
        "scopes",
        "signals",
        "snapshot",
        "subscriptions",
        "tallies",
        "tasks",
        "timers",
        "tokens",
        "touched",
        "undo",
    )

    def __init__(self, snapshot: Snapshot) -> None:
        undo: Undo = []
        self.snapshot = snapshot
        self.undo = undo
        self.instances: Table[str, Instance] = Table(snapshot.instances, undo)
        self.scopes: Table[str, Scope] = Table(snapshot.scopes, undo)
        self.tokens: Table[str, Token] = Table(snapshot.tokens, undo)
        self.joins: Table[JoinKey, Join] = Table(snapshot.joins, undo)
        self.timers: Table[str, Timer] = Table(snapshot.timers, undo)
        self.subscriptions: Table[str, Subscription] = Table(snapshot.subscriptions, undo)
        self.tasks: Table[str, HumanTask] = Table(snapshot.tasks, undo)
        self.compensations: Table[str, CompensationRecord] = Table(snapshot.compensations, undo)
        self.patches: dict[str, Variables] = {}
        self.places: dict[str, str] = {}  # scope id -> node id, changed by a migration
        self.tallies: dict[str, Tally] = {}  # by instance, of those that were asked for
        self.touched: list[Touched] = []  # what conditional events are to be looked at for
        self.log: list[LogEntry] = []
        self.outbox: list[OutboxEvent] = []
        self.messages: list[ThrownMessage] = []
        self.signals: list[ThrownSignal] = []
        self.heard_by: dict[str, int] = {}  # signal id -> how many subscriptions the draft had at the throw

    # ------------------------------------------------------------------ reading

    def token(self, token_id: str) -> Token:
        row = self.tokens.current.get(token_id) or self.snapshot.tokens.get(token_id)
        if row is None:
            raise Lacking(Needs(tokens=frozenset({token_id})))
        return row

    def scope(self, scope_id: str) -> Scope:
        row = self.scopes.current.get(scope_id) or self.snapshot.scopes.get(scope_id)
        if row is None:
            raise Lacking(Needs(scopes=frozenset({scope_id})))
        return row

    def instance(self, instance_id: str) -> Instance:
        row = self.instances.current.get(instance_id) or self.snapshot.instances.get(instance_id)
        if row is None:
            raise Lacking(Needs(instances=frozenset({instance_id})))
        return row

    def tally(self, instance_id: str) -> Tally:
        """The counters of an instance sit on its root scope, which has the instance's id."""
        found = self.tallies.get(instance_id)
        if found is None:
            root = self.scope(instance_id)
            found = Tally(root.seq, root.population, root.steps, root.conditional)
            self.tallies[instance_id] = found
        return found

    # ------------------------------------------------------------------ writing

    def set_variables(self, scope_id: str, values: Variables) -> None:
        if scope_id in self.patches:
            for name, value in values.items():
                self.set_variable(scope_id, name, value)
        else:
            self.undo.append((self.patches, scope_id, NOTHING))
            self.patches[scope_id] = dict(values)

    def set_variable(self, scope_id: str, name: str, value: Any) -> None:
        patch = self.patches.get(scope_id)
        if patch is None:
            patch = self.patches[scope_id] = {}
        self.undo.append((patch, name, patch.get(name, NOTHING)))
        patch[name] = value

    def place(self, scope_id: str, node_id: str) -> None:
        self.undo.append((self.places, scope_id, self.places.get(scope_id, NOTHING)))
        self.places[scope_id] = node_id

    def set_counter(self, tally: Tally, name: str, value: int) -> None:
        self.undo.append((tally, name, getattr(tally, name)))
        setattr(tally, name, value)

    def next_seq(self, instance_id: str) -> int:
        """The number of the log entry that is about to be appended."""
        tally = self.tallies.get(instance_id) or self.tally(instance_id)
        tally.seq = number = tally.seq + 1
        return number

    def append(self, rows: list[A], row: A) -> None:
        """To the history, the outbox, what is thrown, or what is to be looked at."""
        self.undo.append(rows)
        rows.append(row)

    def rollback(self, mark: int = 0) -> None:
        """To a length that `undo` had, or to when it was empty: before the stimulus that is being played."""
        while len(self.undo) > mark:
            change = self.undo.pop()
            if type(change) is list:
                self._shrink(change)
                continue
            place, key, before = change
            if type(place) is Tally:
                setattr(place, key, before)
            elif before is NOTHING:
                del place[key]
            else:
                place[key] = before

    def _shrink(self, rows: list[Any]) -> None:
        row = rows.pop()
        if rows is self.log:
            self.tallies[row.instance_id].seq -= 1

    # ------------------------------------------------------------------ what may be concluded from absence

    def require(self, **needs: frozenset[Any]) -> None:
        raise Lacking(Needs(**needs))

    def require_waits(self, token: Token) -> None:
        known = self.snapshot
        if known.whole or token.id in known.waits or token.scope_id in known.complete:
            return
        if not self.tokens.is_new(token.id):
            self.require(waits=frozenset({token.id}))

    def require_handlers(self, scope: Scope) -> None:
        known = self.snapshot
        if known.whole or scope.id in known.handlers or scope.id in known.complete:
            return
        if not self.scopes.is_new(scope.id):
            self.require(handlers=frozenset({scope.id}))

    def require_siblings(self, scope: Scope) -> None:
        known = self.snapshot
        if known.whole or scope.id in known.siblings or scope.id in known.complete:
            return
        if not self.scopes.is_new(scope.id):
            self.require(siblings=frozenset({scope.id}))

    def require_complete(self, scope: Scope) -> None:
        known = self.snapshot
        if not (known.whole or scope.id in known.complete or self.scopes.is_new(scope.id)):
            self.require(complete=frozenset({scope.id}))

    def require_inside(self, token: Token) -> None:
        known = self.snapshot
        if known.whole or token.id in known.inside or token.scope_id in known.complete:
            return
        if not self.tokens.is_new(token.id):
            self.require(inside=frozenset({token.id}))

    def require_join(self, scope: Scope, node_id: str) -> None:
        known, key = self.snapshot, (scope.id, node_id)
        if known.whole or key in known.joins_loaded or scope.id in known.complete:
            return
        if not self.scopes.is_new(scope.id):
            self.require(joins=frozenset({key}))

    def require_item(self, scope: Scope, index: int, most: int) -> None:
        """With as many behind it as were loaded before, up to `most`: however many items pass at once, they
        take few rounds of loading, and where one rests, little was loaded in vain."""
        known = self.snapshot
        if known.whole or (scope.id, index) in known.items or scope.id in known.complete:
            return
        if not self.scopes.is_new(scope.id):
            loaded = sum(place == scope.id for place, _ in known.items)
            portion = max(1, min(loaded, most))
            self.require(items=frozenset((scope.id, index + number) for number in range(portion)))

    def require_outputs(self, scope: Scope) -> None:
        known = self.snapshot
        if not (known.whole or scope.id in known.outputs or self.scopes.is_new(scope.id)):
            self.require(outputs=frozenset({scope.id}))

    def require_records(self, instance_id: str) -> None:
        known = self.snapshot
        if not (known.whole or instance_id in known.records or self.instances.is_new(instance_id)):
            self.require(records=frozenset({instance_id}))

    def require_conditions(self, instance_id: str) -> None:
        known = self.snapshot
        if not (known.whole or instance_id in known.conditions or self.instances.is_new(instance_id)):
            self.require(conditions=frozenset({instance_id}))

    # ------------------------------------------------------------------ the end

    def changes(self) -> Changes:
        self._fold_counters()
        seen = self.scopes.base
        patches = {place: patch for place, patch in self.patches.items() if patch and place in seen}
        return Changes(
            instances=self.instances.rows(),
            scopes=self._scopes(patches),
            patches=patches,
            places=self.places,
            tokens=self.tokens.rows(),
            joins=self.joins.rows(),
            timers=_without(self.timers.rows(), SCHEDULED),
            subscriptions=_without(self.subscriptions.rows(), AWAITED),
            tasks=_without(self.tasks.rows(), TO_DO),
            compensations=self.compensations.rows(),
            log=self.log,
            outbox=self.outbox,
            messages=self.messages,
            signals=[self._with_later(signal) for signal in self.signals],
        )

    def _with_later(self, signal: ThrownSignal) -> ThrownSignal:
        """A signal reaches who waits when it is thrown, not who begins to wait afterwards."""
        opened = list(self.subscriptions.current.values())[self.heard_by[signal.id] :]
        later = [s.id for s in opened if s.kind is SubscriptionKind.SIGNAL and s.name == signal.name]
        return replace(signal, later=[*signal.later, *later]) if later else signal

    def _fold_counters(self) -> None:
        scopes, seen = self.scopes.current, self.scopes.base
        for instance_id, tally in self.tallies.items():
            root = scopes.get(instance_id) or seen.get(instance_id)
            if root is not None:  # else its start was taken back
                scopes[instance_id] = replace(
                    root,
                    seq=tally.seq,
                    population=tally.population,
                    steps=tally.steps,
                    conditional=tally.conditional,
                )
        for scope_id, patch in self.patches.items():
            scope = scopes.get(scope_id) or self.scope(scope_id)
            if scope.written is not None and patch:
                scopes[scope_id] = replace(scope, written=sorted({*scope.written, *patch}))

    def _scopes(self, patches: Mapping[str, Variables]) -> Rows[Scope]:
        """A new scope is written with its variables; a changed one is patched, also if only its variables
        have changed."""
        rows = self.scopes.rows()
        if patches:
            known = {scope.id for scope in rows.updated}
            rows.updated += [self.scope(place) for place in patches if place not in known]
        for place, scope in enumerate(rows.inserted):
            if patch := self.patches.get(scope.id):
                rows.inserted[place] = replace(scope, variables={**scope.variables, **patch})
        return rows


W = TypeVar("W", Timer, Subscription, HumanTask)


def _without(rows: Rows[W], kept: TimerStatus | SubscriptionStatus | TaskStatus) -> Rows[W]:
    """Waits that were opened and closed within one advance never existed for anybody else."""
    if rows.inserted:
        rows.inserted = [row for row in rows.inserted if row.status is kept]
    return rows
