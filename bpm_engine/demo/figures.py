"""What the demo achieved, counted in the database: nothing here is remembered by the demo itself.

The ledger is the proof: it was written by handlers in the transactions of their steps, through retries and a
SIGKILL, and has to agree with the orders to the cent.
"""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from bpm_engine import Engine, HistoryEntry, InstanceView
from bpm_engine.demo.app import ledger
from bpm_engine.demo.robots import PROCESS
from bpm_engine.store.schema import token

Counts = dict[str, dict[str, int]]
OUTCOMES = {"delivered": "Delivered", "undone": "Failed and undone", "declined": "Declined"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """One look at the database while the demo runs."""

    counts: Counts

    @property
    def ended(self) -> int:
        return sum(self.done(node) for node in OUTCOMES)

    def done(self, node: str) -> int:
        return self.number(node, "completed")

    def now(self, node: str) -> int:
        """Tokens that rest there: those that came and neither left nor were taken away."""
        return self.number(node, "entered") - self.done(node) - self.number(node, "cancelled")

    def number(self, node: str, kind: str) -> int:
        return self.counts.get(node, {}).get(kind, 0)

    def total(self, kind: str) -> int:
        return sum(kinds.get(kind, 0) for kinds in self.counts.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    charges: int
    refunds: int
    balance: int  # of all bookings
    owed: int  # the totals of the orders that were delivered
    doubles: int  # orders charged or refunded more than once

    @property
    def exact(self) -> bool:
        return self.balance == self.owed and not self.doubles


def look(engine: Engine) -> Progress:
    return Progress(counts=engine.history.count(definition=PROCESS))


def held_by(engine: Engine, worker: str) -> int:
    """Steps that a worker has in its hands right now."""
    held = sa.select(sa.func.count()).where(token.c.lease_owner == worker, token.c.state == "Executing")
    with engine.begin() as connection:
        return int(connection.execute(held).scalar_one())


def read_ledger(engine: Engine, tenant: str) -> Ledger:
    mine = ledger.c.tenant == tenant
    charged = sa.case((ledger.c.amount > 0, 1), else_=0)
    per_order = sa.select(
        sa.func.sum(charged).label("charges"),
        (sa.func.count() - sa.func.sum(charged)).label("refunds"),
        sa.func.sum(ledger.c.amount).label("balance"),
    ).where(mine)
    booked = per_order.group_by(ledger.c.order_number).subquery()
    doubles = sa.func.sum(sa.case((sa.or_(booked.c.charges > 1, booked.c.refunds > 1), 1), else_=0))
    totals = sa.select(
        sa.func.sum(booked.c.charges), sa.func.sum(booked.c.refunds), sa.func.sum(booked.c.balance), doubles
    )
    with engine.begin() as connection:
        charges, refunds, balance, twice = (int(value or 0) for value in connection.execute(totals).one())
    return Ledger(charges=charges, refunds=refunds, balance=balance, owed=_owed(engine), doubles=twice)


def _owed(engine: Engine) -> int:
    """The totals of the orders whose customers were told that the parcel is on its way."""
    owed = 0
    cursor: str | None = None
    while True:
        page = engine.instances.find(
            definition=PROCESS, variables={"told": "order-on-its-way"}, limit=200, cursor=cursor
        )
        owed += sum(int(each.variables["total"]) for each in page)
        cursor = page.cursor
        if cursor is None:
            return owed


@dataclass(frozen=True, slots=True)
class Story:
    """One instance with all that happened to it."""

    instance: InstanceView
    entries: list[HistoryEntry]

    def taken_over(self, worker: str | None) -> int:
        """Steps that others finished for a worker that was lost."""
        return sum(e.kind == "recovered" and (e.data or {}).get("owner") == worker for e in self.entries)

    def worth(self, worker: str | None) -> int:
        """How much there is to tell: a dead worker, something undone, a failed attempt, a long life."""
        kinds = {entry.kind for entry in self.entries}
        undone, failed = "compensated" in kinds, "failed" in kinds
        return 100 * (self.taken_over(worker) > 0) + 50 * undone + 20 * failed + len(self.entries)


def read_stories(engine: Engine) -> list[Story]:
    found: list[Story] = []
    cursor: str | None = None
    while True:
        page = engine.instances.find(definition=PROCESS, status="Completed", limit=200, cursor=cursor)
        found += [Story(each, list(engine.history.find(each.id))) for each in page]
        cursor = page.cursor
        if cursor is None:
            return found
