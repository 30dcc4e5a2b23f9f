"""Every poll is served by its index, at 0, 1,000 and 1,000,000 rows (PostgreSQL), and on SQLite.

The rows are made by SQL. With `plan_cache_mode = force_generic_plan` the plan is the one that a prepared
statement is stuck with: it must be right before the table has grown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import psycopg
import pytest
import sqlalchemy as sa
from support import rows as sample
from support.databases import SCHEMA
from support.postgres.databases import Databases, libpq_url
from support.workers import wait_until

from bpm_engine.core.state import InstanceStatus
from bpm_engine.store import changes as changing
from bpm_engine.store import (
    crowds,
    loading,
    messages,
    outbox,
    quarantine,
    retention,
    rows,
    search,
    sessions,
    signals,
    statistics,
    timers,
    work,
)
from bpm_engine.store.address import read_address
from bpm_engine.store.bulk import FEW, Form
from bpm_engine.store.clock import ManualClock
from bpm_engine.store.config import StoreConfig
from bpm_engine.store.incidents import IncidentFilter, find_incidents
from bpm_engine.store.queue import BACK, FRONT
from bpm_engine.store.search import InstanceFilter
from bpm_engine.store.store import Store
from bpm_engine.store.transaction import Transaction
from bpm_engine.store.types import EPOCH

FILL = """
INSERT INTO process_instance (id, tenant_id, root_instance_id, depth, definition_id, definition_key,
    definition_version, status, priority, version, started_at, ended_at, purge_at, created_at, updated_at)
SELECT g, 'acme', g, 0, g, 'order', 1, CASE WHEN n % 10 = 0 THEN 'Completed' ELSE 'Running' END, 0, 1, now(),
    now(), CASE WHEN n % 10 = 0 THEN now() + n * interval '1 second' END, now(), now()
FROM (SELECT n, gen_random_uuid() g FROM generate_series(1, :number) n) made;
INSERT INTO scope (id, tenant_id, instance_id, root_instance_id, node_id, state, variables, live, parked,
    inclusive_waiting, conditional, steps, seq, population, created_at, updated_at)
SELECT id, 'acme', id, id, 'order', 'Active', '{}', 1, 0, 0, 0, 0, 0, 0, now(), now() FROM process_instance
ON CONFLICT DO NOTHING;
INSERT INTO token (id, tenant_id, instance_id, root_instance_id, scope_id, node_id, state, mode, phase, held,
    topic, priority, attempt, activation, recoveries, version, lease_until, entered_at, created_at,
    updated_at)
SELECT gen_random_uuid(), 'acme', i.id, i.id, gen_random_uuid(), 'task',
    CASE WHEN n % 10 = 0 THEN 'Ready' WHEN n % 1000 = 1 THEN 'Executing' ELSE 'Completed' END,
    'Forward', 'inside', false, 'topic.' || n % 20, 0, 0, 1, 0, 1, now(), now(), now(), now()
FROM generate_series(1, :number) n, (SELECT id FROM process_instance LIMIT 1) i;
INSERT INTO timer (id, tenant_id, instance_id, root_instance_id, scope_id, token_id, node_id, event, purpose,
    due_at, status, fired, created_at, updated_at)
SELECT gen_random_uuid(), 'acme', i.id, i.id, gen_random_uuid(), gen_random_uuid(), 't', 0, 'event',
    now() + n * interval '1 second', CASE WHEN n % 10 = 0 THEN 'Scheduled' ELSE 'Fired' END, 0, now(), now()
FROM generate_series(1, :number) n, (SELECT id FROM process_instance LIMIT 1) i;
INSERT INTO event_outbox (id, tenant_id, instance_id, root_instance_id, seq, type, data, at, status, attempts,
    next_at, published_at, updated_at)
SELECT gen_random_uuid(), 'acme', i.id, i.id, n, 'e', '{}', now(),
    CASE WHEN n % 100 = 0 THEN 'Pending' ELSE 'Published' END, 0, now(),
    now() + n * interval '1 second', now()
