"""How often the database failed in `make faults`: a run that met no fault is green and proves nothing.

Each test hands over what happened while it ran, so that the figures of all workers come together. In a run
of many tests every kind of fault must have happened, or the run fails.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Generator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from _pytest.terminal import TerminalReporter

FAULTS = "faults"
MANY = 500  # tests


def pytest_configure(config: pytest.Config) -> None:
    if "BPM_TEST_FAULTS" in os.environ:
        config.pluginmanager.register(FaultCounts())


class FaultCounts:
    def __init__(self) -> None:
        from support.faulty import HAPPENED, KINDS  # with the engine, which others import later

        self._happened = HAPPENED
        self._kinds = KINDS
        self._met: list[Counter[str]] = []  # by each test; where the reports of all workers arrive

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None, object, object]:
        try:
            return (yield)
        finally:
            item.user_properties.append((FAULTS, dict(self._happened)))
            self._happened.clear()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for name, faults in report.user_properties:
            if name == FAULTS and isinstance(faults, dict):
                self._met.append(Counter(faults))

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if session.exitstatus == pytest.ExitCode.OK and self._missing():
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: TerminalReporter) -> None:
        sums = self._sums()
        told = ", ".join(f"{sums[kind]:,} {kind}" for kind in self._kinds)
        touched = sum(any(each.values()) for each in self._met)
        terminalreporter.section("faults of the database")
        terminalreporter.line(f"{told}; in {touched:,} of {len(self._met):,} tests")
        for kind in self._missing():
            terminalreporter.line(f"FAILED: no fault of the kind {kind!r}, this run proves nothing about it")

    def _sums(self) -> Counter[str]:
        return sum(self._met, Counter())

    def _missing(self) -> list[str]:
        sums = self._sums()
        return [kind for kind in self._kinds if not sums[kind]] if len(self._met) >= MANY else []
