"""Claims and leases: exclusive, fenced by version and owner, by priority and topic, never of halted
instances.
"""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import timedelta
from threading import Barrier

import pytest
import sqlalchemy as sa
from support import rows as sample

from bpm_engine.core.changes import Changes
from bpm_engine.core.state import InstanceStatus, Token, TokenState, replace
from bpm_engine.core.stimuli import Claim
from bpm_engine.handlers import Handlers
from bpm_engine.services import claiming
from bpm_engine.services.places import Places
from bpm_engine.services.sweeps import bury, topics_begun
from bpm_engine.store import changes as changing
from bpm_engine.store import definitions, schema, statistics, timers, work
from bpm_engine.store.clock import ManualClock
from bpm_engine.store.store import Store
from bpm_engine.store.work import Topics

LEASE = timedelta(seconds=30)


def prepare(store: Store, *tokens: dict) -> list[Token]:
    """One instance per token."""
    changes = Changes()
    for fields in tokens:
        one = sample.started(sample.instance(), **fields)
        changes.instances.inserted += one.instances.inserted
        changes.scopes.inserted += one.scopes.inserted
        changes.tokens.inserted += one.tokens.inserted
    with store.transaction() as tx:
        changing.apply(tx, changes)
    return changes.tokens.inserted


def claim(store: Store, owner: str = "w", limit: int = 100, topics: Topics | None = None) -> list[Token]:
    with store.transaction() as tx:
        return work.claim_tokens(tx, owner=owner, limit=limit, lease=LEASE, topics=topics)


def as_claim(token: Token) -> Claim:
    return Claim(token_id=token.id, version=token.version, owner=token.lease_owner or "")


def test_a_claim_takes_the_lease_and_raises_the_version(store: Store, clock: ManualClock) -> None:
    (ready,) = prepare(store, {})
    (claimed,) = claim(store)
    assert claimed == replace(
        ready, state=TokenState.EXECUTING, version=2, lease_owner="w", lease_until=clock.now + LEASE
    )
    assert claim(store) == []


def test_higher_priority_goes_first_then_the_older_token(store: Store) -> None:
    a, b, c, d = prepare(store, {"priority": 1}, {"priority": 5}, {"priority": 5}, {"priority": -1})
    assert [t.id for t in claim(store, limit=3)] == [b.id, c.id, a.id]
    assert [t.id for t in claim(store)] == [d.id]


@pytest.mark.parametrize("topics", [None, Topics(prefixes=frozenset({""}))])
def test_a_claim_from_the_end_takes_the_lowest_priority_and_then_the_newest(
    store: Store, topics: Topics | None
) -> None:
    a, b, c, d = prepare(store, {"priority": 1}, {"priority": 5}, {"priority": 1}, {"priority": 1})
    with store.transaction() as tx:
        last = work.claim_tokens(tx, owner="w", limit=2, lease=LEASE, topics=topics, last_first=True)
    assert {t.id for t in last} == {c.id, d.id}
    assert [t.id for t in claim(store, topics=topics)] == [b.id, a.id]


@pytest.mark.parametrize("topics", [None, Topics(prefixes=frozenset({""}))])
@pytest.mark.parametrize("last_first", [False, True])
def test_a_claim_may_pass_over_what_has_lost_its_workers(
    store: Store, topics: Topics | None, last_first: bool
) -> None:
    a, b, _, _ = prepare(store, {}, {"recoveries": 1}, {"recoveries": 2}, {"recoveries": 3})
    with store.transaction() as tx:
        taken = work.claim_tokens(
            tx, owner="w", limit=9, lease=LEASE, topics=topics, last_first=last_first, losses=2
        )
    assert {t.id for t in taken} == {a.id, b.id}
    assert len(claim(store, topics=topics)) == 2


@pytest.mark.parametrize("state", [state for state in TokenState if state is not TokenState.READY])
def test_only_ready_tokens_are_claimed(store: Store, state: TokenState) -> None:
    prepare(store, {"state": state})
    assert claim(store) == []


def test_tokens_of_a_halted_instance_are_not_claimed(store: Store) -> None:
    prepare(store, {"held": True})
    assert claim(store) == []
    assert claim(store, topics=Topics(names=frozenset({"work"}))) == []


@pytest.mark.parametrize(
    ("topics", "expected"),
    [
        (None, ["", "billing.charge", "billing.refund", "bill%", "media.cut"]),
        (Topics(), [""]),
        (Topics(names=frozenset({"media.cut"})), ["", "media.cut"]),
        (Topics(names=frozenset({"media.cut"}), automatic=False), ["media.cut"]),
        (Topics(prefixes=frozenset({"billing."}), automatic=False), ["billing.charge", "billing.refund"]),
        (Topics(prefixes=frozenset({"bill%"}), automatic=False), ["bill%"]),
        (Topics(prefixes=frozenset({"media.", "bill"}), excluded_prefixes=frozenset({"billing."})), ["",
        "bill%", "media.cut"]), (Topics(prefixes=frozenset({""}), automatic=False), ["bill%",
        "billing.charge", "billing.refund", "media.cut"]), (Topics(names=frozenset({"nobody"}),
        automatic=False), []),
    ],
)  # fmt: skip
def test_a_worker_takes_its_topics_only(store: Store, topics: Topics | None, expected: list[str]) -> None:
    prepare(store, *({"topic": t} for t in (None, "billing.charge", "billing.refund", "bill%", "media.cut")))
    assert sorted(t.topic or "" for t in claim(store, topics=topics)) == sorted(expected)


