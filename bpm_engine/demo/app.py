"""The shop's application: an engine and its handlers, as any user would write them.

    bpm run --app bpm_engine.demo.app:engine

The handlers pretend to call a warehouse, a bank and a carrier: they take a while and fail now and then. The
card is charged by a transactional handler, which writes the ledger in the transaction that moves the token.
"""

from __future__ import annotations

import asyncio
import os
import time
from typing import Any

import sqlalchemy as sa

from bpm_engine import BpmnError, Config, Engine, Work
from bpm_engine.demo.orders import FLAKY, is_unreachable, roll
from bpm_engine.publishers.function import FunctionPublisher

DATABASE = "sqlite:///bpm-demo.db"
LEASE = 3.0  # seconds: a worker that dies is missed after this time

metadata = sa.MetaData()
ledger = sa.Table(
    "demo_ledger",
    metadata,
    sa.Column("key", sa.Text, primary_key=True),
    sa.Column("tenant", sa.Text, nullable=False),
    sa.Column("order_number", sa.Text, nullable=False),
    sa.Column("amount", sa.Integer, nullable=False),
)

engine = Engine(
    os.environ.get("BPM_DATABASE_URL", DATABASE),
    config=Config.from_environment(
        auto_migrate=True,
        lease=LEASE,
        lease_extension=LEASE / 6,
        poll=0.25,
        worker_threads=8,
        sqlite_synchronous="NORMAL",  # outlives any process; only a power cut could take the last commits
    ),
    publisher=FunctionPublisher(lambda event: None),  # nobody listens to the events of a demo
)


def _pretend(work: Work, step: str, *, flaky: float = FLAKY) -> None:
    """Fail now and then, the same way for the same order, step and attempt."""
    if roll(work["seed"], work["number"], step, work.attempt) < flaky:
        raise ConnectionError(f"the {step} does not answer")


def _delay(work: Work, step: str) -> float:
    return 0.01 + 0.05 * roll(work["seed"], work["number"], step, "delay")


@engine.handler("order.check")
def check(work: Work) -> dict[str, Any]:
    time.sleep(_delay(work, "check"))
    if not work["address"]:
        raise ValueError("the order has no address; set the variable `address` and try again")
    return {"checked": True}


@engine.handler("stock.reserve")
def reserve(work: Work) -> dict[str, Any]:
    time.sleep(_delay(work, "warehouse"))
    _pretend(work, "warehouse")
    return {"reservation": f"S-{work['number']}"}


@engine.handler("stock.release")
def release(work: Work) -> None:
    time.sleep(_delay(work, "release"))


@engine.handler("payment.charge", transactional=True)
def charge(work: Work, connection: sa.Connection) -> dict[str, Any]:
    """Commits with the move of the token: a crash can neither lose the booking nor make it twice."""
    _pretend(work, "bank")
    _book(work, connection, work["total"])
    return {"receipt": work.idempotency_key}


@engine.handler("payment.refund", transactional=True)
def refund(work: Work, connection: sa.Connection) -> None:
    _book(work, connection, -work["total"])


def _book(work: Work, connection: sa.Connection, amount: int) -> None:
    connection.execute(
        ledger.insert(),
        {
            "key": work.idempotency_key,
            "tenant": work.tenant_id,
            "order_number": work["number"],
            "amount": amount,
        },
    )


@engine.handler("label.print")
async def print_label(work: Work) -> None:
    await asyncio.sleep(_delay(work, "label"))


@engine.handler("carrier.book")
def book_carrier(work: Work) -> dict[str, Any]:
    time.sleep(_delay(work, "carrier"))
    _pretend(work, "carrier")
    if is_unreachable(work["seed"], work["number"]):
        raise BpmnError("NO_CARRIER", f"no carrier goes to {work['address']}")
    return {"parcel": f"P-{work['number']}"}


@engine.handler("carrier.chase")
def chase(work: Work) -> None:
    time.sleep(_delay(work, "chase"))


@engine.handler("mail.send")
def send_mail(work: Work) -> dict[str, Any]:
    time.sleep(_delay(work, "mail"))
    return {"told": work.properties["template"]}
