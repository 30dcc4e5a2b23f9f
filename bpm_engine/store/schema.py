"""The tables. Every row carries its tenant; a row of an instance also the instance and the top of its call
tree.

No default, trigger or function in here reads a clock: times arrive as bound parameters. Statuses are texts
with a CHECK. Indexes are chosen so that a step is a HOT update where it can be
(docs/adr/0010-store-layout.md): no index on lease, node or topic of a token, and partial indexes for the
polls.

Foreign keys lead to `process_instance` only. Its rows are hardly ever updated and never the execution lock,
so the key-share lock of the check meets nobody.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy import CheckConstraint, Column, ForeignKey, Index, Integer, Table, Text, UniqueConstraint

from bpm_engine.core import state
from bpm_engine.store.columns import choice, instant, owned, readable, times
from bpm_engine.store.statuses import (
    HALTED,
    DeliveryStatus,
    MessageStatus,
    OutboxStatus,
    ScheduleStatus,
    fixed,
    still_text,
)
from bpm_engine.store.types import Flag, Id, Json, Large

metadata = sa.MetaData(
    naming_convention={
        "pk": "%(table_name)s_pkey",
        "fk": "%(table_name)s_%(column_0_name)s_fkey",
        "uq": "%(table_name)s_%(column_0_N_name)s_key",
        "ck": "%(table_name)s_%(constraint_name)s_check",
        "ix": "%(table_name)s_%(column_0_N_name)s_idx",
    }
)

HOT_ROWS = {"postgresql_with": {"fillfactor": 70}}  # room on the page for the next version of a row


def _table(name: str, *parts: sa.schema.SchemaItem, **options: Any) -> Table:
    return Table(name, metadata, *parts, sqlite_strict=True, sqlite_with_rowid=False, **options)


def _partial(name: str, table: Table, columns: tuple[str, ...], where: str, *, unique: bool = False) -> Index:
    """An index over the rows of interest only: small, and untouched by all other rows."""
    keys = [table.c[c[1:]].desc() if c.startswith("-") else table.c[c] for c in columns]
    condition = sa.text(where)
    return Index(name, *keys, unique=unique, postgresql_where=condition, sqlite_where=condition)


process_definition = _table(
    "process_definition",
    Column("id", Id, primary_key=True),
    Column("tenant_id", Text, nullable=False),
    Column("key", Text, nullable=False),
    Column("version", Integer, nullable=False),
    Column("version_tag", Text),
    Column("name", Text, nullable=False),
    Column("xml", Text, nullable=False),
    Column("content_hash", Text, nullable=False),
    Column("deployment_id", Id, nullable=False),
    Column("deployed_by", Text),
    instant("created_at", nullable=False),
    # All that may change: a deleted version is hidden, and keeps its number for ever.
    instant("deleted_at"),
    Column("deleted_by", Text),
    UniqueConstraint("tenant_id", "key", "version"),
)

process_instance = _table(
    "process_instance",
    Column("id", Id, primary_key=True),
    Column("tenant_id", Text, nullable=False),
    Column("root_instance_id", Id, nullable=False),
    Column("parent_token_id", Id),
    Column("parent_instance_id", Id),
    Column("depth", Integer, nullable=False),
    Column("definition_id", Id, nullable=False),
    Column("definition_key", Text, nullable=False),
    Column("definition_version", Integer, nullable=False),
    *choice("status", state.InstanceStatus),
    Column("business_key", Text),
    Column("subject", Text),
    Column("correlation_id", Text),
    Column("idempotency_key", Text),
    Column("input_hash", Text),
    Column("priority", Integer, nullable=False),
    Column("version", Integer, nullable=False),
    Column("retention", Large),
    Column("error", Json),
    instant("started_at", nullable=False),
    instant("ended_at"),
    instant("purge_at"),
    instant("purged_at"),
    instant("deleted_at"),
    Column("deleted_by", Text),
    Column("delete_reason", Text),
    *times(),
    # The rule of deletion as data, so that it needs no clock: see the trigger in the first migration.
    CheckConstraint(
        "purged_at IS NULL OR (status IN ('Completed', 'Cancelled') AND purged_at >= purge_at)", name="purged"
    ),
    readable("started_at"),
)
# A top instance is found by its id, so most instances are not in it.
_partial("process_instance_tree_idx", process_instance, ("root_instance_id",), "depth > 0")
_partial("process_instance_caller_idx", process_instance, ("parent_token_id",), "parent_token_id IS NOT NULL")
_partial(
    "process_instance_parent_idx",
    process_instance,
    ("tenant_id", "parent_instance_id", "id"),
    "parent_instance_id IS NOT NULL",
)
_partial(
    "process_instance_idempotency_key",
    process_instance,
    ("tenant_id", "definition_key", "idempotency_key"),
    "idempotency_key IS NOT NULL",
    unique=True,
)
_partial(
    "process_instance_business_key_idx",
    process_instance,
    ("tenant_id", "business_key", "id"),
    "business_key IS NOT NULL",
)
_partial(
    "process_instance_subject_idx", process_instance, ("tenant_id", "subject", "id"), "subject IS NOT NULL"
)
_partial(
    "process_instance_correlation_idx",
    process_instance,
    ("tenant_id", "correlation_id", "id"),
    "correlation_id IS NOT NULL",
)
# Those that people look for: few among those that run and those that have ended.
_partial(
    "process_instance_halted_idx",
    process_instance,
    ("tenant_id", "status", "id"),
    " OR ".join(f"status = {fixed(each)}" for each in HALTED),
)
Index("process_instance_list_idx", process_instance.c.tenant_id, process_instance.c.id)
Index(
    "process_instance_status_idx",
    process_instance.c.tenant_id,
    process_instance.c.definition_key,
    process_instance.c.status,
    process_instance.c.id,
)
_partial(
    "process_instance_purge_idx", process_instance, ("purge_at", "id"), "depth = 0 AND purge_at IS NOT NULL"
)
# Trees that are half gone: hardly ever any.
_partial("process_instance_purged_idx", process_instance, ("id",), "depth = 0 AND purged_at IS NOT NULL")

scope = _table(
    "scope",
    *owned(),
    Column("parent_id", Id),
    Column("node_id", Text, nullable=False),
    Column("token_id", Id),
    *choice("state", state.ScopeState),
    Column("variables", Json, nullable=False),
    Column("loop", Json),
    Column("live", Integer, nullable=False),
    Column("parked", Integer, nullable=False),
    Column("inclusive_waiting", Integer, nullable=False),
    Column("conditional", Integer, nullable=False),
    Column("steps", Integer, nullable=False),
    Column("seq", Large, nullable=False),
    Column("population", Integer, nullable=False),
    Column("written", Json),
    *times(),
    **HOT_ROWS,
)
Index("scope_instance_idx", scope.c.instance_id)
_partial(
    "scope_parent_idx",
    scope,
    ("parent_id",),
    "parent_id IS NOT NULL AND state NOT IN ('Completed', 'Cancelled')",
)
_partial(
    "scope_owner_idx",
    scope,
    ("token_id",),
    "token_id IS NOT NULL AND state NOT IN ('Completed', 'Cancelled')",
)

token = _table(
    "token",
    *owned(),
    Column("scope_id", Id, nullable=False),
    Column("node_id", Text, nullable=False),
    *choice("state", state.TokenState),
    *choice("mode", state.Mode),
    *choice("phase", state.Phase),
    Column("held", Flag, nullable=False),
    *choice("waiting_for", state.Waiting, nullable=True),
    Column("topic", Text),
    Column("priority", Integer, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("activation", Integer, nullable=False),
    Column("recoveries", Integer, nullable=False),
    Column("version", Integer, nullable=False),
    Column("flow_id", Text),
    Column("parallel_group_id", Text),
    Column("loop_index", Integer),
    Column("local", Json),
    Column("output", Json),
    Column("compensates", Id),
    Column("lease_owner", Text),
    instant("lease_until"),
    Column("error", Json),
    instant("entered_at", nullable=False),
    *times(),
    # The topic while the token is claimable: a token handed from handler to handler stays out of the index.
    Column(
        "ready_topic",
        Text,
        sa.Computed("CASE WHEN state = 'Ready' AND NOT held THEN coalesce(topic, '') END", persisted=True),
    ),
    **HOT_ROWS,
)
Index("token_instance_idx", token.c.instance_id)
# Work for external workers may wait for weeks: it is found by topic only and not in the way of executors.
FOR_EXECUTORS = "substr(ready_topic, 1, 1) <> '@'"
_partial("token_ready_idx", token, ("-priority", "id"), f"ready_topic IS NOT NULL AND {FOR_EXECUTORS}")
_partial("token_ready_topic_idx", token, ("ready_topic", "-priority", "id"), "ready_topic IS NOT NULL")
_partial("token_executing_idx", token, ("id",), "state = 'Executing'")
_partial("token_live_idx", token, ("scope_id",), "state NOT IN ('Completed', 'Cancelled')")
_partial("token_item_idx", token, ("scope_id", "loop_index"), "loop_index IS NOT NULL")
_partial("token_failed_idx", token, ("tenant_id", "id"), "state = 'Failed'")


parallel_join = _table(
    "parallel_join",
    *owned(),
    Column("scope_id", Id, nullable=False),
    Column("node_id", Text, nullable=False),
    Column("expected", Integer, nullable=False),
    Column("joined", Integer, nullable=False),
    Column("arrivals", Json, nullable=False),
    Column("fired", Integer, nullable=False),
    *times(),
    UniqueConstraint("scope_id", "node_id"),
)
Index("parallel_join_instance_idx", parallel_join.c.instance_id)

timer = _table(
    "timer",
    *owned(),
    Column("scope_id", Id, nullable=False),
    Column("token_id", Id),
    Column("node_id", Text, nullable=False),
    Column("event", Integer, nullable=False),
    *choice("purpose", state.TimerPurpose),
    instant("due_at", nullable=False),
    Column("cycle", Text),
    Column("remaining", Integer),
    instant("anchor_at"),
    *choice("status", state.TimerStatus),
    Column("fired", Integer, nullable=False),
    # Due while its instance was halted: out of the sweep's way until the instance goes on.
    Column("parked", Flag, nullable=False, server_default=sa.text("false")),
    *times(),
    readable("due_at"),
)
SCHEDULED = still_text(state.TimerStatus.SCHEDULED)
Index("timer_instance_idx", timer.c.instance_id)
_partial("timer_due_idx", timer, ("due_at", "id"), f"{SCHEDULED} AND NOT parked")
_partial("timer_token_idx", timer, ("token_id",), f"{SCHEDULED} AND token_id IS NOT NULL")
_partial("timer_scope_idx", timer, ("scope_id",), SCHEDULED)

# Waits of instances, and start subscriptions of definitions (definition_id set, no instance).
subscription = _table(
    "subscription",
    Column("id", Id, primary_key=True),
    Column("tenant_id", Text, nullable=False),
    Column("instance_id", Id, ForeignKey("process_instance.id", ondelete="CASCADE")),
    Column("root_instance_id", Id),
    Column("scope_id", Id),
    Column("token_id", Id),
    Column("definition_id", Id),
    Column("definition_key", Text),
    Column("node_id", Text, nullable=False),
    Column("event", Integer, nullable=False),
    *choice("kind", state.SubscriptionKind),
    Column("name", Text, nullable=False),
    Column("correlation_key", Text),
    Column("match", Json),
    *choice("status", state.SubscriptionStatus),
    *times(),
    CheckConstraint("(instance_id IS NULL) = (definition_id IS NOT NULL)", name="of_instance_or_definition"),
)
OPEN = still_text(state.SubscriptionStatus.OPEN)
Index("subscription_instance_idx", subscription.c.instance_id)
_partial(
    "subscription_match_idx",
    subscription,
    ("tenant_id", "name", "correlation_key", "id"),
    OPEN,
)
_partial("subscription_token_idx", subscription, ("token_id",), f"{OPEN} AND token_id IS NOT NULL")
_partial("subscription_scope_idx", subscription, ("scope_id",), f"{OPEN} AND scope_id IS NOT NULL")
_partial(
    "subscription_start_idx",
    subscription,
    ("tenant_id", "definition_key"),
    f"{OPEN} AND definition_id IS NOT NULL",
)

human_task = _table(
    "human_task",
    *owned(),
    Column("scope_id", Id, nullable=False),
    Column("token_id", Id, nullable=False),
    Column("node_id", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("assignee", Text),
    Column("owner", Text),
    Column("candidate_users", Json, nullable=False),
    Column("candidate_groups", Json, nullable=False),
    Column("priority", Integer, nullable=False),
    instant("due_at"),
    instant("follow_up_at"),
    Column("form_key", Text),
    *choice("status", state.TaskStatus),
    Column("version", Integer, nullable=False),
    *times(),
    readable("due_at", "follow_up_at"),
)
Index("human_task_instance_idx", human_task.c.instance_id)
TO_DO = still_text(state.TaskStatus.OPEN)
_partial("human_task_token_idx", human_task, ("token_id",), TO_DO)
_partial("human_task_scope_idx", human_task, ("scope_id",), TO_DO)
_partial("human_task_open_idx", human_task, ("tenant_id", "id"), TO_DO)
_partial("human_task_assignee_idx", human_task, ("tenant_id", "assignee", "id"), TO_DO)

compensation_record = _table(
    "compensation_record",
    *owned(),
    Column("scope_id", Id, nullable=False),
    Column("node_id", Text, nullable=False),
    Column("handler_id", Text),
    Column("inner_scope_id", Id),
    Column("order", Large, nullable=False),
    Column("snapshot", Json, nullable=False),
    *choice("status", state.CompensationStatus),
    Column("requested_by", Id),
    *times(),
)
Index("compensation_record_instance_idx", compensation_record.c.instance_id)
Index("compensation_record_scope_idx", compensation_record.c.scope_id, compensation_record.c.order)

message = _table(
    "message",
    Column("id", Id, primary_key=True),
    Column("tenant_id", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("correlation_key", Text),
    Column("payload", Json, nullable=False),
    Column("message_id", Text),
    *choice("status", MessageStatus),
    instant("expires_at", nullable=False),
    Column("consumed_by", Id),
    Column("actor", Text),  # who sent it, for the history of who takes it
    *times(),
    readable("expires_at"),
)
_partial(
    "message_inbox_key", message, ("tenant_id", "name", "message_id"), "message_id IS NOT NULL", unique=True
)
_partial("message_buffer_idx", message, ("tenant_id", "name", "correlation_key", "id"), "status = 'Buffered'")
_partial("message_expiry_idx", message, ("expires_at", "id"), "status = 'Buffered'")
_partial("message_purge_idx", message, ("expires_at", "id"), "status <> 'Buffered'")

# One row per signal and subscription: the key makes a second delivery impossible.
delivery = _table(
    "delivery",
    Column("signal_id", Id, primary_key=True),
    Column("subscription_id", Id, primary_key=True),
    Column("tenant_id", Text, nullable=False),
    Column("instance_id", Id, ForeignKey("process_instance.id", ondelete="CASCADE")),
    Column("root_instance_id", Id),
    Column("definition_id", Id),
    Column("node_id", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("payload", Json, nullable=False),
    *choice("status", DeliveryStatus),
    Column("error", Text),
    Column("actor", Text),  # who sent the signal, for the history of who hears it
    *times(),
)
Index("delivery_instance_idx", delivery.c.instance_id)
_partial("delivery_pending_idx", delivery, ("signal_id", "subscription_id"), "status = 'Pending'")
Index("delivery_age_idx", delivery.c.updated_at)

# No foreign key: it would lock the instance's row with every step, a quarter of what the server does for one.
# A trigger deletes the rows with their instance.
execution_log = _table(
    "execution_log",
    Column("tenant_id", Text, nullable=False),
    Column("instance_id", Id, primary_key=True),
    Column("root_instance_id", Id, nullable=False),
    Column("seq", Large, primary_key=True, autoincrement=False),
    *choice("kind", state.LogKind),
    instant("at", nullable=False),
    Column("node_id", Text),
    Column("token_id", Id),
    Column("scope_id", Id),
    Column("activation", Integer),
    Column("actor", Text),
    Column("data", Json),
)

# No foreign key: what is not yet published outlives its instance. `next_at` is when the row may be taken
# next: now, after the back-off, or when the dispatcher that holds it has lost its lease.
event_outbox = _table(
    "event_outbox",
    Column("id", Id, primary_key=True),
    Column("tenant_id", Text, nullable=False),
    Column("instance_id", Id, nullable=False),
    Column("root_instance_id", Id, nullable=False),
    Column("seq", Large, nullable=False),
    Column("type", Text, nullable=False),
    Column("data", Json, nullable=False),
    instant("at", nullable=False),
    *choice("status", OutboxStatus),
    Column("attempts", Integer, nullable=False),
    instant("next_at", nullable=False),
    Column("lease_owner", Text),
    Column("error", Text),
    instant("published_at"),
    instant("updated_at", nullable=False),
)
_partial("event_outbox_due_idx", event_outbox, ("next_at", "id"), "status = 'Pending'")
_partial("event_outbox_order_idx", event_outbox, ("instance_id", "seq", "id"), "status = 'Pending'")
_partial("event_outbox_dead_idx", event_outbox, ("tenant_id", "id"), "status = 'Dead'")
_partial("event_outbox_published_idx", event_outbox, ("published_at",), "status = 'Published'")

schedule = _table(
    "schedule",
    Column("id", Id, primary_key=True),
    Column("tenant_id", Text, nullable=False),
    Column("definition_id", Id, nullable=False),
    Column("definition_key", Text, nullable=False),
    Column("node_id", Text, nullable=False),
    Column("event", Integer, nullable=False),
    instant("due_at"),
    Column("cycle", Text),
    Column("remaining", Integer),
    instant("anchor_at"),
    Column("catch_up", Text, nullable=False),
    *choice("status", ScheduleStatus),
    Column("fired", Integer, nullable=False),
    Column("version", Integer, nullable=False),
    *times(),
    readable("due_at"),
)
_partial(
    "schedule_current_key",
    schedule,
    ("tenant_id", "definition_key", "node_id", "event"),
    "status <> 'Ended'",
    unique=True,
)
_partial("schedule_due_idx", schedule, ("due_at", "id"), "status = 'Active'")
