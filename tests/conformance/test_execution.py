"""The execution cases of others, in the core: each ends as the page of the reference says.

Annotated cases are decided by the specification; `support.conformance.RULINGS` says how.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from support.conformance import RULINGS, Case, read_cases, run, verdict
from support.conformance_page import PAGE_DATA, rulings, told

FOLDER = os.environ.get("BPM_CONFORMANCE_DIR", "")
CASES = list(read_cases(Path(FOLDER))) if FOLDER else []
pytestmark = pytest.mark.skipif(
    not FOLDER, reason="BPM_CONFORMANCE_DIR names no folder with conformance cases"
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_case(case: Case) -> None:
    result = run(case)
    found = verdict(case, result)
    assert found in ("passed", "ruled"), f"{case.id}: {sorted(result.trace.elements())} {result}"
    assert found == told()[case.id]["core"]


def test_every_doubtful_case_has_a_ruling() -> None:
    assert [case.id for case in CASES if case.doubtful and case.ruling is None] == []


def test_every_ruling_is_about_a_doubtful_case() -> None:
    doubtful = [case.id for case in CASES if case.doubtful]
    assert [key for key in RULINGS if not any(name.startswith(key) for name in doubtful)] == []


def test_the_page_tells_of_every_case_and_ruling() -> None:
    on_disk = json.loads(PAGE_DATA.read_text(encoding="utf-8"))
    assert list(on_disk["cases"]) == [case.id for case in CASES], "run tests/support/conformance_page.py"
    assert on_disk["rulings"] == rulings(CASES), "run tests/support/conformance_page.py"
