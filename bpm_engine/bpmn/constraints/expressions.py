"""Expressions and timers, as far as the XML shows: present where needed, formal, and of the right form.

Whether an expression compiles is checked where it is compiled.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from bpm_engine.bpmn.constraints.facts import (
    Element,
    Facts,
    Scrutiny,
    child,
    children,
    has_vendor_content,
    name_of,
    named,
    text_in,
)
from bpm_engine.bpmn.dialects.spiff import NAMESPACE as SPIFF
from bpm_engine.bpmn.document import XSI
from bpm_engine.bpmn.expressions.cycles import parse_cycle
from bpm_engine.bpmn.expressions.durations import parse_datetime, parse_duration
from bpm_engine.bpmn.expressions.errors import ExpressionError
from bpm_engine.problems import error, warning

EXPRESSION_NOT_FORMAL = error(
    "EXPRESSION_NOT_FORMAL",
    "An expression of an executable process is formal, not prose (BPMN 2.0.2, 8.4.6).",
    'Add xsi:type="tFormalExpression", or write it as ${…} or = ….',
)
EXPRESSION_EMPTY = error(
    "EXPRESSION_EMPTY",
    "An expression that is needed has a text (8.4.7, 10.5.5).",
    "Write the expression.",
)
CONDITION_EMPTY = warning(
    "CONDITION_EMPTY",
    "An empty condition counts as absent.",
    "Write the condition, or remove the element.",
)
CONDITION_NOT_BOOLEAN = error(
    "CONDITION_NOT_BOOLEAN",
    "A condition is true or false, not a number or a text (10.3.8).",
    "Compare the value with something.",
)
TIMER_VALUES = error(
    "TIMER_VALUES",
    "A timer has exactly one of timeDate, timeDuration and timeCycle (10.5.5).",
    "Keep one of them.",
)
TIMER_VALUE_INVALID = error(
    "TIMER_VALUE_INVALID",
    "A timer's text is a date, duration or cycle of ISO 8601, a cron line, or an expression (10.5.5).",
    "Write for example 2026-01-31T09:30:00Z, PT15M or R3/PT10M; expressions as ${…} or = ….",
)

_CONDITIONS = (
    "conditionExpression",
    "completionCondition",
    "loopCondition",
    "condition",
    "activationCondition",
)
_DATA = ("dataObject", "dataObjectReference", "property", "dataInput", "dataOutput")
_NEEDED = ("condition", "messagePath", "dataPath", "transformation")
_PROSE = re.compile(r"(?!(?:true|false|not|null|none)\b)[^\W\d]\w*(?:\s+[^\W\d]\w*)*", re.IGNORECASE)
_OPERATORS = frozenset(
    {"and", "or", "not", "in", "is", "gt", "lt", "eq", "ne", "ge", "le", "empty", "instance"}
)
_LITERAL = re.compile(r"""(?:[$#]\{|=)?\s*(?:[+-]?\d+(?:\.\d+)?|"[^"]*"|'[^']*')\s*\}?""")
_TIMER_PARSERS: Mapping[str, Callable[[str], object]] = {
    "timeDate": parse_datetime,
    "timeDuration": parse_duration,
    "timeCycle": parse_cycle,
}


def check_expressions(facts: Facts) -> None:
    declared = {data.get(key) for data in facts.each(*_DATA) for key in ("id", "name")}
    for expression in facts.each(*_CONDITIONS, "loopCardinality"):
        text = text_in(expression)
        if not text:
            _check_empty(facts, expression)
            continue
        if text not in declared:  # the name of data is an expression, whoever wrote it
            _check_formal(facts, expression, text)
        if name_of(expression) != "loopCardinality" and _LITERAL.fullmatch(text):
            message = f"the {name_of(expression)} {text!r} is neither true nor false"
            facts.report(CONDITION_NOT_BOOLEAN, expression, message, Scrutiny.RUNNABLE)
    for expression in facts.each(*_NEEDED):
        if not text_in(expression) and not has_vendor_content(expression):
            message = f"the {name_of(expression)} of {_around(expression)} is empty"
            facts.report(EXPRESSION_EMPTY, expression, message, _scrutiny_of(expression))
    for event in facts.by_name["conditionalEventDefinition"]:
        if child(event, "condition") is None and not has_vendor_content(event):
            facts.report(EXPRESSION_EMPTY, event, f"{_around(event)} has no condition", Scrutiny.EXECUTABLE)
    for timer in facts.by_name["timerEventDefinition"]:
        _check_timer(facts, timer)


def _scrutiny_of(expression: Element) -> Scrutiny:
    # Message paths stand outside every process, so no process can excuse them.
    return Scrutiny.ALWAYS if name_of(expression) == "messagePath" else Scrutiny.EXECUTABLE


def _around(expression: Element) -> str:
    parent = expression.getparent()
    return named(parent) if parent is not None else "the file"


def _check_empty(facts: Facts, expression: Element) -> None:
    if name_of(expression) not in _NEEDED and not has_vendor_content(expression):
        facts.report(
            CONDITION_EMPTY, expression, f"the {name_of(expression)} of {_around(expression)} is empty"
        )


def _check_formal(facts: Facts, expression: Element, text: str) -> None:
    """Without xsi:type an expression is natural language (8.4.6). Engines still write `${…}` so, and the
    number of runs as the name of a variable."""
    if expression.get(f"{{{XSI}}}type") or expression.get("language") or not _PROSE.fullmatch(text):
        return
    if name_of(expression) == "loopCardinality" and text.isidentifier():
        return
    if SPIFF in facts.document.root.nsmap.values():
        return  # its expressions are Python, and its modeller never writes a type
    if not _OPERATORS.isdisjoint(text.lower().split()):
        return
    message = f"the {name_of(expression)} {text!r} of {_around(expression)} is not a formal expression"
    facts.report(EXPRESSION_NOT_FORMAL, expression, message, Scrutiny.EXECUTABLE)


# ------------------------------------------------------------------ timers


def _check_timer(facts: Facts, timer: Element) -> None:
    values = [value for value in children(timer, *_TIMER_PARSERS) if text_in(value)]
    if len(values) != 1:
        message = f"{_around(timer)} has a timer with {len(values)} values"
        facts.report(TIMER_VALUES, timer, message, Scrutiny.EXECUTABLE)
    for value in values:
        _check_timer_value(facts, value, text_in(value))


def _check_timer_value(facts: Facts, value: Element, text: str) -> None:
    if text.startswith(("=", '"', "'")) or "${" in text or "#{" in text:
        return
    try:
        _TIMER_PARSERS[name_of(value)](text)
    except ExpressionError as problem:
        facts.report(TIMER_VALUE_INVALID, value, f"{name_of(value)} {text!r}: {problem}", Scrutiny.EXECUTABLE)
