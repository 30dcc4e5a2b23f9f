"""Pages that rest on something outside the code: on measured figures, and on tests that exist."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
sys.path.insert(0, str(DOCS))

from pages import bad_inputs, guarantees, performance  # noqa: E402
from publish_figures import condense  # noqa: E402


def test_every_guarantee_names_a_test_that_proves_it_and_how_much_was_tried() -> None:
    assert len(guarantees.GUARANTEES) == 20
    assert all(each.tests and each.figure for each in guarantees.GUARANTEES)


def test_every_row_of_bad_input_has_a_test_and_every_number_of_a_test_a_row() -> None:
    assert set(bad_inputs.CATALOGUE) == set(range(1, 67)) - {62}
    assert all(row.tests for row in bad_inputs.CATALOGUE.values())
    folder = guarantees.TESTS / "engine" / "bad_inputs"
    text = "".join(file.read_text(encoding="utf-8") for file in folder.glob("test_*.py"))
    numbers = {int(number) for number in re.findall(r'(?:^    "|def test_)(\d+)[ _]', text, re.MULTILINE)}
    held_there = {
        number
        for number, row in bad_inputs.CATALOGUE.items()
        if any(test.startswith("engine/bad_inputs/") for test in row.tests)
    }
    assert numbers == held_there


@pytest.mark.parametrize(
    "name",
    ["store/test_apply.py::test_that_was_renamed", "store/test_gone.py::test_a", "store/test_apply.py::"],
)
def test_a_test_that_does_not_exist_is_refused(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    promise = guarantees.Guarantee("promised", "somehow", (name,), "once")
    monkeypatch.setattr(guarantees, "GUARANTEES", (promise,))
    with pytest.raises((ValueError, FileNotFoundError)):
        guarantees.render_guarantees()


def test_published_figures_are_medians_with_their_spread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = {"workload": "W1", "database": "SQLite", "unit": "steps/s", "detail": ""}
    lines = [json.dumps(row | {"value": value}) for value in (900.0, 1500.0, 1000.0)]
    published = tmp_path / "performance.json"
    published.write_text(json.dumps(condense(lines, "2 cores")))
    monkeypatch.setattr(performance, "FIGURES", published)
    page = performance.render_performance()
    assert "2 cores" in page
    assert "| SQLite | W1 | 1,000 | 900 | 1,500 | steps/s |" in page


def test_without_figures_the_page_says_how_to_make_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(performance, "FIGURES", tmp_path / "nothing.json")
    assert "python docs/publish_figures.py" in performance.render_performance()
