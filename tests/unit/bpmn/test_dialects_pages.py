"""The reference pages of the dialects show every row, and their example is a valid one."""

from __future__ import annotations

import re
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from bpm_engine.bpmn.dialects import bpm
from bpm_engine.bpmn.dialects.table import DIALECTS, TableRow, dialect_table
from bpm_engine.bpmn.document import read_document
from bpm_engine.bpmn.parse import parse

_PAGES = Path(__file__).parents[3] / "docs" / "pages"


def rendered(module: str, function: str) -> str:
    return cast("Callable[[], str]", runpy.run_path(str(_PAGES / module))[function])()


@pytest.mark.parametrize(
    ("page", "rows"),
    [
        (
            rendered("dialects.py", "render_dialects"),
            dialect_table(*(dialect for dialect in DIALECTS if not dialect.own)),
        ),
        (rendered("extension.py", "render_extension"), dialect_table(bpm.DIALECT)),
    ],
    ids=["dialects", "extension"],
)
def test_a_page_has_one_line_per_row_and_whole_tables(page: str, rows: tuple[TableRow, ...]) -> None:
    lines = [line for line in page.splitlines() if re.match(r"\| `<?[a-z]+:", line)]
    assert [line.split("`")[1] for line in lines] == sorted_like(page, rows)
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in lines} == {6}


def sorted_like(page: str, rows: tuple[TableRow, ...]) -> list[str]:
    """The extension page shows attributes first; the others keep the order of the table."""
    if page.startswith("# Dialects"):
        return [row.what for row in rows]
    return [row.what for row in sorted(rows, key=lambda row: row.what.startswith("<"))]


def test_the_example_of_the_extension_page_has_no_problem() -> None:
    [example] = re.findall(r"```xml\n(.*?)```", rendered("extension.py", "render_extension"), flags=re.DOTALL)
    definitions, problems = parse(read_document(example.encode()))
    assert problems == []
    assert definitions.processes[0].content.nodes[0].settings.topic == "payment.charge"
