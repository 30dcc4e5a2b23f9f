"""Reading single rows of the history: whether a commit happened."""

from __future__ import annotations

import sqlalchemy as sa

from bpm_engine.core.state import LogEntry
from bpm_engine.store.schema import execution_log
from bpm_engine.store.transaction import Transaction
from bpm_engine.store.types import Id


def entry_exists(tx: Transaction, entry: LogEntry) -> bool:
    """Whether exactly this row is there. Its number alone could be another writer's."""
    values = {"instance_id": entry.instance_id, "seq": entry.seq}
    row = tx.execute(ENTRY, values).first()
    return row is not None and (row.kind, row.at, row.token_id) == (entry.kind, entry.at, entry.token_id)


ENTRY = sa.select(execution_log.c.kind, execution_log.c.at, execution_log.c.token_id).where(
    execution_log.c.instance_id == sa.bindparam("instance_id", type_=Id),
    execution_log.c.seq == sa.bindparam("seq", type_=sa.Integer()),
)
