"""Reading certain rows of the history: whether a commit happened, what was said, what was tried."""

from __future__ import annotations

import sqlalchemy as sa

from bpm_engine.core.state import LogEntry, LogKind
from bpm_engine.store.records import LOG
from bpm_engine.store.schema import execution_log
from bpm_engine.store.transaction import Transaction
from bpm_engine.store.types import Id


def entry_exists(tx: Transaction, entry: LogEntry) -> bool:
    """Whether exactly this row is there. Its number alone could be another writer's."""
    values = {"instance_id": entry.instance_id, "seq": entry.seq}
    row = tx.execute(ENTRY, values).first()
    return row is not None and (row.kind, row.at, row.token_id) == (entry.kind, entry.at, entry.token_id)


def find_entries(
    tx: Transaction, tenant_id: str, instance_id: str, kind: LogKind, token_id: str | None = None
) -> list[LogEntry]:
    """All rows of one kind, about the instance or one of its tokens, in the order in which it happened."""
    entry = execution_log.c
    query = sa.select(*LOG.columns).where(
        entry.tenant_id == tenant_id, entry.instance_id == instance_id, entry.kind == kind
    )
    if token_id is not None:
        query = query.where(entry.token_id == token_id)
    return LOG.read(tx.execute(query.order_by(entry.seq)), {})


ENTRY = sa.select(execution_log.c.kind, execution_log.c.at, execution_log.c.token_id).where(
    execution_log.c.instance_id == sa.bindparam("instance_id", type_=Id),
    execution_log.c.seq == sa.bindparam("seq", type_=sa.Integer()),
)