FROM generate_series(1, :number) n, (SELECT id FROM process_instance LIMIT 1) i;
INSERT INTO message (id, tenant_id, name, correlation_key, payload, status, expires_at, created_at,
    updated_at)
SELECT gen_random_uuid(), 'acme', 'paid', n::text, '{}',
    CASE WHEN n % 100 = 0 THEN 'Buffered' ELSE 'Consumed' END, now() + n * interval '1 second', now(), now()
FROM generate_series(1, :number) n;
INSERT INTO subscription (id, tenant_id, instance_id, root_instance_id, scope_id, token_id, node_id, event,
    kind, name, correlation_key, status, created_at, updated_at)
SELECT gen_random_uuid(), 'acme', i.id, i.id, gen_random_uuid(), gen_random_uuid(), 'c', 0, 'message', 'paid',
    n::text, CASE WHEN n % 10 = 0 THEN 'Open' ELSE 'Consumed' END, now(), now()
FROM generate_series(1, :number) n, (SELECT id FROM process_instance LIMIT 1) i;
INSERT INTO delivery (signal_id, subscription_id, tenant_id, node_id, name, payload, status, created_at,
    updated_at)
SELECT gen_random_uuid(), gen_random_uuid(), 'acme', 'n', 's', '{}',
    CASE WHEN n % 10 = 0 THEN 'Pending' ELSE 'Done' END, now(), now()
FROM generate_series(1, :number) n;
"""

POLLS = {
    "claim": (work.CLAIMS[FRONT], "token_ready_idx"),
    "claim from the end": (work.CLAIMS[BACK], "token_ready_idx"),
    "ready topics": (work.READY_TOPICS, "token_ready_topic_idx"),
    "ready tokens, counted": (work.COUNT_READY, "token_ready_topic_idx"),
    "incidents, counted": (statistics.COUNT_FAILED, "token_failed_idx"),
    "dead events, counted": (statistics.COUNT_EVENTS, "event_outbox_dead_idx"),
    "due timers": (timers.DUE_TIMERS, "timer_due_idx"),
    "next timer": (timers.NEXT, "timer_due_idx"),
    "timers of halted instances": (timers.PARK, "timer_due_idx"),
    "buffered messages": (messages.BUFFERED_PAGE, "message_expiry_idx"),
    "a message waits": (messages.WHAT_WAITS, "message_"),
    "a delivery waits": (messages.WHAT_WAITS, "delivery_pending_idx"),
    "expired leases": (timers.EXPIRED_LEASES, "token_executing_idx"),
    "unclaimed tokens": (timers.UNCLAIMED_TOKENS, "token_ready_topic_idx"),
    "lease events": (outbox.LEASE_EVENTS, "event_outbox_due_idx"),
    "purge events": (outbox.PURGE, "event_outbox_published_idx"),
    "match messages": (messages.MATCH_MESSAGES, "subscription_match_idx"),
    "match subscriptions": (messages.MATCH_SUBSCRIPTIONS, "message_buffer_idx"),
    "expire messages": (messages.EXPIRE, "message_expiry_idx"),
    "purge messages": (messages.PURGE_MESSAGES, "message_purge_idx"),
    "pending deliveries": (signals.PENDING_DELIVERIES, "delivery_pending_idx"),
    "a full buffer": (crowds.LAST_MESSAGE, "message_buffer_idx"),
    "an expected message": (crowds.IS_EXPECTED, "subscription_match_idx"),
    "purgeable trees": (retention.PURGEABLE, "process_instance_purge_idx"),
    "what they called": (retention.PURGEABLE, "process_instance_tree_idx"),
    "a tree to be purged": (retention.ENDED_TREE, "process_instance_tree_idx"),
    "trees that are purged": (retention.MARK_PURGED, "process_instance_tree_idx"),
    "a big tree that is purged": (retention.MARK_TREE, "process_instance_tree_idx"),
    "trees that are half gone": (retention.MARKED, "process_instance_purged_idx"),
    "what is left below": (retention.BELOW, "process_instance_tree_idx"),
    "what is left of a history": (retention.BELOW, "execution_log"),
    "trees that go": (retention.DELETE_PURGED, "process_instance_tree_idx"),
    "a spoilt tree": (quarantine.RUNNING, "process_instance_tree_idx"),
}
LOADS = {
    "tokens": (loading.TOKENS, "token_pkey"),
    "live tokens": (loading.LIVE_TOKENS, "token_live_idx"),
    "timers of tokens": (loading.TIMERS_OF_TOKENS, "timer_token_idx"),
    "timers of scopes": (loading.TIMERS_OF_SCOPES, "timer_scope_idx"),
    "waits of tokens": (loading.SUBSCRIPTIONS_OF_TOKENS, "subscription_token_idx"),
    "waits of scopes": (loading.SUBSCRIPTIONS_OF_SCOPES, "subscription_scope_idx"),
}
WRITES = {  # SQLite writes row by row
    f"{name}, {form}": (bulk.statement(form=form), index)
    for form in (FEW, Form(is_many=True, is_usual=False))
    for name, bulk, index in (
        ("update tokens", changing.UPDATE_TOKENS, "token_pkey"),
        ("update scopes", changing.UPDATE_SCOPES, "scope_pkey"),
        ("fire timers", changing.FIRE_TIMERS, "timer_pkey"),
    )
}


def finding(**wanted: Any) -> Callable[[Transaction], object]:
    return lambda tx: search.find_instances(tx, "acme", InstanceFilter(**wanted), limit=20)


CROWDS = {
    "a crowded process": (crowds.LAST_OF_PROCESS, "process_instance_status_idx"),
    "a crowded tenant": (crowds.LAST_OF_TENANT, "process_instance_status_idx"),
    "open instances, counted": (statistics.COUNT_OPEN, "process_instance_status_idx"),
}
# Few run, many have ended.
FILL_ENDED = """
INSERT INTO process_definition (id, tenant_id, key, version, name, xml, content_hash, deployment_id,
    created_at)
