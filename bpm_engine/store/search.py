"""Reading for people: lists with stable cursors, single rows by id, counts. The tenant is part of every
query.

Ids that cannot be ids are simply not found. Names of variables are bound values, never part of the statement;
their containment is tested row by row, so combine it with a definition, a status or a business key on big
tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Literal, NamedTuple

import sqlalchemy as sa

from bpm_engine.core.state import (
    Instance,
    InstanceStatus,
    LogEntry,
    LogKind,
    Scope,
    Token,
    TokenState,
    Variables,
)
from bpm_engine.store import rows
from bpm_engine.store.definitions import DEFINITION, Definition
from bpm_engine.store.loading import is_below
from bpm_engine.store.outbox import OUTBOX, OutboxRow
from bpm_engine.store.pages import Key, Page, Paging, newest_or_oldest
from bpm_engine.store.records import INSTANCE, LOG, SCOPE, TOKEN
from bpm_engine.store.rows import contains, id_source
from bpm_engine.store.schema import (
    event_outbox,
    execution_log,
    process_definition,
    process_instance,
    schedule,
    scope,
    token,
)
from bpm_engine.store.statuses import HALTED, OutboxStatus, ScheduleStatus, fixed
from bpm_engine.store.timers import SCHEDULE, Schedule
from bpm_engine.store.transaction import Transaction
from bpm_engine.store.types import Json
from bpm_engine.store.values import check_variables, identifier, is_row

Order = Literal["newest", "oldest"]
IS_LIVE = token.c.state.not_in([fixed(TokenState.COMPLETED), fixed(TokenState.CANCELLED)])
IS_FAILED = token.c.state == fixed(TokenState.FAILED)


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceFilter:
    """All that is given must hold. `variables` must be contained in those of the root scope."""

    status: InstanceStatus | None = None
    definition: str | None = None
    version: int | None = None
    business_key: str | None = None
    subject: str | None = None
    correlation_id: str | None = None
    variables: Variables | None = None
    node: str | None = None  # a live token rests there
    incidents: bool | None = None  # has failed tokens, or has none
    started_after: datetime | None = None
    started_before: datetime | None = None
    ended_after: datetime | None = None
    ended_before: datetime | None = None
    parent_id: str | None = None
    called: bool | None = None  # by another instance, or by nobody
    ended: bool | None = None
    deleted: bool = False


def find_instances(
    tx: Transaction,
    tenant_id: str,
    wanted: InstanceFilter,
    *,
    order: Order = "newest",
    limit: int = 100,
    cursor: str | None = None,
) -> Page[Instance]:
    paging = Paging(
        newest_or_oldest(process_instance.c.id, order), limit, cursor, [tenant_id, order, asdict(wanted)]
    )
    query = sa.select(*INSTANCE.columns).where(
        process_instance.c.tenant_id == tenant_id, *_conditions(tenant_id, wanted)
    )
    found = tx.execute(paging.apply(query)).all()
    return paging.page(found, INSTANCE.read)


def get_instance(tx: Transaction, tenant_id: str, instance_id: str) -> Instance | None:
    """None also for another tenant's: whoever asks must not learn that it exists."""
    query = sa.select(*INSTANCE.columns).where(
        process_instance.c.tenant_id == tenant_id,
        is_row(process_instance.c.id, instance_id),
        process_instance.c.deleted_at.is_(None),
    )
    return next(iter(INSTANCE.read(tx.execute(query))), None)


def load_instances(tx: Transaction, tenant_id: str, instance_ids: Sequence[str]) -> list[Instance]:
    """Those that are there, oldest first."""
    known = [each for each in map(identifier, instance_ids) if each is not None]
    return INSTANCE.read(tx.execute(INSTANCES, {"ids": rows.ids(known), "of_tenant": tenant_id}))


