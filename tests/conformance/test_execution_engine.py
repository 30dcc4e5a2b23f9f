"""The execution cases of others through whole engines: the same traces, the same ends.

On SQLite each step is made by an engine that knows nothing of the steps before; on PostgreSQL two engines
take turns.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from support.conformance import Case, read_cases, verdict
from support.conformance_engine import run_on
from support.conformance_page import told
from support.scenarios.engine_driver import Engines

from bpm_engine.engine import Engine

FOLDER = os.environ.get("BPM_CONFORMANCE_DIR", "")
CASES = list(read_cases(Path(FOLDER))) if FOLDER else []
pytestmark = pytest.mark.skipif(
    not FOLDER, reason="BPM_CONFORMANCE_DIR names no folder with conformance cases"
)


def _hold(case: Case, place: str, engines: Engines, engine: Callable[[], Engine]) -> None:
    result = run_on(engines, engine, case)
    found = verdict(case, result)
    assert found in ("passed", "ruled"), f"{case.id}: {sorted(result.trace.elements())} {result}"
    assert found == told()[case.id][place]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_case_on_sqlite(case: Case, engines_on_sqlite: Engines) -> None:
    _hold(case, "sqlite", engines_on_sqlite, engines_on_sqlite.fresh)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_case_on_postgresql(case: Case, engines_on_postgresql: Engines) -> None:
    _hold(case, "postgresql", engines_on_postgresql, engines_on_postgresql.either)
