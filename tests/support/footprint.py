"""What a database holds, in numbers: equal before and after means that nothing was written."""

from __future__ import annotations

import sqlalchemy as sa

from bpm_engine import Engine
from bpm_engine.store.schema import metadata, scope


def footprint(engine: Engine) -> dict[str, int]:
    """Rows per table, and the steps of all instances together: every change of an instance counts one up."""
    with engine.begin() as connection:
        counted = {
            table.name: connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one()
            for table in metadata.sorted_tables
        }
        steps = connection.execute(sa.select(sa.func.coalesce(sa.func.sum(scope.c.seq), 0))).scalar_one()
        return counted | {"steps": int(steps)}