def find_started(
    tx: Transaction, tenant_id: str, definition_key: str, idempotency_key: str
) -> Instance | None:
    """The instance that an earlier start with this key has made."""
    query = sa.select(*INSTANCE.columns).where(
        process_instance.c.tenant_id == tenant_id,
        process_instance.c.definition_key == definition_key,
        process_instance.c.idempotency_key == idempotency_key,
        process_instance.c.idempotency_key.is_not(None),
    )
    return next(iter(INSTANCE.read(tx.execute(query))), None)


def load_variables(tx: Transaction, instance_ids: list[str]) -> dict[str, Variables]:
    """Of the root scopes: what the instance shows as its variables; what cannot be read is left out."""
    found = tx.execute(VARIABLES, {"ids": rows.ids(instance_ids)})
    return {row.id: row.variables for row in found if isinstance(row.variables, dict)}


def load_tokens(tx: Transaction, instance_ids: list[str], *, live: bool = True) -> list[Token]:
    """The tokens of instances, oldest first; all of them or those that are not done."""
    statement = LIVE_TOKENS if live else TOKENS
    return TOKEN.read(tx.execute(statement, {"ids": rows.ids(instance_ids)}))


def load_scopes(tx: Transaction, instance_id: str) -> list[Scope]:
    return SCOPE.read(tx.execute(SCOPES, {"ids": rows.ids([instance_id])}))


class Counted(NamedTuple):
    definition: str
    version: int
    status: InstanceStatus
    number: int


def count_instances(tx: Transaction, tenant_id: str, wanted: InstanceFilter | None = None) -> list[Counted]:
    """How many per definition, version and status."""
    instance = process_instance.c
    groups = (instance.definition_key, instance.definition_version, instance.status)
    query = (
        sa.select(*groups, sa.func.count().label("number"))
        .where(instance.tenant_id == tenant_id, *_conditions(tenant_id, wanted or InstanceFilter()))
        .group_by(*groups)
    )
    return [Counted(*tuple(row)) for row in tx.execute(query)]


def find_instance_ids(
    tx: Transaction, tenant_id: str, wanted: InstanceFilter, *, after: str | None, up_to: str, limit: int
) -> list[str]:
    """Oldest first, behind one id and no further than another: a stretch of a batch."""
    conditions = _stretch(tenant_id, wanted, after, up_to)
    query = sa.select(process_instance.c.id).where(*conditions).order_by(process_instance.c.id)
    return list(tx.execute(query.limit(limit)).scalars())


def count_instance_ids(
    tx: Transaction, tenant_id: str, wanted: InstanceFilter, *, after: str | None, up_to: str
) -> int:
    """How many a batch has before it."""
    query = sa.select(sa.func.count()).select_from(process_instance)
    number: int = tx.execute(query.where(*_stretch(tenant_id, wanted, after, up_to))).scalar_one()
    return number


def _stretch(
    tenant_id: str, wanted: InstanceFilter, after: str | None, up_to: str
) -> list[sa.ColumnElement[bool]]:
    column = process_instance.c.id
    behind = [] if after is None else [column > after]
    conditions = _conditions(tenant_id, wanted)
    return [process_instance.c.tenant_id == tenant_id, *behind, column <= up_to, *conditions]


def newest_instance(tx: Transaction, tenant_id: str) -> str | None:
    """The id behind which there are only instances that are newer than this moment."""
    return tx.execute(
        sa.select(process_instance.c.id)
        .where(process_instance.c.tenant_id == tenant_id)
        .order_by(process_instance.c.id.desc())
        .limit(1)
    ).scalar_one_or_none()


def is_wanted(tx: Transaction, tenant_id: str, wanted: InstanceFilter, instance_id: str) -> bool:
    """Whether the instance still is one of those that are looked for."""
    query = sa.select(process_instance.c.id).where(
        process_instance.c.tenant_id == tenant_id,
        is_row(process_instance.c.id, instance_id),
        *_conditions(tenant_id, wanted, of_one=True),
    )
    return tx.execute(query).first() is not None


