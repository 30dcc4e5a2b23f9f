"""More of what must hold of a live database: orders that were kept, counts that history confirms, hashes.

Like `invariants`, each is one query that must find nothing; the hash of a definition is compared here, since
a database cannot compute it.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from bpm_engine.core.state import LogKind, TokenState
from bpm_engine.store.definitions import content_hash
from bpm_engine.store.invariants import IS_LIVE, REPORT, TENANT, Invariant
from bpm_engine.store.schema import (
    compensation_record,
    event_outbox,
    execution_log,
    process_definition,
    process_instance,
    token,
)
from bpm_engine.store.statuses import OutboxStatus, fixed
from bpm_engine.store.transaction import Transaction

RECOVERIES = sa.bindparam("recoveries", type_=sa.Integer())


def _undone_in_the_wrong_order() -> sa.Select[Any]:
    """G8: in one scope and for one requester, the later completion is undone first. By history, which counts:
    the clocks of two workers agree only as well as they know the server's."""
    early, late = (_undone().subquery(name) for name in ("early", "late"))
    went_on = sa.exists().where(  # the requester: what follows is asked for by a later throw
        execution_log.c.instance_id == early.c.instance_id,
        execution_log.c.token_id == early.c.requested_by,
        execution_log.c.seq.between(early.c.seq, late.c.seq),
    )
    return (
        sa.select(early.c.id)
        .join(late, sa.and_(early.c.scope_id == late.c.scope_id, early.c.requested_by == late.c.requested_by))
        .where(early.c.order < late.c.order, early.c.seq < late.c.seq, ~went_on)
        .order_by(early.c.id)
        .distinct()
    )


def _undone() -> sa.Select[Any]:
    """What was undone by a handler, with the number that history gave to it. Asked record by record: a join
    might begin with all tokens and all history of a large instance."""
    record, entry = compensation_record.c, execution_log.c
    told = sa.and_(
        entry.instance_id == token.c.instance_id,
        entry.token_id == token.c.id,
        entry.kind == fixed(LogKind.COMPENSATED),
    )
    seq = (
        sa.select(sa.func.min(entry.seq))
        .join_from(token, execution_log, told)
        .where(token.c.instance_id == record.instance_id, token.c.compensates == record.id)
        .correlate(compensation_record)
        .scalar_subquery()
    )
    columns = (record.id, record.instance_id, record.scope_id, record.requested_by, record.order)
    return sa.select(*columns, seq.label("seq")).where(record.tenant_id == TENANT)


def _published_too_early() -> sa.Select[Any]:
    """G9: of one instance, an earlier event that nobody has touched since still waits."""
    later = event_outbox.alias("later")
    event = event_outbox.c
    return (
        sa.select(event.id)
        .where(event.tenant_id == TENANT, event.status == fixed(OutboxStatus.PENDING))
        .where(later.c.instance_id == event.instance_id, later.c.seq > event.seq)
        .where(later.c.status == fixed(OutboxStatus.PUBLISHED), event.updated_at < later.c.published_at)
        .order_by(event.id)
        .distinct()
    )


def _event_without_a_fact() -> sa.Select[Any]:
    """An event has the number of the history entry that tells of the same fact."""
    event = event_outbox.c
    told = sa.exists().where(
        execution_log.c.instance_id == event.instance_id, execution_log.c.seq == event.seq
    )
    return (
        sa.select(event.id)
        .join(process_instance, process_instance.c.id == event.instance_id)
        .where(event.tenant_id == TENANT, ~told)
        .order_by(event.id)
    )


def _attempts_without_a_failure() -> sa.Select[Any]:
    failures = (
        sa.select(sa.func.count())
        .where(
            execution_log.c.instance_id == token.c.instance_id,
            execution_log.c.token_id == token.c.id,
            execution_log.c.activation == token.c.activation,
            execution_log.c.kind == fixed(LogKind.FAILED),
        )
        .correlate(token)
        .scalar_subquery()
    )
    return (
        sa.select(token.c.id)
        .where(token.c.tenant_id == TENANT, IS_LIVE, token.c.attempt > 0, token.c.attempt > failures)
        .order_by(token.c.id)
    )


def _recovered_too_often() -> sa.Select[Any]:
    return (
        sa.select(token.c.id)
        .where(token.c.tenant_id == TENANT, IS_LIVE, token.c.recoveries > RECOVERIES)
        .where(token.c.state != fixed(TokenState.FAILED))
        .order_by(token.c.id)
    )


SEQUENCES: tuple[Invariant, ...] = (
    Invariant(
        "compensation in the wrong order",
        _undone_in_the_wrong_order(),
        "Look at the history of the instance and at what the handlers did outside. " + REPORT,
    ),
    Invariant(
        "event published before an earlier one",
        _published_too_early(),
        "Receivers of this instance's events may have seen them out of order. " + REPORT,
    ),
    Invariant(
        "event without its entry in the history",
        _event_without_a_fact(),
        "A row of the history was removed by foreign hands: compare with a backup.",
    ),
    Invariant(
        "attempts without a recorded failure",
        _attempts_without_a_failure(),
        "The token or its history was changed by foreign hands; a retry counts anew.",
    ),
    Invariant(
        "token recovered more often than allowed",
        _recovered_too_often(),
        "It kills its workers and should be an incident: suspend the instance and look at its handler.",
    ),
)

ALTERED = "definition that is not what was deployed"
ALTERED_ADVICE = (
    "The file was changed by foreign hands: deploy the right one, and migrate what runs on this version."
)


def altered_definitions(tx: Transaction, tenant_id: str) -> list[str]:
    """Definitions whose stored file does not have the hash that was stored with it."""
    query = (
        sa.select(process_definition.c.id, process_definition.c.xml, process_definition.c.content_hash)
        .where(process_definition.c.tenant_id == tenant_id)
        .order_by(process_definition.c.id)
    )
    return [row.id for row in tx.execute(query) if content_hash(row.xml) != row.content_hash]
