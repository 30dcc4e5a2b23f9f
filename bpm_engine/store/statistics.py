"""Numbers about many rows at once: for metrics, progress and summaries, never for the token game.

What metrics ask for is counted by indexes of what is open, whatever has ended beside it; a count of the
history reads the whole of it. Ask every few seconds, not in a loop.
"""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from bpm_engine.core.external import topic_in
from bpm_engine.core.state import LogKind, TokenState
from bpm_engine.store import work
from bpm_engine.store.crowds import LIVE
from bpm_engine.store.schema import event_outbox, execution_log, process_definition, process_instance, token
from bpm_engine.store.statuses import OutboxStatus, fixed
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
    counted: dict[str, int] = {}
    for topic, number in work.count_ready(tx).items():
        name = topic_in(topic)  # work for external workers is counted together over all tenants
        counted[name] = counted.get(name, 0) + number
    return counted


def _count_open(tx: Transaction) -> dict[tuple[str, str], int]:
    return {(row.definition_key, str(row.status)): row.number for row in tx.execute(COUNT_OPEN)}


def _count_incidents(tx: Transaction) -> int:
    return int(tx.execute(COUNT_FAILED).scalar_one())


def _count_events(tx: Transaction) -> dict[str, int]:
    return {row.status: row.number for row in tx.execute(COUNT_EVENTS) if row.number}


# By process, as the index is ordered: those that have ended are not looked at. Only they can be deleted.
_KEYS = sa.select(process_definition.c.tenant_id, process_definition.c.key).distinct().subquery("known")
COUNT_OPEN = (
    sa.select(process_instance.c.definition_key, process_instance.c.status, sa.func.count().label("number"))
    .where(process_instance.c.tenant_id == _KEYS.c.tenant_id)
    .where(process_instance.c.definition_key == _KEYS.c.key, process_instance.c.status.in_(LIVE))
    .group_by(process_instance.c.definition_key, process_instance.c.status)
)
COUNT_FAILED = sa.select(sa.func.count()).select_from(token).where(token.c.state == fixed(TokenState.FAILED))
# One by one, as each status has an index of its own.
COUNT_EVENTS = sa.union_all(
    *(
        sa.select(sa.literal(str(status)).label("status"), sa.func.count().label("number")).where(
            event_outbox.c.status == fixed(status)
        )
        for status in (OutboxStatus.PENDING, OutboxStatus.DEAD)
    )
)
