"""Text to tokens, for all three notations.

Names are letters, digits and `_`; names beginning with two underscores are refused, as no process
variable needs them. Texts know the escapes of JSON. FEEL adds comments, `@"…"` and names in backticks.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal
from enum import Enum, auto
from typing import NamedTuple

from bpm_engine.bpmn.expressions import limits
from bpm_engine.bpmn.expressions.errors import ExpressionError
from bpm_engine.bpmn.expressions.values import Number

INTEGER_DIGITS = 77
DECIMAL_DIGITS = 34
MOST_TOKENS = 4 * limits.NODES
"""No expression within the limit of its parts needs more; there is no point in parsing further."""
_NUMBER = r"(?P<number>(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][-+]?[0-9]{1,4})?)(?P<tail>\w?)"
_TEXT = r"""(?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')"""
_NAME = r"(?P<name>[^\W\d]\w*)"
_OPERATOR = r"(?P<operator>\*\*|//|[=!]==|==|!=|<=|>=|&&|\|\||\.\.|[-+*/%<>=!?:.,()\[\]{}@])"
_FEEL_ONLY = r"(?P<comment>/\*.*?\*/|//[^\n]*)|(?P<quoted>`[^`]{1,200}`)"
_PLAIN_TOKEN = re.compile(rf"{_NUMBER}|{_TEXT}|{_NAME}|{_OPERATOR}", re.DOTALL)
_FEEL_TOKEN = re.compile(rf"{_FEEL_ONLY}|{_NUMBER}|{_TEXT}|{_NAME}|{_OPERATOR}", re.DOTALL)
_SPACE = re.compile(r"\s*")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|U[0-9a-fA-F]{6}|.)", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "/": "/", "\\": "\\", '"': '"', "'": "'"}


class Kind(Enum):
    NUMBER = auto()
    TEXT = auto()
    NAME = auto()
    OPERATOR = auto()
    END = auto()


class Token(NamedTuple):
    kind: Kind
    text: str
    position: int
    value: Number | str | None = None


def tokenize(source: str, *, feel: bool = False) -> list[Token]:
    if len(source) > limits.SOURCE_CHARACTERS:
        raise limits.exceeded(f"the expression is longer than {limits.SOURCE_CHARACTERS} characters", 0)
    pattern = _FEEL_TOKEN if feel else _PLAIN_TOKEN
    tokens: list[Token] = []
    position = _skip_space(source, 0)
    while position < len(source):
        found = pattern.match(source, position)
        if found is None:
            raise _unexpected(source, position)
        if found.lastgroup != "comment":
            tokens.append(_token(found, feel))
        if len(tokens) > MOST_TOKENS:
            raise limits.exceeded(f"the expression has more than {limits.NODES} parts", position)
        position = _skip_space(source, found.end())
    tokens.append(Token(Kind.END, "", len(source)))
    return tokens


def _skip_space(source: str, position: int) -> int:
    found = _SPACE.match(source, position)
    return found.end() if found else position


def _token(found: re.Match[str], feel: bool) -> Token:
    text, position = found[0], found.start()
    match found.lastgroup:
        case "operator":
            return Token(Kind.OPERATOR, text, position)
        case "name":
            return _name(text, position)
        case "text":
            return Token(Kind.TEXT, text, position, _unescape(text[1:-1], position))
        case "quoted":
            return _name(text[1:-1].strip(), position, quoted=True)
        case _:
            if found["tail"]:
                raise syntax_error(f"a number must not run into {found['tail']!r}", found.end() - 1)
            return Token(Kind.NUMBER, text, position, _number(found["number"], position, feel))


def _name(text: str, position: int, quoted: bool = False) -> Token:
    if text.startswith("__"):
        raise syntax_error("names beginning with two underscores are refused", position)
    # A quoted name keeps its backtick as text, so that it is never taken for a keyword.
    return Token(Kind.NAME, f"`{text}" if quoted else text, position, text)


def _number(text: str, position: int, feel: bool) -> Number:
    digits = sum(map(str.isdigit, text))
    if digits > INTEGER_DIGITS or (feel and digits > DECIMAL_DIGITS):
        raise limits.exceeded("the number has too many digits", position)
    if text.isdigit():
        return int(text)
    if feel:
        return Decimal(text)
    number = float(text)
    if not math.isfinite(number):
        raise limits.exceeded("the number is too large", position)
    return number


def _unescape(body: str, position: int) -> str:
    if "\\" not in body:
        return body

    def replace(found: re.Match[str]) -> str:
        code = found[1]
        if len(code) > 1 and 0 < int(code[1:], 16) < 0x110000:
            return chr(int(code[1:], 16))
        if code in _ESCAPED:
            return _ESCAPED[code]
        raise syntax_error(f"there is no escape \\{code} in texts", position + 1 + found.start())

    text = _ESCAPE.sub(replace, body)
    try:
        return text.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        raise syntax_error("the text holds half of a surrogate pair", position) from None


def _unexpected(source: str, position: int) -> ExpressionError:
    character = source[position]
    if character in "\"'":
        return syntax_error("the text is not closed", position)
    if character in "&|":
        return syntax_error(f"{character!r} is no operator; write {character * 2!r}", position)
    return syntax_error(f"unexpected {character!r}", position)


def syntax_error(message: str, position: int) -> ExpressionError:
    return ExpressionError("SYNTAX", message, position)
