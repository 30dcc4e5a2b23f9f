"""A compiled expression: what the rest of the engine holds, evaluates, compares and pickles."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from bpm_engine.bpmn.expressions import limits, operators, syntax
from bpm_engine.bpmn.expressions.comparisons import Run
from bpm_engine.bpmn.expressions.compiler import Compiler, constant
from bpm_engine.bpmn.expressions.durations import aware
from bpm_engine.bpmn.expressions.errors import ExpressionError
from bpm_engine.bpmn.expressions.feel import FeelParser
from bpm_engine.bpmn.expressions.feel_compiler import FeelCompiler
from bpm_engine.bpmn.expressions.lexer import syntax_error
from bpm_engine.bpmn.expressions.library.methods import JUEL_METHODS, PLAIN_METHODS
from bpm_engine.bpmn.expressions.library.plain import PLAIN_FUNCTIONS
from bpm_engine.bpmn.expressions.limits import Context
from bpm_engine.bpmn.expressions.parser import Parser
from bpm_engine.bpmn.expressions.plain import JuelParser, PlainParser
from bpm_engine.bpmn.expressions.values import Lookup, Value, as_text, check_result, kind, mismatch


class Notation(StrEnum):
    """How an expression is written."""

    PLAIN = "plain"
    """Python-like; our default."""
    JUEL = "juel"
    """`${…}` or `#{…}`, as in Camunda 7 and Flowable."""
    FEEL = "feel"
    """`= …`, as in Camunda 8."""


class ExpressionKind(StrEnum):
    EXPRESSION = "expression"
    TEMPLATE = "template"


@dataclass(frozen=True, slots=True, repr=False)
class Expression:
    """Immutable; equal by its text, notation and kind; pickled as text and compiled again on loading."""

    source: str
    notation: Notation
    kind: ExpressionKind = ExpressionKind.EXPRESSION
    reads: frozenset[str] = field(compare=False, default=frozenset())
    """The variables it may read; known without evaluating it."""
    is_constant: bool = field(compare=False, default=False)
    _code: Code = field(compare=False, kw_only=True)

    def evaluate(self, variables: Mapping[str, Any], now: datetime | None = None) -> Value:
        """The value for these variables; `now` is what `now()` answers. Raises `ExpressionError`."""
        code = self._code
        context = _context(now, False) if code.needs_context else limits.LENIENT
        return self._run(code, variables, context)

    def holds(self, variables: Mapping[str, Any], now: datetime | None = None) -> bool:
        """The value as a condition: a real boolean, and every variable it reads must exist."""
        code = self._code
        context = _context(now, True) if code.needs_context else limits.STRICT
        value = self._run(code, variables, context)
        if value is True or value is False:
            return value
        message = f"a condition must be true or false, not a {kind(value)}"
        raise ExpressionError("NOT_BOOLEAN", message, source=self.source)

    def _run(self, code: Code, variables: Lookup, context: Context) -> Value:
        try:
            value = code.run(variables, context)
            return value if value is True or value is False or code.is_reference else check_result(value)
        except ExpressionError as error:
            raise error.within(self.source, code.offset) from None
        except RecursionError:
            raise limits.exceeded("a value is nested too deeply").within(self.source) from None

    def __reduce__(self) -> tuple[Callable[..., Expression], tuple[str, str, str]]:
        return _recompile, (self.source, self.notation.value, self.kind.value)

    def __repr__(self) -> str:
        return f"<{self.notation} {self.kind} {self.source!r}>"

    def __str__(self) -> str:
        return self.source


@dataclass(frozen=True, slots=True)
class Code:
    """What compiling gave."""

    run: Run
    reads: frozenset[str]
    needs_context: bool
    uses_clock: bool
    is_reference: bool
    """It only points at a variable, so its size is not this expression's doing."""
    offset: int


