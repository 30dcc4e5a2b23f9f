"""Compiling the texts of a file: expressions, templates, scripts, times, and settings with a format.

Whatever is wrong with a text becomes a problem at its element; the text is then replaced by `NOTHING`,
an expression that gives null, so that the rest of the file is still looked at. A graph made with such
a replacement is never run: its problem is an error.

Which notation a text is in: its look decides first (`${…}`, `#{…}`, a leading `=`), then the language
its author declared, then the language of the file. BPMN's default, XPath, is written into files by
tools whose conditions are nothing of the kind, so as the language of a file it means nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import date, datetime, timedelta
from typing import Literal, TypeVar

from bpm_engine.bpmn.expressions import (
    Duration,
    Expression,
    ExpressionError,
    Notation,
    Script,
    compile_expression,
    compile_script,
    compile_template,
    parse_cycle,
    parse_datetime,
    parse_duration,
)
from bpm_engine.bpmn.model import Element
from bpm_engine.bpmn.text import OWN_LANGUAGE, TEMPLATE, Text
from bpm_engine.problems import Findings, error, warning

EXPRESSION_SYNTAX = error(
    "EXPRESSION_SYNTAX",
    "Conditions, mappings and scripts are expressions of one of the three notations.",
    "Correct the expression at the marked place.",
)
EXPRESSION_LANGUAGE = warning(
    "EXPRESSION_LANGUAGE",
    "An expression declared in another language is read as plain where it means the same there.",
    "Write the expression in one of the three notations and declare no other language.",
)
EXPRESSION_FOREIGN = error(
    "EXPRESSION_FOREIGN",
    "Expressions are plain, `${…}` or `= …` (FEEL); other languages do not run here.",
    "Write the expression in one of the three notations, or compute its value in a task before.",
)
TIMER_FORMAT = error(
    "TIMER_FORMAT",
    "A time is an ISO 8601 date, duration or repetition, a cron text, or an expression in `${…}` or `= …`.",
    "Write it like 2026-01-31T09:00:00Z, PT15M, R3/PT10S or 0 9 * * 1.",
)
SETTING_FORMAT = error(
    "SETTING_FORMAT",
    "Durations and numbers in engine settings have a fixed form and range.",
    "Write durations like PT30S and numbers in the range that the message states.",
)

_UNDECLARED = (
    "Correct the script, or name its language in scriptFormat (10.3.3): then a handler does the work."
)

NOTHING = compile_expression("null", notation=Notation.FEEL)

_LOOKS_LIKE_EXPRESSION = re.compile(r"\s*=|.*[$#]\{", re.DOTALL)
_FEEL = re.compile(r"feel", re.IGNORECASE)
_JUEL = re.compile(r"juel|jsp|unified.?el|(?:^|/)el$", re.IGNORECASE)
_PLAIN = frozenset({"", OWN_LANGUAGE, "plain", "text", "urn:bpm-engine:1"})
_SAME_AS_PLAIN = frozenset({"python", "python3"})
_XPATH = re.compile(r"xpath", re.IGNORECASE)
_RETURNED = re.compile(r"\s*(?:return\b)?(.*?);?\s*", re.DOTALL)
_QUOTED = re.compile(r"""\s*(?:"[^"]*"|'[^']*')\s*""")

T = TypeVar("T")
TimeKind = Literal["date", "duration", "cycle"]
_TIME_PARSERS: dict[TimeKind, Callable[[str], object]] = {
    "date": parse_datetime,
    "duration": parse_duration,
    "cycle": parse_cycle,
}


def looks_like_expression(source: str) -> bool:
    return _LOOKS_LIKE_EXPRESSION.match(source) is not None


def notation_of(language: str) -> Notation | None:
    """The notation of a declared language; None for a language that does not run here."""
    if language.strip().lower() in _PLAIN:
        return Notation.PLAIN
    if _FEEL.search(language):
        return Notation.FEEL
    return Notation.JUEL if _JUEL.search(language) else None


def _own_notation(text: Text) -> Notation:
    """For texts whose language is known to be one of ours, or not said."""
    if not looks_like_expression(text.source) and text.language != TEMPLATE:
        return notation_of(text.language) or Notation.PLAIN
    return Notation.FEEL if text.source.lstrip().startswith("=") else Notation.JUEL


