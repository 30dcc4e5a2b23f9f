"""The database itself keeps the history: no UPDATE, no DELETE but with its instance, no TRUNCATE. And
retention.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import psycopg
import pytest
import sqlalchemy as sa
from support import rows as sample
from support.postgres.databases import libpq_url

from bpm_engine.core.changes import Changes
from bpm_engine.core.state import Instance, InstanceStatus, replace
from bpm_engine.errors import ConflictError
from bpm_engine.store import changes as changing
from bpm_engine.store import definitions, retention, schema, search, signals
from bpm_engine.store.config import StoreConfig
from bpm_engine.store.invariants import INVARIANTS, Invariant, violations
from bpm_engine.store.signals import Signal
from bpm_engine.store.statuses import DeliveryStatus
from bpm_engine.store.store import Store

NOW = sample.NOW
DAY = timedelta(days=1)


def apply(store: Store, changes: Changes) -> None:
    with store.transaction() as tx:
        changing.apply(tx, changes)


def tree(
    *, ended: bool = True, entries: int = 2, retention_seconds: int | None = 60, **fields: object
) -> Changes:
    """A caller and what it called, each with one row in every table that belongs to an instance."""
    status = InstanceStatus.COMPLETED if ended else InstanceStatus.RUNNING
    common = {"status": status, "ended_at": NOW if ended else None, "retention": retention_seconds}
    caller = sample.instance(**common, **fields)
    called = sample.instance(**common, root_instance_id=caller.id, parent_instance_id=caller.id, depth=1)
    changes = sample.started(caller, called)
    for owner in (caller, called):
        changes.log += [sample.log(owner, number + 1) for number in range(entries)]
        changes.outbox.append(sample.event(owner, 1))
        changes.timers.inserted.append(sample.timer(owner))
        changes.subscriptions.inserted.append(sample.subscription(owner))
        changes.tasks.inserted.append(sample.human_task(owner))
    changes.scopes.inserted = [replace(s, seq=entries) for s in changes.scopes.inserted]
    return changes


def count(store: Store, table: sa.Table) -> int:
    with store.reading() as tx:
        return int(tx.execute(sa.select(sa.func.count()).select_from(table)).scalar_one())


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE execution_log SET actor = 'nobody'",
        "UPDATE execution_log SET data = NULL WHERE seq = 1",
        "DELETE FROM execution_log",
        "DELETE FROM execution_log WHERE seq = 2",
        "DELETE FROM process_instance",
        "INSERT INTO execution_log SELECT * FROM execution_log WHERE true"
        " ON CONFLICT (instance_id, seq) DO UPDATE SET actor = 'nobody'",
    ],
)
@pytest.mark.parametrize("ended", [True, False])
def test_the_history_cannot_be_changed_or_deleted(store: Store, statement: str, ended: bool) -> None:
    apply(store, tree(ended=ended))
    message = r"append-only|past its purge time|exists already"
    refused = pytest.raises((sa.exc.DBAPIError, ConflictError), match=message)
    with refused, store.transaction() as tx:
        tx.connection.exec_driver_sql(statement)
    assert count(store, schema.execution_log) == 4
    assert count(store, schema.process_instance) == 2


REPLACE = "INSERT OR REPLACE INTO execution_log SELECT * FROM execution_log"


def test_replacing_a_row_is_refused_as_well(sqlite_store: Store) -> None:
    apply(sqlite_store, tree())
    with pytest.raises(ConflictError), sqlite_store.transaction() as tx:
        tx.connection.exec_driver_sql(REPLACE)


def test_a_connection_of_somebody_else_replaces_no_row(sqlite_store: Store) -> None:
    """It has not asked for triggers that fire on what REPLACE deletes."""
    apply(sqlite_store, tree())
    theirs = sa.create_engine(sqlite_store.config.url)
    with pytest.raises(sa.exc.IntegrityError, match="append-only"), theirs.begin() as connection:
        connection.exec_driver_sql(REPLACE)
    theirs.dispose()


@pytest.mark.parametrize("schema_name", ["public", 'the "engine"'])
def test_a_temporary_table_in_the_place_of_the_instances_opens_nothing(
    postgresql_url: str, schema_name: str
) -> None:
    """Whichever schema the tables are in."""
    with psycopg.connect(libpq_url(postgresql_url), autocommit=True) as owner:
        name = psycopg.sql.Identifier(schema_name)
        owner.execute(psycopg.sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(name))
        path = psycopg.sql.SQL("ALTER DATABASE {} SET search_path = {}")
        owner.execute(path.format(psycopg.sql.Identifier(owner.info.dbname), name))
    with Store(StoreConfig(url=postgresql_url, auto_migrate=True)) as store:
        apply(store, tree())
    with psycopg.connect(libpq_url(postgresql_url)) as connection:
        connection.execute("CREATE TEMPORARY TABLE process_instance (id uuid, purged_at timestamptz)")
        delete = psycopg.sql.SQL("DELETE FROM {}.execution_log").format(name)
        with pytest.raises(psycopg.errors.RaiseException, match="append-only"):
            connection.execute(delete)


@pytest.mark.parametrize(
    "statement",
    [
        "TRUNCATE execution_log",
        "TRUNCATE process_instance CASCADE",
        "SET LOCAL session_replication_role = replica; DELETE FROM execution_log",
        "SET LOCAL session_replication_role = replica; UPDATE execution_log SET actor = 'x'",
        "WITH gone AS (DELETE FROM execution_log RETURNING 1) SELECT count(*) FROM gone",
    ],
)
def test_postgresql_refuses_the_ways_around_the_trigger(postgresql_store: Store, statement: str) -> None:
    apply(postgresql_store, tree())
    with psycopg.connect(libpq_url(postgresql_store.config.url)) as connection:
        with pytest.raises(psycopg.errors.RaiseException, match="append-only"):
            connection.execute(statement)
        connection.rollback()


def test_definitions_are_immutable(store: Store) -> None:
    with store.transaction() as tx:
        definitions.add_definitions(tx, [sample.definition()])
    with pytest.raises(sa.exc.DBAPIError, match="immutable"), store.transaction() as tx:
        tx.connection.exec_driver_sql("UPDATE process_definition SET xml = ''")


def test_an_instance_cannot_be_marked_as_purged_before_its_time(store: Store) -> None:
    apply(store, tree())
    with pytest.raises(sa.exc.IntegrityError, match="purged"), store.transaction() as tx:
        tx.execute(schema.process_instance.update().values(purged_at=NOW))


def test_a_tree_past_its_time_goes_as_a_whole_and_its_events_stay(store: Store) -> None:
    apply(store, tree())
    kept = tree(retention_seconds=3600)
    apply(store, kept)
    with store.transaction() as tx:
        assert retention.purge_trees(tx, NOW + timedelta(seconds=59)) == 0
        assert retention.purge_trees(tx, NOW + timedelta(seconds=60)) == 1
    for table in (
        schema.process_instance,
        schema.scope,
        schema.token,
        schema.timer,
        schema.subscription,
        schema.human_task,
    ):
        assert count(store, table) == 2
    assert count(store, schema.execution_log) == 4
    assert count(store, schema.event_outbox) == 4
    with store.reading() as tx:
        assert search.get_instance(tx, "acme", kept.instances.inserted[0].id) is not None


def test_what_runs_or_has_no_retention_is_never_purged(store: Store) -> None:
    apply(store, tree(ended=False))
    apply(store, tree(retention_seconds=None))
    half = tree()
    half.instances.inserted[1] = replace(
        half.instances.inserted[1], status=InstanceStatus.RUNNING, ended_at=None
    )
    apply(store, half)
    with store.transaction() as tx:
        assert retention.purge_trees(tx, NOW + 1000 * DAY) == 0
    assert count(store, schema.process_instance) == 6


def test_a_purge_is_bounded_in_trees_and_in_rows(store: Store) -> None:
    for _ in range(5):
        apply(store, tree(entries=3))
    later = NOW + DAY
    with store.transaction() as tx:
        assert retention.purge_trees(tx, later, trees=2) == 2
        assert retention.purge_trees(tx, later, log_rows=7) == 1
        assert retention.purge_trees(tx, later, log_rows=1) == 1
        assert retention.purge_trees(tx, later) == 1
        assert retention.purge_trees(tx, later) == 0


def test_soft_deletion_hides_an_ended_instance_and_keeps_its_rows(store: Store) -> None:
    ended, running = tree(), tree(ended=False)
    apply(store, ended)
    apply(store, running)
    gone, alive = ended.instances.inserted[0], running.instances.inserted[0]
    with store.transaction() as tx:
        assert not retention.delete_instance(tx, "foreign", gone.id, reason="r", actor="eva")
        assert not retention.delete_instance(tx, "acme", alive.id, reason="r", actor="eva")
        assert not retention.delete_instance(tx, "acme", "no id", reason="r", actor="eva")
        assert retention.delete_instance(tx, "acme", gone.id, reason="wrong", actor="eva")
        assert not retention.delete_instance(tx, "acme", gone.id, reason="again", actor="eva")
        assert search.get_instance(tx, "acme", gone.id) is None
        found = search.find_instances(tx, "acme", search.InstanceFilter(deleted=True))
        assert [i.id for i in found.items] == [gone.id]
        row = tx.execute(
            sa.select(schema.process_instance).where(schema.process_instance.c.id == gone.id)
        ).one()
        assert (row.deleted_at, row.deleted_by, row.delete_reason) == (NOW, "eva", "wrong")


def test_an_operator_can_purge_an_ended_tree_before_its_time(store: Store) -> None:
    ended, running, half = tree(retention_seconds=None), tree(ended=False), tree()
    half.instances.inserted[1] = replace(
        half.instances.inserted[1], status=InstanceStatus.RUNNING, ended_at=None
    )
    for each in (ended, running, half):
        apply(store, each)
    with store.transaction() as tx:
        assert retention.purge_tree(tx, "foreign", ended.instances.inserted[0].id) is None
        assert retention.purge_tree(tx, "acme", running.instances.inserted[0].id) is None
        assert retention.purge_tree(tx, "acme", half.instances.inserted[0].id) is None
        assert retention.purge_tree(tx, "acme", ended.instances.inserted[0].id)
    assert count(store, schema.process_instance) == 4


def test_what_was_called_goes_with_its_caller_though_it_was_to_be_kept_for_longer(store: Store) -> None:
    called_later = tree()
    called_later.instances.inserted[1] = replace(called_later.instances.inserted[1], retention=3600)
    apply(store, called_later)
    with store.transaction() as tx:
        assert retention.purge_trees(tx, NOW + timedelta(seconds=60)) == 1
    assert count(store, schema.process_instance) == 0


OWNED = (
    schema.process_instance,
    schema.scope,
    schema.token,
    schema.timer,
    schema.subscription,
    schema.human_task,
    schema.execution_log,
)


def rest_of(store: Store, log_rows: int) -> Iterator[int]:
    """What each batch of a tree that is marked takes, each in a transaction of its own."""
    taken = -1
    while taken:
        with store.transaction() as tx:
            taken = retention.purge_rest(tx, NOW + DAY, log_rows=log_rows)
        if taken:
            yield taken


def test_a_tree_that_does_not_fit_into_a_transaction_goes_in_batches(store: Store) -> None:
    big, small = tree(entries=30), tree(entries=2)
    apply(store, big)
    apply(store, small)
    with store.transaction() as tx:
        assert retention.purge_trees(tx, NOW + DAY, log_rows=7) == 2
        assert retention.purge_trees(tx, NOW + DAY, log_rows=7) == 0
    assert count(store, schema.process_instance) == 2, "the small one does not wait for the big one"
    batches = list(rest_of(store, 7))
    assert max(batches) <= 7 + 1
    assert len(batches) >= 2 * 30 / 7
    assert [count(store, table) for table in OWNED] == [0] * len(OWNED)


def is_about_rest(invariant: Invariant) -> bool:
    """What a doctor may say of rows beside which others are missing."""
    return invariant.name == "history with a gap" or invariant.name.endswith("without a scope")


def test_a_tree_that_is_half_gone_is_shown_to_nobody(store: Store) -> None:
    big = tree(entries=30, idempotency_key="k")
    apply(store, big)
    with store.transaction() as tx:
        assert retention.purge_trees(tx, NOW + DAY, log_rows=7) == 1
    assert next(rest_of(store, 7))
    with store.reading() as tx:
        for each in big.instances.inserted:
            assert search.get_instance(tx, "acme", each.id) is None
        for wanted in (search.InstanceFilter(), search.InstanceFilter(deleted=True)):
            assert search.find_instances(tx, "acme", wanted).items == []
        assert search.find_started(tx, "acme", "order", "k") is None
        broken = {each.name: violations(tx, "acme", each, 3) for each in INVARIANTS if is_about_rest(each)}
        assert {name: found for name, found in broken.items() if found[0]} == {}
    apply(store, tree(idempotency_key="k"))


def test_what_is_marked_as_purged_stays_so_and_an_instance_keeps_its_id(store: Store) -> None:
    """Else a part of a history could be deleted, and what is left of it be shown."""
    apply(store, tree(entries=30))
    with store.transaction() as tx:
        assert retention.purge_trees(tx, NOW + DAY, log_rows=7) == 1
    for change in ("purged_at = NULL", "id = root_instance_id"):
        with pytest.raises(sa.exc.DBAPIError, match="stays so"), store.transaction() as tx:
            tx.connection.exec_driver_sql(f"UPDATE process_instance SET {change}")


def test_finished_deliveries_are_purged_by_age(store: Store) -> None:
    owner: Instance = sample.instance()
    changes = sample.started(owner)
    changes.subscriptions.inserted = [sample.subscription(owner, kind="signal", name="s") for _ in range(2)]
    apply(store, changes)
    with store.transaction() as tx:
        signals.fan_out(tx, [Signal(id=sample.new_id(), tenant_id="acme", name="s")])
        done = signals.pending_deliveries(tx, 1)[0]
        signals.finish_deliveries(tx, [(done.signal_id, done.subscription_id)], DeliveryStatus.DONE)
        assert retention.purge_deliveries(tx, NOW, 10) == 0
        assert retention.purge_deliveries(tx, NOW + DAY, 10) == 1
        assert len(signals.pending_deliveries(tx, 10)) == 1


def test_of_two_sweeps_of_deliveries_none_waits_for_the_other(postgresql_store: Store) -> None:
    owner: Instance = sample.instance()
    changes = sample.started(owner)
    changes.subscriptions.inserted = [sample.subscription(owner, kind="signal", name="s")]
    apply(postgresql_store, changes)
    with postgresql_store.transaction() as tx:
        signals.fan_out(tx, [Signal(id=sample.new_id(), tenant_id="acme", name="s")])
        (done,) = signals.pending_deliveries(tx, 1)
        signals.finish_deliveries(tx, [(done.signal_id, done.subscription_id)], DeliveryStatus.DONE)
    with postgresql_store.transaction() as one, postgresql_store.transaction() as other:
        assert retention.purge_deliveries(one, NOW + DAY, 10) == 1
        assert retention.purge_deliveries(other, NOW + DAY, 10) == 0
