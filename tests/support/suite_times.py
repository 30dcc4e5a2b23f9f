"""How long each suite took: the folders right under `tests/`, added up over all workers.

Continuous integration has fifteen minutes on two cores; `docs/explanation/testing.md` gives each suite its
share. This is the figure to hold against it.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from _pytest.terminal import TerminalReporter


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: TerminalReporter) -> None:
    seconds: defaultdict[str, float] = defaultdict(float)
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                seconds[_suite(report.nodeid)] += report.duration
    if len(seconds) > 1:
        terminalreporter.section("seconds of work per suite")
        for suite, duration in sorted(seconds.items(), key=lambda item: -item[1]):
            terminalreporter.line(f"{duration:8.1f}  {suite}")


def _suite(nodeid: str) -> str:
    """`tests/unit/bpmn/test_parse.py::test_x` belongs to `tests/unit`."""
    return "/".join(nodeid.partition("::")[0].split("/")[:2])
