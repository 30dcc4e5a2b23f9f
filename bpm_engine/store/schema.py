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

from enum import StrEnum
from typing import Any

import sqlalchemy as sa
from sqlalchemy import CheckConstraint, Column, ForeignKey, Index, Integer, Table, Text, UniqueConstraint

from bpm_engine.core import state
from bpm_engine.store.types import LATEST, Choice, Flag, Id, Instant, Json, Large

metadata = sa.MetaData(
    naming_convention={
        "pk": "%(table_name)s_pkey",
        "fk": "%(table_name)s_%(column_0_name)s_fkey",
        "uq": "%(table_name)s_%(column_0_N_name)s_key",
        "ck": "%(table_name)s_%(constraint_name)s_check",
        "ix": "%(table_name)s_%(column_0_N_name)s_idx",
    }
)


class MessageStatus(StrEnum):
    BUFFERED = "Buffered"  # waits for a subscription until it expires
    CONSUMED = "Consumed"  # its id is remembered until then: the inbox
    EXPIRED = "Expired"


class DeliveryStatus(StrEnum):
    PENDING = "Pending"
    DONE = "Done"
    FAILED = "Failed"


class OutboxStatus(StrEnum):
    PENDING = "Pending"
    PUBLISHED = "Published"
    DEAD = "Dead"


class ScheduleStatus(StrEnum):
    ACTIVE = "Active"
    PAUSED = "Paused"
    ENDED = "Ended"  # its last firing is over, or a newer version replaced it


ENDED = (state.InstanceStatus.COMPLETED, state.InstanceStatus.CANCELLED)
HALTED = (state.InstanceStatus.FAILED, state.InstanceStatus.SUSPENDED)
GONE = (state.TokenState.COMPLETED, state.TokenState.CANCELLED)
HOT_ROWS = {"postgresql_with": {"fillfactor": 70}}  # room on the page for the next version of a row


def fixed(member: StrEnum) -> sa.ColumnElement[Any]:
    """A status written into the statement: with a parameter in its place no partial index could be chosen."""
    return sa.literal_column(f"'{member}'")


def still(first: StrEnum, status: sa.ColumnElement[Any]) -> sa.ColumnElement[bool]:
    """Has this status, said by the ones that it has not. PostgreSQL keeps no statistics of statuses (see
    migration 0002). Then it takes a value for one in 200 and would rather walk through all that waits than
    look up a few of it; but it takes nearly all for different from two values.
    """
    return status.not_in([fixed(each) for each in _others(first)])


def _others(first: StrEnum) -> list[StrEnum]:
    return [each for each in type(first) if each is not first]


def _still(first: StrEnum) -> str:
    """The same as text, for partial indexes."""
    return f"status NOT IN ({', '.join(str(fixed(each)) for each in _others(first))})"


def _choice(
    name: str, members: type[StrEnum], *, nullable: bool = False
) -> tuple[Column[StrEnum], CheckConstraint]:
    """With a CHECK, spelt out: SQLite would build a table for an IN list anew with every row."""
    condition = " OR ".join(f"{name} = '{member}'" for member in members)
    return Column(name, Choice(members), nullable=nullable), CheckConstraint(condition, name=name)


def _instant(name: str, *, nullable: bool = True) -> Column[object]:
    return Column(name, Instant, nullable=nullable)


def _times() -> tuple[Column[object], Column[object]]:
    """Kept by every statement that writes, from its bound `now`."""
    return _instant("created_at", nullable=False), _instant("updated_at", nullable=False)


def _readable(*names: str) -> CheckConstraint:
    """Python cannot read a year beyond 9999, and one such row would spoil every batch it is in."""
    limit = sa.literal(LATEST, Instant)
    return CheckConstraint(
        sa.and_(*(sa.column(name, Instant) < limit for name in names)), name="readable_times"
    )


def _owned() -> tuple[Column[str], Column[str], Column[str], Column[str]]:
    return (
        Column("id", Id, primary_key=True),
        Column("tenant_id", Text, nullable=False),
        Column("instance_id", Id, ForeignKey("process_instance.id", ondelete="CASCADE"), nullable=False),
        Column("root_instance_id", Id, nullable=False),
    )


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
    _instant("created_at", nullable=False),
    # All that may change: a deleted version is hidden, and keeps its number for ever.
    _instant("deleted_at"),
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
    *_choice("status", state.InstanceStatus),
    Column("business_key", Text),
    Column("subject", Text),
    Column("correlation_id", Text),
    Column("idempotency_key", Text),
    Column("input_hash", Text),
    Column("priority", Integer, nullable=False),
    Column("version", Integer, nullable=False),
    Column("retention", Large),
    Column("error", Json),
    _instant("started_at", nullable=False),
    _instant("ended_at"),
    _instant("purge_at"),
    _instant("purged_at"),
    _instant("deleted_at"),
    Column("deleted_by", Text),
    Column("delete_reason", Text),
    *_times(),
    # The rule of deletion as data, so that it needs no clock: see the trigger in the first migration.
    CheckConstraint(
        "purged_at IS NULL OR (status IN ('Completed', 'Cancelled') AND purged_at >= purge_at)", name="purged"
    ),
    _readable("started_at"),
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
    *_owned(),
    Column("parent_id", Id),
    Column("node_id", Text, nullable=False),
    Column("token_id", Id),
    *_choice("state", state.ScopeState),
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
    *_times(),
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
    *_owned(),
    Column("scope_id", Id, nullable=False),
    Column("node_id", Text, nullable=False),
    *_choice("state", state.TokenState),
    *_choice("mode", state.Mode),
    *_choice("phase", state.Phase),
    Column("held", Flag, nullable=False),
    *_choice("waiting_for", state.Waiting, nullable=True),
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
    _instant("lease_until"),
    Column("error", Json),
    _instant("entered_at", nullable=False),
    *_times(),
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


