"""The outside world of handlers: a ledger of effects that knows nothing of the engine's database.

Each call of a handler is a run. It has an effect if its idempotency key was not seen before, as a payment
service would do it. Safe for many processes; a process that dies in the middle leaves a whole run or none.
"""

from __future__ import annotations

import os
import sqlite3
from collections import Counter
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

SCHEMA = """
CREATE TABLE IF NOT EXISTS run (
    number INTEGER PRIMARY KEY, key TEXT NOT NULL, subject TEXT NOT NULL, what TEXT NOT NULL,
    attempt INTEGER NOT NULL, pid INTEGER NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS effect (
    key TEXT PRIMARY KEY, number INTEGER NOT NULL, subject TEXT NOT NULL, what TEXT NOT NULL
) STRICT;
"""


@dataclass(frozen=True, slots=True)
class Run:
    key: str
    subject: str  # whose effect it is: an instance, an order
    what: str
    attempt: int
    pid: int


class Ledger:
    def __init__(self, path: Path | str) -> None:
        self.path = str(path)
        with closing(self._connect()) as connection:
            connection.executescript(SCHEMA)

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, timeout=30, isolation_level=None)
        # No WAL: after COMMIT nothing is left to do under a lock, so a process may be stopped at any time.
        connection.execute("PRAGMA synchronous = OFF")  # processes are killed here, machines are not
        return connection

    def enter(self, key: str, subject: str, what: str, attempt: int = 1) -> bool:
        """Whether this run had the effect."""
        with closing(self._connect()) as connection:
            connection.execute("BEGIN IMMEDIATE")
            number = connection.execute(
                "INSERT INTO run (key, subject, what, attempt, pid) VALUES (?, ?, ?, ?, ?)",
                (key, subject, what, attempt, os.getpid()),
            ).lastrowid
            new = connection.execute(
                "INSERT INTO effect (key, number, subject, what) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
                (key, number, subject, what),
            ).rowcount
            connection.execute("COMMIT")
            return new == 1

    def runs(self, subject: str | None = None) -> list[Run]:
        with closing(self._connect()) as connection:
            rows = connection.execute("SELECT key, subject, what, attempt, pid FROM run ORDER BY number")
            return [run for run in (Run(*row) for row in rows) if subject in (None, run.subject)]

    def effects(self, subject: str) -> list[str]:
        """What came about, in order."""
        with closing(self._connect()) as connection:
            rows = connection.execute("SELECT what FROM effect WHERE subject = ? ORDER BY number", (subject,))
            return [str(row[0]) for row in rows]

    def allow(self, subject: str) -> None:
        """Whoever waits for it may go on."""
        self._permit(subject).touch()

    def allows(self, subject: str) -> bool:
        return self._permit(subject).exists()

    def _permit(self, subject: str) -> Path:
        return Path(f"{self.path}.{subject}.allowed")

    def counts(self) -> Counter[str]:
        """How often each key ran."""
        return Counter(run.key for run in self.runs())
