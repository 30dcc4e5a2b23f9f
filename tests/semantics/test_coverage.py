"""No cell of the coverage matrix is empty without a reason, and each decision has a scenario that defends
it."""

from __future__ import annotations

from pathlib import Path

from support.scenarios.format import read_scenarios
from support.scenarios.matrix import NOT_HERE, cells, empty, render
from support.scenarios.templates import template_scenarios

SCENARIOS = [*read_scenarios(Path(__file__).parent), *template_scenarios()]
PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "semantics-coverage.md"


def test_no_cell_is_empty_without_a_reason() -> None:
    assert empty(cells(SCENARIOS)) == []


def test_a_cell_that_loses_its_scenarios_is_named() -> None:
    filled = cells(SCENARIOS)
    for (element, position), outcome in filled:
        rest = {cell: names for cell, names in filled.items() if cell != ((element, position), outcome)}
        assert empty(rest) == [f"{element}, {position}: {outcome}"]


def test_every_decision_is_defended_or_not_built() -> None:
    defended = {number for scenario in SCENARIOS for number in scenario.decides}
    assert defended | NOT_HERE.keys() == set(range(1, 25))
    assert not defended & NOT_HERE.keys()


def test_names_are_unique() -> None:
    names = [scenario.id for scenario in SCENARIOS]
    assert sorted(set(names)) == sorted(names)


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == render(SCENARIOS), (
        "write it anew: python tests/support/scenarios/write_page.py"
    )