def claim_order(ready: sa.FromClause, *, last_first: bool = False) -> tuple[sa.ColumnElement[Any], ...]:
    """Highest priority first, then oldest; or the same backwards, by the same indexes."""
    if last_first:
        return (ready.c.priority, ready.c.id.desc())
    return (ready.c.priority.desc(), ready.c.id)


parallel_join = _table(
    "parallel_join",
    *_owned(),
    Column("scope_id", Id, nullable=False),
    Column("node_id", Text, nullable=False),
    Column("expected", Integer, nullable=False),
    Column("joined", Integer, nullable=False),
    Column("arrivals", Json, nullable=False),
    Column("fired", Integer, nullable=False),
    *_times(),
    UniqueConstraint("scope_id", "node_id"),
)
Index("parallel_join_instance_idx", parallel_join.c.instance_id)

timer = _table(
    "timer",
    *_owned(),
    Column("scope_id", Id, nullable=False),
    Column("token_id", Id),
    Column("node_id", Text, nullable=False),
    Column("event", Integer, nullable=False),
    *_choice("purpose", state.TimerPurpose),
    _instant("due_at", nullable=False),
    Column("cycle", Text),
    Column("remaining", Integer),
    _instant("anchor_at"),
    *_choice("status", state.TimerStatus),
    Column("fired", Integer, nullable=False),
    # Due while its instance was halted: out of the sweep's way until the instance goes on.
    Column("parked", Flag, nullable=False, server_default=sa.text("false")),
    *_times(),
    _readable("due_at"),
)
SCHEDULED = _still(state.TimerStatus.SCHEDULED)
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
    *_choice("kind", state.SubscriptionKind),
    Column("name", Text, nullable=False),
    Column("correlation_key", Text),
    Column("match", Json),
    *_choice("status", state.SubscriptionStatus),
    *_times(),
    CheckConstraint("(instance_id IS NULL) = (definition_id IS NOT NULL)", name="of_instance_or_definition"),
)
OPEN = _still(state.SubscriptionStatus.OPEN)
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
    *_owned(),
    Column("scope_id", Id, nullable=False),
    Column("token_id", Id, nullable=False),
    Column("node_id", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("assignee", Text),
    Column("owner", Text),
    Column("candidate_users", Json, nullable=False),
    Column("candidate_groups", Json, nullable=False),
    Column("priority", Integer, nullable=False),
    _instant("due_at"),
    _instant("follow_up_at"),
    Column("form_key", Text),
    *_choice("status", state.TaskStatus),
    Column("version", Integer, nullable=False),
    *_times(),
    _readable("due_at", "follow_up_at"),
)
Index("human_task_instance_idx", human_task.c.instance_id)
TO_DO = _still(state.TaskStatus.OPEN)
_partial("human_task_token_idx", human_task, ("token_id",), TO_DO)
_partial("human_task_scope_idx", human_task, ("scope_id",), TO_DO)
_partial("human_task_open_idx", human_task, ("tenant_id", "id"), TO_DO)
_partial("human_task_assignee_idx", human_task, ("tenant_id", "assignee", "id"), TO_DO)

compensation_record = _table(
    "compensation_record",
    *_owned(),
    Column("scope_id", Id, nullable=False),
    Column("node_id", Text, nullable=False),
    Column("handler_id", Text),
    Column("inner_scope_id", Id),
    Column("order", Large, nullable=False),
    Column("snapshot", Json, nullable=False),
    *_choice("status", state.CompensationStatus),
    Column("requested_by", Id),
    *_times(),
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
    *_choice("status", MessageStatus),
    _instant("expires_at", nullable=False),
    Column("consumed_by", Id),
    Column("actor", Text),  # who sent it, for the history of who takes it
    *_times(),
    _readable("expires_at"),
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
    *_choice("status", DeliveryStatus),
    Column("error", Text),
    Column("actor", Text),  # who sent the signal, for the history of who hears it
    *_times(),
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
    *_choice("kind", state.LogKind),
    _instant("at", nullable=False),
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
    _instant("at", nullable=False),
    *_choice("status", OutboxStatus),
    Column("attempts", Integer, nullable=False),
    _instant("next_at", nullable=False),
    Column("lease_owner", Text),
    Column("error", Text),
    _instant("published_at"),
    _instant("updated_at", nullable=False),
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
    _instant("due_at"),
    Column("cycle", Text),
    Column("remaining", Integer),
    _instant("anchor_at"),
    Column("catch_up", Text, nullable=False),
    *_choice("status", ScheduleStatus),
    Column("fired", Integer, nullable=False),
    Column("version", Integer, nullable=False),
    *_times(),
    _readable("due_at"),
)
_partial(
    "schedule_current_key",
    schedule,
    ("tenant_id", "definition_key", "node_id", "event"),
    "status <> 'Ended'",
    unique=True,
)
_partial("schedule_due_idx", schedule, ("due_at", "id"), "status = 'Active'")
