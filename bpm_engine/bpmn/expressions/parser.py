"""What the three grammars share: the token stream, the depth guard, literals, calls and postfixes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import ClassVar

from bpm_engine.bpmn.expressions import limits, syntax
from bpm_engine.bpmn.expressions.errors import ExpressionError
from bpm_engine.bpmn.expressions.lexer import Kind, Token, syntax_error, tokenize
from bpm_engine.bpmn.expressions.syntax import Node

CONSTANTS: dict[str, bool | None] = {
    "true": True,
    "True": True,
    "false": False,
    "False": False,
    "null": None,
    "None": None,
}


class Parser:
    """A recursive descent over tokens; `grammar` is the notation's entry point."""

    reserved: ClassVar[frozenset[str]] = frozenset()
    constants: ClassVar[dict[str, bool | None]] = CONSTANTS
    feel: ClassVar[bool] = False

    def __init__(self, source: str) -> None:
        self.source = source
        self.tokens: Sequence[Token] = tokenize(source, feel=self.feel)
        self.place = 0
        self.depth = 0

    def parse(self) -> Node:
        if len(self.tokens) == 1:
            raise syntax_error("the expression is empty", 0)
        node = self.expression()
        if self.place < len(self.tokens) - 1:
            raise self.unexpected()
        return node

    def expression(self) -> Node:
        raise NotImplementedError

    @property
    def token(self) -> Token:
        return self.tokens[self.place]

    def ahead(self, count: int = 1) -> Token:
        return self.tokens[min(self.place + count, len(self.tokens) - 1)]

    def advance(self) -> Token:
        token = self.tokens[self.place]
        self.place = min(self.place + 1, len(self.tokens) - 1)
        return token

    def at(self, *texts: str) -> bool:
        """Whether an operator or a keyword stands here (a text in quotes or backticks never does)."""
        token = self.tokens[self.place]
        return token.text in texts and (token.kind is Kind.OPERATOR or token.kind is Kind.NAME)

    def accept(self, *texts: str) -> Token | None:
        return self.advance() if self.at(*texts) else None

    def expect(self, text: str) -> Token:
        if not self.at(text):
            raise self.unexpected(f"{text!r} is missing")
        return self.advance()

    def unexpected(self, reason: str = "") -> ExpressionError:
        token = self.token
        found = "the end of the expression" if token.kind is Kind.END else repr(token.text)
        return syntax_error(f"{reason} before {found}" if reason else f"unexpected {found}", token.position)

    @contextmanager
    def nested(self) -> Iterator[None]:
        self.depth += 1
        if self.depth > limits.DEPTH:
            message = f"the expression is nested deeper than {limits.DEPTH}"
            raise limits.exceeded(message, self.token.position)
        yield
        self.depth -= 1

    def name(self) -> str:
        token = self.token
        if token.kind is not Kind.NAME or token.text in self.reserved:
            raise self.unexpected("a name is missing")
        self.advance()
        return str(token.value)

    def postfix(self, node: Node) -> Node:
        depth = self.depth
        while self.at_postfix():
            self.depth += 1
            if self.depth > limits.DEPTH:
                raise limits.exceeded(f"the path is deeper than {limits.DEPTH}", self.token.position)
            node = self.key_of(node) if self.at(".") else self.index_of(node)
        if self.at("("):
            raise syntax_error("only functions of the library can be called", self.token.position)
        self.depth = depth
        return node

    def at_postfix(self) -> bool:
        return self.at(".", "[")

    def key_of(self, node: Node) -> Node:
        self.expect(".")
        token = self.token
        if token.kind is not Kind.NAME:
            raise self.unexpected("a key is missing")
        self.advance()
        if self.at("("):
            return self.method_of(node, token)
        return syntax.Path(node, str(token.value), token.position)

    def method_of(self, node: Node, token: Token) -> Node:
        message = f"there are no methods here; write {token.text}(x, …) if the library has it"
        raise ExpressionError("UNKNOWN_FUNCTION", message, token.position)

    def index_of(self, node: Node) -> Node:
        position = self.expect("[").position
        index = self.expression()
        self.expect("]")
        return syntax.Index(node, index, position)

    def call(self, token: Token, function: str) -> Node:
        return syntax.Call(function, self.arguments(), (), token.position)

    def arguments(self) -> tuple[Node, ...]:
        self.expect("(")
        found: list[Node] = []
        while not self.at(")"):
            found.append(self.argument())
            if not self.at(")"):
                self.expect(",")
        self.expect(")")
        return tuple(found)

    def argument(self) -> Node:
        return self.expression()

    def separated(self, closing: str) -> tuple[Node, ...]:
        items: list[Node] = []
        while not self.at(closing):
            items.append(self.expression())
            if not self.at(closing):
                self.expect(",")
        self.expect(closing)
        return tuple(items)

    def literal(self) -> Node | None:
        """A number, a text or a constant, if one stands here."""
        token = self.token
        if token.kind in (Kind.NUMBER, Kind.TEXT):
            self.advance()
            return syntax.Literal(token.value, token.position)
        if token.kind is Kind.NAME and token.text in self.constants:
            self.advance()
            return syntax.Literal(self.constants[token.text], token.position)
        return None
