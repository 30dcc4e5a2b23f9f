"""A database as text in which two runs of the same processes are equal, however often workers were lost.

Left out: times, versions, attempts, leases and who held them, what history tells of recoveries and of
attempts that failed, and the numbers that count history. Ids are numbered in order of appearance; rows of a
call tree are in order of creation.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import sqlalchemy as sa

from bpm_engine.core.state import LogKind, TimerPurpose
from bpm_engine.store.schema import execution_log, metadata, process_instance
from bpm_engine.store.store import Store

VARYING = frozenset(
    ["version", "attempt", "attempts", "recoveries", "lease_owner", "seq", "order", "xml", "steps"]
)
NOT_COMPARED = frozenset({LogKind.RECOVERED, LogKind.FAILED})
IDS = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")
TIMES = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[^\"]*")


def dump(store: Store) -> str:
    with store.reading() as tx:
        trees = _trees(tx.connection)
        rows = [row for table in metadata.sorted_tables for row in _rows(table, tx.connection)]
    rows.sort(key=lambda row: trees.get(row[0], -1))  # stable: within a tree as they were read
    return _numbered("\n".join(line for _, line in rows))


def _trees(connection: sa.Connection) -> dict[str, int]:
    """Instances that know nothing of each other run in any order: each call tree is told by itself."""
    instance = process_instance.c
    roots = sa.select(instance.id).where(instance.depth == 0).order_by(instance.definition_key, instance.id)
    return {str(row.id): number for number, row in enumerate(connection.execute(roots))}


def _rows(table: sa.Table, connection: sa.Connection) -> Iterator[tuple[str, str]]:
    """The call tree, if there is one, and the row in words."""
    columns = [c for c in table.c if c.name not in VARYING and not c.name.endswith(("at", "_until"))]
    order = list(table.primary_key.columns)
    if table is execution_log:
        order = [table.c.instance_id, table.c.seq]
    for row in connection.execute(sa.select(*columns).order_by(*order)):
        values = {name: value for name, value in row._mapping.items() if value is not None}
        if values.get("kind") not in NOT_COMPARED and values.get("purpose") != TimerPurpose.RETRY:
            yield str(values.get("root_instance_id", "")), f"{table.name} {_text(values)}"


def _text(values: Mapping[str, Any]) -> str:
    return TIMES.sub("<time>", json.dumps(values, sort_keys=True, default=str))


def _numbered(text: str) -> str:
    names: dict[str, str] = {}
    return IDS.sub(lambda found: names.setdefault(found.group(), f"<{len(names) + 1}>"), text)