def test_priority_counts_across_topics(store: Store) -> None:
    prepare(store, *({"topic": f"t{i % 3}", "priority": i} for i in range(9)))
    assert [t.priority for t in claim(store, limit=4, topics=Topics(prefixes=frozenset({"t"})))] == [
        8,
        7,
        6,
        5,
    ]


def test_work_for_external_workers_is_claimed_by_its_name_only(store: Store) -> None:
    prepare(store, {"topic": "@acme/pack"})
    for topics in (None, Topics(prefixes=frozenset({""})), Topics(prefixes=frozenset({"@"}))):
        assert claim(store, topics=topics) == []
    named = Topics(names=frozenset({"@acme/pack"}), automatic=False)
    assert [t.topic for t in claim(store, topics=named)] == ["@acme/pack"]


def test_the_load_is_what_a_worker_could_take_and_what_is_open(store: Store) -> None:
    """Not what rests because its instance is halted."""
    failed = sample.instance(status=InstanceStatus.FAILED)
    ended = sample.instance(status=InstanceStatus.COMPLETED, ended_at=sample.NOW)
    running, stuck = sample.instance(), sample.instance()
    with store.transaction() as tx:
        definitions.add_definitions(tx, [sample.definition(key=running.definition_key)])
        for changes in (
            sample.started(running, topic="a", tokens=2),
            sample.started(failed, topic="a", held=True),
            sample.started(stuck, state=TokenState.FAILED, error={"code": "X"}),
            sample.started(ended, state=TokenState.COMPLETED),
        ):
            changing.apply(tx, changes)
        changing.apply(tx, Changes(outbox=[sample.event(running, 1), sample.event(stuck, 1)]))
        load = statistics.read_load(tx)
        assert load.ready == {"a": 2}
        assert list(load.ready) == work.ready_topics(tx)
    assert load.open_instances == {("order", "Running"): 2, ("order", "Failed"): 1}
    assert load.incidents == 1
    assert load.events == {"Pending": 2}


def test_the_ready_topics_are_listed(store: Store) -> None:
    prepare(
        store, {"topic": "b"}, {"topic": "a"}, {"topic": "b"}, {"topic": None}, {"topic": "c", "held": True}
    )
    with store.reading() as tx:
        assert work.ready_topics(tx) == ["", "a", "b"]
        assert work.oldest_ready(tx) == sample.NOW


@pytest.mark.parametrize("topics", [None, Topics(prefixes=frozenset({"t"}))], ids=["all", "by topic"])
def test_eight_claimers_at_once_share_the_tokens_without_overlap(store: Store, topics: Topics | None) -> None:
    tokens = prepare(store, *({"topic": f"t{i % 5}"} for i in range(400)))
    barrier = Barrier(8)

    def work_through(owner: str) -> list[str]:
        barrier.wait()
        won: list[str] = []
        misses = 0
        while misses < 20:
            taken = claim(store, owner, 7, topics)
            misses = 0 if taken else misses + 1
            won += [t.id for t in taken]
        return won

    with ThreadPoolExecutor(8) as pool:
        won = Counter(token for part in pool.map(work_through, map(str, range(8))) for token in part)
    assert won == Counter(t.id for t in tokens)


def test_a_claim_passes_over_locked_tokens_without_waiting(postgresql_store: Store) -> None:
    """On SQLite there is one writer at a time, so that nothing can be locked meanwhile."""
    first, second = prepare(postgresql_store, {}, {})
    with postgresql_store.transaction() as tx:
        tx.execute(sa.select(schema.token.c.id).where(schema.token.c.id == first.id).with_for_update())
        assert [t.id for t in claim(postgresql_store)] == [second.id]


def test_work_has_the_variables_of_the_scopes_inner_before_outer(store: Store) -> None:
    owner = sample.instance(business_key="A-17")
    changes = sample.started(owner, tokens=0)
    root = replace(changes.scopes.inserted[0], variables={"a": 1, "b": 1, "c": 1, "d": 1})
    middle = replace(root, id=sample.new_id(), parent_id=root.id, variables={"b": 2, "c": 2, "d": None})
    inner = replace(root, id=sample.new_id(), parent_id=middle.id, variables={"c": 3})
    changes.scopes.inserted = [root, middle, inner]
    changes.tokens.inserted = [
        sample.token(owner, scope_id=inner.id, local={"item": 9, "a": 0}),
        sample.token(owner, scope_id=root.id),
    ]
    with store.transaction() as tx:
        changing.apply(tx, changes)
        tokens = work.claim_tokens(tx, owner="w", limit=5, lease=LEASE)
        found = {each.token.scope_id: each for each in work.load_work(tx, tokens)}
    assert found[inner.id].variables == {"a": 0, "b": 2, "c": 3, "d": None, "item": 9}
    assert found[root.id].variables == root.variables
    assert found[inner.id].instance.business_key == "A-17"
    assert found[inner.id].claim.owner == "w"