class Texts:
    """The texts of one process, with the language that its file declares."""

    def __init__(self, findings: Findings, file_language: str = "") -> None:
        self._findings = findings
        self._file_language = "" if _XPATH.search(file_language) else file_language

    def language_of(self, text: Text) -> str:
        return text.language or self._file_language

    # -------------------------------------------------------------- expressions

    def expression(self, text: Text, element: Element) -> Expression:
        """A condition, mapping or any other text that is an expression whatever it looks like."""
        if not text.source.strip():
            self._report_empty(text, element)
            return NOTHING
        if text.language == TEMPLATE:
            return self.template(text, element)
        language = self.language_of(text)
        if looks_like_expression(text.source) or not language:
            return self._compiled(lambda: compile_expression(text.source), text, element)
        notation = notation_of(language)
        if notation is None:
            return self._foreign(text, language, element)
        return self._compiled(lambda: compile_expression(text.source, notation=notation), text, element)

    def optional(self, text: Text | None, element: Element) -> Expression | None:
        return None if text is None or not text.source.strip() else self.expression(text, element)

    def template(self, text: Text | str, element: Element) -> Expression:
        """A text taken literally, unless it is or holds an expression."""
        text = Text(text, line=element.line) if isinstance(text, str) else text
        if not looks_like_expression(text.source) and _FEEL.search(text.language):
            return self._compiled(
                lambda: compile_expression(text.source, notation=Notation.FEEL), text, element
            )
        return self._compiled(lambda: compile_template(text.source), text, element)

    def optional_template(self, text: Text | str | None, element: Element) -> Expression | None:
        source = text.source if isinstance(text, Text) else text
        return self.template(text, element) if text is not None and source and source.strip() else None

    def script(self, text: Text, element: Element) -> Script | None:
        """A script in one of our notations; None, and reported, when it is not well formed."""
        try:
            return compile_script(text.source, notation=_own_notation(text))
        except ExpressionError as problem:
            self._report(problem, text, element, hint=None if text.language else _UNDECLARED)
            return None

    def attempt_script(self, text: Text) -> Script | None:
        """The text as a script of ours, or None when it is something else; nothing is reported."""
        try:
            return compile_script(text.source, notation=_own_notation(text))
        except ExpressionError:
            return None

    def attempt_expression(self, text: Text) -> Expression | None:
        """The text as an expression of ours, or None when it is something else; nothing is reported."""
        try:
            if text.language == TEMPLATE:
                return compile_template(text.source)
            return compile_expression(text.source, notation=_own_notation(text))
        except ExpressionError:
            return None

    # -------------------------------------------------------------- times and settings

    def time(self, text: Text, kind: TimeKind, element: Element) -> Expression:
        """A timer's text: checked now when it is constant, evaluated later when it is an expression."""
        return self._time(text, _TIME_PARSERS[kind], element)

    def due(self, text: Text | None, element: Element) -> Expression | None:
        """When a human task is due: a date, or a duration from its creation."""
        if text is None or not text.source.strip():
            return None
        return self._time(text, _date_or_duration, element)

    def deadline(self, source: str | None, element: Element) -> Expression | None:
        """How long an activity or instance may take: a duration, or an expression that gives one."""
        checked = self.duration_setting(source, "deadline", element)
        return None if checked is None else self.template(checked, element)

    def duration_setting(self, source: str | None, name: str, element: Element) -> str | None:
        if source is None:
            return None
        if looks_like_expression(source):
            self.template(source, element)
            return source
        try:
            parse_duration(source)
        except ExpressionError as problem:
            self.refuse_setting(f"{name}: {problem.message}", element)
        return source

    def refuse_setting(self, message: str, element: Element) -> None:
        self._findings.add(SETTING_FORMAT.at(message, element_id=element.id, line=element.line))

    # -------------------------------------------------------------- inside

    def _time(self, text: Text, parse: Callable[[str], object], element: Element) -> Expression:
        declared = text.language not in ("", TEMPLATE) and notation_of(text.language) is Notation.FEEL
        if not text.source.strip():
            self._refuse_time("the time is empty", text, element)
            return NOTHING
        if not declared and _QUOTED.fullmatch(text.source):
            text = replace(text, source=text.source.strip()[1:-1])
        if not declared and not looks_like_expression(text.source):
            self._check_time(text.source.strip(), parse, text, element)
            return self.template(Text(text.source.strip(), TEMPLATE, text.line), element)
        compiled = self.expression(text, element) if declared else self.template(text, element)
        if compiled.is_constant and compiled is not NOTHING:
            self._check_constant_time(compiled, parse, text, element)
        return compiled

    def _check_constant_time(
        self, compiled: Expression, parse: Callable[[str], object], text: Text, element: Element
    ) -> None:
        try:
            value = compiled.evaluate({})
        except ExpressionError as problem:
            self._refuse_time(problem.message, text, element)
            return
        if isinstance(value, str):
            self._check_time(value, parse, text, element)
        elif not isinstance(value, Duration | datetime | date | timedelta):
            self._refuse_time(f"{text.source.strip()!r} is not a time", text, element)

    def _check_time(self, source: str, parse: Callable[[str], object], text: Text, element: Element) -> None:
        try:
            parse(source)
        except ExpressionError as problem:
            self._refuse_time(problem.message, text, element)

    def _refuse_time(self, message: str, text: Text, element: Element) -> None:
        self._findings.add(TIMER_FORMAT.at(message, element_id=element.id, line=text.line or element.line))

    def _foreign(self, text: Text, language: str, element: Element) -> Expression:
        """Comparisons read the same in most languages, also as the one statement `return x > 5;`."""
        line = text.line or element.line
        body = _RETURNED.fullmatch(text.source)
        try:
            compiled = compile_expression(body[1] if body else text.source, notation=Notation.PLAIN)
        except ExpressionError as problem:
            message = f"the language {language!r} does not run here: {problem}"
            self._findings.add(EXPRESSION_FOREIGN.at(message, element_id=element.id, line=line))
            return NOTHING
        if language.lower() not in _SAME_AS_PLAIN:
            message = f"the language {language!r} does not run here; the expression is read as plain"
            self._findings.add(EXPRESSION_LANGUAGE.at(message, element_id=element.id, line=line))
        return compiled

    def _compiled(self, compiled: Callable[[], Expression], text: Text, element: Element) -> Expression:
        try:
            return compiled()
        except ExpressionError as problem:
            self._report(problem, text, element)
            return NOTHING

    def _report(
        self, problem: ExpressionError, text: Text, element: Element, hint: str | None = None
    ) -> None:
        line = text.line or element.line
        self._findings.add(EXPRESSION_SYNTAX.at(str(problem), element_id=element.id, line=line, hint=hint))

    def _report_empty(self, text: Text, element: Element) -> None:
        self._findings.add(
            EXPRESSION_SYNTAX.at(
                "the expression is empty", element_id=element.id, line=text.line or element.line
            )
        )


def _date_or_duration(source: str) -> object:
    try:
        return parse_datetime(source)
    except ExpressionError:
        return parse_duration(source)