SELECT gen_random_uuid(), 'acme', 'process' || n, 1, '', '', n::text, gen_random_uuid(), now()
FROM generate_series(1, 5) n;
INSERT INTO process_instance (id, tenant_id, root_instance_id, depth, definition_id, definition_key,
    definition_version, status, priority, version, started_at, created_at, updated_at)
SELECT g, 'acme', g, 0, g, 'process' || n % 5, 1, CASE WHEN n % 500 = 0 THEN 'Running' ELSE 'Completed' END,
    0, 1, now(), now(), now()
FROM (SELECT n, gen_random_uuid() g FROM generate_series(1, 50000) n) made;
"""


def _be_like_the_store(connection: psycopg.Connection) -> None:
    chosen = sessions.settings(StoreConfig(), read_address("postgresql://"))
    for name, value in zip(chosen["names"], chosen["values"], strict=True):
        connection.execute(f"SET {name} = {value}")


def explained(connection: psycopg.Connection, statement: sa.Executable) -> str:
    """The generic plan: prepared with parameters, explained with NULLs in their place."""
    compiled = statement.compile(dialect=sa.dialects.postgresql.psycopg.dialect())
    names = list(dict.fromkeys(compiled.params))
    text = compiled.string
    for number, name in enumerate(names, 1):
        text = text.replace(f"%({name})s", f"${number}")
    _be_like_the_store(connection)
    connection.execute("SET plan_cache_mode = force_generic_plan")
    connection.execute(f"PREPARE plan AS {text.replace('%%', '%')}")
    nulls = f"({', '.join(['NULL'] * len(names))})" if names else ""
    rows = connection.execute(f"EXPLAIN EXECUTE plan{nulls}").fetchall()
    connection.execute("DEALLOCATE plan")
    return "\n".join(row[0] for row in rows)


@pytest.fixture(scope="module")
def growing(postgresql_databases: Databases) -> Iterator[Store]:
    with postgresql_databases.clone(SCHEMA) as url, Store(url, ManualClock()) as store:
        with store.transaction() as tx:
            changing.apply(tx, sample.started(sample.instance(), tokens=0))
        yield store


@pytest.mark.parametrize(
    "size", [0, 1_000, pytest.param(1_000_000, marks=[pytest.mark.slow, pytest.mark.timeout(1200)])]
)
def test_polls_and_loads_use_their_indexes(growing: Store, size: int) -> None:
    with psycopg.connect(libpq_url(growing.config.url), autocommit=True) as connection:
        if size:
            for statement in FILL.replace(":number", str(size)).split(";\n"):
                if statement.strip():
                    connection.execute(statement)
            connection.execute("VACUUM ANALYZE")
        plans = {name: explained(connection, statement) for name, (statement, _) in POLLS.items()}
        wrong = {name: plans[name] for name, (_, index) in POLLS.items() if index not in plans[name]}
        assert wrong == {}
        if size >= 1_000_000:
            asked = LOADS | WRITES
            plans = {name: explained(connection, statement) for name, (statement, _) in asked.items()}
            assert {name: plans[name] for name, (_, index) in asked.items() if index not in plans[name]} == {}


def test_a_claim_by_topic_uses_the_index_by_topic(growing: Store) -> None:
    with psycopg.connect(libpq_url(growing.config.url), autocommit=True) as connection:
        plan = explained(connection, work.claim_of_topics(growing.database))
    assert "token_ready_topic_idx" in plan


QUIET = """
INSERT INTO token (id, tenant_id, instance_id, root_instance_id, scope_id, node_id, state, mode, phase, held,
    topic, priority, attempt, activation, recoveries, version, entered_at, created_at, updated_at)
