"""The first schema: all tables, the append-only history, the rule for deleting an instance.

The triggers need no clock. A log row goes only with its instance; an instance row goes only after it was
marked as purged, which a CHECK allows no earlier than its purge time and only when it has ended.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from alembic import op
from bpm_engine.store import types

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

TABLES = [
    "token",
    "timer",
    "subscription",
    "scope",
    "parallel_join",
    "human_task",
    "execution_log",
    "delivery",
    "compensation_record",
    "schedule",
    "process_instance",
    "process_definition",
    "message",
    "event_outbox",
]

# A version may be hidden; nothing else of it changes.
DEPLOYED = (
    "id, tenant_id, key, version, version_tag, name, xml, content_hash, deployment_id, deployed_by,"
    " created_at"
)

POSTGRESQL = [
    """
    CREATE FUNCTION bpm_keep_log() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
    BEGIN
        IF TG_OP = 'DELETE' THEN
            IF NOT EXISTS (SELECT 1 FROM process_instance WHERE id = OLD.instance_id) THEN
                RETURN OLD;
            END IF;
        END IF;
        RAISE EXCEPTION 'execution_log is append-only: % refused', TG_OP;
    END $$
    """,
    """
    CREATE FUNCTION bpm_keep_instance() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF OLD.purged_at IS NULL THEN
            RAISE EXCEPTION 'process_instance %: only what has ended and is past its purge time can go',
                OLD.id;
        END IF;
        RETURN OLD;
    END $$
    """,
    """
    CREATE FUNCTION bpm_keep_definition() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        RAISE EXCEPTION 'process_definition is immutable: deploy a new version';
    END $$
    """,
    "CREATE TRIGGER bpm_append_only BEFORE UPDATE OR DELETE ON execution_log"
    " FOR EACH ROW EXECUTE FUNCTION bpm_keep_log()",
    "CREATE TRIGGER bpm_no_truncate BEFORE TRUNCATE ON execution_log"
    " FOR EACH STATEMENT EXECUTE FUNCTION bpm_keep_log()",
    # Without its instance a row of the history could be deleted.
    "CREATE TRIGGER bpm_no_truncate BEFORE TRUNCATE ON process_instance"
    " FOR EACH STATEMENT EXECUTE FUNCTION bpm_keep_log()",
    "CREATE TRIGGER bpm_delete_rule BEFORE DELETE ON process_instance"
    " FOR EACH ROW EXECUTE FUNCTION bpm_keep_instance()",
    """
    CREATE FUNCTION bpm_end_log() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
    BEGIN
        DELETE FROM execution_log WHERE instance_id = OLD.id;
        RETURN NULL;
    END $$
    """,
    "CREATE TRIGGER bpm_log_goes AFTER DELETE ON process_instance"
    " FOR EACH ROW EXECUTE FUNCTION bpm_end_log()",
    f"CREATE TRIGGER bpm_immutable BEFORE UPDATE OF {DEPLOYED} ON process_definition"
    " FOR EACH ROW EXECUTE FUNCTION bpm_keep_definition()",
    # ALWAYS: session_replication_role = replica would skip them otherwise.
    "ALTER TABLE execution_log ENABLE ALWAYS TRIGGER bpm_append_only",
    "ALTER TABLE execution_log ENABLE ALWAYS TRIGGER bpm_no_truncate",
    "ALTER TABLE process_instance ENABLE ALWAYS TRIGGER bpm_no_truncate",
    "ALTER TABLE process_instance ENABLE ALWAYS TRIGGER bpm_delete_rule",
    "ALTER TABLE process_instance ENABLE ALWAYS TRIGGER bpm_log_goes",
    "ALTER TABLE process_definition ENABLE ALWAYS TRIGGER bpm_immutable",
    # The hot tables are vacuumed often and in small bites.
    "ALTER TABLE token SET (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000,"
    " autovacuum_analyze_scale_factor = 0.02)",
    "ALTER TABLE scope SET (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000,"
    " autovacuum_analyze_scale_factor = 0.02)",
]

SQLITE = [
    "CREATE TRIGGER bpm_log_update BEFORE UPDATE ON execution_log"
    " BEGIN SELECT RAISE(ABORT, 'execution_log is append-only: UPDATE refused'); END",
    "CREATE TRIGGER bpm_log_delete BEFORE DELETE ON execution_log"
    " WHEN EXISTS (SELECT 1 FROM process_instance WHERE id = OLD.instance_id)"
    " BEGIN SELECT RAISE(ABORT, 'execution_log is append-only: DELETE refused'); END",
    "CREATE TRIGGER bpm_delete_rule BEFORE DELETE ON process_instance WHEN OLD.purged_at IS NULL"
    " BEGIN SELECT RAISE(ABORT,"
    " 'process_instance: only what has ended and is past its purge time can be deleted'); END",
    "CREATE TRIGGER bpm_log_goes AFTER DELETE ON process_instance"
    " BEGIN DELETE FROM execution_log WHERE instance_id = OLD.id; END",
    f"CREATE TRIGGER bpm_immutable BEFORE UPDATE OF {DEPLOYED} ON process_definition"
    " BEGIN SELECT RAISE(ABORT, 'process_definition is immutable: deploy a new version'); END",
]


def one_of(column: str, *members: str, name: str) -> sa.CheckConstraint:
    """Spelt out: SQLite would build a table for an IN list anew with every row."""
    return sa.CheckConstraint(" OR ".join(f"{column} = '{member}'" for member in members), name=op.f(name))


def readable(*columns: str, name: str) -> sa.CheckConstraint:
    limit = sa.literal(types.LATEST, types.Instant)
    condition = sa.and_(*(sa.column(column, types.Instant) < limit for column in columns))
    return sa.CheckConstraint(condition, name=op.f(name))


def where(condition: str) -> dict[str, Any]:
    return {"postgresql_where": sa.text(condition), "sqlite_where": sa.text(condition)}


def only_on(dialect: str, statements: list[str]) -> None:
    if op.get_context().dialect.name == dialect:
        for statement in statements:
            op.execute(sa.DDL(statement.replace("%", "%%")))


def upgrade() -> None:
    create_tables()
    only_on("postgresql", POSTGRESQL)
    only_on("sqlite", SQLITE)


def downgrade() -> None:
    """The triggers go with their tables."""
    for table in TABLES:
        op.drop_table(table)
    only_on(
        "postgresql",
        [
            f"DROP FUNCTION bpm_{name}()"
            for name in ("keep_log", "end_log", "keep_instance", "keep_definition")
        ],
    )


def create_tables() -> None:
    op.create_table(
        "event_outbox",
        sa.Column("id", types.Id, nullable=False),
        sa.Column("tenant_id", sa.Text(), nullable=False),
        sa.Column("instance_id", types.Id, nullable=False),
        sa.Column("root_instance_id", types.Id, nullable=False),
        sa.Column("seq", types.Large, nullable=False),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("data", types.Json, nullable=False),
        sa.Column("at", types.Instant, nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("next_at", types.Instant, nullable=False),
        sa.Column("lease_owner", sa.Text(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("published_at", types.Instant, nullable=True),
        sa.Column("updated_at", types.Instant, nullable=False),
        one_of("status", "Pending", "Published", "Dead", name="event_outbox_status_check"),
        sa.PrimaryKeyConstraint("id", name=op.f("event_outbox_pkey")),
        sqlite_strict=True,
        sqlite_with_rowid=False,
    )
    op.create_index(
        "event_outbox_dead_idx", "event_outbox", ["tenant_id", "id"], unique=False, **where("status = 'Dead'")
    )
    op.create_index(
        "event_outbox_due_idx", "event_outbox", ["next_at", "id"], unique=False, **where("status = 'Pending'")
    )
    op.create_index(
        "event_outbox_order_idx",
        "event_outbox",
        ["instance_id", "seq", "id"],
        unique=False,
        **where("status = 'Pending'"),
    )
    op.create_index(
        "event_outbox_published_idx",
        "event_outbox",
        ["published_at"],
        unique=False,
        **where("status = 'Published'"),
    )
    op.create_table(
        "message",
        sa.Column("id", types.Id, nullable=False),
        sa.Column("tenant_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("correlation_key", sa.Text(), nullable=True),
        sa.Column("payload", types.Json, nullable=False),
        sa.Column("message_id", sa.Text(), nullable=True),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("expires_at", types.Instant, nullable=False),
        sa.Column("consumed_by", types.Id, nullable=True),
        sa.Column("created_at", types.Instant, nullable=False),
        sa.Column("updated_at", types.Instant, nullable=False),
        readable("expires_at", name="message_readable_times_check"),
        one_of("status", "Buffered", "Consumed", "Expired", name="message_status_check"),
        sa.PrimaryKeyConstraint("id", name=op.f("message_pkey")),
        sqlite_strict=True,
        sqlite_with_rowid=False,
    )
    op.create_index(
        "message_buffer_idx",
        "message",
        ["tenant_id", "name", "correlation_key", "id"],
        unique=False,
        **where("status = 'Buffered'"),
    )
    op.create_index(
        "message_expiry_idx", "message", ["expires_at", "id"], unique=False, **where("status = 'Buffered'")
    )
    op.create_index(
        "message_inbox_key",
        "message",
        ["tenant_id", "name", "message_id"],
        unique=True,
        **where("message_id IS NOT NULL"),
    )
    op.create_index(
        "message_purge_idx", "message", ["expires_at", "id"], unique=False, **where("status <> 'Buffered'")
    )
    op.create_table(
        "process_definition",
        sa.Column("id", types.Id, nullable=False),
        sa.Column("tenant_id", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("version_tag", sa.Text(), nullable=True),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("xml", sa.Text(), nullable=False),
        sa.Column("content_hash", sa.Text(), nullable=False),
        sa.Column("deployment_id", types.Id, nullable=False),
        sa.Column("deployed_by", sa.Text(), nullable=True),
        sa.Column("created_at", types.Instant, nullable=False),
        sa.Column("deleted_at", types.Instant, nullable=True),
        sa.Column("deleted_by", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("process_definition_pkey")),
        sa.UniqueConstraint(
            "tenant_id", "key", "version", name=op.f("process_definition_tenant_id_key_version_key")
        ),
        sqlite_strict=True,
        sqlite_with_rowid=False,
    )
    op.create_table(
        "process_instance",
        sa.Column("id", types.Id, nullable=False),
        sa.Column("tenant_id", sa.Text(), nullable=False),
        sa.Column("root_instance_id", types.Id, nullable=False),
        sa.Column("parent_token_id", types.Id, nullable=True),
        sa.Column("parent_instance_id", types.Id, nullable=True),
        sa.Column("depth", sa.Integer(), nullable=False),
        sa.Column("definition_id", types.Id, nullable=False),
        sa.Column("definition_key", sa.Text(), nullable=False),
        sa.Column("definition_version", sa.Integer(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("business_key", sa.Text(), nullable=True),
        sa.Column("subject", sa.Text(), nullable=True),
        sa.Column("correlation_id", sa.Text(), nullable=True),
        sa.Column("idempotency_key", sa.Text(), nullable=True),
        sa.Column("input_hash", sa.Text(), nullable=True),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("retention", types.Large, nullable=True),
        sa.Column("error", types.Json, nullable=True),
        sa.Column("started_at", types.Instant, nullable=False),
        sa.Column("ended_at", types.Instant, nullable=True),
        sa.Column("purge_at", types.Instant, nullable=True),
        sa.Column("purged_at", types.Instant, nullable=True),
        sa.Column("deleted_at", types.Instant, nullable=True),
        sa.Column("deleted_by", sa.Text(), nullable=True),
        sa.Column("delete_reason", sa.Text(), nullable=True),
        sa.Column("created_at", types.Instant, nullable=False),
        sa.Column("updated_at", types.Instant, nullable=False),
        sa.CheckConstraint(
            "purged_at IS NULL OR (status IN ('Completed', 'Cancelled') AND purged_at >= purge_at)",
            name=op.f("process_instance_purged_check"),
        ),
        readable("started_at", name="process_instance_readable_times_check"),
        one_of(
            "status",
            "Running",
            "Suspended",
            "Completed",
            "Failed",
            "Cancelled",
            name="process_instance_status_check",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("process_instance_pkey")),
        sqlite_strict=True,
        sqlite_with_rowid=False,
    )
    op.create_index(
        "process_instance_business_key_idx",
        "process_instance",
        ["tenant_id", "business_key", "id"],
        unique=False,
        **where("business_key IS NOT NULL"),
    )
    op.create_index(
        "process_instance_caller_idx",
        "process_instance",
        ["parent_token_id"],
        unique=False,
        **where("parent_token_id IS NOT NULL"),
    )
    op.create_index(
        "process_instance_idempotency_key",
        "process_instance",
        ["tenant_id", "definition_key", "idempotency_key"],
        unique=True,
        **where("idempotency_key IS NOT NULL"),
    )
    op.create_index("process_instance_list_idx", "process_instance", ["tenant_id", "id"], unique=False)
    op.create_index(
        "process_instance_purge_idx",
        "process_instance",
        ["purge_at", "id"],
        unique=False,
        **where("depth = 0 AND purge_at IS NOT NULL"),
    )
    op.create_index(
        "process_instance_status_idx",
        "process_instance",
        ["tenant_id", "definition_key", "status", "id"],
        unique=False,
    )
    op.create_index(
        "process_instance_subject_idx",
        "process_instance",
        ["tenant_id", "subject", "id"],
        unique=False,
        **where("subject IS NOT NULL"),
    )
    op.create_index("process_instance_tree_idx", "process_instance", ["root_instance_id"], unique=False)
    op.create_table(
        "schedule",
        sa.Column("id", types.Id, nullable=False),
        sa.Column("tenant_id", sa.Text(), nullable=False),
        sa.Column("definition_id", types.Id, nullable=False),
        sa.Column("definition_key", sa.Text(), nullable=False),
        sa.Column("node_id", sa.Text(), nullable=False),
        sa.Column("event", sa.Integer(), nullable=False),
        sa.Column("due_at", types.Instant, nullable=True),
        sa.Column("cycle", sa.Text(), nullable=True),
        sa.Column("remaining", sa.Integer(), nullable=True),
        sa.Column("anchor_at", types.Instant, nullable=True),
        sa.Column("catch_up", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("fired", sa.Integer(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("created_at", types.Instant, nullable=False),
        sa.Column("updated_at", types.Instant, nullable=False),
        readable("due_at", name="schedule_readable_times_check"),
        one_of("status", "Active", "Paused", "Ended", name="schedule_status_check"),
        sa.PrimaryKeyConstraint("id", name=op.f("schedule_pkey")),
        sqlite_strict=True,
        sqlite_with_rowid=False,
    )
    op.create_index(
        "schedule_current_key",
        "schedule",
        ["tenant_id", "definition_key", "node_id", "event"],
        unique=True,
        **where("status <> 'Ended'"),
    )
    op.create_index(
        "schedule_due_idx", "schedule", ["due_at", "id"], unique=False, **where("status = 'Active'")
    )
    op.create_table(
        "compensation_record",
        sa.Column("id", types.Id, nullable=False),
        sa.Column("tenant_id", sa.Text(), nullable=False),
        sa.Column("instance_id", types.Id, nullable=False),
        sa.Column("root_instance_id", types.Id, nullable=False),
        sa.Column("scope_id", types.Id, nullable=False),
        sa.Column("node_id", sa.Text(), nullable=False),
        sa.Column("handler_id", sa.Text(), nullable=True),
        sa.Column("inner_scope_id", types.Id, nullable=True),
        sa.Column("order", types.Large, nullable=False),
        sa.Column("snapshot", types.Json, nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("requested_by", types.Id, nullable=True),
        sa.Column("created_at", types.Instant, nullable=False),
        sa.Column("updated_at", types.Instant, nullable=False),
        one_of(
            "status", "Pending", "Running", "Completed", "Failed", name="compensation_record_status_check"
        ),
        sa.ForeignKeyConstraint(
            ["instance_id"],
            ["process_instance.id"],
            name=op.f("compensation_record_instance_id_fkey"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("compensation_record_pkey")),
        sqlite_strict=True,
        sqlite_with_rowid=False,
    )
    op.create_index("compensation_record_instance_idx", "compensation_record", ["instance_id"], unique=False)
    op.create_index(
        "compensation_record_scope_idx", "compensation_record", ["scope_id", "order"], unique=False
    )
    op.create_table(
        "delivery",
        sa.Column("signal_id", types.Id, nullable=False),
        sa.Column("subscription_id", types.Id, nullable=False),
        sa.Column("tenant_id", sa.Text(), nullable=False),
        sa.Column("instance_id", types.Id, nullable=True),
        sa.Column("root_instance_id", types.Id, nullable=True),
        sa.Column("definition_id", types.Id, nullable=True),
        sa.Column("node_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("payload", types.Json, nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("created_at", types.Instant, nullable=False),
        sa.Column("updated_at", types.Instant, nullable=False),
        one_of("status", "Pending", "Done", "Failed", name="delivery_status_check"),
        sa.ForeignKeyConstraint(
            ["instance_id"],
            ["process_instance.id"],
            name=op.f("delivery_instance_id_fkey"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("signal_id", "subscription_id", name=op.f("delivery_pkey")),
        sqlite_strict=True,
        sqlite_with_rowid=False,
    )
    op.create_index("delivery_age_idx", "delivery", ["updated_at"], unique=False)
    op.create_index("delivery_instance_idx", "delivery", ["instance_id"], unique=False)
    op.create_index(
        "delivery_pending_idx",
        "delivery",
        ["signal_id", "subscription_id"],
        unique=False,
        **where("status = 'Pending'"),
    )
    op.create_table(
        "execution_log",
        sa.Column("tenant_id", sa.Text(), nullable=False),
        sa.Column("instance_id", types.Id, nullable=False),
        sa.Column("root_instance_id", types.Id, nullable=False),
        sa.Column("seq", types.Large, autoincrement=False, nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("at", types.Instant, nullable=False),
        sa.Column("node_id", sa.Text(), nullable=True),
        sa.Column("token_id", types.Id, nullable=True),
        sa.Column("scope_id", types.Id, nullable=True),
        sa.Column("activation", sa.Integer(), nullable=True),
        sa.Column("actor", sa.Text(), nullable=True),
        sa.Column("data", types.Json, nullable=True),
        one_of(
            "kind",
            "started",
            "entered",
            "completed",
            "cancelled",
            "failed",
            "retried",
            "fired",
            "delivered",
            "thrown",
            "caught",
            "compensated",
            "variables",
            "moved",
            "migrated",
            "suspended",
            "resumed",
            "recovered",
            "incident",
            "resolved",
            "assigned",
            "commented",
            "ended",
            name="execution_log_kind_check",
        ),
        sa.PrimaryKeyConstraint("instance_id", "seq", name=op.f("execution_log_pkey")),
        sqlite_strict=True,
        sqlite_with_rowid=False,
    )
    op.create_table(
        "human_task",
        sa.Column("id", types.Id, nullable=False),
        sa.Column("tenant_id", sa.Text(), nullable=False),
        sa.Column("instance_id", types.Id, nullable=False),
        sa.Column("root_instance_id", types.Id, nullable=False),
        sa.Column("scope_id", types.Id, nullable=False),
        sa.Column("token_id", types.Id, nullable=False),
        sa.Column("node_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("assignee", sa.Text(), nullable=True),
        sa.Column("owner", sa.Text(), nullable=True),
        sa.Column("candidate_users", types.Json, nullable=False),
        sa.Column("candidate_groups", types.Json, nullable=False),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("due_at", types.Instant, nullable=True),
        sa.Column("follow_up_at", types.Instant, nullable=True),
        sa.Column("form_key", sa.Text(), nullable=True),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("created_at", types.Instant, nullable=False),
        sa.Column("updated_at", types.Instant, nullable=False),
        readable("due_at", "follow_up_at", name="human_task_readable_times_check"),
        one_of("status", "Open", "Completed", "Cancelled", name="human_task_status_check"),
        sa.ForeignKeyConstraint(
            ["instance_id"],
            ["process_instance.id"],
            name=op.f("human_task_instance_id_fkey"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("human_task_pkey")),
        sqlite_strict=True,
        sqlite_with_rowid=False,
    )
    op.create_index(
        "human_task_assignee_idx",
        "human_task",
        ["tenant_id", "assignee", "id"],
        unique=False,
        **where("status = 'Open'"),
    )
    op.create_index("human_task_instance_idx", "human_task", ["instance_id"], unique=False)
    op.create_index(
        "human_task_open_idx", "human_task", ["tenant_id", "id"], unique=False, **where("status = 'Open'")
    )
    op.create_index(
        "human_task_scope_idx", "human_task", ["scope_id"], unique=False, **where("status = 'Open'")
    )
    op.create_index(
        "human_task_token_idx", "human_task", ["token_id"], unique=False, **where("status = 'Open'")
    )
    op.create_table(
        "parallel_join",
        sa.Column("id", types.Id, nullable=False),
        sa.Column("tenant_id", sa.Text(), nullable=False),
        sa.Column("instance_id", types.Id, nullable=False),
        sa.Column("root_instance_id", types.Id, nullable=False),
        sa.Column("scope_id", types.Id, nullable=False),
        sa.Column("node_id", sa.Text(), nullable=False),
        sa.Column("expected", sa.Integer(), nullable=False),
        sa.Column("joined", sa.Integer(), nullable=False),
        sa.Column("arrivals", types.Json, nullable=False),
        sa.Column("fired", sa.Integer(), nullable=False),
        sa.Column("created_at", types.Instant, nullable=False),
        sa.Column("updated_at", types.Instant, nullable=False),
        sa.ForeignKeyConstraint(
            ["instance_id"],
            ["process_instance.id"],
            name=op.f("parallel_join_instance_id_fkey"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("parallel_join_pkey")),
        sa.UniqueConstraint("scope_id", "node_id", name=op.f("parallel_join_scope_id_node_id_key")),
        sqlite_strict=True,
        sqlite_with_rowid=False,
    )
    op.create_index("parallel_join_instance_idx", "parallel_join", ["instance_id"], unique=False)
    op.create_table(
        "scope",
        sa.Column("id", types.Id, nullable=False),
        sa.Column("tenant_id", sa.Text(), nullable=False),
        sa.Column("instance_id", types.Id, nullable=False),
        sa.Column("root_instance_id", types.Id, nullable=False),
        sa.Column("parent_id", types.Id, nullable=True),
        sa.Column("node_id", sa.Text(), nullable=False),
        sa.Column("token_id", types.Id, nullable=True),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("variables", types.Json, nullable=False),
        sa.Column("loop", types.Json, nullable=True),
        sa.Column("live", sa.Integer(), nullable=False),
        sa.Column("parked", sa.Integer(), nullable=False),
        sa.Column("inclusive_waiting", sa.Integer(), nullable=False),
        sa.Column("conditional", sa.Integer(), nullable=False),
        sa.Column("steps", sa.Integer(), nullable=False),
        sa.Column("seq", types.Large, nullable=False),
        sa.Column("population", sa.Integer(), nullable=False),
        sa.Column("written", types.Json, nullable=True),
        sa.Column("created_at", types.Instant, nullable=False),
        sa.Column("updated_at", types.Instant, nullable=False),
        one_of("state", "Active", "Compensating", "Completed", "Cancelled", name="scope_state_check"),
        sa.ForeignKeyConstraint(
            ["instance_id"], ["process_instance.id"], name=op.f("scope_instance_id_fkey"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("scope_pkey")),
        postgresql_with={"fillfactor": 70},
        sqlite_strict=True,
        sqlite_with_rowid=False,
    )
    op.create_index("scope_instance_idx", "scope", ["instance_id"], unique=False)
    op.create_index(
        "scope_owner_idx",
        "scope",
        ["token_id"],
        unique=False,
        **where("token_id IS NOT NULL AND state NOT IN ('Completed', 'Cancelled')"),
    )
    op.create_index(
        "scope_parent_idx",
        "scope",
        ["parent_id"],
        unique=False,
        **where("parent_id IS NOT NULL AND state NOT IN ('Completed', 'Cancelled')"),
    )
    op.create_table(
        "subscription",
        sa.Column("id", types.Id, nullable=False),
        sa.Column("tenant_id", sa.Text(), nullable=False),
        sa.Column("instance_id", types.Id, nullable=True),
        sa.Column("root_instance_id", types.Id, nullable=True),
        sa.Column("scope_id", types.Id, nullable=True),
        sa.Column("token_id", types.Id, nullable=True),
        sa.Column("definition_id", types.Id, nullable=True),
        sa.Column("definition_key", sa.Text(), nullable=True),
        sa.Column("node_id", sa.Text(), nullable=False),
        sa.Column("event", sa.Integer(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("correlation_key", sa.Text(), nullable=True),
        sa.Column("match", types.Json, nullable=True),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("created_at", types.Instant, nullable=False),
        sa.Column("updated_at", types.Instant, nullable=False),
        one_of("kind", "message", "signal", "condition", name="subscription_kind_check"),
        one_of("status", "Open", "Consumed", "Cancelled", name="subscription_status_check"),
        sa.CheckConstraint(
            "(instance_id IS NULL) = (definition_id IS NOT NULL)",
            name=op.f("subscription_of_instance_or_definition_check"),
        ),
        sa.ForeignKeyConstraint(
            ["instance_id"],
            ["process_instance.id"],
            name=op.f("subscription_instance_id_fkey"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("subscription_pkey")),
        sqlite_strict=True,
        sqlite_with_rowid=False,
    )
    op.create_index("subscription_instance_idx", "subscription", ["instance_id"], unique=False)
    op.create_index(
        "subscription_match_idx",
        "subscription",
        ["tenant_id", "name", "correlation_key", "id"],
        unique=False,
        **where("status = 'Open'"),
    )
    op.create_index(
        "subscription_scope_idx",
        "subscription",
        ["scope_id"],
        unique=False,
        **where("status = 'Open' AND scope_id IS NOT NULL"),
    )
    op.create_index(
        "subscription_start_idx",
        "subscription",
        ["tenant_id", "definition_key"],
        unique=False,
        **where("status = 'Open' AND definition_id IS NOT NULL"),
    )
    op.create_index(
        "subscription_token_idx",
        "subscription",
        ["token_id"],
        unique=False,
        **where("status = 'Open' AND token_id IS NOT NULL"),
    )
    op.create_table(
        "timer",
        sa.Column("id", types.Id, nullable=False),
        sa.Column("tenant_id", sa.Text(), nullable=False),
        sa.Column("instance_id", types.Id, nullable=False),
        sa.Column("root_instance_id", types.Id, nullable=False),
        sa.Column("scope_id", types.Id, nullable=False),
        sa.Column("token_id", types.Id, nullable=True),
        sa.Column("node_id", sa.Text(), nullable=False),
        sa.Column("event", sa.Integer(), nullable=False),
        sa.Column("purpose", sa.Text(), nullable=False),
        sa.Column("due_at", types.Instant, nullable=False),
        sa.Column("cycle", sa.Text(), nullable=True),
        sa.Column("remaining", sa.Integer(), nullable=True),
        sa.Column("anchor_at", types.Instant, nullable=True),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("fired", sa.Integer(), nullable=False),
        sa.Column("created_at", types.Instant, nullable=False),
        sa.Column("updated_at", types.Instant, nullable=False),
        readable("due_at", name="timer_readable_times_check"),
        one_of("purpose", "event", "retry", "start", "deadline", name="timer_purpose_check"),
        one_of("status", "Scheduled", "Fired", "Cancelled", name="timer_status_check"),
        sa.ForeignKeyConstraint(
            ["instance_id"], ["process_instance.id"], name=op.f("timer_instance_id_fkey"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("timer_pkey")),
        sqlite_strict=True,
        sqlite_with_rowid=False,
    )
    op.create_index("timer_due_idx", "timer", ["due_at", "id"], unique=False, **where("status = 'Scheduled'"))
    op.create_index("timer_instance_idx", "timer", ["instance_id"], unique=False)
    op.create_index("timer_scope_idx", "timer", ["scope_id"], unique=False, **where("status = 'Scheduled'"))
    op.create_index(
        "timer_token_idx",
        "timer",
        ["token_id"],
        unique=False,
        **where("status = 'Scheduled' AND token_id IS NOT NULL"),
    )
    op.create_table(
        "token",
        sa.Column("id", types.Id, nullable=False),
        sa.Column("tenant_id", sa.Text(), nullable=False),
        sa.Column("instance_id", types.Id, nullable=False),
        sa.Column("root_instance_id", types.Id, nullable=False),
        sa.Column("scope_id", types.Id, nullable=False),
        sa.Column("node_id", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("mode", sa.Text(), nullable=False),
        sa.Column("phase", sa.Text(), nullable=False),
        sa.Column("held", types.Flag, nullable=False),
        sa.Column("waiting_for", sa.Text(), nullable=True),
        sa.Column("topic", sa.Text(), nullable=True),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("activation", sa.Integer(), nullable=False),
        sa.Column("recoveries", sa.Integer(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("flow_id", sa.Text(), nullable=True),
        sa.Column("parallel_group_id", sa.Text(), nullable=True),
        sa.Column("loop_index", sa.Integer(), nullable=True),
        sa.Column("local", types.Json, nullable=True),
        sa.Column("output", types.Json, nullable=True),
        sa.Column("compensates", types.Id, nullable=True),
        sa.Column("lease_owner", sa.Text(), nullable=True),
        sa.Column("lease_until", types.Instant, nullable=True),
        sa.Column("error", types.Json, nullable=True),
        sa.Column("entered_at", types.Instant, nullable=False),
        sa.Column("created_at", types.Instant, nullable=False),
        sa.Column("updated_at", types.Instant, nullable=False),
        sa.Column(
            "ready_topic",
            sa.Text(),
            sa.Computed(
                "CASE WHEN state = 'Ready' AND NOT held THEN coalesce(topic, '') END", persisted=True
            ),
            nullable=True,
        ),
        one_of("mode", "Forward", "Compensation", name="token_mode_check"),
        one_of("phase", "enter", "inside", "complete", "leave", name="token_phase_check"),
        one_of(
            "state",
            "Ready",
            "Executing",
            "Waiting",
            "Completed",
            "Failed",
            "Cancelled",
            name="token_state_check",
        ),
        one_of(
            "waiting_for",
            "timer",
            "event",
            "join",
            "scope",
            "call",
            "human",
            "retry",
            "start",
            "compensation",
            "turn",
            "selection",
            name="token_waiting_for_check",
        ),
        sa.ForeignKeyConstraint(
            ["instance_id"], ["process_instance.id"], name=op.f("token_instance_id_fkey"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("token_pkey")),
        postgresql_with={"fillfactor": 70},
        sqlite_strict=True,
        sqlite_with_rowid=False,
    )
    op.create_index("token_executing_idx", "token", ["id"], unique=False, **where("state = 'Executing'"))
    op.create_index(
        "token_failed_idx", "token", ["tenant_id", "id"], unique=False, **where("state = 'Failed'")
    )
    op.create_index("token_instance_idx", "token", ["instance_id"], unique=False)
    op.create_index(
        "token_item_idx", "token", ["scope_id", "loop_index"], unique=False, **where("loop_index IS NOT NULL")
    )
    op.create_index(
        "token_live_idx",
        "token",
        ["scope_id"],
        unique=False,
        **where("state NOT IN ('Completed', 'Cancelled')"),
    )
    op.create_index(
        "token_ready_idx",
        "token",
        [sa.literal_column("priority DESC"), "id"],
        unique=False,
        **where("ready_topic IS NOT NULL AND substr(ready_topic, 1, 1) <> '@'"),
    )
    op.create_index(
        "token_ready_topic_idx",
        "token",
        ["ready_topic", sa.literal_column("priority DESC"), "id"],
        unique=False,
        **where("ready_topic IS NOT NULL"),
    )
