"""A PostgreSQL for the benchmarks: the one that BPM_TEST_DATABASE_URL names, or one started for the run."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from support.postgres.databases import Databases
from support.postgres.provider import Missing, provide


@contextmanager
def databases() -> Iterator[Databases]:
    """A server on which empty databases can be had."""
    outcome = provide()
    if isinstance(outcome, Missing):
        sys.exit(f"no PostgreSQL: {outcome.reason}")
    try:
        print(f"PostgreSQL: {outcome.source}")
        yield Databases(outcome.url, "bpm_bench")
    finally:
        outcome.close()


@contextmanager
def server_url() -> Iterator[str]:
    """The URL of an empty database."""
    with databases() as server, server.clone() as url:
        yield url
