"""Deployed definitions: immutable, numbered per tenant and key, told apart by the hash of their content."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from datetime import datetime
from typing import Any

import msgspec
import sqlalchemy as sa

from bpm_engine.store import rows
from bpm_engine.store.records import Shape
from bpm_engine.store.rows import id_source, row_source
from bpm_engine.store.schema import process_definition, process_instance
from bpm_engine.store.transaction import Transaction
from bpm_engine.store.types import Id, Instant

NOW = sa.bindparam("now", type_=Instant)


class Definition(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """Table process_definition."""

    id: str
    tenant_id: str
    key: str
    version: int
    version_tag: str | None = None
    name: str = ""
    xml: str
    content_hash: str
    deployment_id: str
    deployed_by: str | None = None
    created_at: datetime


DEFINITION = Shape(Definition, process_definition)


def content_hash(xml: str) -> str:
    return hashlib.sha256(xml.encode()).hexdigest()


def add_definitions(tx: Transaction, new: list[Definition]) -> None:
    """Write new versions. Raises ConflictError if another deployment took a number: read and try again.

    Deploying the same content again is the caller's to notice: compare `content_hash` with `load_latest`.
    """
    tx.execute(ADD_DEFINITIONS, {"given": DEFINITION.given(new)})


def load_definitions(tx: Transaction, definition_ids: Iterable[str]) -> list[Definition]:
    """By id, of any tenant: for the engine's own cache of graphs."""
    return DEFINITION.read(tx.execute(LOAD_DEFINITIONS, {"ids": rows.ids(definition_ids)}))


def load_latest(tx: Transaction, tenant_id: str, keys: Iterable[str]) -> dict[str, Definition]:
    """The newest version of each key that is known."""
    values = {"tenant_id": tenant_id, "keys": rows.rows([(key,) for key in keys])}
    return {each.key: each for each in DEFINITION.read(tx.execute(LOAD_LATEST, values))}


def highest_versions(tx: Transaction, tenant_id: str, keys: Iterable[str]) -> dict[str, int]:
    """The highest number that each key has had, deleted versions included: no number is given twice."""
    values = {"tenant_id": tenant_id, "keys": rows.rows([(key,) for key in keys])}
    return {row.key: row.version for row in tx.execute(HIGHEST_VERSIONS, values)}


def delete_definition(tx: Transaction, tenant_id: str, definition_id: str, *, actor: str | None) -> bool:
    """Hide a version that no instance uses. False: one does, or it is deleted already.

    The row stays: whoever has just looked it up may still start an instance on it.
    """
    values = {"of_tenant": tenant_id, "definition": definition_id, "actor": actor, "now": tx.now()}
    return bool(tx.execute(DELETE_DEFINITION, values).rowcount)


def load_version(tx: Transaction, tenant_id: str, key: str, version: int) -> Definition | None:
    return _first(tx, LOAD_VERSION, tenant_id=tenant_id, key=key, version=version)


def load_tagged(tx: Transaction, tenant_id: str, key: str, tag: str) -> Definition | None:
    """The newest version with this tag."""
    return _first(tx, LOAD_TAGGED, tenant_id=tenant_id, key=key, tag=tag)


def load_deployed(tx: Transaction, tenant_id: str, key: str, deployment_id: str) -> Definition | None:
    """The version that came with a certain deployment."""
    return _first(tx, LOAD_DEPLOYED, tenant_id=tenant_id, key=key, deployment_id=deployment_id)


def _first(tx: Transaction, statement: sa.Select[Any], **values: object) -> Definition | None:
    return next(iter(DEFINITION.read(tx.execute(statement, values))), None)


_NEW = row_source(DEFINITION.columns)
ADD_DEFINITIONS = process_definition.insert().from_select(list(DEFINITION.fields), sa.select(*_NEW.c))
_ALL = sa.select(*DEFINITION.columns)
LOAD_DEFINITIONS = _ALL.where(process_definition.c.id.in_(sa.select(id_source().c.id)))
_KEYS = row_source([sa.Column("key", sa.Text())], "keys")
_newer = process_definition.alias("newer")
_OF_TENANT = _ALL.where(
    process_definition.c.tenant_id == sa.bindparam("tenant_id"), process_definition.c.deleted_at.is_(None)
)
LOAD_LATEST = _OF_TENANT.where(
    process_definition.c.key == _KEYS.c.key,
    process_definition.c.version
    == sa.select(sa.func.max(_newer.c.version))
    .where(_newer.c.tenant_id == process_definition.c.tenant_id, _newer.c.key == process_definition.c.key)
    .where(_newer.c.deleted_at.is_(None))
    .scalar_subquery(),
)
_OF_KEY = _OF_TENANT.where(process_definition.c.key == sa.bindparam("key"))
LOAD_VERSION = _OF_KEY.where(process_definition.c.version == sa.bindparam("version"))
LOAD_TAGGED = (
    _OF_KEY.where(process_definition.c.version_tag == sa.bindparam("tag"))
    .order_by(process_definition.c.version.desc())
    .limit(1)
)
LOAD_DEPLOYED = _OF_KEY.where(process_definition.c.deployment_id == sa.bindparam("deployment_id"))
HIGHEST_VERSIONS = (
    sa.select(process_definition.c.key, sa.func.max(process_definition.c.version).label("version"))
    .where(process_definition.c.tenant_id == sa.bindparam("tenant_id"))
    .where(process_definition.c.key == _KEYS.c.key)
    .group_by(process_definition.c.key)
)
_IS_USED = sa.exists().where(
    process_instance.c.tenant_id == process_definition.c.tenant_id,
    process_instance.c.definition_key == process_definition.c.key,
    process_instance.c.definition_id == process_definition.c.id,
)
DELETE_DEFINITION = (
    process_definition.update()
    .values(deleted_at=NOW, deleted_by=sa.bindparam("actor", type_=sa.Text()))
    .where(process_definition.c.id == sa.bindparam("definition", type_=Id))
    .where(process_definition.c.tenant_id == sa.bindparam("of_tenant"))
    .where(process_definition.c.deleted_at.is_(None), ~_IS_USED)
)
