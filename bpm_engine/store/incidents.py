"""Incidents as operators look at them: failed tokens, with the instances that they halt.

An incident is shown whatever its row holds: a value that cannot be read must not hide that something is
wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Literal

import sqlalchemy as sa

from bpm_engine.core.state import Token, TokenState, Variables
from bpm_engine.store.pages import Key, Page, Paging, newest_or_oldest
from bpm_engine.store.records import TOKEN
from bpm_engine.store.schema import process_instance, scope, token
from bpm_engine.store.statuses import fixed
from bpm_engine.store.transaction import Transaction
from bpm_engine.store.values import is_row

Order = Literal["newest", "oldest"]
Group = Literal["code", "definition", "node"]


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentFilter:
    """All that is given must hold."""

    instance_id: str | None = None
    definition: str | None = None
    business_key: str | None = None
    node: str | None = None
    code: str | None = None
    since_after: datetime | None = None
    since_before: datetime | None = None


@dataclass(frozen=True, slots=True)
class ListedIncident:
    """A failed token and what its list says about its instance."""

    token: Token
    definition_key: str
    business_key: str | None
    since: datetime
    item: Variables | None = None  # of a repeated activity, what this run of it sees alone


def find_incidents(
    tx: Transaction,
    tenant_id: str,
    wanted: IncidentFilter,
    *,
    order: Order = "oldest",
    limit: int = 100,
    cursor: str | None = None,
) -> Page[ListedIncident]:
    """By the time since when they are there. No index has it: it would change with every write of a token."""
    by_id = newest_or_oldest(token.c.id, order)
    since = Key(token.c.updated_at, datetime, descending=order == "newest")
    paging = Paging([since, *by_id], limit, cursor, [tenant_id, order, asdict(wanted)])
    return _page(tx, tenant_id, wanted, paging)


def walk_incidents(
    tx: Transaction, tenant_id: str, wanted: IncidentFilter, *, limit: int, cursor: str | None
) -> Page[ListedIncident]:
    """By id, which an index has: for going through all of them."""
    by_id = newest_or_oldest(token.c.id, "oldest")
    return _page(tx, tenant_id, wanted, Paging(by_id, limit, cursor, [tenant_id, asdict(wanted)]))


def get_incident(tx: Transaction, tenant_id: str, token_id: str) -> ListedIncident | None:
    """Also one that was dealt with: its token is no longer Failed then."""
    query = _listed(tenant_id).where(is_row(token.c.id, token_id))
    return next(iter(_read(tx.execute(query).all())), None)


def count_incidents(
    tx: Transaction, tenant_id: str, wanted: IncidentFilter, by: Group | None = None
) -> dict[str | None, int]:
    """How many; by code, definition or node. Without `by`, all of them under None."""
    key = _GROUPS[by] if by else sa.null()
    query = (
        sa.select(key.label("name"), sa.func.count().label("number"))
        .select_from(_TABLES)
        .where(token.c.tenant_id == tenant_id, IS_FAILED, *_conditions(tenant_id, wanted))
    )
    rows = tx.execute(query.group_by(key) if by else query)
    return {row.name: row.number for row in rows}


def _page(tx: Transaction, tenant_id: str, wanted: IncidentFilter, paging: Paging) -> Page[ListedIncident]:
    query = _listed(tenant_id).where(IS_FAILED, *_conditions(tenant_id, wanted))
    found = tx.execute(paging.apply(query)).all()
    return paging.page(found, _read)


def _listed(tenant_id: str) -> sa.Select[Any]:
    instance = process_instance.c
    return (
        sa.select(
            *TOKEN.columns,
            instance.definition_key,
            instance.business_key,
            token.c.updated_at,
            _ITEM.label("item"),
        )
        .select_from(_TABLES.outerjoin(scope, scope.c.id == token.c.scope_id))
        .outerjoin(_AROUND, sa.and_(_AROUND.c.id == scope.c.token_id, _AROUND.c.loop_index.is_not(None)))
        .where(token.c.tenant_id == tenant_id)
    )


def _read(rows: Sequence[sa.Row[Any]]) -> list[ListedIncident]:
    width = len(TOKEN.columns)
    tokens = TOKEN.read_leniently(rows)
    return [
        ListedIncident(
            t, row[width], row[width + 1], row[width + 2], row.item if isinstance(row.item, dict) else None
        )
        for t, row in zip(tokens, rows, strict=True)
    ]


def _with_called(tenant_id: str, instance_id: str) -> sa.Select[Any]:
    """An instance and what it has called, down to the last: its call activity waits for them."""
    top = sa.select(_CALLED.c.id).where(is_row(_CALLED.c.id, instance_id)).cte("called", recursive=True)
    below = sa.select(_CALLED.c.id).where(
        _CALLED.c.tenant_id == tenant_id, _CALLED.c.parent_instance_id == top.c.id
    )
    tree = top.union_all(below)
    return sa.select(tree.c.id)


def _conditions(tenant_id: str, wanted: IncidentFilter) -> list[sa.ColumnElement[bool]]:
    equal = {
        token.c.node_id: wanted.node,
        process_instance.c.definition_key: wanted.definition,
        process_instance.c.business_key: wanted.business_key,
        CODE: wanted.code,
    }
    conditions: list[sa.ColumnElement[bool]] = [c == value for c, value in equal.items() if value is not None]
    if wanted.instance_id is not None:
        conditions.append(token.c.instance_id.in_(_with_called(tenant_id, wanted.instance_id)))
    # A failed token is written for the last time when it fails: that is since when.
    if wanted.since_after is not None:
        conditions.append(token.c.updated_at >= wanted.since_after)
    if wanted.since_before is not None:
        conditions.append(token.c.updated_at < wanted.since_before)
    return conditions


_CALLED = process_instance.alias("child")
_AROUND = token.alias("around")  # the sub-process that a token is in, if that is repeated
_ITEM = sa.case(
    (token.c.loop_index.is_not(None), token.c.local), (_AROUND.c.id.is_not(None), scope.c.variables)
)
CODE = token.c.error.op("->>", return_type=sa.Text())(sa.literal_column("'code'"))
IS_FAILED = token.c.state == fixed(TokenState.FAILED)
_TABLES = token.join(process_instance, process_instance.c.id == token.c.instance_id)
_GROUPS: dict[Group, sa.ColumnElement[Any]] = {
    "code": CODE,
    "definition": process_instance.c.definition_key,
    "node": token.c.node_id,
}