def compile_expression(source: str, *, notation: Notation | None = None) -> Expression:
    """Compile a condition, a mapping, a cardinality …; the notation is detected where it is not given."""
    notation = notation or detect(source)
    return _compiled(source, notation, ExpressionKind.EXPRESSION, lambda: _code(source, notation))


def compile_template(source: str) -> Expression:
    """Compile an attribute that is usually text: `order-${id}` is a text, `${id}` alone keeps its type."""
    stripped = source.strip()
    if stripped.startswith("="):
        notation = Notation.FEEL
    elif _is_wrapped(stripped):
        notation = Notation.JUEL
    else:
        parts_notation = Notation.JUEL if "${" in source or "#{" in source else Notation.PLAIN
        return _compiled(source, parts_notation, ExpressionKind.TEMPLATE, lambda: _template_code(source))
    return _compiled(source, notation, ExpressionKind.TEMPLATE, lambda: _code(source, notation))


def syntax_trees(expression: Expression) -> list[syntax.Node]:
    """What the text says, for who wants more than its value: one tree, of a template one per `${…}`."""
    source, notation = expression.source, expression.notation
    stripped = source.strip()
    if expression.kind is ExpressionKind.TEMPLATE and not (stripped.startswith("=") or _is_wrapped(stripped)):
        parts = [source[start:end] for start, end in _embedded(source)]
        return [_parser(_unwrapped(part, Notation.JUEL)[0], Notation.JUEL).parse() for part in parts]
    return [_parser(_unwrapped(source, notation)[0], notation).parse()]


def detect(source: str) -> Notation:
    stripped = source.strip()
    if stripped.startswith("="):
        return Notation.FEEL
    return Notation.JUEL if stripped.startswith(("${", "#{")) else Notation.PLAIN


def _compiled(
    source: str, notation: Notation, kind: ExpressionKind, compile_code: Callable[[], Code]
) -> Expression:
    try:
        if len(source) > limits.SOURCE_CHARACTERS:
            message = f"the expression is longer than {limits.SOURCE_CHARACTERS} characters"
            raise limits.exceeded(message, limits.SOURCE_CHARACTERS)
        code = compile_code()
    except ExpressionError as error:
        raise error.within(source) from None
    except RecursionError:
        raise limits.exceeded("the expression is nested too deeply").within(source) from None
    is_constant = not code.reads and not code.uses_clock
    expression = Expression(source, notation, kind, code.reads, is_constant, _code=code)
    return _folded(expression) if is_constant else expression


def _folded(expression: Expression) -> Expression:
    """Evaluate what never changes now, so that its errors are found at deploy and it costs nothing later."""
    value = expression.evaluate({})
    if isinstance(value, list | dict):
        return expression
    code = expression._code
    folded = Code(constant(value), code.reads, False, False, True, code.offset)
    return Expression(expression.source, expression.notation, expression.kind, code.reads, True, _code=folded)


def _recompile(source: str, notation: str, kind: str) -> Expression:
    if kind == ExpressionKind.TEMPLATE:
        return compile_template(source)
    return compile_expression(source, notation=Notation(notation))


def _code(source: str, notation: Notation) -> Code:
    text, offset = _unwrapped(source, notation)
    try:
        node = _parser(text, notation).parse()
        compiler = _compiler(notation)
        run = compiler.compile(node)
    except ExpressionError as error:
        raise error.within(source, offset) from None
    is_reference = isinstance(node, syntax.Name | syntax.Path)
    needs_context = compiler.metered or compiler.uses_clock
    return Code(run, frozenset(compiler.reads), needs_context, compiler.uses_clock, is_reference, offset)


def _parser(text: str, notation: Notation) -> Parser:
    match notation:
        case Notation.PLAIN:
            return PlainParser(text)
        case Notation.JUEL:
            return JuelParser(text)
        case Notation.FEEL:
            return FeelParser(text)


