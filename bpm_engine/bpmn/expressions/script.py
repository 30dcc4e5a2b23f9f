"""Script tasks: assignments in the expression language, one per line, or one bare expression.

Later lines see what earlier lines assigned. A line goes on while a bracket is open. Nothing but the
names assigned is written, and the variables passed in are never changed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from bpm_engine.bpmn.expressions import limits
from bpm_engine.bpmn.expressions.compiler import Locals
from bpm_engine.bpmn.expressions.errors import ExpressionError
from bpm_engine.bpmn.expressions.expression import Expression, Notation, compile_expression
from bpm_engine.bpmn.expressions.lexer import syntax_error
from bpm_engine.bpmn.expressions.values import Lookup, Value, check_result, kind, mismatch

MOST_LINES = 200
_TARGET = re.compile(r"\s*([^\W\d]\w*(?:\s*\.\s*[^\W\d]\w*)*)\s*=(?![=~])\s*", re.DOTALL)
_AUGMENTED = re.compile(r"\s*[^\W\d]\w*\s*[-+*/]=")


@dataclass(frozen=True, slots=True)
class Assignment:
    """`name = expression`, or `name.key.key = expression`."""

    name: str
    path: tuple[str, ...]
    expression: Expression


@dataclass(frozen=True, slots=True)
class Script:
    """Immutable; equal by text and notation; pickled as text and compiled again on loading."""

    source: str
    notation: Notation
    assignments: tuple[Assignment, ...] = field(compare=False, repr=False, default=())
    result: Expression | None = field(compare=False, repr=False, default=None)
    """The expression of a script that is one bare expression; the caller decides where it goes."""

    @property
    def reads(self) -> frozenset[str]:
        if self.result is not None:
            return self.result.reads
        read: set[str] = set()
        written: set[str] = set()
        for assignment in self.assignments:
            needed = assignment.expression.reads | ({assignment.name} if assignment.path else set())
            read |= needed - written
            written.add(assignment.name)
        return frozenset(read)

    @property
    def writes(self) -> frozenset[str]:
        return frozenset(assignment.name for assignment in self.assignments)

    def run(self, variables: Mapping[str, Any], now: datetime | None = None) -> dict[str, Value]:
        """The variables the script assigns; nothing for a bare expression (evaluate `result` for that)."""
        written: dict[str, Value] = {}
        scope: Any = Locals(written, variables)
        for assignment in self.assignments:
            value = assignment.expression.evaluate(scope, now)
            try:
                written[assignment.name] = check_result(_assigned(scope, assignment, value))
            except ExpressionError as error:
                raise error.within(self.source) from None
        return written

    def __reduce__(self) -> tuple[Callable[..., Script], tuple[str, str]]:
        return _recompile, (self.source, self.notation.value)


def compile_script(source: str, *, notation: Notation = Notation.PLAIN) -> Script:
    try:
        if len(source) > limits.SCRIPT_CHARACTERS:
            raise limits.exceeded(f"the script is longer than {limits.SCRIPT_CHARACTERS} characters", 0)
        statements = _statements(source)
    except ExpressionError as error:
        raise error.within(source) from None
    if len(statements) == 1 and not _TARGET.match(statements[0][1]):
        return Script(source, notation, result=_expression(source, *statements[0], notation))
    assignments = tuple(_assignment(source, start, text, notation) for start, text in statements)
    return Script(source, notation, assignments)


def _recompile(source: str, notation: str) -> Script:
    return compile_script(source, notation=Notation(notation))


def _statements(source: str) -> list[tuple[int, str]]:
    """The statements and where each begins: lines, joined while a bracket is open; `#` lines are comments."""
    statements: list[tuple[int, str]] = []
    place, start, pending = 0, 0, ""
    for line in source.splitlines(keepends=True):
        if not pending:
            start = place
        place += len(line)
        if not pending and (not line.strip() or re.match(r"\s*#(?!\{)", line)):
            continue
        pending += line
        if _open_brackets(pending) <= 0:
            statements.append((start, pending.rstrip().removesuffix(";")))
            pending = ""
    if pending:
        statements.append((start, pending))
    if not statements:
        raise syntax_error("the script is empty", 0)
    if len(statements) > MOST_LINES:
        raise limits.exceeded(f"the script has more than {MOST_LINES} statements", statements[MOST_LINES][0])
    return statements


def _open_brackets(text: str) -> int:
    without_texts = re.sub(r""""(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'""", "", text)
    return sum(map(without_texts.count, "([{")) - sum(map(without_texts.count, ")]}"))


def _assignment(source: str, start: int, text: str, notation: Notation) -> Assignment:
    found = _TARGET.match(text)
    if found is None:
        hint = "write x = x + 1" if _AUGMENTED.match(text) else "write name = expression, one per line"
        raise ExpressionError("SYNTAX", f"this is no assignment; {hint}", start, source)
    name, *path = (part.strip() for part in found[1].split("."))
    if any(part.startswith("__") for part in (name, *path)):
        raise ExpressionError("SYNTAX", "names beginning with two underscores are refused", start, source)
    expression = _expression(source, start + found.end(), text[found.end() :], notation)
    return Assignment(name, tuple(path), expression)


def _expression(source: str, start: int, text: str, notation: Notation) -> Expression:
    try:
        return compile_expression(text, notation=notation)
    except ExpressionError as error:
        position = None if error.position is None else error.position + start
        raise ExpressionError(error.code, error.message, position, source) from None


def _assigned(scope: Lookup, assignment: Assignment, value: Value) -> Value:
    """The new value of the variable: for a path, a copy of its context with one entry set."""
    if not assignment.path:
        return value
    try:
        current = scope[assignment.name]
    except KeyError:
        current = {}
    return _with_entry(current, assignment.path, value)


def _with_entry(target: Value, path: tuple[str, ...], value: Value) -> Value:
    if not path:
        return value
    if not isinstance(target, dict | None):
        raise mismatch(f"a {kind(target)} has no keys to assign")
    context = target or {}
    return {**context, path[0]: _with_entry(context.get(path[0]), path[1:], value)}