def test_a_lease_is_extended_for_its_owner_and_version_only(store: Store, clock: ManualClock) -> None:
    prepare(store, {}, {}, {}, {})
    mine, older, foreign, done = claim(store)
    until = clock.now + timedelta(minutes=5)
    claims = [
        as_claim(mine),
        replace_claim(as_claim(older), version=1),
        replace_claim(as_claim(foreign), owner="x"),
        as_claim(done),
    ]
    with store.transaction() as tx:
        finished = replace(done, state=TokenState.COMPLETED, version=done.version + 1)
        changing.apply(tx, changes_of(finished))
    with store.transaction() as tx:
        extension = work.extend_leases(tx, claims, until)
    assert extension.extended == {mine.id}
    assert extension.lost == {older.id, foreign.id, done.id}
    with store.reading() as tx:
        rows = tx.execute(
            sa.select(schema.token.c.id, schema.token.c.lease_until, schema.token.c.version)
        ).all()
    assert {r.id for r in rows if r.lease_until == until} == {mine.id}
    assert next(r.version for r in rows if r.id == mine.id) == mine.version


def test_a_token_that_is_being_committed_is_neither_extended_nor_lost(postgresql_store: Store) -> None:
    prepare(postgresql_store, {})
    (mine,) = claim(postgresql_store)
    with postgresql_store.transaction() as tx:
        tx.execute(sa.select(schema.token.c.id).with_for_update())
        with postgresql_store.transaction() as other:
            extension = work.extend_leases(other, [as_claim(mine)], mine.entered_at + timedelta(days=1))
    assert extension == work.Extension(frozenset(), frozenset())


def test_released_tokens_are_ready_again_and_the_old_claim_is_void(store: Store) -> None:
    prepare(store, {})
    (mine,) = claim(store)
    with store.transaction() as tx:
        assert work.release_tokens(tx, [as_claim(mine)]) == {mine.id}
        assert work.release_tokens(tx, [as_claim(mine)]) == frozenset()
    (again,) = claim(store, "other")
    assert (again.id, again.version, again.lease_owner) == (mine.id, mine.version + 2, "other")


def test_what_another_looks_at_is_given_back_a_moment_later(
    postgresql_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who looks for work locks for a moment what was claimed just before."""
    prepare(postgresql_store, {}, {})
    mine, gone = claim(postgresql_store, limit=2)
    places = Places(threads=1, tasks=1, most=1)
    claims = claiming.Claims(postgresql_store, Handlers(), places, "worker", LEASE, "fail", ())
    with postgresql_store.transaction() as tx:
        work.release_tokens(tx, [as_claim(gone)])
    pauses = []
    with ExitStack() as other:
        locking = other.enter_context(postgresql_store.transaction())
        locking.execute(sa.select(schema.token.c.id).with_for_update())

        def pause(seconds: float) -> None:
            pauses.append(seconds)
            if seconds:
                other.close()

        monkeypatch.setattr(claiming, "sleep", pause)
        claims.give_back([as_claim(mine), as_claim(gone)])
    assert tuple(pauses) == claiming.MOMENTS[:2]
    assert {each.id for each in claim(postgresql_store, "other")} == {mine.id, gone.id}


def test_the_topics_of_what_a_dead_worker_was_at_are_known(store: Store) -> None:
    prepare(store, {"topic": "mail"}, {"topic": "bank"}, {"topic": None})
    held = {each.topic: each.id for each in claim(store, "dead")}
    begun = frozenset([held["bank"], held[None], "torn"])
    assert topics_begun(store, "dead", begun) == {held["bank"]: "bank"}
    assert topics_begun(store, "living", begun) == {}


def test_of_a_dead_worker_what_had_begun_is_lost_and_the_rest_is_ready(store: Store) -> None:
    prepare(store, {}, {}, {})
    begun, waiting = claim(store, "dead", limit=2)
    (living,) = claim(store, "living")
    assert bury(store, "dead", frozenset([begun.id, living.id])) == 2
    with store.transaction() as tx:
        assert [stuck.id for stuck in timers.expired_leases(tx, tx.now(), 10)] == [begun.id]
    (again,) = claim(store, "other")
    assert (again.id, again.recoveries) == (waiting.id, 0)
    with store.transaction() as tx:
        assert work.extend_leases(tx, [as_claim(living)], tx.now()).extended == {living.id}


def test_of_a_dead_worker_everything_is_lost_if_nothing_is_known(store: Store) -> None:
    prepare(store, {}, {})
    held = claim(store, "dead")
    assert bury(store, "dead", None) == 2
    with store.transaction() as tx:
        assert {stuck.id for stuck in timers.expired_leases(tx, tx.now(), 10)} == {each.id for each in held}
    assert claim(store, "other") == []


def replace_claim(claim: Claim, **fields: object) -> Claim:
    return replace(claim, **fields)


def changes_of(*tokens: Token) -> Changes:
    changes = Changes()
    changes.tokens.updated = list(tokens)
    return changes
