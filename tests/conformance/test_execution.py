"""The execution cases of others, in the core: what is supported runs as they say, what is not is refused.

An element that is not built yet must be refused when the file is deployed; once it is built, its cases run
here without a change. Annotated cases are decided by the specification; `support.conformance.RULINGS` says
how.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from support.conformance import PAGE_DATA, RULINGS, Case, read_cases, run, same_state, summary

FOLDER = os.environ.get("BPM_CONFORMANCE_DIR", "")
CASES = list(read_cases(Path(FOLDER))) if FOLDER else []
pytestmark = pytest.mark.skipif(
    not FOLDER, reason="BPM_CONFORMANCE_DIR names no folder with conformance cases"
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_case(case: Case) -> None:
    result = run(case)
    if result.unsupported:
        assert result.refusal == ("UNSUPPORTED_ELEMENT",)
        return
    assert result.trace in case.traces, f"{case.id}: {sorted(result.trace.elements())} {result.refusal}"
    states = result.states or ["rejected"]
    assert all(same_state(case.final_state, state) for state in states), (states, case.final_state)


def test_every_doubtful_case_has_a_ruling() -> None:
    assert [case.id for case in CASES if case.doubtful and case.ruling is None] == []


def test_every_ruling_is_about_a_doubtful_case() -> None:
    doubtful = [case.id for case in CASES if case.doubtful]
    assert [key for key in RULINGS if not any(name.startswith(key) for name in doubtful)] == []


def test_most_cases_run() -> None:
    """A suite that refuses everything proves nothing."""
    assert sum(not run(case).unsupported for case in CASES) >= 65


def test_the_page_tells_these_results() -> None:
    on_disk = json.loads(PAGE_DATA.read_text(encoding="utf-8"))
    assert on_disk == summary(Path(FOLDER)), "run tests/support/conformance.py to write them anew"
