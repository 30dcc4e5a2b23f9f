"""Single rows by id, for one tenant. None also for another tenant's: nobody must learn that it exists."""

from __future__ import annotations

from typing import NamedTuple

import sqlalchemy as sa

from bpm_engine.core.state import Instance, Token
from bpm_engine.store.records import INSTANCE, TOKEN
from bpm_engine.store.schema import process_definition, process_instance, schedule, token
from bpm_engine.store.timers import SCHEDULE, Schedule
from bpm_engine.store.transaction import Transaction
from bpm_engine.store.values import identifier


class Version(NamedTuple):
    """A definition without its file."""

    id: str
    key: str
    version: int


def get_version(
    tx: Transaction, tenant_id: str, key: str, version: int | None = None, tag: str | None = None
) -> Version | None:
    """A certain version, the latest with a tag, or the latest."""
    query = LATEST
    if version is not None:
        query = query.where(process_definition.c.version == version)
    if tag is not None:
        query = query.where(process_definition.c.version_tag == tag)
    row = tx.execute(query, {"tenant_id": tenant_id, "key": key}).first()
    return None if row is None else Version(row.id, row.key, row.version)


LATEST = (
    sa.select(process_definition.c.id, process_definition.c.key, process_definition.c.version)
    .where(
        process_definition.c.tenant_id == sa.bindparam("tenant_id"),
        process_definition.c.key == sa.bindparam("key"),
        process_definition.c.deleted_at.is_(None),
    )
    .order_by(process_definition.c.version.desc())
    .limit(1)
)  # built once: every start asks


def get_any_instance(tx: Transaction, tenant_id: str, instance_id: str) -> Instance | None:
    """Deleted ones as well."""
    query = sa.select(*INSTANCE.columns).where(
        process_instance.c.tenant_id == tenant_id, process_instance.c.id == identifier(instance_id)
    )
    return next(iter(INSTANCE.read(tx.execute(query))), None)


def get_token(tx: Transaction, tenant_id: str, token_id: str) -> Token | None:
    query = sa.select(*TOKEN.columns).where(
        token.c.tenant_id == tenant_id, token.c.id == identifier(token_id)
    )
    return next(iter(TOKEN.read(tx.execute(query))), None)


def get_schedule(tx: Transaction, tenant_id: str, schedule_id: str) -> Schedule | None:
    query = sa.select(*SCHEDULE.columns).where(
        schedule.c.tenant_id == tenant_id, schedule.c.id == identifier(schedule_id)
    )
    return next(iter(SCHEDULE.read(tx.execute(query))), None)
