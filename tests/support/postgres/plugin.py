"""PostgreSQL for pytest: one server per run, one database per test.

Without xdist the server is started by the first test that asks for it. With xdist the controlling process
starts it and hands its address to the workers, so that it lives as long as the run, whichever worker dies.

Fixtures: `postgresql_url` is an empty database, `postgresql_databases` clones any template, and
`postgresql_server` is a server of the test's own, to stop and restart at will.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, NoReturn, Protocol

import pytest
from support.postgres.databases import Databases
from support.postgres.provider import Missing, Provided, launch, provide
from support.postgres.server import Server

if TYPE_CHECKING:
    from _pytest.terminal import TerminalReporter

ABSENT = "no PostgreSQL"
REQUIRED = "BPM_TEST_REQUIRE_POSTGRESQL"  # continuous integration sets it: absence is then a failure
OUTCOME = pytest.StashKey[Provided | Missing]()


class WorkerNode(Protocol):
    """A worker as xdist's controlling process sees it."""

    config: pytest.Config
    workerinput: dict[str, object]


def _outcome(config: pytest.Config) -> Provided | Missing:
    """What this run uses; started on the first call, stopped when the run ends."""
    if OUTCOME not in config.stash:
        config.stash[OUTCOME] = outcome = _inherited(config) or provide()
        if isinstance(outcome, Provided):
            config.add_cleanup(outcome.close)
    return config.stash[OUTCOME]


def _inherited(config: pytest.Config) -> Provided | Missing | None:
    """What the controlling process told this worker."""
    match getattr(config, "workerinput", {}).get("postgresql"):
        case {"url": url, "source": source}:
            return Provided(url, source)
        case {"reason": reason}:
            return Missing(reason)
        case _:
            return None


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: WorkerNode) -> None:
    match _outcome(node.config):
        case Provided(url, source):
            node.workerinput["postgresql"] = {"url": url, "source": source}
        case Missing(reason):
            node.workerinput["postgresql"] = {"reason": reason}


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: TerminalReporter) -> Generator[None, None, None]:
    """As the outermost wrapper, this writes the last lines of the run."""
    yield
    skipped = terminalreporter.getreports("skipped")
    absent = [report for report in skipped if ABSENT in str(report.longrepr)]
    if absent:
        terminalreporter.section(f"{ABSENT}: {len(absent)} tests did not run", sep="!", red=True, bold=True)
        terminalreporter.line(str(absent[0].longrepr[2]))
        return
    outcome = terminalreporter.config.stash.get(OUTCOME, None)
    if isinstance(outcome, Provided):
        terminalreporter.line(f"PostgreSQL: {outcome.source}")


def _give_up(missing: Missing) -> NoReturn:
    if os.environ.get(REQUIRED):
        pytest.fail(f"{ABSENT}: {missing.reason}", pytrace=False)
    pytest.skip(f"{ABSENT}: {missing.reason}")


@pytest.fixture(scope="session")
def postgresql_databases(request: pytest.FixtureRequest) -> Iterator[Databases]:
    """Databases on the run's server: `with postgresql_databases.clone(template) as url`."""
    outcome = _outcome(request.config)
    if isinstance(outcome, Missing):
        _give_up(outcome)
    worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
    databases = Databases(outcome.url, f"bpm_test_{os.getpid()}_{worker}")
    yield databases
    databases.close()


@pytest.fixture
def postgresql_url(postgresql_databases: Databases) -> Iterator[str]:
    """An empty database of the test's own."""
    with postgresql_databases.clone() as url:
        yield url


@pytest.fixture
def postgresql_server() -> Iterator[Server]:
    """A server of the test's own, for tests that stop, restart or starve it. Takes about a second."""
    match launch():
        case Missing() as missing:
            _give_up(missing)
        case server, _source:
            with server:
                yield server