def _compiler(notation: Notation) -> Compiler:
    match notation:
        case Notation.PLAIN:
            return Compiler(PLAIN_FUNCTIONS, operators.PLAIN_OPERATORS, PLAIN_METHODS)
        case Notation.JUEL:
            return JuelCompiler(PLAIN_FUNCTIONS, operators.JUEL_OPERATORS, JUEL_METHODS)
        case Notation.FEEL:
            return FeelCompiler()


class JuelCompiler(Compiler):
    """As in Java's expression language, a key a map does not hold reads as null."""

    def key(self, target: Value, key: str) -> Value:
        return operators.forgiving_key(target, key)

    def item(self, target: Value, index: Value) -> Value:
        return operators.forgiving_item(target, index)


def _unwrapped(source: str, notation: Notation) -> tuple[str, int]:
    """The text to parse and where it begins in the source."""
    start = len(source) - len(source.lstrip())
    end = len(source.rstrip())
    if notation is Notation.FEEL and source.startswith("=", start):
        return source[start + 1 : end], start + 1
    if notation is Notation.JUEL and source.startswith(("${", "#{"), start):
        closing = closing_brace(source, start + 1)
        if closing != end - 1:
            raise syntax_error(
                "only one ${…} can stand here; put the whole expression inside it", closing + 1
            )
        return source[start + 2 : closing], start + 2
    return source[start:end], start


def _is_wrapped(stripped: str) -> bool:
    if not stripped.startswith(("${", "#{")):
        return False
    try:
        return closing_brace(stripped, 1) == len(stripped) - 1
    except ExpressionError:
        return False


def closing_brace(source: str, opening: int) -> int:
    """Where the brace opened at `opening` closes; braces inside texts do not count."""
    depth, quote, place = 0, "", opening
    while place < len(source):
        character = source[place]
        if quote:
            place += character == "\\"
            quote = "" if character == quote else quote
        elif character in "\"'":
            quote = character
        elif character in "{}":
            depth += 1 if character == "{" else -1
            if depth == 0:
                return place
        place += 1
    raise syntax_error("'{' is not closed", opening)


def _template_code(source: str) -> Code:
    parts: list[Run] = []
    codes: list[Code] = []
    place = 0
    for start, end in _embedded(source):
        parts.append(constant(source[place:start].replace("\\$", "$").replace("\\#", "#")))
        codes.append(_code(" " * start + source[start:end], Notation.JUEL))
        parts.append(_embedded_text(codes[-1]))
        place = end
    parts.append(constant(source[place:].replace("\\$", "$").replace("\\#", "#")))
    reads = frozenset[str]().union(*(code.reads for code in codes))
    run = _joined(parts) if codes else parts[-1]
    uses_clock = any(code.uses_clock for code in codes)
    return Code(run, reads, any(code.needs_context for code in codes), uses_clock, False, 0)


def _embedded(source: str) -> list[tuple[int, int]]:
    """The places of `${…}` and `#{…}` in a text; a backslash before them makes them text."""
    found: list[tuple[int, int]] = []
    place = 0
    while place < len(source):
        if source[place] == "\\":
            place += 2
        elif source.startswith(("${", "#{"), place):
            end = closing_brace(source, place + 1) + 1
            found.append((place, end))
            place = end
        else:
            place += 1
    return found


def _joined(parts: list[Run]) -> Run:
    def join(variables: Lookup, context: Context) -> Value:
        return limits.checked_text("".join([as_text(part(variables, context)) for part in parts]))

    return join


def _embedded_text(code: Code) -> Run:
    """The text of one `${…}`. Null would make keys like `order-null`, so it is refused."""

    def read(variables: Lookup, context: Context) -> Value:
        try:
            value = code.run(variables, context)
        except ExpressionError as error:
            if error.position is not None:
                error.position += code.offset
            raise
        if value is None:
            raise mismatch("null cannot stand inside a text").at(code.offset)
        try:
            return as_text(value)
        except ExpressionError as error:
            raise error.at(code.offset) from None

    return read


def _context(now: datetime | None, strict: bool) -> Context:
    return Context(aware(now) if now is not None else None, strict)
