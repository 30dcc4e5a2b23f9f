"""The page of conformance cases, made from `conformance.json`, which the test runner of the cases writes.

The cases themselves are data of others and not part of this project; their results are.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).with_name("conformance.json")

_INTRODUCTION = """# Conformance cases

The BPMN Engine Test System (betsy, University of Bamberg) holds execution cases written by others: a
process, its input and the trace it should leave. They run in the core, in manual time. A case that uses an
element which is not built yet must be refused when it is deployed, with `UNSUPPORTED_ELEMENT`.

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
    kinds = ("passed", "failed", "not_built")
    rows = [(name, [counts.get(kind, 0) for kind in kinds]) for name, counts in groups.items()]
    rows.append(("**all**", [sum(numbers[column] for _, numbers in rows) for column in range(len(kinds))]))
    return "".join(f"| {name} | {' | '.join(map(str, numbers))} |\n" for name, numbers in rows)


def _missing(not_built: dict[str, int]) -> str:
    if not not_built:
        return ""
    rows = "".join(f"| {what} | {count} |\n" for what, count in not_built.items())
    return (
        f"\nWhat keeps cases from running, and in how many of them:\n\n| element | cases |\n|---|---|\n{rows}"
    )


_DOUBTFUL = """
## Doubtful cases

Cases whose declared trace is defective, contested or depends on scheduling are decided by the
specification. Where we differ from the declared trace, the reason says why.

| case | with the declared trace we | reason |
|---|---|---|
"""


def _rulings(rulings: dict[str, dict[str, Any]]) -> str:
    rows = [
        f"| {case} | {'differ' if ruling['differs'] else 'agree'} | {ruling['reason']} |\n"
        for case, ruling in rulings.items()
    ]
    return _DOUBTFUL + "".join(rows)
