"""Waits are indexed by the statuses they have not; timers of halted instances step aside; senders are kept.

Since 0002 there are no statistics of statuses, and PostgreSQL takes each for one in 200. A step that looks up
the waits of a few tokens would then walk through all waits there are. Of what is different from two values it
takes nearly all, and looks up the few by index.

A timer that comes due while its instance is halted is `parked`, so that the sweep need not pass over it with
every look. Messages and signals that are delivered later keep who sent them, for the history.
"""

from __future__ import annotations

import sqlalchemy as sa

from alembic import op
from bpm_engine.store import types

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

SCHEDULED = ("status = 'Scheduled'", "status NOT IN ('Fired', 'Cancelled')")
OPEN = ("status = 'Open'", "status NOT IN ('Consumed', 'Cancelled')")
TO_DO = ("status = 'Open'", "status NOT IN ('Completed', 'Cancelled')")
INDEXES = (
    ("timer", "timer_token_idx", ["token_id"], SCHEDULED, " AND token_id IS NOT NULL"),
    ("timer", "timer_scope_idx", ["scope_id"], SCHEDULED, ""),
    (
        "subscription",
        "subscription_match_idx",
        ["tenant_id", "name", "correlation_key", "id"],
        OPEN,
        "",
    ),
    ("subscription", "subscription_token_idx", ["token_id"], OPEN, " AND token_id IS NOT NULL"),
    ("subscription", "subscription_scope_idx", ["scope_id"], OPEN, " AND scope_id IS NOT NULL"),
    (
        "subscription",
        "subscription_start_idx",
        ["tenant_id", "definition_key"],
        OPEN,
        " AND definition_id IS NOT NULL",
    ),
    ("human_task", "human_task_token_idx", ["token_id"], TO_DO, ""),
    ("human_task", "human_task_scope_idx", ["scope_id"], TO_DO, ""),
    ("human_task", "human_task_open_idx", ["tenant_id", "id"], TO_DO, ""),
    ("human_task", "human_task_assignee_idx", ["tenant_id", "assignee", "id"], TO_DO, ""),
)


def upgrade() -> None:
    op.add_column("message", sa.Column("actor", sa.Text()))
    op.add_column("delivery", sa.Column("actor", sa.Text()))
    op.add_column("timer", sa.Column("parked", types.Flag, nullable=False, server_default=sa.text("false")))
    if op.get_bind().dialect.name == "postgresql":
        op.execute("ALTER TABLE timer ALTER COLUMN parked SET STATISTICS 0")
    index("timer", "timer_due_idx", ["due_at", "id"], f"{SCHEDULED[1]} AND NOT parked")
    for table, name, columns, (_, condition), more in INDEXES:
        index(table, name, columns, condition + more)


def downgrade() -> None:
    for table, name, columns, (condition, _), more in INDEXES:
        index(table, name, columns, condition + more)
    index("timer", "timer_due_idx", ["due_at", "id"], SCHEDULED[0])
    op.drop_column("timer", "parked")
    op.drop_column("delivery", "actor")
    op.drop_column("message", "actor")


def index(table: str, name: str, columns: list[str], condition: str) -> None:
    """In the place of the one of that name."""
    op.drop_index(name, table)
    where = sa.text(condition)
    op.create_index(name, table, columns, unique=False, postgresql_where=where, sqlite_where=where)
