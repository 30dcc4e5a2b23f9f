"""PostgreSQL keeps no statistics of the columns that say what is to be done next.

They are taken when a table has changed enough, which is mostly when all is done: then nothing is ready,
pending or due, and the planner takes such rows for next to none. Work that comes afterwards is looked for by
walking through all of it once per row wanted. Without statistics it assumes a small share, and goes from one
row to the next by index, whatever there is.
"""

from __future__ import annotations

from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

COLUMNS = (
    ("token", "state"),
    ("token", "ready_topic"),
    ("timer", "status"),
    ("subscription", "status"),
    ("message", "status"),
    ("delivery", "status"),
    ("human_task", "status"),
    ("event_outbox", "status"),
)


def upgrade() -> None:
    set_statistics(0)


def downgrade() -> None:
    set_statistics(-1)


def set_statistics(target: int) -> None:
    if op.get_bind().dialect.name == "postgresql":
        for table, column in COLUMNS:
            op.execute(f"ALTER TABLE {table} ALTER COLUMN {column} SET STATISTICS {target}")
