"""Columns and checks that several tables of the schema share."""

from __future__ import annotations

from enum import StrEnum

import sqlalchemy as sa
from sqlalchemy import CheckConstraint, Column, ForeignKey, Text

from bpm_engine.store.types import LATEST, Choice, Id, Instant


def choice(
    name: str, members: type[StrEnum], *, nullable: bool = False
) -> tuple[Column[StrEnum], CheckConstraint]:
    """With a CHECK, spelt out: SQLite would build a table for an IN list anew with every row."""
    condition = " OR ".join(f"{name} = '{member}'" for member in members)
    return Column(name, Choice(members), nullable=nullable), CheckConstraint(condition, name=name)


def instant(name: str, *, nullable: bool = True) -> Column[object]:
    return Column(name, Instant, nullable=nullable)


def times() -> tuple[Column[object], Column[object]]:
    """Kept by every statement that writes, from its bound `now`."""
    return instant("created_at", nullable=False), instant("updated_at", nullable=False)


def readable(*names: str) -> CheckConstraint:
    """Python cannot read a year beyond 9999, and one such row would spoil every batch it is in."""
    limit = sa.literal(LATEST, Instant)
    return CheckConstraint(
        sa.and_(*(sa.column(name, Instant) < limit for name in names)), name="readable_times"
    )


def owned() -> tuple[Column[str], Column[str], Column[str], Column[str]]:
    return (
        Column("id", Id, primary_key=True),
        Column("tenant_id", Text, nullable=False),
        Column("instance_id", Id, ForeignKey("process_instance.id", ondelete="CASCADE"), nullable=False),
        Column("root_instance_id", Id, nullable=False),
    )
