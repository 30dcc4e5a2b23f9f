"""Taking call trees and loading the part of them that a step may touch.

The root scope row of the top instance is the lock of its whole tree. `take_roots` takes what is free and
leaves the rest to its holder; whoever holds a root sees a consistent marking, so that joins are plain
arithmetic.

`load_snapshot` fills a `Snapshot` with what `Needs` names, in a constant number of statements, and locks the
tokens and human tasks that it returns: a claim or a person cannot change them between load and apply.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, TypeVar

import sqlalchemy as sa

from bpm_engine.core.needs import Needs
from bpm_engine.core.snapshot import Snapshot
from bpm_engine.core.state import Instance, Record, Scope, Subscription
from bpm_engine.store import loading, rows
from bpm_engine.store.records import (
    COMPENSATION,
    INSTANCE,
    JOIN,
    PROGRESS,
    SCOPE,
    SUBSCRIPTION,
    TASK,
    TIMER,
    TOKEN,
    Shape,
)
from bpm_engine.store.transaction import Transaction

R = TypeVar("R", bound=Record)
NOTHING_KNOWN: Mapping[str, Scope] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Roots:
    """Call trees that this transaction holds."""

    snapshot: Snapshot = field(default_factory=Snapshot)  # with their root scopes: where a load begins
    unreadable: dict[str, str] = field(default_factory=dict)  # held as well, but a value cannot be read: why

    @property
    def ids(self) -> frozenset[str]:
        return frozenset(self.snapshot.scopes) | self.unreadable.keys()


def find_roots(tx: Transaction, ids: Iterable[str]) -> dict[str, str]:
    """To which call tree each of these belongs: ids of instances, tokens, timers, subscriptions or human
    tasks.

    Ids that nobody knows are missing in the answer. Takes no lock: a row never changes its tree.
    """
    return {row.id: row.root_instance_id for row in tx.execute(loading.FIND_ROOTS, {"ids": rows.ids(ids)})}


def take_roots(
    tx: Transaction,
    root_instance_ids: Iterable[str],
    known: Mapping[str, Scope] = NOTHING_KNOWN,
    *,
    wait: bool = False,
) -> Roots:
    """Lock these trees, in order; the root scopes of those that were obtained.

    Without `wait` what another transaction holds is left out: put its work back. With it the call waits, at
    most the lock timeout, and then raises TransactionRetryError: for one tree alone, after some misses.

    `known`: root scopes as they were at some time. Where the number of the last entry in the history is still
    the same, only variables and counters are read: all else changes with an entry.
    """
    wanted = set(root_instance_ids)
    unreadable: dict[str, str] = {}
    scopes: dict[str, Scope] = {}
    if followed := [] if wait else [root_id for root_id in wanted if root_id in known]:
        scopes = _take_known(tx, followed, known, unreadable)
        wanted.difference_update(followed)
    if wanted:
        statement = loading.TAKE_ROOTS_WAITING if wait else loading.TAKE_ROOTS
        found = SCOPE.read(tx.execute(statement, _ids(wanted)), unreadable)
        scopes |= {root.id: root for root in found}
    return Roots(Snapshot(scopes=scopes), unreadable)


def _take_known(
    tx: Transaction, root_ids: Iterable[str], known: Mapping[str, Scope], unreadable: dict[str, str]
) -> dict[str, Scope]:
    taken = PROGRESS.read(tx.execute(loading.TAKE_KNOWN_ROOTS, _ids(root_ids)), unreadable)
    scopes = {root.id: root.of(seen) for root in taken if root.seq == (seen := known[root.id]).seq}
    if changed := [root.id for root in taken if root.id not in scopes]:
        found = SCOPE.read(tx.execute(loading.SCOPES, _ids(changed)), unreadable)
        scopes |= {root.id: root for root in found}
    return scopes


def load_snapshot(
    tx: Transaction, needs: Needs, snapshot: Snapshot | None = None
) -> tuple[Snapshot, dict[str, str]]:
    """A snapshot with all that `needs` names, added to the given one; and the trees that cannot be read, with
    why.

    Call it with the roots taken. A tree that cannot be read (a value put there by foreign hands) is not in
    the snapshot as far as the bad row is concerned: fail what belongs to it and go on with the rest.
    """
    loader = _Loader(tx, snapshot or Snapshot())
    loader.load(needs)
    return loader.snapshot, loader.unreadable


class _Loader:
    """One load: what is at hand, and what turned out to be bad."""

    def __init__(self, tx: Transaction, snapshot: Snapshot) -> None:
        self.tx = tx
        self.snapshot = snapshot
        self.unreadable: dict[str, str] = {}

    def load(self, needs: Needs) -> None:
        scopes = set(needs.scopes) | set(needs.instances)  # a root scope has the id of its instance
        tokens = set(needs.tokens)
        for waiting in self._named_waits(needs):
            scopes.add(waiting.scope_id)
            if waiting.token_id:
                tokens.add(waiting.token_id)
        complete = set(needs.complete)
        if needs.inside:
            complete |= self._inner_scopes(needs.inside)
        if needs.records:
            scopes |= self._records(needs.records)
        if needs.conditions:
            for waiting in self._conditions(needs.conditions):
                scopes.add(waiting.scope_id)
                if waiting.token_id:
                    tokens.add(waiting.token_id)
        if complete:
            self._complete(complete)
        self._chains(scopes | complete, tokens)
        self._around(needs)
        self._note(needs)

    def _named_waits(self, needs: Needs) -> list[Any]:
        found: list[Any] = []
        if needs.timers:
            found += self._keep(self.snapshot.timers, TIMER, loading.TIMERS, needs.timers)
        if needs.subscriptions:
            found += self._keep(
                self.snapshot.subscriptions, SUBSCRIPTION, loading.SUBSCRIPTIONS, needs.subscriptions
            )
        if needs.tasks:
            found += self._keep(self.snapshot.tasks, TASK, loading.TASKS, needs.tasks)
        return found

    def _inner_scopes(self, token_ids: Iterable[str]) -> set[str]:
        return {row.id for row in self.tx.execute(loading.INNER_SCOPES, _ids(token_ids))}

    def _records(self, instance_ids: Iterable[str]) -> set[str]:
        """The unfinished compensation records of instances; the scopes they name."""
        found = self._keep(
            self.snapshot.compensations, COMPENSATION, loading.UNFINISHED_COMPENSATIONS, instance_ids
        )
        return {r.scope_id for r in found} | {r.inner_scope_id for r in found if r.inner_scope_id}

    def _conditions(self, instance_ids: Iterable[str]) -> list[Subscription]:
        return self._keep(self.snapshot.subscriptions, SUBSCRIPTION, loading.CONDITIONS, instance_ids)

    def _complete(self, scope_ids: Iterable[str]) -> None:
        """All that lives in these scopes, in the scopes inside them and in the instances that they called."""
        inner = self._keep(self.snapshot.scopes, SCOPE, loading.SCOPES_INSIDE, scope_ids)
        every = {s.id for s in inner}
        self._keep(self.snapshot.tokens, TOKEN, loading.LIVE_TOKENS, every)
        self._keep(self.snapshot.timers, TIMER, loading.TIMERS_OF_SCOPES, every)
        self._keep(self.snapshot.subscriptions, SUBSCRIPTION, loading.SUBSCRIPTIONS_OF_SCOPES, every)
        self._keep(self.snapshot.tasks, TASK, loading.TASKS_OF_SCOPES, every)
        self._keep_joins(loading.JOINS_OF_SCOPES, _ids(every))
        self._keep(self.snapshot.instances, INSTANCE, loading.INSTANCES, {s.instance_id for s in inner})
        self._mark_complete(inner)

    def _mark_complete(self, inner: Iterable[Scope]) -> None:
        every = {s.id for s in inner}
        self.snapshot.complete |= every
        self.snapshot.siblings |= every
        self.snapshot.handlers |= every
        tokens = {t.id for t in self.snapshot.tokens.values() if t.scope_id in every}
        self.snapshot.waits |= tokens
        self.snapshot.inside |= tokens

    def _chains(self, scope_ids: set[str], token_ids: set[str]) -> None:
        """Outwards from tokens and scopes: scopes, the tokens that wait around them, instances, callers."""
        snapshot = self.snapshot
        unknown = token_ids - snapshot.tokens.keys()
        if unknown:
            self._keep(snapshot.tokens, TOKEN, loading.TOKENS, unknown)
        tokens = snapshot.tokens
        scope_ids = scope_ids | {tokens[each].scope_id for each in token_ids if each in tokens}
        missing = scope_ids - snapshot.scopes.keys()
        if missing:
            self._keep(snapshot.scopes, SCOPE, loading.SCOPES, missing)
        chain = [snapshot.scopes[scope_id] for scope_id in scope_ids & snapshot.scopes.keys()]
        instances = self._instances(chain)
        # Most tokens are in the outermost scope of an instance that nobody called: then this was all.
        nested = {s.id for s in chain if s.parent_id} | {i.id for i in instances if i.parent_token_id}
        if nested:
            chain = self._keep(snapshot.scopes, SCOPE, loading.SCOPE_CHAINS, nested)
            instances = self._instances(chain)
            owners = {s.token_id for s in chain} | {i.parent_token_id for i in instances}
            self._keep(snapshot.tokens, TOKEN, loading.TOKENS, {owner for owner in owners if owner})

    def _instances(self, chain: Iterable[Scope]) -> list[Instance]:
        """Of these scopes, and of the callers of their instances."""
        wanted = {s.instance_id for s in chain}
        missing = wanted - self.snapshot.instances.keys()
        if missing:
            self._keep(self.snapshot.instances, INSTANCE, loading.INSTANCES, missing)
        return [self.snapshot.instances[each] for each in wanted & self.snapshot.instances.keys()]

    def _around(self, needs: Needs) -> None:
        """What lies beside the chain, where the core has asked for it."""
        snapshot = self.snapshot
        if needs.siblings:
            self._keep(snapshot.tokens, TOKEN, loading.LIVE_TOKENS, needs.siblings)
        if needs.waits:
            self._keep(snapshot.timers, TIMER, loading.TIMERS_OF_TOKENS, needs.waits)
            self._keep(snapshot.subscriptions, SUBSCRIPTION, loading.SUBSCRIPTIONS_OF_TOKENS, needs.waits)
            self._keep(snapshot.tasks, TASK, loading.TASKS_OF_TOKENS, needs.waits)
        if needs.handlers:
            self._keep(snapshot.timers, TIMER, loading.TIMERS_WITHOUT_TOKEN, needs.handlers)
            self._keep(
                snapshot.subscriptions, SUBSCRIPTION, loading.SUBSCRIPTIONS_WITHOUT_TOKEN, needs.handlers
            )
        if needs.joins:
            given = {"given": rows.rows(sorted(needs.joins))}
            self._keep_joins(loading.JOINS, given)
            self._keep_tokens(loading.PARKED_TOKENS, given)
        if needs.items:
            self._keep_tokens(loading.ITEM_TOKENS, {"given": rows.rows(sorted(needs.items))})
        if needs.outputs:
            self._keep(snapshot.tokens, TOKEN, loading.COMPLETED_ITEMS, needs.outputs)

    def _note(self, needs: Needs) -> None:
        """Say what was looked for, so that "not there" differs from "not looked for"."""
        snapshot = self.snapshot
        snapshot.complete |= needs.complete
        snapshot.inside |= needs.inside
        snapshot.siblings |= needs.siblings
        snapshot.waits |= needs.waits
        snapshot.handlers |= needs.handlers
        snapshot.joins_loaded |= needs.joins
        snapshot.items |= needs.items
        snapshot.outputs |= needs.outputs
        snapshot.records |= needs.records
        snapshot.conditions |= needs.conditions
        for wanted, found in (
            (needs.instances, snapshot.instances),
            (needs.tokens, snapshot.tokens),
            (needs.timers, snapshot.timers),
            (needs.subscriptions, snapshot.subscriptions),
            (needs.tasks, snapshot.tasks),
            (needs.scopes, snapshot.scopes),
        ):
            snapshot.absent |= wanted - found.keys()

    def _read(self, shape: Shape[R], statement: sa.Select[Any], values: Mapping[str, object]) -> list[R]:
        return shape.read(self.tx.execute(statement, values), self.unreadable)

    def _keep(
        self, table: dict[str, R], shape: Shape[R], statement: sa.Select[Any], ids: Iterable[str]
    ) -> list[R]:
        found = self._read(shape, statement, _ids(ids))
        table |= {record.id: record for record in found}
        return found

    def _keep_tokens(self, statement: sa.Select[Any], values: Mapping[str, object]) -> None:
        self.snapshot.tokens |= {token.id: token for token in self._read(TOKEN, statement, values)}

    def _keep_joins(self, statement: sa.Select[Any], values: Mapping[str, object]) -> None:
        found = {(j.scope_id, j.node_id): j for j in self._read(JOIN, statement, values)}
        self.snapshot.joins |= found
        self.snapshot.joins_loaded |= found.keys()


def _ids(values: Iterable[str]) -> dict[str, list[str]]:
    return {"ids": rows.ids(values)}
