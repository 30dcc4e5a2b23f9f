"""Numbers about many rows at once: for metrics, progress and summaries, never for the token game.

Each is one statement over an index or a whole table; ask every few seconds, not in a loop. The tenant is None
where a worker asks about its own queue.
"""

from __future__ import annotations

import sqlalchemy as sa

from bpm_engine.core.state import InstanceStatus, LogKind, TokenState
from bpm_engine.store.schema import (
    OutboxStatus,
    event_outbox,
    execution_log,
    fixed,
    process_instance,
    token,
)
from bpm_engine.store.transaction import Transaction


def count_log(tx: Transaction, tenant_id: str, definition: str | None = None) -> dict[tuple[str, str], int]:
    """Rows of the history by node and kind; rows about the instance itself have the node ""."""
    node = sa.func.coalesce(execution_log.c.node_id, "").label("node")
    query = sa.select(node, execution_log.c.kind, sa.func.count().label("number")).where(
        execution_log.c.tenant_id == tenant_id
    )
    if definition is not None:
        query = query.join(process_instance, process_instance.c.id == execution_log.c.instance_id).where(
            process_instance.c.definition_key == definition
        )
    found = tx.execute(query.group_by(node, execution_log.c.kind))
    return {(row.node, str(LogKind(row.kind))): row.number for row in found}


def count_ready(tx: Transaction) -> dict[str, int]:
    """Tokens that any worker could take now, by topic; "" stands for the engine's own steps."""
    topic = sa.func.coalesce(token.c.topic, "").label("topic")
    query = (
        sa.select(topic, sa.func.count().label("number"))
        .where(token.c.state == fixed(TokenState.READY))
        .group_by(topic)
    )
    return {row.topic: row.number for row in tx.execute(query)}


def count_in_flight(tx: Transaction) -> dict[tuple[str, str], int]:
    """Instances that have not ended, by definition and status."""
    key, status = process_instance.c.definition_key, process_instance.c.status
    open_ones = [
        fixed(each)
        for each in InstanceStatus
        if each not in (InstanceStatus.COMPLETED, InstanceStatus.CANCELLED)
    ]
    query = (
        sa.select(key, status, sa.func.count().label("number"))
        .where(status.in_(open_ones), process_instance.c.deleted_at.is_(None))
        .group_by(key, status)
    )
    return {(row.definition_key, str(row.status)): row.number for row in tx.execute(query)}


def count_failed(tx: Transaction) -> int:
    """Open incidents."""
    query = sa.select(sa.func.count()).select_from(token).where(token.c.state == fixed(TokenState.FAILED))
    return int(tx.execute(query).scalar_one())


def count_unpublished(tx: Transaction) -> dict[str, int]:
    """Events that wait to be published, and those that were given up."""
    status = event_outbox.c.status
    waiting = [fixed(OutboxStatus.PENDING), fixed(OutboxStatus.DEAD)]
    query = sa.select(status, sa.func.count().label("number")).where(status.in_(waiting)).group_by(status)
    return {str(row.status): row.number for row in tx.execute(query)}
