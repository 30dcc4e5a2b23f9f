"""Numbers about many rows at once: for metrics, progress and summaries, never for the token game.

Each is one statement over an index or a whole table; ask every few seconds, not in a loop.
"""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from bpm_engine.core.external import topic_in
from bpm_engine.core.state import LogKind, TokenState
from bpm_engine.store.schema import (
    ENDED,
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What waits in the whole database: for the metrics of workers, who serve all tenants."""

    ready: dict[str, int]  # tokens that a worker could take now, by topic; "": the engine's own steps
    open_instances: dict[tuple[str, str], int]  # not ended, by definition and status
    incidents: int  # that nobody has resolved
    events: dict[str, int]  # not published, by status


def read_load(tx: Transaction) -> Load:
    return Load(
        ready=_count_ready(tx),
        open_instances=_count_open(tx),
        incidents=_count_incidents(tx),
        events=_count_events(tx),
    )


def _count_ready(tx: Transaction) -> dict[str, int]:
    topic = sa.func.coalesce(token.c.topic, "").label("topic")
    query = (
        sa.select(topic, sa.func.count().label("number"))
        .where(token.c.state == fixed(TokenState.READY))
        .group_by(topic)
    )
    counted: dict[str, int] = {}
    for row in tx.execute(query):  # work for external workers is counted together over all tenants
        topic_name = topic_in(row.topic)
        counted[topic_name] = counted.get(topic_name, 0) + row.number
    return counted


def _count_open(tx: Transaction) -> dict[tuple[str, str], int]:
    key, status = process_instance.c.definition_key, process_instance.c.status
    query = (
        sa.select(key, status, sa.func.count().label("number"))
        .where(status.not_in([fixed(each) for each in ENDED]), process_instance.c.deleted_at.is_(None))
        .group_by(key, status)
    )
    return {(row.definition_key, str(row.status)): row.number for row in tx.execute(query)}


def _count_incidents(tx: Transaction) -> int:
    query = sa.select(sa.func.count()).select_from(token).where(token.c.state == fixed(TokenState.FAILED))
    return int(tx.execute(query).scalar_one())


def _count_events(tx: Transaction) -> dict[str, int]:
    status = event_outbox.c.status
    waiting = [fixed(OutboxStatus.PENDING), fixed(OutboxStatus.DEAD)]
    query = sa.select(status, sa.func.count().label("number")).where(status.in_(waiting)).group_by(status)
    return {str(row.status): row.number for row in tx.execute(query)}
