"""A PostgreSQL for the benchmarks: the one that BPM_TEST_DATABASE_URL names, or one started for the run, with
the buffers that the guide to tuning asks for. All that is measured runs on the same."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from support.postgres.databases import Databases
from support.postgres.provider import Missing, provide

# A quarter of a small server's memory. With the default, 128 MB, it is the tables of a run that do not fit.
SETTINGS = ("shared_buffers=1GB",)


@contextmanager
def databases() -> Iterator[Databases]:
    """A server on which empty databases can be had."""
    outcome = provide(SETTINGS)
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
