"""Problems of a file, told alike by `bpm validate` and `bpm deploy`: for people and for programs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from bpm_engine.bpmn.draw.text import visible
from bpm_engine.problems import Problem, Severity


def problem_lines(path: Path, problem: Problem) -> Iterator[str]:
    """Place, severity and words; below them the path that leads there and what to do."""
    name = visible(str(path))
    place = f"{name}:{problem.line}" if problem.line else name
    tint = "red" if problem.severity is Severity.ERROR else "yellow"
    severity = click.style(f"{problem.severity} {problem.code}", fg=tint)
    element = f" ({visible(problem.element_id)})" if problem.element_id else ""
    yield f"{click.style(place, bold=True)}: {severity}: {visible(problem.message)}{element}"
    trace = visible(" → ".join(problem.trace))
    if trace and trace not in visible(problem.message):
        yield f"    path: {trace}"
    if problem.hint:
        yield click.style(f"    hint: {visible(problem.hint)}", dim=True)


def problem_data(problem: Problem) -> dict[str, object]:
    return {
        "code": problem.code,
        "severity": problem.severity.value,
        "message": problem.message,
        "element": problem.element_id,
        "line": problem.line,
        "hint": problem.hint,
        "trace": list(problem.trace),
    }
