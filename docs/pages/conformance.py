"""The page of conformance cases, made from `conformance.json`.

`tests/support/conformance_page.py` writes that file. The cases themselves are data of others and not part of
this project; their results are.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).with_name("conformance.json")
PLACES = {"core": "core", "sqlite": "engine on SQLite", "postgresql": "engine on PostgreSQL"}
Cases = dict[str, dict[str, str]]

_INTRODUCTION = """\
# Conformance cases

The BPMN Engine Test System (betsy, University of Bamberg) holds execution cases written by others: a
process, its input and the trace it should leave. Each runs three times, in manual time: in the core alone;
through an engine on SQLite that forgets everything between two steps; and through two engines that take turns
on one PostgreSQL database. A case passes when it leaves the declared trace and its instances end as declared.

"""


def render_conformance() -> str:
    results = json.loads(RESULTS.read_text(encoding="utf-8"))
    return _INTRODUCTION + _scores(results["cases"]) + _not_passing(results) + _rulings(results["rulings"])


def _scores(cases: Cases) -> str:
    groups: dict[str, Counter[str]] = {}
    for case, verdicts in cases.items():
        counts = groups.setdefault(case.partition("/")[0], Counter())
        counts["cases"] += 1
        counts.update(place for place, verdict in verdicts.items() if verdict == "passed")
        counts["contradict"] += "ruled" in verdicts.values()
        counts["fail"] += any(verdict not in ("passed", "ruled") for verdict in verdicts.values())
    columns = ["cases", *PLACES, "contradict", "fail"]
    rows = [(name, [groups[name][column] for column in columns]) for name in sorted(groups)]
    rows.append(("**all**", [sum(numbers[at] for _, numbers in rows) for at in range(len(columns))]))
    passes = " | ".join(f"pass: {place}" for place in PLACES.values())
    head = (
        f"| group | cases | {passes} | contradict the specification | fail |\n|---|---|---|---|---|---|---|\n"
    )
    return head + "".join(f"| {name} | {' | '.join(map(str, numbers))} |\n" for name, numbers in rows)


_NOT_PASSING = """
## Cases that do not pass

Each of them declares a trace that the specification, or the file itself, does not allow. They run in all
three places too, and leave the trace that the specification asks for.

| case | why the declared trace cannot be |
|---|---|
"""


def _not_passing(results: dict[str, Any]) -> str:
    rows = [
        f"| {case} | {ruling['reason']} |\n"
        for case, ruling in results["rulings"].items()
        if ruling["differs"]
    ]
    failing = [
        f"| {case} | it fails: {', '.join(f'{place} {verdict}' for place, verdict in verdicts.items())} |\n"
        for case, verdicts in results["cases"].items()
        if any(verdict not in ("passed", "ruled") for verdict in verdicts.values())
    ]
    return _NOT_PASSING + "".join(rows + failing)


_DOUBTFUL = """
## Doubtful cases that pass

Cases that are marked as contested or dependent on scheduling, and what decides them here.

| case | what decides |
|---|---|
"""


def _rulings(rulings: dict[str, dict[str, Any]]) -> str:
    rows = [f"| {case} | {ruling['reason']} |\n" for case, ruling in rulings.items() if not ruling["differs"]]
    return _DOUBTFUL + "".join(rows)
