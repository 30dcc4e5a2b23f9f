"""How failures are told: expected against actual, and a small timeline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from difflib import SequenceMatcher
from typing import Any

from bpm_engine.api.views import InstanceView, StepView

NOTHING = "(nothing)"
MISSING = "(not set)"
LONGEST = 40  # steps of a timeline: the last ones tell most


def listed(names: Sequence[str]) -> str:
    return ", ".join(names)


def compared(expected: Sequence[str], actual: Sequence[str]) -> list[str]:
    """Both in one line each, and where they differ: `-` is missing, `+` is too much."""
    lines = [f"  expected: {listed(expected) or NOTHING}", f"  actual:   {listed(actual) or NOTHING}"]
    if len(expected) > 1 or len(actual) > 1:
        lines.append(f"  differs:  {' '.join(_differences(expected, actual))}")
    return lines


def _differences(expected: Sequence[str], actual: Sequence[str]) -> list[str]:
    parts: list[str] = []
    for kind, low, high, start, stop in SequenceMatcher(a=expected, b=actual, autojunk=False).get_opcodes():
        if kind == "equal":
            parts.append("…" if high - low > 1 else expected[low])
        else:
            parts += [f"-{name}" for name in expected[low:high]]
            parts += [f"+{name}" for name in actual[start:stop]]
    return parts


def compared_variables(expected: Mapping[str, Any], actual: Mapping[str, Any]) -> list[str]:
    """One pair of lines per variable that differs."""
    lines: list[str] = []
    for name, value in expected.items():
        if name not in actual or actual[name] != value:
            found = repr(actual[name]) if name in actual else MISSING
            lines += [f"  expected: {name} = {value!r}", f"  actual:   {name} = {found}"]
    return lines


def timeline(view: InstanceView, steps: Sequence[StepView]) -> list[str]:
    """One line per node: when after the start, which, how it ended, what it waits for."""
    waits = {token.node_id: token.waiting_for for token in view.tokens}
    width = max((len(step.node_id) for step in steps), default=0)
    lines = [f"    … {len(steps) - LONGEST} earlier"] if len(steps) > LONGEST else []
    for step in steps[-LONGEST:]:
        when = _after(step.started_at - view.started_at)
        told = f"    {when:>8}  {step.node_id:<{width}}  {step.status}{_remark(step, waits)}"
        lines.append(told.rstrip())
    return lines or ["    (nothing happened)"]


def _remark(step: StepView, waits: Mapping[str, str | None]) -> str:
    if step.status == "failed" and step.error:
        return f": {step.error.get('code', '')}: {step.error.get('message', '')}"
    if step.status == "running" and waits.get(step.node_id):
        return f", waits for {waits[step.node_id]}"
    return f" at attempt {step.attempts}" if step.attempts > 1 else ""


def _after(length: timedelta) -> str:
    hours, rest = divmod(length.seconds, 3600)
    minutes, seconds = divmod(rest, 60)
    parts = [(length.days, "d"), (hours, "h"), (minutes, "m"), (seconds, "s")]
    told = [f"{number}{unit}" for number, unit in parts if number][:2]
    return "+" + ("".join(told) or "0s")
