"""The two strict grammars: plain (Python-like) and JUEL (what stands between `${` and `}`).

They differ in the words for operators, in the conditional (`a if c else b`, `c ? a : b`) and in what a
missing key means; everything else is one precedence ladder.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from bpm_engine.bpmn.expressions import syntax
from bpm_engine.bpmn.expressions.lexer import Kind, Token, syntax_error
from bpm_engine.bpmn.expressions.parser import Parser
from bpm_engine.bpmn.expressions.syntax import Node

_PYTHON_WORDS = frozenset(
    {
        "lambda",
        "def",
        "class",
        "import",
        "from",
        "with",
        "as",
        "async",
        "await",
        "yield",
        "global",
        "nonlocal",
    }
    | {"del", "pass", "raise", "try", "except", "finally", "while", "return", "assert", "break", "continue"}
)
# JavaScript's `===` compares without converting, as `==` does here.
_SYMBOLS = {**{symbol: symbol for symbol in ("==", "!=", "<", "<=", ">", ">=")}, "===": "==", "!==": "!="}


class StrictParser(Parser):
    """The ladder: or, and, not, comparison, sum, product, sign, power, postfix, primary."""

    comparisons: ClassVar[dict[str, str]]
    sums: ClassVar[dict[str, str]] = {"+": "+", "-": "-"}
    products: ClassVar[dict[str, str]]
    chained: ClassVar[bool] = False
    forbidden: ClassVar[frozenset[str]] = frozenset()

    def disjunction(self) -> Node:
        return self.logical("or", ("or", "||"), self.conjunction)

    def conjunction(self) -> Node:
        return self.logical("and", ("and", "&&"), self.negation)

    def logical(self, operator: str, texts: tuple[str, ...], operand: Callable[[], Node]) -> Node:
        operands = [operand()]
        position = self.token.position
        while self.accept(*texts):
            operands.append(operand())
        return operands[0] if len(operands) == 1 else syntax.Logical(operator, tuple(operands), position)

    def negation(self) -> Node:
        if token := self.accept("not"):
            with self.nested():
                return syntax.Not(self.negation(), token.position)
        return self.comparison()

    def comparison(self) -> Node:
        first = self.sum()
        rest: list[tuple[str, Node, int]] = []
        while operator := self.comparison_operator():
            symbol, token = operator
            rest.append((symbol, self.sum(), token.position))
            if len(rest) > 1 and not self.chained:
                raise syntax_error("comparisons cannot be chained here; join them with and", token.position)
        return syntax.Comparison(first, tuple(rest), rest[0][2]) if rest else first

    def comparison_operator(self) -> tuple[str, Token] | None:
        if self.at("not") and self.ahead().text == "in" and "in" in self.comparisons:
            token = self.advance()
            self.advance()
            return "not in", token
        token = self.token
        if token.kind in (Kind.OPERATOR, Kind.NAME) and token.text in self.comparisons:
            self.advance()
            return self.comparisons[token.text], token
        if self.at("="):
            raise syntax_error("'=' assigns nothing here; to compare write '=='", token.position)
        return None

    def sum(self) -> Node:
        node = self.product()
        while token := self.accept(*self.sums):
            node = syntax.Binary(token.text, node, self.product(), token.position)
        return node

    def product(self) -> Node:
        node = self.signed()
        while token := self.accept(*self.products):
            node = syntax.Binary(self.products[token.text], node, self.signed(), token.position)
        return node

    def signed(self) -> Node:
        """A sign or `!`, which in every language that has it binds tighter than a comparison."""
        if token := self.accept("-", "!"):
            with self.nested():
                node = syntax.Negate if token.text == "-" else syntax.Not
                return node(self.signed(), token.position)
        return self.powered(self.postfix(self.primary()))

    def powered(self, base: Node) -> Node:
        return base

    def primary(self) -> Node:
        if literal := self.literal():
            return literal
        token = self.token
        if self.accept("("):
            node = self.expression()
            self.expect(")")
            return node
        if self.accept("["):
            return self.list_from(token)
        if self.accept("{"):
            return self.context(token)
        if token.text in self.forbidden:
            raise syntax_error(f"{token.text!r} is not part of the expression language", token.position)
        name = self.name()
        return self.call(token, name) if self.at("(") else syntax.Name(name, token.position)

    def method_of(self, node: Node, token: Token) -> Node:
        return syntax.Method(node, str(token.value), self.arguments(), token.position)

    def list_from(self, opening: Token) -> Node:
        return syntax.ListLiteral(self.separated("]"), opening.position)

    def context(self, opening: Token) -> Node:
        entries: list[tuple[str, Node]] = []
        while not self.at("}"):
            if self.token.kind is not Kind.TEXT:
                raise self.unexpected("a key in quotes is missing")
            key = str(self.advance().value)
            self.expect(":")
            entries.append((key, self.expression()))
            if not self.at("}"):
                self.expect(",")
        self.expect("}")
        return syntax.ContextLiteral(tuple(entries), opening.position)


class PlainParser(StrictParser):
    reserved = frozenset({"and", "or", "not", "in", "if", "else", "for", "is"}) | _PYTHON_WORDS
    forbidden = _PYTHON_WORDS
    comparisons: ClassVar[dict[str, str]] = {**_SYMBOLS, "in": "in"}
    products: ClassVar[dict[str, str]] = {s: s for s in ("*", "/", "//", "%")}
    chained = True

    def expression(self) -> Node:
        with self.nested():
            node = self.disjunction()
            if token := self.accept("if"):
                condition = self.disjunction()
                self.expect("else")
                return syntax.Conditional(condition, node, self.expression(), token.position)
            return node

    def comparison_operator(self) -> tuple[str, Token] | None:
        return self.identity() if self.at("is") else super().comparison_operator()

    def identity(self) -> tuple[str, Token]:
        """`is` compares with what there is one of only: `x is None`, `x is not True`."""
        token = self.advance()
        symbol = "!=" if self.accept("not") else "=="
        if self.token.text not in self.constants:
            raise syntax_error("'is' compares with None, True or False; otherwise write '=='", token.position)
        return symbol, token

    def powered(self, base: Node) -> Node:
        if token := self.accept("**"):
            with self.nested():
                return syntax.Binary("**", base, self.signed(), token.position)
        return base

    def list_from(self, opening: Token) -> Node:
        if self.accept("]"):
            return syntax.ListLiteral((), opening.position)
        first = self.argument()
        if isinstance(first, syntax.Loop):
            self.expect("]")
            return first
        if self.accept(","):
            return syntax.ListLiteral((first, *self.separated("]")), opening.position)
        self.expect("]")
        return syntax.ListLiteral((first,), opening.position)

    def argument(self) -> Node:
        """An expression, or `body for name in list if condition`."""
        body = self.expression()
        if not (token := self.accept("for")):
            return body
        iterators: list[tuple[str, Node]] = []
        while True:
            name = self.name()
            self.expect("in")
            iterators.append((name, self.disjunction()))
            if not self.accept("for"):
                break
        condition = self.disjunction() if self.accept("if") else None
        return syntax.Loop(tuple(iterators), condition, body, token.position)


class JuelParser(StrictParser):
    reserved = frozenset(
        {"and", "or", "not", "eq", "ne", "lt", "gt", "le", "ge", "div", "mod", "empty", "instanceof"}
    )
    comparisons: ClassVar[dict[str, str]] = {
        **_SYMBOLS,
        "eq": "==",
        "ne": "!=",
        "lt": "<",
        "gt": ">",
        "le": "<=",
        "ge": ">=",
    }
    products: ClassVar[dict[str, str]] = {"*": "*", "/": "/", "div": "/", "%": "%", "mod": "%"}

    def expression(self) -> Node:
        with self.nested():
            node = self.disjunction()
            if token := self.accept("?"):
                then = self.expression()
                self.expect(":")
                return syntax.Conditional(node, then, self.expression(), token.position)
            return node

    def signed(self) -> Node:
        if token := self.accept("empty"):
            with self.nested():
                return syntax.Empty(self.signed(), token.position)
        if token := self.accept("not"):
            with self.nested():
                return syntax.Not(self.signed(), token.position)
        return super().signed()

    def negation(self) -> Node:
        """In JUEL `not` is only another spelling of `!`."""
        return self.comparison()