SELECT gen_random_uuid(), 'acme', i.id, i.id, gen_random_uuid(), 'task', '{state}', 'Forward', 'inside',
    false, 'work', 0, 0, 1, 0, 1, now(), now(), now()
FROM generate_series(1, {number}) n, (SELECT id FROM process_instance LIMIT 1) i;
INSERT INTO event_outbox (id, tenant_id, instance_id, root_instance_id, seq, type, data, at, status, attempts,
    next_at, published_at, updated_at)
SELECT gen_random_uuid(), 'acme', gen_random_uuid(), gen_random_uuid(), n, 'e', '{{}}', now(), '{status}', 0,
    now(), now(), now()
FROM generate_series(1, {number}) n;
"""


def test_work_after_quiet_times_is_found_without_walking_through_all_of_it(
    postgresql_databases: Databases,
) -> None:
    """Statistics of a database where all was done would tell the planner that nothing is ready or pending."""
    many = 3_000
    with postgresql_databases.clone(SCHEMA) as url, Store(url, ManualClock()) as store:
        with store.transaction() as tx:
            changing.apply(tx, sample.started(sample.instance(), tokens=0))
        with psycopg.connect(libpq_url(url), autocommit=True) as connection:
            connection.execute(QUIET.format(state="Completed", status="Published", number=10 * many))
            connection.execute("VACUUM ANALYZE")
            connection.execute(QUIET.format(state="Ready", status="Pending", number=many))
        when = datetime.now(UTC)
        given = {"owner": "w", "limit": 100, "now": when, "until": when}
        texts = {name: work._texts(()) for name in ("names", "excluded", "excluded_prefixes")}
        topics = texts | {"prefixes": work._texts([""])}
        for statement, values in (
            (work.CLAIMS[FRONT], given),
            (work.CLAIMS[BACK], given),
            (work.claim_of_topics(store.database), given | topics),
            (outbox.LEASE_EVENTS, given),
        ):
            assert touched(store, statement, values) < 4 * many


WAITING = [
    """
INSERT INTO process_instance (id, tenant_id, root_instance_id, depth, definition_id, definition_key,
    definition_version, status, priority, version, started_at, created_at, updated_at)
SELECT g, 'acme', g, 0, g, 'order', 1, 'Running', 0, 1, now(), now(), now()
FROM (SELECT gen_random_uuid() g FROM generate_series(1, {number}) n) made""",
    """
INSERT INTO token (id, tenant_id, instance_id, root_instance_id, scope_id, node_id, state, mode, phase, held,
    waiting_for, priority, attempt, activation, recoveries, version, entered_at, created_at, updated_at)
