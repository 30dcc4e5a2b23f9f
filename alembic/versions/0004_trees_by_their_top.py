"""Only what is below another instance is indexed by its call tree; the top is found by its own id.

Most instances call no other and are called by none. Each wrote an entry for itself when it began, and one
more when it ended.
"""

from __future__ import annotations

import sqlalchemy as sa

from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

NAME, TABLE, COLUMNS = "process_instance_tree_idx", "process_instance", ["root_instance_id"]


def upgrade() -> None:
    op.drop_index(NAME, TABLE)
    below = sa.text("depth > 0")
    op.create_index(NAME, TABLE, COLUMNS, unique=False, postgresql_where=below, sqlite_where=below)


def downgrade() -> None:
    op.drop_index(NAME, TABLE)
    op.create_index(NAME, TABLE, COLUMNS, unique=False)
