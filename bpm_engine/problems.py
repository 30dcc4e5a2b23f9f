"""What can be wrong with a process definition.

A `Rule` is declared once, next to the code that checks it, and carries everything a reader needs:
a stable code, a severity, one sentence of meaning and one of advice. `RULES` collects them all;
`docs/reference/problems.md` is generated from it. A `Problem` is one finding of a rule at one place.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum


class Severity(StrEnum):
    ERROR = "error"  # the definition is refused
    WARNING = "warning"  # deployed, but the author should look


@dataclass(frozen=True, slots=True)
class Problem:
    code: str
    severity: Severity
    message: str
    element_id: str | None = None
    line: int | None = None
    hint: str = ""
    trace: tuple[str, ...] = ()  # element ids, for soundness: how to get there

    def __str__(self) -> str:
        place = f"line {self.line}: " if self.line else ""
        element = f" ({self.element_id})" if self.element_id else ""
        return f"{place}{self.severity} {self.code}: {self.message}{element}"


@dataclass(frozen=True, slots=True)
class Rule:
    code: str  # SCREAMING_SNAKE, stable for ever
    severity: Severity
    meaning: str  # one sentence: what the rule demands, citing the clause of BPMN 2.0.2 where there is one
    hint: str  # one sentence: what the author should do

    def at(
        self,
        message: str,
        *,
        element_id: str | None = None,
        line: int | None = None,
        hint: str | None = None,
        trace: tuple[str, ...] = (),
    ) -> Problem:
        return Problem(self.code, self.severity, message, element_id, line, hint or self.hint, trace)


RULES: dict[str, Rule] = {}


def rule(code: str, severity: Severity, meaning: str, hint: str) -> Rule:
    """Declare a rule. Codes are unique over the whole package."""
    if code in RULES:
        raise ValueError(f"rule {code} is declared twice")
    RULES[code] = Rule(code, severity, meaning, hint)
    return RULES[code]


def error(code: str, meaning: str, hint: str) -> Rule:
    return rule(code, Severity.ERROR, meaning, hint)


def warning(code: str, meaning: str, hint: str) -> Rule:
    return rule(code, Severity.WARNING, meaning, hint)


@dataclass(slots=True)
class Findings:
    """Collects problems during one pass over one file; all of them, not only the first."""

    problems: list[Problem] = field(default_factory=list)

    def add(self, problem: Problem) -> None:
        self.problems.append(problem)

    def extend(self, problems: Iterable[Problem]) -> None:
        self.problems.extend(problems)

    @property
    def errors(self) -> list[Problem]:
        return [p for p in self.problems if p.severity is Severity.ERROR]

    def in_order(self) -> tuple[Problem, ...]:
        """By line, then severity, then code: the order a person reads a file in."""
        return tuple(
            sorted(
                set(self.problems),
                key=lambda p: (p.line or 0, p.severity.value, p.code, p.element_id or "", p.message),
            )
        )
