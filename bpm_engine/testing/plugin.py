"""For pytest, found by its entry point: a fixture that makes engines, and coverage of processes over a run.

    def test_order(bpm_engine):
        engine = bpm_engine("processes/order.bpmn")

`--bpm-coverage=DIR` writes what the tests have run of each process, as text and as pictures, also when
pytest-xdist spreads them over several processes. Who uses neither pays for the import of this file only.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from bpm_engine.testing.coverage import Coverage
    from bpm_engine.testing.engine import TestEngine

OPTION = "--bpm-coverage"
SESSION = "bpm-engine-coverage"
SENT = "bpm_engine_coverage"  # what a worker of pytest-xdist sends to the main process


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("bpm-engine", "tests of BPMN processes")
    group.addoption(
        OPTION,
        metavar="DIR",
        type=Path,
        help="write which nodes and flows of each process the tests have run",
    )


def pytest_configure(config: pytest.Config) -> None:
    directory = config.getoption(OPTION)
    if directory is not None:
        config.pluginmanager.register(CoverageSession(config, directory), SESSION)


@pytest.fixture
def bpm_engine() -> Iterator[Callable[..., TestEngine]]:
    """Makes engines as `TestEngine` does, each with a clock of its own; they are closed after the test."""
    from bpm_engine.testing.engine import TestEngine

    opened: list[TestEngine] = []

    def make(*files: str | bytes | Path, **settings: Any) -> TestEngine:
        engine = TestEngine(*files, **settings)
        opened.append(engine)
        return engine

    yield make
    for engine in opened:
        engine.close()


class CoverageSession:
    """Reads every engine of a run at the end of each test that may have used it."""

    def __init__(self, config: pytest.Config, directory: Path) -> None:
        from bpm_engine.testing.coverage import Coverage
        from bpm_engine.testing.engine import watch

        self._config = config
        self._directory = directory
        self._new: list[TestEngine] = []  # a test may drop its engine before we have read it
        self._known: weakref.WeakKeyDictionary[TestEngine, Coverage] = weakref.WeakKeyDictionary()
        self._total = Coverage()
        self._stop = watch(self)

    # -------------------------------------------------------------- engines

    def opened(self, engine: TestEngine) -> None:
        self._new.append(engine)

    def closing(self, engine: TestEngine) -> None:
        self._read(engine)
        if engine in self._new:
            self._new.remove(engine)

    def _read(self, engine: TestEngine) -> None:
        """What it has done by now, instead of what it had done when it was last read."""
        from bpm_engine.testing.coverage import Coverage

        if not engine.is_closed:
            read = Coverage.of(engine)
            known = self._known.get(engine)
            if known is None:
                self._known[engine] = read
                weakref.finalize(engine, self._total.merge, read)
            else:
                known.files = read.files

    # -------------------------------------------------------------- hooks

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self) -> Generator[None, None, None]:
        for engine in (*self._new, *self._known):
            self._read(engine)
        self._new.clear()
        yield

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        """A worker of pytest-xdist has ended."""
        from bpm_engine.testing.coverage import Coverage

        sent = getattr(node, "workeroutput", {}).get(SENT)
        if sent is not None:
            self._total.merge(Coverage.from_figures(sent))

    def pytest_sessionfinish(self) -> None:
        self._stop()
        for engine in self._new:
            self._read(engine)
        self._new.clear()
        output = getattr(self._config, "workeroutput", None)
        if output is not None:
            output[SENT] = self._everything().figures()

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        coverage = self._everything()
        coverage.write(self._directory)
        terminalreporter.section("coverage of processes")
        terminalreporter.write_line(coverage.text() or "no test has used an engine")
        terminalreporter.write_line(f"pictures are in {self._directory}")

    def _everything(self) -> Coverage:
        from bpm_engine.testing.coverage import Coverage

        whole = Coverage()
        for part in (self._total, *self._known.values()):
            whole.merge(part)
        return whole