def find_log(
    tx: Transaction, tenant_id: str, instance_id: str, *, limit: int = 500, cursor: str | None = None
) -> Page[LogEntry]:
    """The history of an instance in the order in which it happened."""
    query = sa.select(*LOG.columns).where(
        execution_log.c.tenant_id == tenant_id, is_row(execution_log.c.instance_id, instance_id)
    )
    paging = Paging([Key(execution_log.c.seq, int)], limit, cursor, [tenant_id, instance_id])
    found = tx.execute(paging.apply(query)).all()
    return paging.page(found, LOG.read)


def find_entries(tx: Transaction, instance_id: str, kinds: Sequence[LogKind]) -> list[LogEntry]:
    """Of some kinds, all at once: for kinds that are rare."""
    query = (
        sa.select(*LOG.columns)
        .where(is_row(execution_log.c.instance_id, instance_id))
        .where(execution_log.c.kind.in_([fixed(kind) for kind in kinds]))
        .order_by(execution_log.c.seq)
    )
    return LOG.read(tx.execute(query))


def find_events(
    tx: Transaction,
    tenant_id: str,
    *,
    status: OutboxStatus = OutboxStatus.DEAD,
    type: str | None = None,
    instance_id: str | None = None,
    limit: int = 100,
    cursor: str | None = None,
) -> Page[OutboxRow]:
    """Outbox events of one status: by default those that could not be published. Data that cannot be read is
    None."""
    query = sa.select(*OUTBOX.columns).where(
        event_outbox.c.tenant_id == tenant_id, event_outbox.c.status == fixed(OutboxStatus(status))
    )
    if type is not None:
        query = query.where(event_outbox.c.type == type)
    if instance_id is not None:
        query = query.where(is_row(event_outbox.c.instance_id, instance_id))
    filters = [tenant_id, status, type, instance_id]
    paging = Paging(newest_or_oldest(event_outbox.c.id, "oldest"), limit, cursor, filters)
    found = tx.execute(paging.apply(query)).all()
    return paging.page(found, OUTBOX.read_leniently)


def find_definitions(
    tx: Transaction, tenant_id: str, *, key: str | None = None, limit: int = 100, cursor: str | None = None
) -> Page[Definition]:
    """By key, newest version first."""
    query = sa.select(*DEFINITION.columns).where(
        process_definition.c.tenant_id == tenant_id, process_definition.c.deleted_at.is_(None)
    )
    if key is not None:
        query = query.where(process_definition.c.key == key)
    order = [Key(process_definition.c.key, str), Key(process_definition.c.version, int, descending=True)]
    paging = Paging(order, limit, cursor, [tenant_id, key])
    found = tx.execute(paging.apply(query)).all()
    return paging.page(found, DEFINITION.read)


def find_schedules(
    tx: Transaction,
    tenant_id: str,
    *,
    definition: str | None = None,
    status: ScheduleStatus | None = None,
    limit: int = 100,
    cursor: str | None = None,
) -> Page[Schedule]:
    query = sa.select(*SCHEDULE.columns).where(schedule.c.tenant_id == tenant_id)
    if definition is not None:
        query = query.where(schedule.c.definition_key == definition)
    if status is not None:
        query = query.where(schedule.c.status == fixed(ScheduleStatus(status)))
    paging = Paging(newest_or_oldest(schedule.c.id, "newest"), limit, cursor, [tenant_id, definition, status])
    found = tx.execute(paging.apply(query)).all()
    return paging.page(found, SCHEDULE.read)


