"""The execution cases of others through whole engines: the same traces, the same ends.

On SQLite each step is made by an engine that knows nothing of the steps before; on PostgreSQL two engines
take turns.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from support.conformance import Case, read_cases, run, same_state
from support.conformance_engine import run_on
from support.scenarios.engine_driver import Engines

from bpm_engine.engine import Engine

FOLDER = os.environ.get("BPM_CONFORMANCE_DIR", "")
CASES = [case for case in read_cases(Path(FOLDER)) if not run(case).unsupported] if FOLDER else []
pytestmark = pytest.mark.skipif(
    not FOLDER, reason="BPM_CONFORMANCE_DIR names no folder with conformance cases"
)


def _hold(case: Case, engines: Engines, engine: Callable[[], Engine]) -> None:
    result = run_on(engines, engine, case)
    assert result.trace in case.traces, f"{case.id}: {sorted(result.trace.elements())} {result.refusal}"
    states = result.states or ["rejected"]
    assert all(same_state(case.final_state, state) for state in states), (states, case.final_state)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_case_on_sqlite(case: Case, engines_on_sqlite: Engines) -> None:
    _hold(case, engines_on_sqlite, engines_on_sqlite.fresh)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_case_on_postgresql(case: Case, engines_on_postgresql: Engines) -> None:
    _hold(case, engines_on_postgresql, engines_on_postgresql.either)
