"""`docs/reference/problems.md`: every rule a definition is checked against, from the rules themselves."""

from __future__ import annotations

from importlib import import_module
from pkgutil import walk_packages

import bpm_engine.bpmn
from bpm_engine.problems import RULES, Rule, Severity

_INTRODUCTION = """\
# Problems

What `bpm validate` and a deployment can report. Codes are stable: a code never changes its meaning.
An error refuses the definition; a warning does not. Every problem names the element and its line and
comes with a hint; problems of soundness also show a path of element ids that leads there.
"""

_TITLES = {Severity.ERROR: "Errors", Severity.WARNING: "Warnings"}


def render_problems() -> str:
    _import_all_rules()
    rules = sorted(RULES.values(), key=lambda rule: rule.code)
    sections = [_section(severity, rules) for severity in Severity]
    return "\n".join([_INTRODUCTION, *sections])


def _import_all_rules() -> None:
    """A rule is declared where it is checked: importing every module declares them all."""
    for module in walk_packages(bpm_engine.bpmn.__path__, "bpm_engine.bpmn."):
        import_module(module.name)


def _section(severity: Severity, rules: list[Rule]) -> str:
    found = [rule for rule in rules if rule.severity is severity]
    lines = [f"## {_TITLES[severity]}", "", "| code | what it demands | what to do |", "|---|---|---|"]
    lines += [f"| `{rule.code}` | {_cell(rule.meaning)} | {_cell(rule.hint)} |" for rule in found]
    return "\n".join([*lines, ""])


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")