SELECT gen_random_uuid(), 'acme', id, id, id, 'task', 'Waiting', 'Forward', 'inside', false, 'event', 0, 0, 1,
    0, 1, now(), now(), now() FROM process_instance""",
    """
INSERT INTO timer (id, tenant_id, instance_id, root_instance_id, scope_id, token_id, node_id, event, purpose,
    due_at, status, fired, created_at, updated_at)
SELECT gen_random_uuid(), 'acme', instance_id, instance_id, scope_id, id, 't', 0, 'event', now(), 'Scheduled',
    0, now(), now() FROM token""",
    """
INSERT INTO subscription (id, tenant_id, instance_id, root_instance_id, scope_id, token_id, node_id, event,
    kind, name, correlation_key, status, created_at, updated_at)
SELECT gen_random_uuid(), 'acme', instance_id, instance_id, scope_id, id, 'c', 0, 'message', 'paid', 'x',
    'Open', now(), now() FROM token""",
    """
INSERT INTO human_task (id, tenant_id, instance_id, root_instance_id, scope_id, token_id, node_id, name,
    candidate_users, candidate_groups, priority, status, version, created_at, updated_at)
SELECT gen_random_uuid(), 'acme', instance_id, instance_id, scope_id, id, 'c', 'x', '[]', '[]', 0, 'Open', 1,
    now(), now() FROM token""",
]

ROOTS = """
INSERT INTO scope (id, tenant_id, instance_id, root_instance_id, node_id, state, variables, live, parked,
    inclusive_waiting, conditional, steps, seq, population, created_at, updated_at)
SELECT id, 'acme', id, id, 'order', 'Active', '{{}}', 1, 0, 0, 0, 0, 0, 0, now(), now()
FROM process_instance"""


@pytest.mark.parametrize("known", [True, False])
def test_of_many_that_wait_only_those_that_are_asked_for_are_looked_at(
    postgresql_databases: Databases, known: bool
) -> None:
    """With all of them waiting; with statistics and without any, as in the first minute of a database."""
    many, few = 4_000, 100
    with postgresql_databases.clone(SCHEMA) as url, Store(url, ManualClock()) as store:
        with psycopg.connect(libpq_url(url), autocommit=True) as connection:
            for statement in WAITING:
                connection.execute(statement.format(number=many))
            if known:
                connection.execute("VACUUM ANALYZE")
            found = connection.execute("SELECT id::text, scope_id::text FROM token LIMIT %s", (few,))
            token_ids, scope_ids = zip(*found.fetchall(), strict=True)
        tokens, scopes = rows.ids(token_ids), rows.ids(scope_ids)
        joins = rows.rows([(scope_id, "join") for scope_id in scope_ids])
        for statement, wanted in (
            (loading.TIMERS_OF_TOKENS, tokens),
            (loading.SUBSCRIPTIONS_OF_TOKENS, tokens),
            (loading.TASKS_OF_TOKENS, tokens),
            (loading.LIVE_TOKENS, scopes),
            (loading.TIMERS_OF_SCOPES, scopes),
            (loading.SUBSCRIPTIONS_OF_SCOPES, scopes),
            (loading.TASKS_OF_SCOPES, scopes),
            (loading.CONDITIONS, scopes),
        ):
            assert touched(store, statement, {"ids": wanted}) < 10 * few
        assert touched(store, loading.PARKED_TOKENS, {"given": joins}) < 10 * few


@pytest.mark.parametrize("known", [True, False])
def test_of_many_that_can_go_on_only_a_page_is_looked_at(
    postgresql_databases: Databases, known: bool
) -> None:
    """With statistics and without any, as in the minute in which they all began to wait."""
    many, few = 4_000, 100
    with postgresql_databases.clone(SCHEMA) as url, Store(url, ManualClock()) as store:
        with psycopg.connect(libpq_url(url), autocommit=True) as connection:
            for statement in (*WAITING, "UPDATE subscription SET correlation_key = id::text", ROOTS):
                connection.execute(statement.format(number=many))
            if known:
                connection.execute("VACUUM ANALYZE")
            keys = connection.execute("SELECT id::text FROM subscription LIMIT %s", (few,)).fetchall()
        page = {"now": datetime.now(UTC), "limit": few}
        start = {"due_at": EPOCH, "after": timers.FIRST_ID}
        arriving = rows.rows([(key, "acme", "paid", key, {}) for (key,) in keys])
        for statement, values in (
            (timers.DUE_TIMERS, page | start),
            (timers.LATEST_TIMERS, page),
            (messages.TAKERS_OF_ARRIVING, {"given": arriving}),
        ):
            assert touched(store, statement, values) < 10 * few


UNTIED_TIMERS = """
INSERT INTO timer (id, tenant_id, instance_id, root_instance_id, scope_id, node_id, event, purpose, due_at,
    status, fired, created_at, updated_at)
