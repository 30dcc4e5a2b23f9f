"""A store that fails now and then, by seed: serialisation failures, timeouts, lost answers of COMMIT.

`Faults.spoil(engine)` makes one engine's database unreliable. Every statement may fail; the answer of a
COMMIT may be lost where the engine promises to find out by itself what became of it. What its callers are
told, that the database is away and that it is safe to try again, `persistent_clients` take at their word: the
whole call again, and a batch from the cursor that it last told.
"""

from __future__ import annotations

import functools
import os
import random
import sqlite3
import threading
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from inspect import isfunction, isgeneratorfunction, signature
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
from bpm_engine.api.walks import BatchOutcome, BatchProgress, BatchReport, Progress
from bpm_engine.services import runs
from bpm_engine.store.failures import CommitUnknownError

RATE = 0.01
KINDS = SERIALISATION, TIMEOUT, COMMIT_LOST = "serialisation", "timeout", "commit lost"
HAPPENED: Counter[str] = Counter()  # in this process, by kind, whosever faults they are
INJECTED = "injected"
TRIES = 20
T = TypeVar("T")
B = TypeVar("B", BatchProgress, BatchReport)

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
    [
        "tenant",
        "handler",
        "data_store",
        "observe",
        "close",
        "run",
        "running",
        "run_until_idle",
        "begin",
        "health",
    ]
)


class Faults:
    def __init__(self, seed: int, rate: float = RATE) -> None:
        self.happened: Counter[str] = Counter()
        self._rate = rate
        self._chance = random.Random(seed)
        self._here = threading.local()

    def begin(self, seed: int) -> None:
        """From here on as if made anew with this seed."""
        self._chance.seed(seed)

    def spoil(self, engine: Engine) -> None:
        self._spoil_statements(engine)
        self.spoil_commits(engine)

    def _spoil_statements(self, engine: Engine) -> None:
        store = engine._runtime.store

        def before_statement(connection: sa.Connection, cursor: Any, statement: str, *_: Any) -> None:
            # While the schema is made there is nobody to lose anything; in somebody else's transaction it is
            # theirs to try again.
            if store._opened and not getattr(self._here, "is_shared", False):
                self._strike(statement, sqlite=store.database.is_embedded)

        sa.event.listen(store.database.engine, "before_cursor_execute", before_statement)

    def spoil_commits(self, engine: Engine) -> None:
        """Also of an engine whose statements go through the connections of one that is spoilt."""
        runtime = engine._runtime
        store, committer = runtime.store, runtime.committer
        commit = store._commit

        def commit_and_lose(connection: sa.Connection) -> None:
            commit(connection)
            if getattr(self._here, "asks", False) and self._strikes(COMMIT_LOST):
                raise CommitUnknownError

        store._commit = commit_and_lose  # type: ignore[method-assign]
        runtime.sharing = self._shared(runtime.sharing)  # type: ignore[method-assign, assignment]
        for name in ("_commit_once", "sweep", "run_alone"):
            setattr(committer, name, self._asking(getattr(committer, name)))

    def keep_going(self, engine: Engine) -> None:
        """Let `run_until_idle` go on as services do: each part by itself, as often as needed."""
        runtime = engine._runtime
        for part, name in (
            (runtime, "_commit_queued"),
            (runtime, "_recover"),
            (runtime.executor, "run_here"),
            (runtime.timers, "run_once"),
            (runtime.schedules, "run_once"),
            (runtime.correlator, "run_once"),
            (runtime.retention, "run_once"),
        ):
            setattr(part, name, _going_on(getattr(part, name)))

    def _shared(self, sharing: Callable[[str], Any]) -> Callable[[str], Any]:
        @contextmanager
        def shared(tenant: str) -> Iterator[sa.Connection]:
            self._here.is_shared = True
            try:
                with sharing(tenant) as connection:
                    yield connection
            finally:
                self._here.is_shared = False

        return shared

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
        if self._strikes(SERIALISATION):
            raise sa.exc.OperationalError(statement, None, _busy() if sqlite else _serialisation())
        if self._strikes(TIMEOUT):
            raise sa.exc.TimeoutError(f"{INJECTED}: no answer in time")

    def _strikes(self, kind: str) -> bool:
        strikes = self._chance.random() < self._rate
        self.happened[kind] += strikes
        HAPPENED[kind] += strikes
        return strikes


