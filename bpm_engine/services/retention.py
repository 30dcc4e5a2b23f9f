"""The end of old rows: ended call trees past their purge time, messages, deliveries and published events.

Each kind in a transaction of its own and a bounded number of rows at a time, so that no sweep holds the
database for long; the loop calls again while there is more. A tree goes as a whole, hidden at once even if
its rows take several rounds, and never while anything in it runs. Any number of sweeps may run at once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from bpm_engine.crash import crash_point, declare
from bpm_engine.store import messages, outbox, retention
from bpm_engine.store.store import Store
from bpm_engine.store.transaction import Transaction

logger = logging.getLogger("bpm_engine.retention")

PURGED = declare("retention.purged", "old rows are deleted, the transaction is not committed")


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionConfig:
    trees: int = 1_000
    log_rows: int = 20_000  # history in one transaction: what holds the only write lock of SQLite
    rows: int = 5_000  # messages, deliveries, events
    published: timedelta = timedelta(days=7)  # R40: how long a published event is kept
    has_publisher: bool = True  # who publishes events keeps those that wait
    delivered: timedelta = timedelta(days=7)  # how long a finished delivery is kept


class RetentionSweep:
    def __init__(self, store: Store, config: RetentionConfig | None = None) -> None:
        self._store = store
        self._config = config or RetentionConfig()
        self.told: Callable[[str, int], None] = lambda what, number: None
        self._sweeps: dict[str, Callable[[Transaction], int]] = {
            "buffered messages expired": self._expire_messages,
            "messages purged": self._purge_messages,
            "deliveries purged": self._purge_deliveries,
            "published events purged": self._purge_events,
            "call trees purged": self._purge_trees,
            "rows of big call trees purged": self._purge_rest,
        }
        if not self._config.has_publisher:
            self._sweeps["events purged that nobody has published"] = self._purge_unpublished

    def run_once(self) -> int:
        """One bounded round of every kind; how much it took. An error in one does not keep the others, not
        even one that reads as if the database were away: a statement that took too long does, too.
        """
        total, problem = 0, None
        with self._store.reading():  # if it is away, they need not all wait for it
            pass
        for what, sweep in self._sweeps.items():
            try:
                total += self._run(what, sweep)
            except Exception as error:  # noqa: BLE001 - raised below, when the others had their turn
                problem = problem or error
        if problem is not None:
            raise problem
        return total

    def _run(self, what: str, sweep: Callable[[Transaction], int]) -> int:
        with self._store.transaction() as tx:
            number = sweep(tx)
            if number:
                crash_point(PURGED)
        if number:
            logger.info("%s: %d", what, number)
            self.told(what, number)
        return number

    def _expire_messages(self, tx: Transaction) -> int:
        return len(messages.expire_messages(tx, self._config.rows))

    def _purge_messages(self, tx: Transaction) -> int:
        return messages.purge_messages(tx, tx.now(), self._config.rows)

    def _purge_deliveries(self, tx: Transaction) -> int:
        return retention.purge_deliveries(tx, tx.now() - self._config.delivered, self._config.rows)

    def _purge_events(self, tx: Transaction) -> int:
        return outbox.purge_events(tx, tx.now() - self._config.published, self._config.rows)

    def _purge_unpublished(self, tx: Transaction) -> int:
        return outbox.purge_unpublished(tx, tx.now() - self._config.published, self._config.rows)

    def _purge_trees(self, tx: Transaction) -> int:
        return retention.purge_trees(tx, tx.now(), trees=self._config.trees, log_rows=self._config.log_rows)

    def _purge_rest(self, tx: Transaction) -> int:
        return retention.purge_rest(tx, tx.now(), log_rows=self._config.log_rows)
