"""All rows of a world in memory, and a loader that gives out as little of them as a database would."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Generic, TypeVar

from msgspec.structs import replace

from bpm_engine.core.changes import Changes, Rows
from bpm_engine.core.lifecycle import TERMINAL_INSTANCES, TERMINAL_TOKENS
from bpm_engine.core.needs import Needs
from bpm_engine.core.snapshot import Snapshot
from bpm_engine.core.state import (
    CompensationRecord,
    CompensationStatus,
    HumanTask,
    Instance,
    Join,
    Scope,
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
from bpm_engine.store.records import Progress

R = TypeVar("R")
LIVING = (ScopeState.ACTIVE, ScopeState.COMPENSATING)


class Table(dict[Any, R], Generic[R]):
    """Rows by key, with an index per column that a loader asks for."""

    def __init__(self, *columns: str) -> None:
        super().__init__()
        self.index: dict[str, dict[Any, dict[Any, None]]] = {column: {} for column in columns}

    def __setitem__(self, key: Any, row: R) -> None:
        super().__setitem__(key, row)
        for column, groups in self.index.items():
            groups.setdefault(getattr(row, column), {})[key] = None

    def update_rows(self, rows: Iterable[Any]) -> None:
        for row in rows:
            self[row.id] = row

    def where(self, column: str, value: object) -> Iterator[R]:
        return (self[key] for key in self.index[column].get(value, ()))


class World:
    def __init__(self) -> None:
        self.instances: Table[Instance] = Table("parent_token_id")
        self.scopes: Table[Scope] = Table("token_id", "parent_id")
        self.tokens: Table[Token] = Table("scope_id")
        self.joins: Table[Join] = Table("scope_id")
        self.timers: Table[Timer] = Table("token_id", "scope_id")
        self.subscriptions: Table[Subscription] = Table("token_id", "scope_id", "instance_id")
        self.tasks: Table[HumanTask] = Table("token_id")
        self.compensations: Table[CompensationRecord] = Table("instance_id")
        self.items: dict[tuple[str, int], str] = {}  # (scope, loop index) -> token

    def write(self, changes: Changes) -> None:
        """Apply changes as the store does: tokens by version, variables by patch."""
        for token in changes.tokens.updated:
            assert token.version == self.tokens[token.id].version + 1, token
        updated = {scope.id: scope for scope in changes.scopes.updated}
        for scope_id in {**updated, **changes.patches}:
            before = self.scopes[scope_id]
            now = updated.get(scope_id, before)
            if scope_id == before.instance_id and now.seq == before.seq:
                # By its number workers know that a root scope is as they left it, but for what they read.
                told = {name: getattr(before, name) for name in Progress.__struct_fields__}
                assert replace(now, **told) == before, now
            merged = {**before.variables, **changes.patches.get(scope_id, {})}
            self.scopes[scope_id] = replace(now, variables=merged)
        self._store(self.scopes, Rows(changes.scopes.inserted, []))
        self._store(self.instances, changes.instances)
        self._store(self.tokens, changes.tokens)
        self._store(self.timers, changes.timers)
        self._store(self.subscriptions, changes.subscriptions)
        self._store(self.tasks, changes.tasks)
        self._store(self.compensations, changes.compensations)
        for join in changes.joins.inserted:
            self._insert(self.joins, (join.scope_id, join.node_id), join)
        for join in changes.joins.updated:
            self.joins[join.scope_id, join.node_id] = join
        for token in changes.tokens.inserted:
            if token.loop_index is not None:
                self.items[token.scope_id, token.loop_index] = token.id

    def _store(self, table: Table[Any], rows: Rows[Any]) -> None:
        for row in rows.inserted:
            self._insert(table, row.id, row)
        for row in rows.updated:
            assert row.id in table
            table[row.id] = row

    def _insert(self, table: Table[R], key: Any, row: R) -> None:
        assert key not in table, f"inserted twice: {row}"
        table[key] = row

    def whole(self) -> Snapshot:
        return Snapshot(
            instances=self.instances,
            scopes=self.scopes,
            tokens=self.tokens,
            joins=self.joins,
            timers=self.timers,
            subscriptions=self.subscriptions,
            tasks=self.tasks,
            compensations=self.compensations,
            whole=True,
        )


class Loader:
    """Fills a narrow snapshot with exactly what is asked for."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.snapshot = Snapshot()

    def load(self, needs: Needs) -> None:
        for instance_id in needs.instances:
            if self._present(instance_id in self.world.instances, instance_id):
                self._instance(instance_id)
        for token_id in needs.tokens:
            if self._present(token_id in self.world.tokens, token_id):
                self._token(token_id)
        self._waits_by_id(needs)
        for scope_id in needs.scopes:
            self._scope(scope_id)
        for scope_id in needs.complete:
            if scope_id in self.world.scopes:
                self._scope(scope_id)
                self._complete(scope_id)
        for token_id in needs.inside:
            self._inside(token_id)
        for scope_id in needs.siblings:
            self.snapshot.siblings.add(scope_id)
            self._live_tokens(scope_id)
        for token_id in needs.waits:
            self._waits(token_id)
        for scope_id in needs.handlers:
            self._handlers(scope_id)
        self._joins(needs)
        self._repetitions(needs)
        self._records(needs)
        for instance_id in needs.conditions:
            self._conditions(instance_id)

    def _present(self, exists: bool, row_id: str) -> bool:
        if not exists:
            self.snapshot.absent.add(row_id)
        return exists

    def _instance(self, instance_id: str) -> None:
        if instance_id in self.snapshot.instances:
            return
        instance = self.world.instances[instance_id]
        self.snapshot.instances[instance_id] = instance
        self.snapshot.scopes[instance_id] = self.world.scopes[instance_id]
        if instance.parent_token_id is not None:
            self._token(instance.parent_token_id)

    def _token(self, token_id: str) -> None:
        token = self.world.tokens[token_id]
        self.snapshot.tokens[token_id] = token
        self._scope(token.scope_id)

    def _scope(self, scope_id: str) -> None:
        scope = self.world.scopes[scope_id]
        known = scope_id in self.snapshot.scopes
        self.snapshot.scopes[scope_id] = scope
        self._instance(scope.instance_id)
        if known:
            return
        if scope.token_id is not None:
            self._token(scope.token_id)
        if scope.parent_id is not None:
            self._scope(scope.parent_id)

    def _waits_by_id(self, needs: Needs) -> None:
        tables: list[tuple[Any, Any, Any]] = [
            (needs.timers, self.world.timers, self.snapshot.timers),
            (needs.subscriptions, self.world.subscriptions, self.snapshot.subscriptions),
            (needs.tasks, self.world.tasks, self.snapshot.tasks),
        ]
        for wanted, table, loaded in tables:
            for row_id in wanted:
                if self._present(row_id in table, row_id):
                    row = loaded[row_id] = table[row_id]
                    self._scope(row.scope_id)
                    if row.token_id is not None:
                        self._token(row.token_id)

    def _live_tokens(self, scope_id: str) -> list[Token]:
        live = [t for t in self.world.tokens.where("scope_id", scope_id) if t.state not in TERMINAL_TOKENS]
        for token in live:
            self.snapshot.tokens[token.id] = token
        return live

    def _complete(self, scope_id: str) -> None:
        self.snapshot.complete.add(scope_id)
        self.snapshot.scopes[scope_id] = self.world.scopes[scope_id]
        self._handlers(scope_id)
        for join in self.world.joins.where("scope_id", scope_id):
            self.snapshot.joins[join.scope_id, join.node_id] = join
        for token in self._live_tokens(scope_id):
            self._waits(token.id)
            self._inside(token.id)
        for scope in self.world.scopes.where("parent_id", scope_id):
            if scope.state in LIVING and scope.id not in self.snapshot.complete:
                self._complete(scope.id)

    def _inside(self, token_id: str) -> None:
        self.snapshot.inside.add(token_id)
        for scope in self.world.scopes.where("token_id", token_id):
            if scope.state in LIVING:
                self._complete(scope.id)
        for instance in self.world.instances.where("parent_token_id", token_id):
            if instance.status not in TERMINAL_INSTANCES:
                self.snapshot.instances[instance.id] = instance
                self._complete(instance.id)

    def _waits(self, token_id: str) -> None:
        self.snapshot.waits.add(token_id)
        for timer in self.world.timers.where("token_id", token_id):
            if timer.status is TimerStatus.SCHEDULED:
                self.snapshot.timers[timer.id] = timer
        for subscription in self.world.subscriptions.where("token_id", token_id):
            if subscription.status is SubscriptionStatus.OPEN:
                self.snapshot.subscriptions[subscription.id] = subscription
        for task in self.world.tasks.where("token_id", token_id):
            if task.status is TaskStatus.OPEN:
                self.snapshot.tasks[task.id] = task

    def _handlers(self, scope_id: str) -> None:
        self.snapshot.handlers.add(scope_id)
        for timer in self.world.timers.where("scope_id", scope_id):
            if timer.token_id is None and timer.status is TimerStatus.SCHEDULED:
                self.snapshot.timers[timer.id] = timer
        for subscription in self.world.subscriptions.where("scope_id", scope_id):
            if subscription.token_id is None and subscription.status is SubscriptionStatus.OPEN:
                self.snapshot.subscriptions[subscription.id] = subscription

    def _joins(self, needs: Needs) -> None:
        for scope_id, node_id in needs.joins:
            self.snapshot.joins_loaded.add((scope_id, node_id))
            if (scope_id, node_id) in self.world.joins:
                self.snapshot.joins[scope_id, node_id] = self.world.joins[scope_id, node_id]
            for token in self.world.tokens.where("scope_id", scope_id):
                parked = token.waiting_for is Waiting.JOIN and token.state not in TERMINAL_TOKENS
                if token.node_id == node_id and parked:
                    self.snapshot.tokens[token.id] = token

    def _repetitions(self, needs: Needs) -> None:
        for scope_id, index in needs.items:
            self.snapshot.items.add((scope_id, index))
            if (token_id := self.world.items.get((scope_id, index))) is not None:
                self.snapshot.tokens[token_id] = self.world.tokens[token_id]
        for scope_id in needs.outputs:
            self.snapshot.outputs.add(scope_id)
            for token in self.world.tokens.where("scope_id", scope_id):
                if token.loop_index is not None and token.state is TokenState.COMPLETED:
                    self.snapshot.tokens[token.id] = token

    def _records(self, needs: Needs) -> None:
        for instance_id in needs.records:
            self.snapshot.records.add(instance_id)
            for record in self.world.compensations.where("instance_id", instance_id):
                if record.status is CompensationStatus.COMPLETED:
                    continue
                self.snapshot.compensations[record.id] = record
                self._scope(record.scope_id)
                if record.inner_scope_id is not None:
                    self._scope(record.inner_scope_id)

    def _conditions(self, instance_id: str) -> None:
        self.snapshot.conditions.add(instance_id)
        for row in self.world.subscriptions.where("instance_id", instance_id):
            if row.kind is SubscriptionKind.CONDITION and row.status is SubscriptionStatus.OPEN:
                self.snapshot.subscriptions[row.id] = row
                self._scope(row.scope_id)
                if row.token_id is not None:
                    self._token(row.token_id)
