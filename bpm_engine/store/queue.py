"""How a claim goes through the ready tokens: in which order, and past which of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

LOSSES = sa.bindparam("losses", type_=sa.Integer())


@dataclass(frozen=True, slots=True)
class Queue:
    """`last_first`: from its end. `spares`: past what has lost LOSSES workers or more."""

    last_first: bool = False
    spares: bool = False

    def order(self, ready: sa.FromClause) -> tuple[sa.ColumnElement[Any], ...]:
        """Highest priority first, then oldest; or the same backwards, by the same indexes."""
        if self.last_first:
            return (ready.c.priority, ready.c.id.desc())
        return (ready.c.priority.desc(), ready.c.id)

    def holds(self, ready: sa.FromClause) -> sa.ColumnElement[bool]:
        return ready.c.recoveries < LOSSES if self.spares else sa.true()


FRONT = Queue()
BACK = Queue(last_first=True)
