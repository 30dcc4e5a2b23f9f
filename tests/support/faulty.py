"""A store that fails now and then, by seed: serialisation failures, timeouts, lost answers of COMMIT.

`Faults.spoil(engine)` makes one engine's database unreliable. Every statement may fail; the answer of a
COMMIT may be lost where the engine promises to find out by itself what became of it. What its callers are
told, that the database is away and that it is safe to try again, `persistent` takes at its word.
"""

from __future__ import annotations

import functools
import os
import random
import sqlite3
import threading
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from inspect import isfunction, isgeneratorfunction
from typing import Any, TypeVar

import psycopg
import sqlalchemy as sa

from bpm_engine import Engine, UnavailableError
from bpm_engine.api import (
    batches,
    definitions,
    external,
    history,
    incidents,
    instances,
    outbox,
    schedules,
    tasks,
)
from bpm_engine.runtime import FOLLOWING
from bpm_engine.store.failures import CommitUnknownError

RATE = 0.01
TRIES = 20
T = TypeVar("T")

FACADES: tuple[type, ...] = (
    Engine,
    batches.Batches,
    definitions.Definitions,
    external.External,
    history.History,
    incidents.Incidents,
    instances.Instances,
    outbox.Outbox,
    schedules.Schedules,
    tasks.Tasks,
)
NOT_CALLS = frozenset(
    ["tenant", "handler", "data_store", "observe", "close", "run", "running", "begin", "health"]
)


class Faults:
    def __init__(self, seed: int, rate: float = RATE) -> None:
        self.happened: Counter[str] = Counter()
        self._rate = rate
        self._chance = random.Random(seed)
        self._here = threading.local()

    def spoil(self, engine: Engine) -> None:
        runtime = engine._runtime
        store, committer = runtime.store, runtime.committer

        def before_statement(connection: sa.Connection, cursor: Any, statement: str, *_: Any) -> None:
            # While the schema is made there is nobody to lose anything; in somebody else's transaction it is
            # theirs to try again.
            if store._opened and FOLLOWING not in connection.info:
                self._strike(statement, sqlite=store.database.is_embedded)

        sa.event.listen(store.database.engine, "before_cursor_execute", before_statement)
        commit = store._commit

        def commit_and_lose(connection: sa.Connection) -> None:
            commit(connection)
            if getattr(self._here, "asks", False) and self._strikes("commit lost"):
                raise CommitUnknownError

        store._commit = commit_and_lose  # type: ignore[method-assign]
        for name in ("_commit_once", "sweep", "run_alone"):
            setattr(committer, name, self._asking(getattr(committer, name)))

    def _asking(self, call: Callable[..., T]) -> Callable[..., T]:
        """Here the engine asks whether its commit happened."""

        @functools.wraps(call)
        def asking(*arguments: Any, **options: Any) -> T:
            self._here.asks = True
            try:
                return call(*arguments, **options)
            finally:
                self._here.asks = False

        return asking

    def _strike(self, statement: str, *, sqlite: bool) -> None:
        if self._strikes("serialisation"):
            raise sa.exc.OperationalError(statement, None, _busy() if sqlite else _serialisation())
        if self._strikes("timeout"):
            raise sa.exc.TimeoutError("injected: no answer in time")

    def _strikes(self, kind: str) -> bool:
        strikes = self._chance.random() < self._rate
        self.happened[kind] += strikes
        return strikes


def _busy() -> sqlite3.OperationalError:
    error = sqlite3.OperationalError("injected: database is locked")
    error.sqlite_errorcode = sqlite3.SQLITE_BUSY
    return error


def _serialisation() -> psycopg.Error:
    return psycopg.errors.SerializationFailure("injected: could not serialize access")


def faults_of(test: str) -> Faults | None:
    """By `BPM_TEST_FAULTS`, a seed, for one test: each has faults of its own, alone as among others."""
    seed = os.environ.get("BPM_TEST_FAULTS")
    return None if seed is None else Faults(int(seed) + zlib.crc32(test.encode()))


def persistent(call: Callable[..., T]) -> Callable[..., T]:
    """Tries again while it is told that this is safe, as a client would."""

    @functools.wraps(call)
    def trying(*arguments: Any, **options: Any) -> T:
        if options.get("connection") is not None:
            return call(*arguments, **options)
        for _ in range(TRIES):
            try:
                return call(*arguments, **options)
            except CommitUnknownError:
                raise
            except UnavailableError:
                continue
        return call(*arguments, **options)

    return trying


@contextmanager
def persistent_clients() -> Iterator[None]:
    """While the block lasts, whoever calls an engine is persistent."""
    before = [
        (facade, name, function)
        for facade in FACADES
        for name, function in list(vars(facade).items())
        if isfunction(function)
        and not isgeneratorfunction(function)
        and not name.startswith("_")
        and name not in NOT_CALLS
    ]
    for facade, name, function in before:
        setattr(facade, name, persistent(function))
    try:
        yield
    finally:
        for facade, name, function in before:
            setattr(facade, name, function)
