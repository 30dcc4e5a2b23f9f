"""Closures for FEEL: null in, null out; filters, quantifiers, ranges and unary tests.

A variable that does not exist reads as null, except in a condition (`Expression.holds`), where it is an
error unless the expression asks for it: `x = null`, `is defined(x)`, `get or else(x, …)`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from bpm_engine.bpmn.expressions import feel_operators, syntax
from bpm_engine.bpmn.expressions.comparisons import Run
from bpm_engine.bpmn.expressions.compiler import Compiler, Locals, refuse, unknown_variable
from bpm_engine.bpmn.expressions.errors import ExpressionError
from bpm_engine.bpmn.expressions.library.feel import FEEL_FUNCTIONS, instance_of, range_items
from bpm_engine.bpmn.expressions.library.functions import Function
from bpm_engine.bpmn.expressions.limits import Context
from bpm_engine.bpmn.expressions.syntax import Node
from bpm_engine.bpmn.expressions.values import READY_TYPES, Lookup, Range, Value

_NULL_IS_MEANT = frozenset({"get or else", "coalesce"})
_FILTER_ITEM = "item"


class FeelCompiler(Compiler):
    def __init__(self) -> None:
        super().__init__(FEEL_FUNCTIONS, feel_operators.FEEL_OPERATORS)

    def _dispatch(self, node: Node) -> Run:
        match node:
            case syntax.Quantified():
                return self.quantified(node)
            case syntax.RangeLiteral():
                return self.range_literal(node)
            case syntax.Membership():
                return self.membership(node)
            case syntax.InstanceOf():
                name = node.type_name
                return self.unary(lambda value: instance_of(value, name), node.value, node.position)
            case _:
                return super()._dispatch(node)

    def name(self, node: syntax.Name) -> Run:
        return self.read(node, null_is_meant=False)

    def read(self, node: syntax.Name, null_is_meant: bool) -> Run:
        self.note_read(node.name)
        name, position = node.name, node.position

        def read(variables: Lookup, context: Context) -> Value:
            try:
                value = variables[name]
            except KeyError:
                if context.strict and not null_is_meant:
                    raise unknown_variable(name, position) from None
                return None
            if type(value) is float:
                return feel_operators.exact_number(value)
            return value if type(value) in READY_TYPES else refuse(value, position)

        return read

    def key(self, target: Value, key: str) -> Value:
        return feel_operators.key(target, key)

    def negated(self, value: Value) -> Value:
        return feel_operators.negated(value)

    def compile_tolerating_null(self, node: Node) -> Run:
        """An operand for which null is an expected answer: a missing variable is no error here."""
        return self.read(node, null_is_meant=True) if isinstance(node, syntax.Name) else self.compile(node)

    def comparison(self, node: syntax.Comparison) -> Run:
        symbol, right, position = node.rest[0]
        if symbol in ("=", "!=") and (_is_null(right) or _is_null(node.first)):
            left_run, right_run = (
                self.compile_tolerating_null(node.first),
                self.compile_tolerating_null(right),
            )
            return self.operation(self.operations[symbol], left_run, right_run, position)
        return super().comparison(node)

    def logical(self, node: syntax.Logical) -> Run:
        operands = [self.compile(operand) for operand in node.operands]
        decisive = node.operator == "or"
        combine = feel_operators.either if decisive else feel_operators.both

        def decided(variables: Lookup, context: Context) -> Value:
            result: Value = not decisive
            for operand in operands:
                result = combine(result, operand(variables, context))
                if result is decisive:
                    return result
            return result

        return decided

    def truth(self, node: Node) -> Run:
        """FEEL's `if` takes everything but true as false."""
        return self.compile(node)

    def context_literal(self, node: syntax.ContextLiteral) -> Run:
        """Later entries see earlier ones."""
        entries: list[tuple[str, Run]] = []
        for key, value in node.entries:
            entries.append((key, self.compile(value)))
            self._local.append(key)
        del self._local[len(self._local) - len(entries) :]

        def build(variables: Lookup, context: Context) -> Value:
            built: dict[str, Value] = {}
            local = Locals(built, variables)
            for key, value in entries:
                built[key] = value(local, context)
            return built

        return build

    def call(self, node: syntax.Call) -> Run:
        if node.function in _NULL_IS_MEANT and not node.names and node.arguments:
            self.metered = True
            function = self.functions[node.function]
            arguments = [self.compile_tolerating_null(a) for a in function.arrange(node.arguments, ())]
            return self.invocation(function, arguments, node.position)
        return super().call(node)

    def invocation(self, function: Function, arguments: list[Run], position: int) -> Run:
        call = function.call

        def invoke(variables: Lookup, context: Context) -> Value:
            values = [argument(variables, context) for argument in arguments]
            try:
                return call(values, context)
            except ExpressionError as error:
                if error.code in feel_operators.FORGIVEN:
                    return None
                raise error.at(position) from None

        return invoke

    def index(self, node: syntax.Index) -> Run:
        """`list[2]` takes an item, `list[price > 2]` filters; what the brackets yield decides."""
        self.metered = True
        target = self.compile(node.target)
        self._local.append(_FILTER_ITEM)
        inside = self.compile(node.index)
        self._local.pop()

        def select(variables: Lookup, context: Context) -> Value:
            found = target(variables, context)
            items: list[Value] = found if isinstance(found, list) else [] if found is None else [found]
            kept: list[Value] = []
            for place, item in enumerate(items or [None]):
                context.charge(1)
                verdict = inside(_filter_scope(item, variables), context)
                if place == 0 and not isinstance(verdict, bool) and verdict is not None:
                    return feel_operators.item(items, verdict)
                if verdict is True and items:
                    kept.append(item)
            return kept

        return select

    def quantified(self, node: syntax.Quantified) -> Run:
        self.metered = True
        with_locals = self.iteration(node.iterators)
        condition = self.compile(node.condition)
        self.forget(node.iterators)
        decisive = not node.every
        combine = feel_operators.both if node.every else feel_operators.either

        def decide(variables: Lookup, context: Context) -> Value:
            result: Value = node.every
            for local in with_locals(variables, context):
                result = combine(result, condition(local, context))
                if result is decisive:
                    return result
            return result

        return decide

    def items(self, value: Value, position: int) -> Iterator[Value]:
        match value:
            case list():
                return iter(value)
            case Range():
                return range_items(value)
            case None:
                return iter(())
            case _:
                return iter((value,))

    def range_literal(self, node: syntax.RangeLiteral) -> Run:
        low, high = self.compile(node.low), self.compile(node.high)
        includes = node.includes_low, node.includes_high
        return lambda variables, context: Range(low(variables, context), high(variables, context), *includes)

    def membership(self, node: syntax.Membership) -> Run:
        value = self.compile(node.value)
        tests = [self.unary_test(test, node.position) for test in node.tests]

        def check(variables: Lookup, context: Context) -> Value:
            candidate = value(variables, context)
            result: Value = False
            for test in tests:
                result = feel_operators.either(result, test(candidate, variables, context))
                if result is True:
                    return True
            return result

        return check

    def unary_test(self, test: syntax.Test, position: int) -> Callable[[Value, Lookup, Context], Value]:
        operand = self.compile(test.operand)
        operate = self.operations[test.operator] if test.operator else feel_operators.satisfies

        def passes(candidate: Value, variables: Lookup, context: Context) -> Value:
            expected = operand(variables, context)
            if type(expected) is list:
                context.charge_value(expected)
            try:
                return operate(candidate, expected)
            except ExpressionError as error:
                raise error.at(position) from None

        return passes


def _is_null(node: Node) -> bool:
    return isinstance(node, syntax.Literal) and node.value is None


def _filter_scope(item: Value, variables: Lookup) -> Locals:
    """Inside a filter the keys of the item are names, and `item` is the item itself."""
    names: dict[str, Value] = {**item} if isinstance(item, dict) else {}
    names[_FILTER_ITEM] = item
    return Locals(names, variables)