SELECT gen_random_uuid(), 'acme', i.id, i.id, gen_random_uuid(), 't', 0, 'event', now(), 'Scheduled', 0,
    now(), now()
FROM generate_series(1, 20000) n, (SELECT id FROM process_instance LIMIT 1) i
"""


def test_plans_made_for_small_tables_are_given_up_when_these_grow(postgresql_databases: Databases) -> None:
    """A connection that has looked into an empty table goes on as one looks at small ones, until it plans
    anew."""
    with postgresql_databases.clone(SCHEMA) as url, Store(StoreConfig(url=url, pool_size=1)) as store:
        with store.transaction() as tx:
            changing.apply(tx, sample.started(sample.instance(), tokens=0))
            tx.execute(sa.text("ALTER TABLE timer SET (autovacuum_enabled = false)"))  # it would find out
        for _ in range(8):  # the server has made up its mind by then
            _looked_at(store)
        with psycopg.connect(libpq_url(url), autocommit=True) as connection:
            connection.execute(UNTIED_TIMERS)
        wait_until(lambda: _looked_at(store) < 10, "only the timers of one scope are looked at")


def _looked_at(store: Store) -> int:
    """Of the timers, when those of one scope are loaded."""
    looked = sa.text(
        "SELECT seq_tup_read + coalesce(idx_tup_fetch, 0) FROM pg_stat_xact_user_tables"
        " WHERE relname = 'timer'"
    )
    with store.transaction() as tx:
        tx.execute(loading.TIMERS_WITHOUT_TOKEN, {"ids": rows.ids([str(uuid4())])}).all()
        number: int = tx.connection.execute(looked).scalar_one()
        tx.connection.execute(sa.text("SELECT pg_sleep(0.02)"))  # such a transaction counts as slow
    return number


def touched(store: Store, statement: sa.Executable, values: dict[str, object]) -> int:
    """The rows that its scans and joins have looked at, found or not."""
    compiled = statement.compile(dialect=store.database.engine.dialect)
    return _touched(store, str(compiled), dict(compiled.params) | values)


def _touched(store: Store, text: str, values: Any) -> int:
    with psycopg.connect(libpq_url(store.config.url)) as connection:
        _be_like_the_store(connection)
        plan = connection.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {text}", values).fetchone()
        connection.rollback()
    assert plan is not None
    return _rows(plan[0][0]["Plan"])


def _rows(plan: dict[str, Any]) -> int:
    looked = ("Actual Rows", "Rows Removed by Filter", "Rows Removed by Join Filter")
    here = sum(plan.get(name, 0) for name in looked) * plan["Actual Loops"]
    return int(here) + sum(_rows(inner) for inner in plan.get("Plans", ()))


def test_a_crowd_is_counted_past_those_that_have_ended(postgresql_databases: Databases) -> None:
    with (
        postgresql_databases.clone(SCHEMA) as url,
        psycopg.connect(libpq_url(url), autocommit=True) as connection,
    ):
        for statement in FILL_ENDED.split(";\n"):
            if statement.strip():
                connection.execute(statement)
        connection.execute("VACUUM ANALYZE")
        plans = {name: explained(connection, statement) for name, (statement, _) in CROWDS.items()}
    assert {name: plans[name] for name, (_, index) in CROWDS.items() if index not in plans[name]} == {}


HALTED = "process_instance_halted_idx"
OF_ONE = InstanceFilter(incidents=True)
LISTS: dict[str, tuple[Callable[[Transaction], object], str]] = {
    "failed instances": (finding(status=InstanceStatus.FAILED), HALTED),
    "suspended instances": (finding(status=InstanceStatus.SUSPENDED), HALTED),
    "what an instance called": (finding(parent_id=str(uuid4())), "process_instance_parent_idx"),
    "instances by correlation id": (finding(correlation_id="x"), "process_instance_correlation_idx"),
    "instances with incidents": (finding(incidents=True), "token_failed_idx"),
    "whether one has incidents": (
        lambda tx: search.is_wanted(tx, "acme", OF_ONE, str(uuid4())),
        "process_instance_tree_idx",
    ),
    "incidents of an instance": (
        lambda tx: find_incidents(tx, "acme", IncidentFilter(instance_id=str(uuid4()))),
        "process_instance_parent_idx",
    ),
}


def asked(store: Store, look: Callable[[Transaction], object]) -> list[tuple[str, Any]]:
    """The statements of a look, as they are sent."""
    sent: list[tuple[str, Any]] = []
    with store.reading() as tx:

        def note(_c: object, _cursor: object, statement: str, values: object, *_: object) -> None:
            sent.append((statement, values))

        sa.event.listen(tx.connection, "before_cursor_execute", note)
        look(tx)
        sa.event.remove(tx.connection, "before_cursor_execute", note)
    return sent


@pytest.mark.parametrize("name", LISTS)
def test_sqlite_finds_by_index_what_people_look_for(sqlite_store: Store, name: str) -> None:
    look, index = LISTS[name]
    (*_, (text, values)) = asked(sqlite_store, look)
    with sqlite_store.reading() as tx:
        plan = [row[-1] for row in tx.connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {text}", values)]
    assert any(index in step for step in plan), plan
    assert not any(step.startswith(("SCAN token", "SCAN process_instance")) for step in plan), plan


def test_postgresql_finds_by_index_what_people_look_for(postgresql_databases: Databases) -> None:
    """None is there to be found, and many others are."""
    many = 5_000
    with postgresql_databases.clone(SCHEMA) as url, Store(url, ManualClock()) as store:
        with psycopg.connect(libpq_url(url), autocommit=True) as connection:
            for statement in WAITING[:2]:
                connection.execute(statement.format(number=many))
            connection.execute("VACUUM ANALYZE")
        looked = {name: _touched(store, *asked(store, look)[-1]) for name, (look, _) in LISTS.items()}
    assert {name: number for name, number in looked.items() if number > 100} == {}


def test_metrics_are_counted_past_what_is_done(postgresql_databases: Databases) -> None:
    with postgresql_databases.clone(SCHEMA) as url, Store(url, ManualClock()) as store:
        with psycopg.connect(libpq_url(url), autocommit=True) as connection:
            for statement in FILL_ENDED.split(";\n"):
                connection.execute(statement)
            connection.execute(QUIET.format(state="Completed", status="Published", number=10_000))
            connection.execute("VACUUM ANALYZE")
        looked = {text: _touched(store, text, values) for text, values in asked(store, statistics.read_load)}
    assert {text: number for text, number in looked.items() if number > 500} == {}


@pytest.mark.parametrize("name", [*POLLS, *LOADS, *CROWDS])
def test_sqlite_uses_the_same_indexes(sqlite_store: Store, name: str) -> None:
    statement, index = (POLLS | LOADS | CROWDS)[name]
    compiled = statement.compile(dialect=sqlite_store.database.engine.dialect)
    with sqlite_store.reading() as tx:
        query = f"EXPLAIN QUERY PLAN {compiled}"
        plan = tx.connection.exec_driver_sql(query, tuple(None for _ in compiled.positiontup)).all()
    used = "\n".join(row[-1] for row in plan)
    assert index in used or (index == "token_pkey" and "token USING PRIMARY KEY" in used), used