def _busy() -> sqlite3.OperationalError:
    error = sqlite3.OperationalError(f"{INJECTED}: database is locked")
    error.sqlite_errorcode = sqlite3.SQLITE_BUSY
    return error


def _serialisation() -> psycopg.Error:
    return psycopg.errors.SerializationFailure(f"{INJECTED}: could not serialize access")


def seed_of(test: str) -> int | None:
    """By `BPM_TEST_FAULTS`, a seed, for one test: each has faults of its own, alone as among others."""
    seed = os.environ.get("BPM_TEST_FAULTS")
    return None if seed is None else int(seed) + zlib.crc32(test.encode())


def faults_of(test: str) -> Faults | None:
    seed = seed_of(test)
    return None if seed is None else Faults(seed)


def _going_on(call: Callable[..., T]) -> Callable[..., T]:
    """What handlers call meanwhile are calls of their own."""
    return functools.wraps(call)(lambda *arguments: _tried(lambda: call(*arguments)))


_here = threading.local()  # `inside`: a persistent call of this thread, whose own calls are part of it


def _again(attempt: Callable[[], T]) -> T:
    if getattr(_here, "inside", False):
        return attempt()
    _here.inside = True
    try:
        return _tried(attempt)
    finally:
        _here.inside = False


def _tried(attempt: Callable[[], T]) -> T:
    """As often as it is told that this is safe, as a client would. Failures that a test makes are its own."""
    for _ in range(TRIES):
        try:
            return attempt()
        except CommitUnknownError:
            raise
        except UnavailableError as error:
            if INJECTED not in str(error):
                raise
    return attempt()


def persistent(call: Callable[..., T]) -> Callable[..., T]:
    @functools.wraps(call)
    def trying(*arguments: Any, **options: Any) -> T:
        if options.get("connection") is not None:
            return call(*arguments, **options)
        return _again(lambda: call(*arguments, **options))

    return trying


def _persistent_batch(call: Callable[..., BatchReport]) -> Callable[..., BatchReport]:
    """What was done before a failure was told as progress: the batch goes on from there."""

    @functools.wraps(call)
    def trying(
        *arguments: Any, progress: Progress | None = None, cursor: str | None = None, **options: Any
    ) -> BatchReport:
        cut_off: list[BatchProgress] = []  # the last word of each attempt that failed
        failures: list[BatchOutcome] = []

        def attempt() -> BatchReport:
            words: list[BatchProgress] = []

            def note(word: BatchProgress) -> None:
                words.append(word)
                failures.extend(each for each in word.outcomes if each.status == "failed")
                if progress is not None:
                    progress(_summed(word, cut_off))

            begin = cut_off[-1].cursor if cut_off else cursor
            try:
                report = call(*arguments, progress=note, cursor=begin, **options)
            except UnavailableError:
                cut_off.extend(words[-1:])
                raise
            return replace(_summed(report, cut_off), failures=tuple(failures))

        return _again(attempt)

    return trying


def _summed(latest: B, earlier: Sequence[BatchProgress]) -> B:
    done, unchanged, failed = (
        sum(getattr(each, name) for each in earlier) for name in ("done", "unchanged", "failed")
    )
    return replace(
        latest,
        total=latest.total + done + unchanged + failed,
        done=latest.done + done,
        unchanged=latest.unchanged + unchanged,
        failed=latest.failed + failed,
    )


def _made_persistent(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    takes_progress = "progress" in signature(function).parameters
    return _persistent_batch(function) if takes_progress else persistent(function)


@contextmanager
def persistent_clients() -> Iterator[None]:
    """While the block lasts, whoever calls an engine is persistent."""
    again, runs.AGAIN = runs.AGAIN, timedelta()  # time stands still
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
        setattr(facade, name, _made_persistent(name, function))
    try:
        yield
    finally:
        runs.AGAIN = again
        for facade, name, function in before:
            setattr(facade, name, function)
