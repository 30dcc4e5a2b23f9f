"""What an event tells about the instance it comes from, read when the event goes out."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import sqlalchemy as sa

from bpm_engine.store import rows
from bpm_engine.store.records import Shape
from bpm_engine.store.rows import id_source
from bpm_engine.store.schema import process_instance
from bpm_engine.store.transaction import Transaction


class Origin(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """Of table process_instance."""

    id: str
    definition_key: str
    definition_version: int
    business_key: str | None
    correlation_id: str | None


ORIGIN = Shape(Origin, process_instance)


def load_origins(tx: Transaction, instance_ids: Iterable[str]) -> dict[str, Origin]:
    """By instance id; an instance that was purged meanwhile is missing."""
    found = ORIGIN.read(tx.execute(LOAD_ORIGINS, {"ids": rows.ids(instance_ids)}))
    return {origin.id: origin for origin in found}


LOAD_ORIGINS = sa.select(*ORIGIN.columns).where(process_instance.c.id.in_(sa.select(id_source().c.id)))
