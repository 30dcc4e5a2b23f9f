"""Where a fault test takes place: a database, a ledger, an engine that only asks and looks, and workers."""

from __future__ import annotations

import signal
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa
from support.ledger import Ledger
from support.workers import Crash, Nursery, Worker, wait_until

from bpm_engine.core.state import Token, TokenState
from bpm_engine.engine import Engine
from bpm_engine.store.records import TOKEN
from bpm_engine.store.schema import event_outbox, token
from bpm_engine.store.statuses import OutboxStatus
from bpm_engine.store.store import Store

MODEL = "support.fault_models"
KINDS = ("postgresql", "sqlite file")  # what several processes can share
OPEN_TRANSACTIONS = (
    "SELECT count(*) FROM pg_stat_activity"
    " WHERE datname = current_database() AND xact_start IS NOT NULL AND pid <> pg_backend_pid()"
)


@dataclass(slots=True)
class Site:
    url: str
    engine: Engine
    ledger: Ledger
    nursery: Nursery
    workers: list[Worker] = field(default_factory=list)
    model: str = MODEL

    @property
    def store(self) -> Store:
        return self.engine._runtime.store

    def spawn(
        self, *crashes: Crash, settings: Mapping[str, Any] | None = None, only: Sequence[str] = ()
    ) -> Worker:
        worker = self.nursery.spawn(
            self.url, self.model, self.ledger.path, crashes=crashes, settings=settings, only=only
        )
        self.workers.append(worker)
        return worker

    def freeze(self, worker: Worker) -> None:
        """Stop it, but not in the middle of a transaction, which would hold its locks."""

        def stopped_outside() -> bool:
            worker.signal(signal.SIGSTOP)
            wait_until(worker.is_stopped, f"every thread of {worker.name} is stopped")
            if self._no_transaction_is_open():
                return True
            worker.signal(signal.SIGCONT)
            return False

        wait_until(stopped_outside, f"{worker.name} is stopped outside of a transaction")

    def _no_transaction_is_open(self) -> bool:
        if self.url.startswith("sqlite"):
            with closing(sqlite3.connect(self.url.removeprefix("sqlite:///"), timeout=0)) as connection:
                try:
                    connection.execute("BEGIN IMMEDIATE")
                except sqlite3.OperationalError:
                    return False
                return True
        with self.store.reading() as tx:
            return int(tx.connection.exec_driver_sql(OPEN_TRANSACTIONS).scalar_one()) == 0

    def executing(self) -> list[Token]:
        query = sa.select(*TOKEN.columns).where(token.c.state == TokenState.EXECUTING)
        with self.store.reading() as tx:
            return TOKEN.read(tx.execute(query))

    def ended(self) -> bool:
        """Something ran, nothing does any more, and all events are out."""
        counts = self.engine.instances.count(by="status")
        pending = sa.select(sa.func.count()).where(event_outbox.c.status == OutboxStatus.PENDING)
        with self.store.reading() as tx:
            unpublished = tx.execute(pending).scalar_one()
        return bool(counts) and not counts.get("Running") and not unpublished

    def finish(self, **settings: Any) -> None:
        """A worker that is let alone brings everything to an end."""
        worker = self.spawn(settings=settings)
        try:
            wait_until(self.ended, "all has ended")
        except AssertionError as error:
            raise AssertionError(f"{error}; {worker.name} said:\n{worker.output()}") from None
        worker.stop()

    def close(self) -> None:
        for worker in self.workers:
            worker.close()
        self.engine.close()
