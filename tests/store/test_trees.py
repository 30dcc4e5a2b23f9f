"""Taking trees and loading snapshots: exactly what was asked for, under locks that make joins plain
arithmetic.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace as with_fields
from datetime import timedelta
from threading import Barrier, Thread

import pytest
from support import rows as sample

from bpm_engine.core.changes import Changes
from bpm_engine.core.needs import Needs
from bpm_engine.core.state import (
    CompensationRecord,
    CompensationStatus,
    Instance,
    Join,
    Scope,
    ScopeState,
    TimerStatus,
    TokenState,
    Waiting,
    replace,
)
from bpm_engine.store import changes as changing
from bpm_engine.store import timers, trees, work
from bpm_engine.store.config import StoreConfig
from bpm_engine.store.failures import TransactionRetryError
from bpm_engine.store.schema import scope
from bpm_engine.store.store import Store

LEASE = timedelta(seconds=30)


def apply(store: Store, changes: Changes) -> None:
    with store.transaction() as tx:
        changing.apply(tx, changes)


def load(store: Store, **needs: object) -> trees.Snapshot:
    with store.transaction() as tx:
        snapshot, unreadable = trees.load_snapshot(tx, Needs(**{k: frozenset(v) for k, v in needs.items()}))
    assert unreadable == {}
    return snapshot


class World:
    """A caller with a sub-process in which a token has called another instance; every kind of row around
    them.
    """

    def __init__(self) -> None:
        self.caller = sample.instance()
        self.root = sample.root_scope(self.caller)
        self.host = self.token(self.caller, self.root, state=TokenState.WAITING, waiting_for=Waiting.SCOPE)
        self.inner = self.scope(self.caller, self.root, token_id=self.host.id)
        self.calling = self.token(self.caller, self.inner, state=TokenState.WAITING, waiting_for=Waiting.CALL)
        self.sibling = self.token(self.caller, self.inner, loop_index=1)
        self.done = self.token(self.caller, self.inner, state=TokenState.COMPLETED, loop_index=0, output=5)
        self.called = sample.instance(
            root_instance_id=self.caller.id,
            parent_token_id=self.calling.id,
            parent_instance_id=self.caller.id,
            depth=1,
        )
        self.called_root = sample.root_scope(self.called)
        self.worker = self.token(self.called, self.called_root)
        self.closed = self.scope(self.caller, self.root, state=ScopeState.COMPLETED)
        self.event_scope = self.scope(self.caller, self.inner)
        self.timer = sample.timer(self.caller, scope_id=self.inner.id, token_id=self.calling.id)
        self.fired = replace(self.timer, id=sample.new_id(), status=TimerStatus.FIRED)
        self.scope_timer = sample.timer(self.caller, scope_id=self.inner.id)
        self.wait = sample.subscription(self.caller, scope_id=self.inner.id, token_id=self.calling.id)
        self.scope_wait = sample.subscription(self.caller, scope_id=self.inner.id)
        self.task = sample.human_task(self.called, scope_id=self.called_root.id, token_id=self.worker.id)
        self.join = Join(
            **self.owned(self.caller), id=sample.new_id(), scope_id=self.inner.id, node_id="j", expected=2
        )
        self.parked = self.token(
            self.caller, self.inner, node_id="j", state=TokenState.WAITING, waiting_for=Waiting.JOIN
        )
        self.record = CompensationRecord(
            **self.owned(self.caller),
            id=sample.new_id(),
            scope_id=self.root.id,
            node_id="a",
            order=1,
            inner_scope_id=self.closed.id,
        )
        self.undone = replace(self.record, id=sample.new_id(), order=2, status=CompensationStatus.COMPLETED)

    def changes(self) -> Changes:
        changes = Changes()
        changes.instances.inserted = [self.caller, self.called]
        changes.scopes.inserted = [self.root, self.inner, self.called_root, self.closed, self.event_scope]
        changes.tokens.inserted = [self.host, self.calling, self.sibling, self.done, self.worker, self.parked]
        changes.timers.inserted = [self.timer, self.fired, self.scope_timer]
        changes.subscriptions.inserted = [self.wait, self.scope_wait]
        changes.tasks.inserted = [self.task]
        changes.joins.inserted = [self.join]
        changes.compensations.inserted = [self.record, self.undone]
        return changes

    @staticmethod
    def owned(of: Instance) -> dict[str, str]:
        return {"tenant_id": of.tenant_id, "instance_id": of.id, "root_instance_id": of.root_instance_id}

    def scope(self, of: Instance, parent: Scope, **fields: object) -> Scope:
        return Scope(**self.owned(of), id=sample.new_id(), node_id="sub", parent_id=parent.id, **fields)

    @staticmethod
    def token(of: Instance, scope: Scope, **fields: object):
        return sample.token(of, scope_id=scope.id, **fields)


@pytest.fixture
def world(store: Store) -> World:
    made = World()
    apply(store, made.changes())
    return made


def keyed(*records: object) -> dict[str, object]:
    return {record.id: record for record in records}


def test_a_token_comes_with_its_chain_through_the_callers(store: Store, world: World) -> None:
    found = load(store, tokens=[world.worker.id])
    assert found.tokens == keyed(world.worker, world.calling, world.host)
    assert found.scopes == keyed(world.called_root, world.inner, world.root)
    assert found.instances == keyed(world.called, world.caller)
    assert (found.timers, found.subscriptions, found.tasks, found.joins) == ({}, {}, {}, {})
    assert found.complete == set()


@pytest.mark.parametrize(
    ("kind", "name"), [("timers", "timer"), ("subscriptions", "wait"), ("tasks", "task"), ("scopes", "inner")]
)
def test_a_wait_or_scope_comes_with_its_chain(store: Store, world: World, kind: str, name: str) -> None:
    record = getattr(world, name)
    found = load(store, **{kind: [record.id]})
    assert getattr(found, kind)[record.id] == record
    assert world.root.id in found.scopes
    assert world.caller.id in found.instances
    assert world.host.id in found.tokens


def test_an_instance_comes_with_its_root_scope_and_its_callers(store: Store, world: World) -> None:
    found = load(store, instances=[world.called.id])
    assert found.instances == keyed(world.called, world.caller)
    assert found.scopes == keyed(world.called_root, world.inner, world.root)


def test_a_complete_scope_has_all_that_lives_inside_and_in_called_instances(
    store: Store, world: World
) -> None:
    found = load(store, complete=[world.inner.id])
    assert found.tokens == keyed(world.calling, world.sibling, world.worker, world.parked, world.host)
    assert found.scopes == keyed(world.inner, world.event_scope, world.called_root, world.root)
    assert found.timers == keyed(world.timer, world.scope_timer)
    assert found.subscriptions == keyed(world.wait, world.scope_wait)
    assert found.tasks == keyed(world.task)
    assert list(found.joins.values()) == [world.join]
    assert found.instances == keyed(world.called, world.caller)
    assert found.complete == {world.inner.id, world.event_scope.id, world.called_root.id}


def test_inside_a_token_is_its_inner_scope_or_its_called_instance(store: Store, world: World) -> None:
    assert world.inner.id in load(store, inside=[world.host.id]).complete
    found = load(store, inside=[world.calling.id])
    assert found.complete == {world.called_root.id}
    assert world.worker.id in found.tokens
    assert found.inside >= {world.calling.id}


def test_siblings_are_the_live_tokens_directly_in_a_scope(store: Store, world: World) -> None:
    assert load(store, siblings=[world.inner.id]).tokens == keyed(world.calling, world.sibling, world.parked)


def test_the_waits_of_a_token_and_the_handlers_of_a_scope(store: Store, world: World) -> None:
    found = load(store, waits=[world.calling.id])
    assert (found.timers, found.subscriptions) == (keyed(world.timer), keyed(world.wait))
    assert load(store, waits=[world.worker.id]).tasks == keyed(world.task)
    found = load(store, handlers=[world.inner.id])
    assert (found.timers, found.subscriptions) == (keyed(world.scope_timer), keyed(world.scope_wait))


def test_a_join_comes_with_the_tokens_parked_at_it(store: Store, world: World) -> None:
    place = (world.inner.id, "j")
    found = load(store, joins=[place, (world.root.id, "none")])
    assert found.joins == {place: world.join}
    assert found.tokens == keyed(world.parked)
    assert found.joins_loaded == {place, (world.root.id, "none")}


def test_items_and_outputs_of_a_repetition(store: Store, world: World) -> None:
    assert load(store, items=[(world.inner.id, 1)]).tokens == keyed(world.sibling)
    assert load(store, outputs=[world.inner.id]).tokens == keyed(world.done)


def test_unfinished_compensation_records_come_with_the_scopes_they_name(store: Store, world: World) -> None:
    found = load(store, records=[world.caller.id])
    assert found.compensations == keyed(world.record)
    assert {world.root.id, world.closed.id} <= found.scopes.keys()


def test_what_does_not_exist_is_said_to_be_absent(store: Store, world: World) -> None:
    nowhere = sample.new_id()
    for kind in ("instances", "tokens", "timers", "subscriptions", "tasks", "scopes"):
        assert nowhere in load(store, **{kind: [nowhere]}).absent
    assert load(store, tokens=[world.worker.id]).absent == set()


def test_a_second_load_adds_to_the_first(store: Store, world: World) -> None:
    with store.transaction() as tx:
        first, _ = trees.load_snapshot(tx, Needs(tokens=frozenset({world.worker.id})))
        second, _ = trees.load_snapshot(tx, Needs(siblings=frozenset({world.inner.id})), first)
    assert {world.worker.id, world.sibling.id} <= second.tokens.keys()


def test_roots_are_found_from_any_id(store: Store, world: World) -> None:
    ids = [world.called.id, world.worker.id, world.timer.id, world.wait.id, world.task.id]
    with store.reading() as tx:
        found = trees.find_roots(tx, [*ids, sample.new_id()])
    assert found == dict.fromkeys(ids, world.caller.id)


def test_one_unreadable_row_does_not_stop_the_others(store: Store) -> None:
    good, bad = sample.instance(), sample.instance()
    changes = sample.started(good, bad)
    apply(store, changes)
    with store.transaction() as tx:
        tx.connection.exec_driver_sql(
            f"UPDATE scope SET variables = '{{\"x\": 1e5000}}' WHERE id = '{bad.id}'"
        )
    with store.transaction() as tx:
        needs = Needs(tokens=frozenset(t.id for t in changes.tokens.inserted))
        snapshot, unreadable = trees.load_snapshot(tx, needs)
    assert set(unreadable) == {bad.id}
    assert "variables" in unreadable[bad.id]
    assert good.id in snapshot.scopes
    assert bad.id not in snapshot.scopes


def test_a_held_root_is_left_out_and_the_rest_is_taken(postgresql_store: Store) -> None:
    one, two = sample.instance(), sample.instance()
    apply(postgresql_store, sample.started(one, two))
    with postgresql_store.transaction() as holder:
        assert trees.take_roots(holder, [one.id]).ids == {one.id}
        with postgresql_store.transaction() as other:
            assert trees.take_roots(other, [one.id, two.id]).ids == {two.id}


def known_root(store: Store, **fields: object) -> Scope:
    """One that is in the database, with these fields."""
    changes = sample.started(sample.instance())
    changes.scopes.inserted = [replace(changes.scopes.inserted[0], **fields)]
    apply(store, changes)
    return changes.scopes.inserted[0]


def write(store: Store, root: Scope, **variables: object) -> None:
    changes = Changes()
    changes.scopes.updated = [root]
    changes.patches = {root.id: variables}
    apply(store, changes)


def taken(store: Store, *known: Scope, others: tuple[str, ...] = ()) -> trees.Roots:
    with store.transaction() as tx:
        return trees.take_roots(
            tx, [*(root.id for root in known), *others], {root.id: root for root in known}
        )


def test_of_a_known_root_what_has_changed_without_an_entry_is_read(store: Store) -> None:
    seen = known_root(store, seq=3, variables={"a": 1}, loop={"kept": True})
    write(store, replace(seen, population=20, steps=7, live=2), b=2)
    (root,) = taken(store, seen).snapshot.scopes.values()
    assert root == replace(seen, population=20, steps=7, live=2, variables={"a": 1, "b": 2})


def test_a_known_root_with_a_new_entry_in_its_history_is_read_whole(store: Store) -> None:
    seen = known_root(store, seq=3, variables={"a": 1})
    now = replace(seen, seq=4, state=ScopeState.COMPENSATING, written=["a"])
    write(store, now)
    (root,) = taken(store, seen).snapshot.scopes.values()
    assert root == now


def test_known_roots_are_locked_like_others(postgresql_store: Store) -> None:
    one, two, three = (known_root(postgresql_store) for _ in range(3))
    with postgresql_store.transaction() as holder:
        assert trees.take_roots(holder, [one.id], {one.id: one}).ids == {one.id}
        assert taken(postgresql_store, one, two, others=(three.id,)).ids == {two.id, three.id}
        with postgresql_store.transaction() as other:
            assert trees.take_roots(other, [one.id]).ids == frozenset()


def test_a_known_root_that_cannot_be_read_is_held_and_named(store: Store) -> None:
    good, bad = known_root(store, variables={"a": 1}), known_root(store, variables={"a": 1})
    with store.transaction() as tx:
        tx.connection.execute(scope.update().values(variables=[1]).where(scope.c.id == bad.id))
    roots = taken(store, good, bad)
    assert roots.ids == {good.id, bad.id}
    assert set(roots.unreadable) == {bad.id}


def test_waiting_for_a_root_ends_with_the_lock_timeout(postgresql_store: Store) -> None:
    owner = sample.instance()
    apply(postgresql_store, sample.started(owner))
    config = with_fields(postgresql_store.config, lock_timeout=0.05)
    with postgresql_store.transaction() as holder, Store(config) as hasty:
        trees.take_roots(holder, [owner.id])
        with pytest.raises(TransactionRetryError), hasty.transaction() as tx:
            trees.take_roots(tx, [owner.id], wait=True)


def test_a_loaded_token_cannot_be_claimed_until_the_end(postgresql_store: Store) -> None:
    changes = sample.started(sample.instance())
    apply(postgresql_store, changes)
    (token,) = changes.tokens.inserted
    with postgresql_store.transaction() as tx:
        trees.load_snapshot(tx, Needs(tokens=frozenset({token.id})))
        with postgresql_store.transaction() as other:
            assert work.claim_tokens(other, owner="w", limit=1, lease=LEASE) == []


def arrive(store: Store, join: Join, token_id: str, flow: str) -> bool:
    """One arrival as a committer does it: take the root, load, count, fire when all are there. Whether it
    fired.
    """
    while True:
        with store.transaction() as tx:
            if not trees.take_roots(tx, [join.root_instance_id]).ids:
                continue
            place = (join.scope_id, join.node_id)
            needs = Needs(joins=frozenset({place}), tokens=frozenset({token_id}))
            snapshot, _ = trees.load_snapshot(tx, needs)
            seen, token = snapshot.joins[place], snapshot.tokens[token_id]
            arrivals = {**seen.arrivals, flow: seen.arrivals.get(flow, 0) + 1}
            fires = len(arrivals) == seen.expected
            changes = Changes()
            changes.joins.updated = [
                replace(
                    seen,
                    arrivals={} if fires else arrivals,
                    joined=0 if fires else len(arrivals),
                    fired=seen.fired + fires,
                )
            ]
            changes.tokens.updated = [replace(token, state=TokenState.COMPLETED, version=token.version + 1)]
            changing.apply(tx, changes)
            return fires


@pytest.mark.parametrize("branches", [2, 3, 8])
def test_a_join_fires_exactly_once_when_all_arrive_at_the_same_moment(store: Store, branches: int) -> None:
    all_arrive_at_once(store, branches, rounds=10)


@pytest.mark.slow
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("branches", [2, 3, 8])
def test_each_of_a_thousand_joins_fires_once(postgresql_store: Store, branches: int) -> None:
    all_arrive_at_once(postgresql_store, branches, rounds=1_000)


def all_arrive_at_once(store: Store, branches: int, rounds: int) -> None:
    for _ in range(rounds):
        owner = sample.instance()
        changes = sample.started(owner, tokens=branches)
        join = Join(
            **World.owned(owner), id=sample.new_id(), scope_id=owner.id, node_id="j", expected=branches
        )
        changes.joins.inserted = [join]
        apply(store, changes)
        barrier = Barrier(branches)

        def run(index: int, barrier=barrier, join=join, changes=changes) -> bool:
            barrier.wait()
            return arrive(store, join, changes.tokens.inserted[index].id, f"flow{index}")

        with ThreadPoolExecutor(branches) as pool:
            fired = list(pool.map(run, range(branches)))
        assert sum(fired) == 1
        assert load(store, joins=[(owner.id, "j")]).joins[owner.id, "j"].fired == 1


def test_batches_claims_leases_and_sweeps_at_once_do_not_deadlock(store: Store) -> None:
    """Everything that writes runs at once on the same few trees; whatever is not obtained is left, nothing
    waits.
    """
    owners = [sample.instance() for _ in range(12)]
    changes = sample.started(*owners, tokens=3)
    changes.timers.inserted = [sample.timer(owner) for owner in owners]
    apply(store, changes)
    failures: list[BaseException] = []
    applied = [0]

    def rounds(one_round) -> None:
        try:
            for number in range(40):
                with store.transaction() as tx:
                    one_round(tx, number)
        except Exception as error:  # noqa: BLE001  whatever it is, the main thread reports it
            failures.append(error)

    def commit(tx, number: int) -> None:
        wanted = [owner.id for owner in owners[number % 3 :: 2]]
        taken = trees.take_roots(tx, reversed(wanted)).ids
        snapshot, _ = trees.load_snapshot(tx, Needs(complete=taken))
        moved = Changes()
        moved.tokens.updated = [
            replace(t, version=t.version + 1, state=TokenState.READY, lease_owner=None, lease_until=None)
            for t in snapshot.tokens.values()
        ]
        moved.timers.updated = [replace(t, fired=t.fired + 1) for t in snapshot.timers.values()]
        changing.apply(tx, moved)
        applied[0] += len(moved.tokens.updated)

    def claim(tx, number: int) -> None:
        taken = work.claim_tokens(tx, owner="w", limit=9, lease=LEASE)
        work.extend_leases(
            tx, [work.Claim(token_id=t.id, version=t.version, owner="w") for t in taken], sample.NOW
        )

    def sweep(tx, number: int) -> None:
        timers.due_timers(tx, sample.NOW + timedelta(days=1), 5)
        timers.expired_leases(tx, sample.NOW + timedelta(days=1), 5)

    threads = [Thread(target=rounds, args=(each,)) for each in (commit, commit, claim, claim, sweep, sweep)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert applied[0] > 0


def test_a_scope_with_many_live_tokens_loads_one_of_them_alone(store: Store) -> None:
    changes = sample.started(sample.instance(), tokens=500)
    apply(store, changes)
    assert len(load(store, tokens=[changes.tokens.inserted[7].id]).tokens) == 1


def test_the_configuration_refuses_an_unknown_durability() -> None:
    with pytest.raises(ValueError, match="FULL"):
        StoreConfig(sqlite_synchronous="OFF")
