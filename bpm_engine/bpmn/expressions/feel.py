"""The FEEL grammar (DMN 1.4, chapter 10.3), without function definitions.

Names may hold spaces, those of the library (`string length(…)`) and those of variables and keys (`order
total`): words that follow each other are one name, up to a word of the language. Where a name holds such a
word (`terms and conditions`), it is written in backticks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar

from bpm_engine.bpmn.expressions import syntax
from bpm_engine.bpmn.expressions.errors import ExpressionError
from bpm_engine.bpmn.expressions.lexer import Kind, Token, syntax_error
from bpm_engine.bpmn.expressions.library.feel import FEEL_FUNCTIONS, TYPE_NAMES, temporal_literal
from bpm_engine.bpmn.expressions.parser import Parser
from bpm_engine.bpmn.expressions.syntax import Node

_COMPARISONS = ("=", "!=", "<", "<=", ">", ">=")
_KEYS_WITH_SPACES = frozenset({"time offset", "start included", "end included"})
_LONGEST_NAME = 5
_MOST_WORDS = 10
_AFTER_RANGE = frozenset({")", ",", "}", "]", "and", "or", "then", "else", "return", "satisfies"})


class FeelParser(Parser):
    reserved = frozenset(
        {"if", "then", "else", "for", "in", "return", "some", "every", "satisfies", "and", "or", "between"}
        | {"instance", "function"}
    )
    constants: ClassVar[dict[str, bool | None]] = {"true": True, "false": False, "null": None}
    feel = True

    def expression(self) -> Node:
        with self.nested():
            if self.at("if"):
                return self.conditional()
            if self.at("for"):
                return self.loop()
            if self.at("some", "every") and self.ahead().kind is Kind.NAME:
                return self.quantified()
            return self.disjunction()

    def conditional(self) -> Node:
        token = self.expect("if")
        condition = self.expression()
        self.expect("then")
        then = self.expression()
        self.expect("else")
        return syntax.Conditional(condition, then, self.expression(), token.position)

    def loop(self) -> Node:
        token = self.expect("for")
        iterators = self.iterators()
        self.expect("return")
        return syntax.Loop(iterators, None, self.expression(), token.position)

    def quantified(self) -> Node:
        token = self.advance()
        iterators = self.iterators()
        self.expect("satisfies")
        return syntax.Quantified(token.text == "every", iterators, self.expression(), token.position)

    def iterators(self) -> tuple[tuple[str, Node], ...]:
        found: list[tuple[str, Node]] = []
        while True:
            name = self.words(self.name())
            self.expect("in")
            found.append((name, self.iterated()))
            if not self.accept(","):
                return tuple(found)

    def iterated(self) -> Node:
        low = self.expression()
        if token := self.accept(".."):
            return syntax.RangeLiteral(low, self.expression(), True, True, token.position)
        return low

    def disjunction(self) -> Node:
        return self.logical("or", self.conjunction)

    def conjunction(self) -> Node:
        return self.logical("and", self.comparison)

    def logical(self, operator: str, operand: Callable[[], Node]) -> Node:
        operands = [operand()]
        position = self.token.position
        while self.accept(operator):
            operands.append(operand())
        return operands[0] if len(operands) == 1 else syntax.Logical(operator, tuple(operands), position)

    def comparison(self) -> Node:
        left = self.sum()
        token = self.token
        if self.accept(*_COMPARISONS):
            return syntax.Comparison(left, ((token.text, self.sum(), token.position),), token.position)
        if self.accept("between"):
            return self.between(left, token)
        if self.accept("in"):
            return syntax.Membership(left, self.tests(), token.position)
        if self.accept("instance"):
            self.expect("of")
            return syntax.InstanceOf(left, self.type_name(), token.position)
        if self.at("==", "&&", "||"):
            hint = {"==": "=", "&&": "and", "||": "or"}[token.text]
            raise syntax_error(f"FEEL writes {hint!r} instead of {token.text!r}", token.position)
        return left

    def between(self, value: Node, token: Token) -> Node:
        low = self.sum()
        self.expect("and")
        high = self.sum()
        bounds = syntax.RangeLiteral(low, high, True, True, token.position)
        return syntax.Membership(value, (syntax.Test(None, bounds),), token.position)

    def tests(self) -> tuple[syntax.Test, ...]:
        """Unary tests after `in`: one, or several in parentheses; `(1..5)` is a range, not a test list."""
        if not self.at("("):
            return (self.test(),)
        opening = self.advance()
        tests = [self.test()]
        if self.accept(".."):
            low = tests[0].operand
            return (syntax.Test(None, self.range_from(low, False, opening)),)
        while self.accept(","):
            tests.append(self.test())
        self.expect(")")
        return tuple(tests)

    def test(self) -> syntax.Test:
        operator = self.accept(*_COMPARISONS)
        return syntax.Test(operator.text if operator else None, self.sum() if operator else self.expression())

    def type_name(self) -> str:
        words: list[str] = []
        while self.token.kind is Kind.NAME and len(words) < _LONGEST_NAME:
            words.append(self.advance().text)
            known = " ".join(words)
            longer = f"{known} {self.token.text or '.'}"
            if known in TYPE_NAMES and not any(name.startswith(longer) for name in TYPE_NAMES):
                return known
        raise self.unexpected("the name of a type is missing")

    def sum(self) -> Node:
        node = self.product()
        while token := self.accept("+", "-"):
            node = syntax.Binary(token.text, node, self.product(), token.position)
        return node

    def product(self) -> Node:
        node = self.power()
        while token := self.accept("*", "/"):
            node = syntax.Binary(token.text, node, self.power(), token.position)
        return node

    def power(self) -> Node:
        node = self.signed()
        while token := self.accept("**"):
            node = syntax.Binary("**", node, self.signed(), token.position)
        return node

    def signed(self) -> Node:
        if token := self.accept("-"):
            with self.nested():
                return syntax.Negate(self.signed(), token.position)
        return self.postfix(self.primary())

    def primary(self) -> Node:
        if literal := self.literal():
            return literal
        token = self.token
        if self.accept("("):
            return self.parenthesised(token)
        if self.accept("["):
            return self.list_or_range(token)
        if self.accept("]"):
            return self.open_range(token)
        if self.accept("{"):
            return self.context(token)
        if self.accept("@"):
            return self.temporal_literal(token)
        if self.at("if", "for", "some", "every"):
            return self.expression()
        if function := self.function_name():
            return self.call(token, function)
        return syntax.Name(self.words(self.name()), token.position)

    def words(self, first: str) -> str:
        """The whole name that begins with this word: no grammar lets two names stand side by side."""
        found = [first]
        while self.token.kind is Kind.NAME and self.token.text not in self.reserved | self.constants.keys():
            if len(found) == _MOST_WORDS:
                raise self.unexpected(f"a name has at most {_MOST_WORDS} words")
            found.append(str(self.advance().value))
        return " ".join(found)

    def parenthesised(self, opening: Token) -> Node:
        node = self.expression()
        if self.accept(".."):
            return self.range_from(node, False, opening)
        self.expect(")")
        return node

    def list_or_range(self, opening: Token) -> Node:
        if self.accept("]"):
            return syntax.ListLiteral((), opening.position)
        first = self.expression()
        if self.accept(".."):
            return self.range_from(first, True, opening)
        if self.accept(","):
            return syntax.ListLiteral((first, *self.separated("]")), opening.position)
        self.expect("]")
        return syntax.ListLiteral((first,), opening.position)

    def open_range(self, opening: Token) -> Node:
        low = self.expression()
        self.expect("..")
        return self.range_from(low, False, opening)

    def range_from(self, low: Node, includes_low: bool, opening: Token) -> Node:
        high = self.expression()
        closing = self.accept("]", ")", "[")
        if closing is None:
            raise self.unexpected("the end of the range is missing")
        return syntax.RangeLiteral(low, high, includes_low, closing.text == "]", opening.position)

    def context(self, opening: Token) -> Node:
        entries: list[tuple[str, Node]] = []
        while not self.at("}"):
            key = str(self.advance().value) if self.token.kind is Kind.TEXT else self.spaced_name()
            self.expect(":")
            entries.append((key, self.expression()))
            if not self.at("}"):
                self.expect(",")
        self.expect("}")
        return syntax.ContextLiteral(tuple(entries), opening.position)

    def spaced_name(self) -> str:
        words = []
        while self.token.kind is Kind.NAME:
            words.append(str(self.advance().value))
        if not words:
            raise self.unexpected("a name is missing")
        return " ".join(words)

    def temporal_literal(self, opening: Token) -> Node:
        if self.token.kind is not Kind.TEXT:
            raise self.unexpected("a text is missing after '@'")
        try:
            return syntax.Literal(temporal_literal(str(self.advance().value)), opening.position)
        except ExpressionError as error:
            raise error.at(opening.position) from None

    def function_name(self) -> str | None:
        """The words up to a parenthesis, if the library knows them or nothing else makes sense."""
        words: list[str] = []
        for count in range(_LONGEST_NAME):
            token = self.ahead(count)
            if token.kind is not Kind.NAME:
                return None
            words.append(token.text)
            function = " ".join(words)
            opened = self.ahead(count + 1).text == "(" and self.ahead(count + 1).kind is Kind.OPERATOR
            if opened and (
                function in FEEL_FUNCTIONS
                or function == "is defined"
                or (count == 0 and function not in self.reserved)
            ):
                self.place += count + 1
                return function
        return None

    def at_postfix(self) -> bool:
        """`]1..5[` ends with a bracket too: one that nothing follows which could be an index."""
        if self.at("["):
            following = self.ahead()
            return following.kind is not Kind.END and following.text not in _AFTER_RANGE
        return self.at(".")

    def key_of(self, node: Node) -> Node:
        both = f"{self.ahead(1).text} {self.ahead(2).text}"
        if both in _KEYS_WITH_SPACES:
            position = self.advance().position
            self.place += 2
            return syntax.Path(node, both, position)
        found = super().key_of(node)
        return replace(found, key=self.words(found.key)) if isinstance(found, syntax.Path) else found

    def call(self, token: Token, function: str) -> Node:
        if not self._named_argument():
            return super().call(token, function)
        self.expect("(")
        names: list[str] = []
        arguments: list[Node] = []
        while not self.at(")"):
            names.append(self.spaced_name())
            self.expect(":")
            arguments.append(self.expression())
            if not self.at(")"):
                self.expect(",")
        self.expect(")")
        return syntax.Call(function, tuple(arguments), tuple(names), token.position)

    def _named_argument(self) -> bool:
        count = 1
        while self.ahead(count).kind is Kind.NAME:
            count += 1
        return count > 1 and self.ahead(count).text == ":"
