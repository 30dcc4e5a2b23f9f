"""The page of conformance cases, made from `conformance.json`, which the test runner of the cases writes.

The cases themselves are data of others and not part of this project; their results are.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).with_name("conformance.json")

_INTRODUCTION = """# Conformance cases

The BPMN Engine Test System (betsy, University of Bamberg) holds execution cases written by others: a process, its
input and the trace it should leave. They run in the core, in manual time. A case that uses an element which is
not built yet must be refused when it is deployed, with `UNSUPPORTED_ELEMENT`.

| group | pass | fail | refused: not built yet |
|---|---|---|---|
"""


def render_conformance() -> str:
    results = json.loads(RESULTS.read_text(encoding="utf-8"))
    return (
        _INTRODUCTION
        + _groups(results["groups"])
        + _missing(results["not_built"])
        + _rulings(results["rulings"])
    )


def _groups(groups: dict[str, dict[str, int]]) -> str:
    rows = [
        (name, *(counts.get(kind, 0) for kind in ("passed", "failed", "not_built")))
        for name, counts in groups.items()
    ]
    total = ("**all**", *(sum(int(row[column]) for row in rows) for column in (1, 2, 3)))
    return "".join(
        f"| {name} | {passed} | {failed} | {refused} |\n" for name, passed, failed, refused in [*rows, total]
    )


def _missing(not_built: dict[str, int]) -> str:
    if not not_built:
        return ""
    rows = "".join(f"| {what} | {count} |\n" for what, count in not_built.items())
    return (
        f"\nWhat keeps cases from running, and in how many of them:\n\n| element | cases |\n|---|---|\n{rows}"
    )


def _rulings(rulings: dict[str, dict[str, Any]]) -> str:
    rows = "".join(
        f"| {case} | {'differ' if ruling['differs'] else 'agree'} | {ruling['reason']} |\n"
        for case, ruling in rulings.items()
    )
    head = (
        "\n## Doubtful cases\n\nCases whose declared trace is defective, contested or depends on scheduling are decided "
        "by the\nspecification. Where we differ from the declared trace, the reason says why.\n\n"
    )
    return f"{head}| case | with the declared trace we | reason |\n|---|---|---|\n{rows}"
