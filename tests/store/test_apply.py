"""Applying changes: exact, atomic, fenced by version, in a number of statements that does not grow."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
import sqlalchemy as sa
from support import rows as sample

from bpm_engine.core import state
from bpm_engine.core.changes import Changes
from bpm_engine.core.state import (
    CompensationRecord,
    InstanceStatus,
    Join,
    Scope,
    ThrownMessage,
    ThrownSignal,
    TokenState,
    replace,
)
from bpm_engine.errors import ConflictError
from bpm_engine.store import changes as changing
from bpm_engine.store import records, rows, schema, search, work
from bpm_engine.store.store import Store


def read(store: Store, shape: records.Shape) -> list:
    with store.reading() as tx:
        query = sa.select(*shape.columns).order_by(shape.columns[0])
        return shape.read(tx.execute(query))


def apply(store: Store, changes: Changes) -> None:
    with store.transaction() as tx:
        changing.apply(tx, changes)


def full_tree() -> Changes:
    """At least one row of every table, every column set to something that is not its default."""
    at = datetime(2031, 2, 3, 4, 5, 6, 789012, tzinfo=UTC)
    owner = sample.instance(
        business_key="A-17",
        subject="käufer",
        correlation_id="c",
        idempotency_key="k",
        input_hash="h",
        priority=7,
        retention=3600,
        error={"code": "X"},
        depth=0,
        definition_version=3,
        version=4,
    )
    owned = {"tenant_id": owner.tenant_id, "instance_id": owner.id, "root_instance_id": owner.id}
    changes = sample.started(owner, tokens=0)
    variables = {
        "a": [1, 2.5, None, True, {"deep": "ü"}],
        "big": 2**53 + 1,
        "float": 0.1 + 0.2,
        "text": "null",
    }
    changes.scopes.inserted[0] = Scope(
        **owned,
        id=owner.id,
        node_id="process",
        variables=variables,
        loop={"n": 1},
        live=1,
        parked=2,
        inclusive_waiting=3,
        conditional=4,
        steps=5,
        seq=6,
        population=7,
        written=["a"],
        state=state.ScopeState.COMPENSATING,
    )
    changes.tokens.inserted.append(
        sample.token(
            owner,
            state=TokenState.EXECUTING,
            mode=state.Mode.COMPENSATION,
            held=True,
            waiting_for=state.Waiting.JOIN,
            priority=-3,
            attempt=2,
            activation=9,
            recoveries=1,
            version=12,
            flow_id="f",
            parallel_group_id="g",
            loop_index=0,
            local={"x": None},
            output="text",
            compensates=sample.new_id(),
            lease_owner="w",
            lease_until=at,
            error={"message": "no"},
            entered_at=at,
            phase=state.Phase.LEAVE,
        )
    )
    changes.joins.inserted.append(
        Join(
            **owned,
            id=sample.new_id(),
            scope_id=owner.id,
            node_id="j",
            expected=2,
            joined=1,
            arrivals={"f": 1},
            fired=3,
        )
    )
    changes.timers.inserted.append(
        sample.timer(
            owner,
            token_id=sample.new_id(),
            event=1,
            purpose=state.TimerPurpose.DEADLINE,
            due_at=at,
            cycle="R3/PT1S",
            remaining=2,
            anchor_at=at - timedelta(days=40000),
            fired=1,
        )
    )
    changes.subscriptions.inserted.append(
        sample.subscription(
            owner, token_id=sample.new_id(), event=2, correlation_key="k", match={"kind": "a"}
        )
    )
    changes.tasks.inserted.append(
        sample.human_task(
            owner,
            name="ask",
            assignee="eva",
            candidate_users=["eva"],
            candidate_groups=["g"],
            priority=3,
            due_at=at,
            follow_up_at=at,
            form_key="form",
            version=2,
        )
    )
    changes.compensations.inserted.append(
        CompensationRecord(
            **owned,
            id=sample.new_id(),
            scope_id=owner.id,
            node_id="a",
            handler_id="h",
            inner_scope_id=sample.new_id(),
            order=5,
            snapshot={"v": 1},
            requested_by=sample.new_id(),
        )
    )
    changes.log.append(
        sample.log(
            owner,
            1,
            at=at,
            token_id=sample.new_id(),
            scope_id=owner.id,
            activation=2,
            actor="eva",
            data={"k": "v"},
        )
    )
    changes.outbox.append(sample.event(owner, 1, data={"total": 1.5}, at=at))
    return changes


def test_every_record_comes_back_as_it_was_written(store: Store) -> None:
    changes = full_tree()
    apply(store, changes)
    written = {
        records.INSTANCE: changes.instances.inserted,
        records.SCOPE: changes.scopes.inserted,
        records.TOKEN: changes.tokens.inserted,
        records.JOIN: changes.joins.inserted,
        records.TIMER: changes.timers.inserted,
        records.SUBSCRIPTION: changes.subscriptions.inserted,
        records.TASK: changes.tasks.inserted,
        records.COMPENSATION: changes.compensations.inserted,
        records.LOG: changes.log,
        records.OUTBOX: changes.outbox,
    }
    assert {shape.table.name: read(store, shape) for shape in written} == {
        shape.table.name: expected for shape, expected in written.items()
    }


def test_updated_records_come_back_as_they_were_updated(store: Store) -> None:
    first = full_tree()
    apply(store, first)
    later = datetime(2032, 1, 1, 0, 0, 0, 999999, tzinfo=UTC)
    second = Changes()
    second.instances.updated = [
        replace(first.instances.inserted[0], status=InstanceStatus.COMPLETED, ended_at=later, error=None)
    ]
    second.tokens.updated = [
        replace(
            first.tokens.inserted[0],
            version=13,
            local=None,
            lease_until=None,
            lease_owner=None,
            output=None,
            state=TokenState.WAITING,
            node_id="next",
        )
    ]
    second.scopes.updated = [replace(first.scopes.inserted[0], seq=7, loop=None, written=None, live=0)]
    second.joins.updated = [replace(first.joins.inserted[0], arrivals={}, fired=4)]
    second.timers.updated = [replace(first.timers.inserted[0], status=state.TimerStatus.FIRED, due_at=later)]
    second.subscriptions.updated = [
        replace(first.subscriptions.inserted[0], status=state.SubscriptionStatus.CONSUMED)
    ]
    second.tasks.updated = [replace(first.tasks.inserted[0], status=state.TaskStatus.COMPLETED, version=3)]
    second.compensations.updated = [
        replace(first.compensations.inserted[0], status=state.CompensationStatus.RUNNING)
    ]
    apply(store, second)
    for shape, expected in (
        (records.INSTANCE, second.instances.updated),
        (records.TOKEN, second.tokens.updated),
        (records.SCOPE, second.scopes.updated),
        (records.JOIN, second.joins.updated),
        (records.TIMER, second.timers.updated),
        (records.SUBSCRIPTION, second.subscriptions.updated),
        (records.TASK, second.tasks.updated),
        (records.COMPENSATION, second.compensations.updated),
    ):
        assert read(store, shape) == expected


TOKEN_CHANGES = {
    "node_id": "next",
    "state": TokenState.WAITING,
    "phase": state.Phase.ENTER,
    "held": True,
    "waiting_for": state.Waiting.TIMER,
    "topic": "other",
    "priority": 4,
    "attempt": 5,
    "activation": 6,
    "recoveries": 7,
    "flow_id": "flow",
    "loop_index": 8,
    "local": {"one": True},  # which Python takes for 1
    "output": True,
    "lease_owner": "v",
    "lease_until": datetime(2031, 1, 1, tzinfo=UTC),
    "error": {"code": "X"},
    "entered_at": datetime(2032, 1, 1, tzinfo=UTC),
}
SCOPE_CHANGES = {
    "state": state.ScopeState.COMPENSATING,
    "loop": {"one": True},
    "written": ["a"],
    "live": 2,
    "parked": 3,
    "inclusive_waiting": 4,
    "conditional": 5,
    "steps": 6,
    "seq": 7,
    "population": 8,
}


def test_whatever_changes_of_a_token_is_written(store: Store) -> None:
    """Also what few steps change, beside what most do."""
    assert {"id", "version", *TOKEN_CHANGES} == {*state.Token.__struct_fields__} - changing.FOR_LIFE
    first = sample.started(*(sample.instance() for _ in TOKEN_CHANGES), local={"one": 1}, output=1)
    apply(store, first)
    second = Changes()
    second.tokens.before = {token.id: token for token in first.tokens.inserted}
    second.tokens.updated = [
        replace(token, version=token.version + 1, **{name: value})
        for token, (name, value) in zip(first.tokens.inserted, TOKEN_CHANGES.items(), strict=True)
    ]
    apply(store, second)
    assert str(read(store, records.TOKEN)) == str(sorted(second.tokens.updated, key=lambda t: t.id))


@pytest.mark.parametrize("emptied", [1, 2], ids=["in one row", "in all rows"])
def test_what_is_emptied_is_written(store: Store, emptied: int) -> None:
    """A column that is empty in a whole batch may be left out of what is bound, not of what is written."""
    nullable = [name for name in TOKEN_CHANGES if schema.token.c[name].nullable]
    filled = {name: TOKEN_CHANGES[name] for name in nullable}
    first = sample.started(sample.instance(), sample.instance(), **filled)
    apply(store, first)
    second = Changes()
    second.tokens.updated = [
        replace(token, version=token.version + 1, **(dict.fromkeys(nullable) if n < emptied else {}))
        for n, token in enumerate(first.tokens.inserted)
    ]
    apply(store, second)
    assert read(store, records.TOKEN) == sorted(second.tokens.updated, key=lambda t: t.id)


@pytest.mark.parametrize("exception", [None, "time", "call tree"])
def test_what_most_batches_imply_is_written_as_it_is(store: Store, exception: str | None) -> None:
    """The time of the transaction, and the instance as the top of its own tree, need not be read from the
    rows; unless one of them says something else."""
    root, other = sample.instance(), sample.instance()
    first = sample.started(root, other)
    apply(store, first)
    earlier = datetime(2029, 1, 2, 3, 4, 5, 6, tzinfo=UTC)
    with store.transaction() as tx:
        now = tx.now()
        told = [
            {"at": now},
            {
                "at": earlier if exception == "time" else now,
                "root_instance_id": root.id if exception == "call tree" else other.id,
            },
        ]
        second = Changes()
        second.log = [sample.log(of, 7, **fields) for of, fields in zip((root, other), told, strict=True)]
        second.outbox = [
            sample.event(of, 7, **fields) for of, fields in zip((root, other), told, strict=True)
        ]
        second.tokens.before = {token.id: token for token in first.tokens.inserted}
        second.tokens.updated = [
            replace(token, version=token.version + 1, node_id="next", entered_at=fields["at"])
            for token, fields in zip(first.tokens.inserted, told, strict=True)
        ]
        changing.apply(tx, second)
    written = [entry for entry in read(store, records.LOG) if entry.seq == 7]
    assert sorted(written, key=lambda entry: entry.instance_id) == sorted(
        second.log, key=lambda entry: entry.instance_id
    )
    assert read(store, records.OUTBOX) == sorted(second.outbox, key=lambda event: event.id)
    assert read(store, records.TOKEN) == sorted(second.tokens.updated, key=lambda token: token.id)


def test_whatever_changes_of_a_scope_is_written(store: Store) -> None:
    assert {*SCOPE_CHANGES} == {*changing._WHOLE}
    first = sample.started(*(sample.instance() for _ in SCOPE_CHANGES))
    first.scopes.inserted = [replace(scope, loop={"one": 1}) for scope in first.scopes.inserted]
    apply(store, first)
    second = Changes()
    second.scopes.before = {scope.id: scope for scope in first.scopes.inserted}
    second.scopes.updated = [
        replace(scope, **{name: value})
        for scope, (name, value) in zip(first.scopes.inserted, SCOPE_CHANGES.items(), strict=True)
    ]
    second.patches = {scope.id: {"n": n} for n, scope in enumerate(second.scopes.updated) if n % 2}
    apply(store, second)
    expected = [
        replace(scope, variables=scope.variables | second.patches.get(scope.id, {}))
        for scope in second.scopes.updated
    ]
    assert str(read(store, records.SCOPE)) == str(sorted(expected, key=lambda s: s.id))


INSTANCE_CHANGES = {
    "parent_token_id": sample.new_id(),
    "parent_instance_id": sample.new_id(),
    "depth": 2,
    "definition_id": sample.new_id(),
    "definition_key": "other",
    "definition_version": 3,
    "status": state.InstanceStatus.COMPLETED,
    "business_key": "B",
    "subject": "S",
    "correlation_id": "C",
    "idempotency_key": "I",
    "input_hash": "H",
    "priority": 4,
    "version": 5,
    "retention": 6,
    "error": {"code": "X"},
    "started_at": datetime(2031, 1, 1, tzinfo=UTC),
    "ended_at": datetime(2032, 1, 1, tzinfo=UTC),
}
TIMER_CHANGES = {
    "token_id": sample.new_id(),
    "node_id": "other",
    "event": 2,
    "purpose": state.TimerPurpose.RETRY,
    "due_at": datetime(2031, 1, 1, tzinfo=UTC),
    "cycle": "R/PT1H",
    "remaining": 3,
    "anchor_at": datetime(2032, 1, 1, tzinfo=UTC),
    "status": state.TimerStatus.FIRED,
    "fired": 4,
}
SUBSCRIPTION_CHANGES = {
    "token_id": sample.new_id(),
    "node_id": "other",
    "event": 2,
    "kind": state.SubscriptionKind.SIGNAL,
    "name": "other",
    "correlation_key": "K",
    "match": {"one": True},
    "status": state.SubscriptionStatus.CONSUMED,
}


@pytest.mark.parametrize(
    ("shape", "table", "changed", "make"),
    [
        (records.INSTANCE, "instances", INSTANCE_CHANGES, None),
        (records.TIMER, "timers", TIMER_CHANGES, sample.timer),
        (
            records.SUBSCRIPTION,
            "subscriptions",
            SUBSCRIPTION_CHANGES,
            partial(sample.subscription, match={"one": 1}),
        ),
    ],
)
def test_whatever_changes_of_an_instance_or_a_wait_is_written(
    store: Store, shape: Any, table: str, changed: dict[str, Any], make: Any
) -> None:
    assert {"id", *changed} == {*shape.record.__struct_fields__} - changing.FOR_LIFE
    owners = [sample.instance() for _ in changed]
    first = sample.started(*owners)
    if make is not None:
        getattr(first, table).inserted = [make(owner) for owner in owners]
    apply(store, first)
    written = getattr(first, table).inserted
    second = Changes()
    of_table = getattr(second, table)
    of_table.before = {row.id: row for row in written}
    of_table.updated = [
        replace(row, **{name: value}) for row, (name, value) in zip(written, changed.items(), strict=True)
    ]
    apply(store, second)
    assert str(read(store, shape)) == str(sorted(of_table.updated, key=lambda row: row.id))


def test_a_patch_sets_the_written_keys_only_and_null_is_a_value(store: Store) -> None:
    owner = sample.instance()
    first = sample.started(owner)
    kept = {"deep": {"a": 1, "b": 2}, "gone": 1, 'odd".$key': 0.30000000000000004, "other": 10**30}
    first.scopes.inserted[0] = replace(first.scopes.inserted[0], variables=kept)
    apply(store, first)
    second = Changes()
    second.scopes.updated = [first.scopes.inserted[0]]
    second.patches[owner.id] = {"deep": {"c": 3}, "gone": None, "new": [1]}
    apply(store, second)
    assert read(store, records.SCOPE)[0].variables == {
        "deep": {"c": 3},
        "gone": None,
        "new": [1],
        'odd".$key': 0.30000000000000004,
        "other": 10**30,
    }


def test_a_stale_token_rolls_everything_back_and_is_named(store: Store) -> None:
    one, two = sample.instance(), sample.instance()
    first = sample.started(one, two)
    apply(store, first)
    good, stale = first.tokens.inserted
    second = sample.moved([good, replace(stale, version=stale.version + 1)], seq=0)
    with pytest.raises(changing.StaleTokensError) as raised:
        apply(store, second)
    assert raised.value.token_ids == {stale.id}
    assert read(store, records.TOKEN) == sorted(first.tokens.inserted, key=lambda t: t.id)
    assert read(store, records.LOG) == []
    assert read(store, records.SCOPE)[0].variables == {}


def test_a_transaction_that_raises_leaves_nothing(store: Store) -> None:
    def fail_after_writing() -> None:
        with store.transaction() as tx:
            changing.apply(tx, sample.started(sample.instance()))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_after_writing()
    assert read(store, records.INSTANCE) == []


def test_the_same_log_number_twice_is_a_conflict(store: Store) -> None:
    owner = sample.instance()
    apply(store, sample.started(owner))
    again = Changes(log=[sample.log(owner, 1)])
    apply(store, again)
    with pytest.raises(ConflictError):
        apply(store, again)


def test_the_same_idempotency_key_twice_is_a_conflict(store: Store) -> None:
    apply(store, sample.started(sample.instance(idempotency_key="k")))
    apply(store, sample.started(sample.instance(idempotency_key="k", tenant_id="other")))
    with pytest.raises(ConflictError):
        apply(store, sample.started(sample.instance(idempotency_key="k")))
    with store.reading() as tx:
        assert search.find_started(tx, "acme", "order", "k") is not None
        assert search.find_started(tx, "acme", "order", "x") is None


def test_messages_and_signals_of_a_step_are_written_with_it(store: Store) -> None:
    owner = sample.instance()
    changes = sample.started(owner)
    changes.subscriptions.inserted.append(
        sample.subscription(owner, kind=state.SubscriptionKind.SIGNAL, name="closed")
    )
    apply(store, changes)
    owned = {"tenant_id": owner.tenant_id, "instance_id": owner.id, "root_instance_id": owner.id}
    thrown = Changes()
    thrown.messages.append(ThrownMessage(**owned, id=sample.new_id(), name="paid", payload={"a": 1}))
    thrown.signals.append(ThrownSignal(**owned, id=sample.new_id(), name="closed"))
    apply(store, thrown)
    with store.reading() as tx:
        assert tx.execute(sa.select(sa.func.count()).select_from(schema.message)).scalar() == 1
        assert tx.execute(sa.select(sa.func.count()).select_from(schema.delivery)).scalar() == 1


def statements_of(store: Store, number: int) -> int:
    """How many statements a claim, a load and a step of so many tokens take."""
    from bpm_engine.core.needs import Needs
    from bpm_engine.store import trees

    apply(store, sample.started(*(sample.instance() for _ in range(number))))
    counted: list[str] = []

    def count(connection, cursor, statement, parameters, context, many) -> None:
        counted.append(statement)
        assert not many or store.database.is_embedded  # a server gets all rows in one parameter

    sa.event.listen(store.database.engine, "before_cursor_execute", count)
    with store.transaction() as tx:
        claimed = work.claim_tokens(tx, owner="w", limit=number, lease=timedelta(seconds=30))
        assert len(work.load_work(tx, claimed)) == number
    with store.transaction() as tx:
        assert len(trees.take_roots(tx, [t.root_instance_id for t in claimed]).ids) == number
        found, _ = trees.load_snapshot(tx, Needs(tokens=frozenset(t.id for t in claimed)))
        assert len(found.tokens) == number
        changing.apply(tx, sample.moved(claimed, seq=0, state=TokenState.WAITING))
    sa.event.remove(store.database.engine, "before_cursor_execute", count)
    return len(counted)


def test_the_number_of_statements_does_not_grow_with_the_tokens(store: Store) -> None:
    one = statements_of(store, 1)
    assert one <= 16
    assert statements_of(store, 10) == one
    assert statements_of(store, 500) == one


@pytest.mark.parametrize(
    "at",
    [
        datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
        datetime(2030, 6, 1, 12, 0, 0, 999950, tzinfo=UTC),
        datetime(9998, 12, 31, 23, 59, 59, 1, tzinfo=UTC),
        datetime(1, 1, 2, tzinfo=UTC),
    ],
)
def test_times_are_exact_to_the_microsecond(store: Store, at: datetime) -> None:
    owner = sample.instance(started_at=at)
    apply(store, sample.started(owner))
    assert read(store, records.INSTANCE)[0].started_at == at
    assert read(store, records.INSTANCE)[0].started_at.tzinfo is UTC


def test_times_of_another_zone_are_kept_as_the_same_instant(store: Store) -> None:
    from zoneinfo import ZoneInfo

    at = datetime(2030, 6, 1, 12, 0, 0, 5, tzinfo=ZoneInfo("Europe/Berlin"))
    apply(store, sample.started(sample.instance(started_at=at)))
    assert read(store, records.INSTANCE)[0].started_at == at


def test_the_purge_time_follows_from_the_end_and_the_retention(store: Store) -> None:
    owner = sample.instance(retention=60)
    apply(store, sample.started(owner))
    end = Changes()
    end.instances.updated = [replace(owner, status=InstanceStatus.COMPLETED, ended_at=sample.NOW)]
    apply(store, end)
    with store.reading() as tx:
        found = tx.execute(sa.select(schema.process_instance.c.purge_at)).scalar()
    assert found == sample.NOW + timedelta(seconds=60)


def test_columns_and_fields_stay_together() -> None:
    """A record field without a column fails on import; a column that no record fills must have a reason."""
    stores_own = {
        "created_at",
        "updated_at",
        "ready_topic",
        "purge_at",
        "purged_at",
        "deleted_at",
        "deleted_by",
        "delete_reason",
        "definition_id",
        "definition_key",
        "status",
        "attempts",
        "next_at",
        "lease_owner",
        "error",
        "published_at",
        "parked",
    }
    for shape in (
        records.INSTANCE,
        records.SCOPE,
        records.TOKEN,
        records.JOIN,
        records.TIMER,
        records.TASK,
        records.COMPENSATION,
        records.LOG,
        records.OUTBOX,
        records.SUBSCRIPTION,
    ):
        assert set(shape.table.c.keys()) - set(shape.fields) <= stores_own


def test_rows_of_the_bulk_source_are_typed(store: Store) -> None:
    """Text that looks like a number, like null or like JSON stays text."""
    given = rows.row_source([sa.Column("text", sa.Text()), sa.Column("number", sa.Integer())])
    values = [("1", 1), ("null", 2), ("[1]", 3), ("", 4), (None, 5), ("true", 6)]
    with store.reading() as tx:
        found = tx.execute(
            sa.select(given.c.text, given.c.number).order_by(given.c.number), {"given": rows.rows(values)}
        )
        assert [tuple(row) for row in found] == values
