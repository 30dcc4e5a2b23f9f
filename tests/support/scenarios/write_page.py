"""Writes `docs/explanation/semantics-coverage.md` anew from the scenarios: run it after changing them."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "tests"))

from support.scenarios.format import read_scenarios  # noqa: E402 - the path comes first
from support.scenarios.matrix import render  # noqa: E402
from support.scenarios.templates import template_scenarios  # noqa: E402

if __name__ == "__main__":
    scenarios = [*read_scenarios(ROOT / "tests" / "semantics"), *template_scenarios()]
    page = ROOT / "docs" / "explanation" / "semantics-coverage.md"
    page.write_text(render(scenarios), encoding="utf-8")