def _conditions(
    tenant_id: str, wanted: InstanceFilter, *, of_one: bool = False
) -> list[sa.ColumnElement[bool]]:
    """`of_one`: to be looked up in a single instance, not in all of them."""
    instance = process_instance.c
    equal = {
        instance.definition_key: wanted.definition,
        instance.definition_version: wanted.version,
        instance.business_key: wanted.business_key,
        instance.subject: wanted.subject,
        instance.correlation_id: wanted.correlation_id,
    }
    conditions = [column == value for column, value in equal.items() if value is not None]
    if wanted.status is not None:
        conditions += _has_status(InstanceStatus(wanted.status))
    if wanted.deleted:  # what is purged is deleted as well, and shown to nobody
        conditions += [instance.deleted_at.is_not(None), instance.purged_at.is_(None)]
    else:
        conditions.append(instance.deleted_at.is_(None))
    if wanted.parent_id is not None:
        conditions.append(is_row(instance.parent_instance_id, wanted.parent_id))
    if wanted.called is not None:
        parent = instance.parent_instance_id
        conditions.append(parent.is_not(None) if wanted.called else parent.is_(None))
    conditions += _between(instance.started_at, wanted.started_after, wanted.started_before)
    conditions += _between(instance.ended_at, wanted.ended_after, wanted.ended_before)
    if wanted.ended is not None:
        conditions.append(instance.ended_at.is_not(None) if wanted.ended else instance.ended_at.is_(None))
    if wanted.variables is not None:
        conditions.append(_has_variables(wanted.variables))
    if wanted.node is not None:
        conditions.append(_has_token(IS_LIVE, token.c.node_id == wanted.node))
    if wanted.incidents is not None:
        failed = _has_incident() if of_one else _is_one_with_incidents(tenant_id)
        conditions.append(failed if wanted.incidents else ~failed)
    return conditions


def _has_status(status: InstanceStatus) -> list[sa.ColumnElement[bool]]:
    """With the words of the index that holds the few halted ones."""
    column = process_instance.c.status
    if status not in HALTED:
        return [column == fixed(status)]
    return [column == fixed(status), sa.or_(*(column == fixed(each) for each in HALTED))]


def _has_incident() -> sa.ColumnElement[bool]:
    """In itself or, since the top of a call tree shows what is below, there."""
    below = process_instance.alias("below")
    in_below = sa.exists().where(
        *is_below(below, process_instance.c.id), token.c.instance_id == below.c.id, IS_FAILED
    )
    return sa.or_(_has_token(IS_FAILED), in_below)


def _is_one_with_incidents(tenant_id: str) -> sa.ColumnElement[bool]:
    """The same, from the other end: incidents are few, instances many."""
    failed = (token.c.tenant_id == tenant_id, IS_FAILED)
    return process_instance.c.id.in_(
        sa.union(
            sa.select(token.c.instance_id).where(*failed), sa.select(token.c.root_instance_id).where(*failed)
        )
    )


def _between(
    column: sa.ColumnElement[datetime], after: datetime | None, before: datetime | None
) -> list[sa.ColumnElement[bool]]:
    """From the first moment on, and before the second."""
    return ([] if after is None else [column >= after]) + ([] if before is None else [column < before])


def _has_variables(variables: Variables) -> sa.ColumnElement[bool]:
    part = sa.literal(check_variables(variables), Json)
    return sa.exists().where(scope.c.id == process_instance.c.id, contains(scope.c.variables, part))


def _has_token(*conditions: sa.ColumnElement[bool]) -> sa.ColumnElement[bool]:
    return sa.exists().where(token.c.instance_id == process_instance.c.id, *conditions)


_IDS = id_source()
INSTANCES = (
    sa.select(*INSTANCE.columns)
    .where(process_instance.c.id == _IDS.c.id, process_instance.c.deleted_at.is_(None))
    .where(process_instance.c.tenant_id == sa.bindparam("of_tenant", type_=sa.Text()))
    .order_by(process_instance.c.id)
)
VARIABLES = sa.select(scope.c.id, scope.c.variables).where(scope.c.id == _IDS.c.id)
TOKENS = sa.select(*TOKEN.columns).where(token.c.instance_id == _IDS.c.id).order_by(token.c.id)
LIVE_TOKENS = TOKENS.where(IS_LIVE)
SCOPES = sa.select(*SCOPE.columns).where(scope.c.instance_id == _IDS.c.id).order_by(scope.c.id)
