"""The plugin in real pytest runs, found by the entry point that the package declares."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

ROOT = Path(__file__).parent.parent.parent
ORDER = ROOT / "processes" / "order.bpmn"


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A user's project where bpm-engine is installed, as far as pytest can see."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["pytest11"]
    installed = pytester.mkdir("site") / "bpm_engine_here-0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: bpm-engine-here\nVersion: 0\n")
    lines = [f"{name} = {module}" for name, module in declared.items()]
    (installed / "entry_points.txt").write_text("\n".join(["[pytest11]", *lines, ""]))
    monkeypatch.setenv("PYTHONPATH", f"{installed.parent}:{ROOT}")
    return pytester


def _engine_test(project: pytest.Pytester) -> None:
    project.makepyfile(
        test_order=f"""
        import pytest

        @pytest.mark.parametrize("valid", [True, False])
        def test_order(bpm_engine, valid):
            engine = bpm_engine({str(ORDER)!r})
            for topic in ("stock.reserve", "payment.charge", "shipping.book", "mail.send"):
                engine.stub(topic, returns={{"receipt": {{"id": 7}}}})
            engine.stub("order.check", returns={{"valid": valid}})
            order = engine.start("order", {{"total": 12}})
            engine.run_until_idle()
            engine.expect(order).completed()
        """
    )


def test_the_fixture_makes_engines(project: pytest.Pytester) -> None:
    _engine_test(project)
    project.runpytest_subprocess("-q").assert_outcomes(passed=2)


def test_a_failed_expectation_is_told_without_the_frames_of_the_kit(project: pytest.Pytester) -> None:
    project.makepyfile(
        f"""
        def test_order(bpm_engine):
            engine = bpm_engine({str(ORDER)!r})
            order = engine.start("order")
            engine.expect(order).waiting_at("book_shipment")
        """
    )
    result = project.runpytest_subprocess()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E *expected: book_shipment", "E *actual:   check_order", "E *timeline:"])
    result.stdout.no_fnmatch_line("*expectation.py*")


def test_who_does_not_use_it_notices_nothing(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        import sys

        def test_nothing():
            assert "bpm_engine.testing.plugin" in sys.modules
            heavy = {"sqlalchemy", "lxml", "networkx", "alembic", "msgspec", "bpm_engine.engine"}
            assert not heavy & set(sys.modules)
        """
    )
    project.runpytest_subprocess("-W", "error").assert_outcomes(passed=1)


@pytest.mark.parametrize("spread", [(), ("-n", "2")], ids=["one process", "xdist"])
def test_coverage_is_added_up_over_the_run(project: pytest.Pytester, spread: tuple[str, ...]) -> None:
    _engine_test(project)
    project.makepyfile(
        test_other=f"""
        from bpm_engine.testing import TestEngine

        def test_closed_by_hand():
            with TestEngine({str(ORDER)!r}) as engine:
                engine.start("order")
        """
    )
    result = project.runpytest_subprocess("--bpm-coverage=out", *spread)
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(
        ["*coverage of processes*", "order: 14 of 18 flows, 15 of 25 nodes, 3 instances"]
    )
    told = (project.path / "out" / "coverage.txt").read_text()
    assert "not taken: flow_apologised (apologise -> order_cancelled)" in told
    picture = (project.path / "out" / "order.svg").read_text()
    assert "<svg" in picture
    assert "3×" in picture  # order_received, by all three


def test_an_engine_of_several_tests_is_counted_once(project: pytest.Pytester) -> None:
    project.makepyfile(
        f"""
        import pytest
        from bpm_engine.testing import TestEngine

        @pytest.fixture(scope="module")
        def engine():
            return TestEngine({str(ORDER)!r})

        @pytest.mark.parametrize("number", range(3))
        def test_start(engine, number):
            engine.start("order")
        """
    )
    result = project.runpytest_subprocess("--bpm-coverage=out")
    result.stdout.fnmatch_lines(["order: 1 of 18 flows, 2 of 25 nodes, 3 instances"])
