"""The count of injected faults in real pytest runs: a run that met none must not pass for a proof."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.fault_counts import MANY

pytest_plugins = ["pytester"]

ROOT = Path(__file__).parent.parent.parent
TESTS = f"""
    import pytest
    from support.faulty import Faults, KINDS

    faults = Faults(seed=1, rate=1.0)

    @pytest.mark.parametrize("number", range({MANY}))
    def test_of_an_engine(number):
        for kind in KINDS[:{{kinds}}] if number < {{touched}} else ():
            faults._strikes(kind)
"""


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    monkeypatch.setenv("PYTHONPATH", f"{ROOT / 'tests'}:{ROOT}")
    monkeypatch.setenv("BPM_TEST_FAULTS", "1")
    return pytester


def result_of(run: pytest.Pytester, *options: str) -> pytest.RunResult:
    result = run.runpytest_subprocess("-q", "-p", "support.fault_counts", *options)
    result.assert_outcomes(passed=MANY)
    return result


def test_faults_of_all_workers_are_added_up(run: pytest.Pytester) -> None:
    run.makepyfile(TESTS.format(kinds=3, touched=40))
    result = result_of(run, "-n", "2")
    result.stdout.fnmatch_lines(f"40 serialisation, 40 timeout, 40 commit lost; in 40 of {MANY} tests")
    assert result.ret == pytest.ExitCode.OK


def test_a_run_without_one_kind_of_fault_fails(run: pytest.Pytester) -> None:
    run.makepyfile(TESTS.format(kinds=2, touched=MANY))
    result = result_of(run)
    result.stdout.fnmatch_lines("*no fault of the kind 'commit lost'*")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
