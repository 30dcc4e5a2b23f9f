"""The reference page names exactly what the library holds, and every code an error can have."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bpm_engine.bpmn.expressions.library.feel import FEEL_FUNCTIONS
from bpm_engine.bpmn.expressions.library.functions import Library
from bpm_engine.bpmn.expressions.library.methods import JUEL_METHODS
from bpm_engine.bpmn.expressions.library.plain import PLAIN_FUNCTIONS

PROJECT = Path(__file__).parents[3]
PAGE = (PROJECT / "docs" / "reference" / "expressions.md").read_text(encoding="utf-8")
SOURCES = (PROJECT / "bpm_engine" / "bpmn" / "expressions").rglob("*.py")


@pytest.mark.parametrize(
    ("library", "begin", "end"),
    [
        (PLAIN_FUNCTIONS, "### Plain and JUEL", "### FEEL"),
        (FEEL_FUNCTIONS, "### FEEL", "### Patterns"),
        (JUEL_METHODS, "before the dot:", "Without arguments"),
    ],
    ids=["plain", "feel", "methods"],
)
def test_every_function_is_listed_with_its_signature(library: Library, begin: str, end: str) -> None:
    section = PAGE.split(begin)[1].split(end)[0]
    listed = set(re.findall(r"`([^`]+\([^`]*\))`", section.split("be repeated:")[-1].split("and:")[-1]))
    assert listed == {function.signature for function in library.values()}


def test_every_code_is_explained() -> None:
    used = set()
    for source in SOURCES:
        used |= set(re.findall(r'ExpressionError\(\s*"([A-Z_]+)"', source.read_text(encoding="utf-8")))
    assert used
    assert all(f"`{code}`" in PAGE for code in used)
