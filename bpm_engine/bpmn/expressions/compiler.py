"""Syntax tree to closures, for the strict notations; FEEL overrides what it sees differently.

A closure takes the variables and the context of the evaluation. While compiling, the names read are
collected, nodes are counted, and it is noted whether the evaluation needs a clock or a step counter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from bpm_engine.bpmn.expressions import limits, operators, syntax
from bpm_engine.bpmn.expressions.comparisons import Run, direct_comparison
from bpm_engine.bpmn.expressions.errors import ExpressionError
from bpm_engine.bpmn.expressions.library.functions import Function
from bpm_engine.bpmn.expressions.library.methods import accessed_key
from bpm_engine.bpmn.expressions.limits import Context
from bpm_engine.bpmn.expressions.operators import Operation
from bpm_engine.bpmn.expressions.syntax import Node
from bpm_engine.bpmn.expressions.values import READY_TYPES, Lookup, Value, admitted, kind, mismatch

_CONTAINERS = frozenset({list, dict})
_DATA_FUNCTIONS = frozenset({"getDataObject", "getDataInput", "getDataOutput", "getProcessProperty"})


class Locals:
    """The names a loop, a filter or a context literal adds in front of the variables."""

    __slots__ = ("names", "outer")

    def __init__(self, names: dict[str, Value], outer: Lookup) -> None:
        self.names = names
        self.outer = outer

    def __getitem__(self, name: str) -> Value:
        names = self.names
        return names[name] if name in names else self.outer[name]


class Compiler:
    """Compiles one expression; `reads`, `uses_clock` and `metered` are complete when it is done."""

    def __init__(
        self,
        functions: Mapping[str, Function],
        operations: Mapping[str, Operation],
        methods: Mapping[str, Function] | None = None,
    ) -> None:
        self.functions = functions
        self.operations = operations
        self.methods = methods or {}
        self.reads: set[str] = set()
        self.uses_clock = False
        self.metered = False
        self._local: list[str] = []
        self._nodes = 0

    def compile(self, node: Node) -> Run:
        self._nodes += 1
        if self._nodes > limits.NODES:
            raise limits.exceeded(f"the expression has more than {limits.NODES} parts", node.position)
        return self._dispatch(node)

    def _dispatch(self, node: Node) -> Run:
        match node:
            case syntax.Literal():
                return constant(node.value)
            case syntax.Name():
                return self.name(node)
            case syntax.Path():
                return self.path(node)
            case syntax.Index():
                return self.index(node)
            case syntax.Negate():
                return self.unary(self.negated, node.operand, node.position)
            case syntax.Not():
                return self.unary(lambda value: not operators.truth(value), node.operand, node.position)
            case syntax.Empty():
                return self.unary(operators.is_empty, node.operand, node.position)
            case syntax.Binary():
                return self.binary(node)
            case syntax.Comparison():
                return self.comparison(node)
            case syntax.Logical():
                return self.logical(node)
            case syntax.Conditional():
                return self.conditional(node)
            case syntax.ListLiteral():
                return self.list_literal(node)
            case syntax.ContextLiteral():
                return self.context_literal(node)
            case syntax.Call():
                return self.call(node)
            case syntax.Method():
                return self.method(node)
            case syntax.Loop():
                return self.loop(node)
            case _:
                raise ExpressionError("SYNTAX", "this notation has no such expression", node.position)

    def note_read(self, name: str) -> None:
        if name not in self._local:
            self.reads.add(name)

    def name(self, node: syntax.Name) -> Run:
        self.note_read(node.name)
        name, position = node.name, node.position

        def read(variables: Lookup, context: Context) -> Value:
            try:
                value = variables[name]
            except KeyError:
                raise unknown_variable(name, position) from None
            return value if type(value) in READY_TYPES else refuse(value, position)

        return read

    def key(self, target: Value, key: str) -> Value:
        return operators.strict_key(target, key)

    def item(self, target: Value, index: Value) -> Value:
        return operators.strict_item(target, index)

    def negated(self, value: Value) -> Value:
        return operators.negated(value)

    def path(self, node: syntax.Path) -> Run:
        target, key, position, look_up = self.compile(node.target), node.key, node.position, self.key

        def read(variables: Lookup, context: Context) -> Value:
            holder = target(variables, context)
            if type(holder) is dict and key in holder:
                value = holder[key]
                return value if type(value) in READY_TYPES else refuse(value, position)
            try:
                return look_up(holder, key)
            except ExpressionError as error:
                raise error.at(position) from None

        return read

    def index(self, node: syntax.Index) -> Run:
        return self.operation(self.item, self.compile(node.target), self.compile(node.index), node.position)

    def unary(self, operate: Callable[[Value], Value], operand: Node, position: int) -> Run:
        run = self.compile(operand)

        def operated(variables: Lookup, context: Context) -> Value:
            value = run(variables, context)
            try:
                return operate(value)
            except ExpressionError as error:
                raise error.at(position) from None

        return operated

    def operation(self, operate: Operation, left: Run, right: Run, position: int) -> Run:
        def operated(variables: Lookup, context: Context) -> Value:
            first, second = left(variables, context), right(variables, context)
            try:
                if type(second) in _CONTAINERS:
                    context.charge_value(second)
                return operate(first, second)
            except ExpressionError as error:
                raise error.at(position) from None

        return operated

    def binary(self, node: syntax.Binary) -> Run:
        """Long sums lean to the left: they are run in a loop, not in a tower of closures."""
        steps: list[tuple[Operation, Run, int]] = []
        current: Node = node
        while isinstance(current, syntax.Binary):
            steps.append((self.operations[current.operator], self.compile(current.right), current.position))
            current = current.left
        first = self.compile(current)
        steps.reverse()
        if len(steps) == 1:
            operate, right, position = steps[0]
            return self.operation(operate, first, right, position)

        def chained(variables: Lookup, context: Context) -> Value:
            value = first(variables, context)
            for operate, operand, position in steps:
                second = operand(variables, context)
                try:
                    if type(second) in _CONTAINERS:
                        context.charge_value(second)
                    value = operate(value, second)
                except ExpressionError as error:
                    raise error.at(position) from None
            return value

        return chained

    def comparison(self, node: syntax.Comparison) -> Run:
        first = self.compile(node.first)
        steps = [(self.operations[symbol], self.compile(operand), at) for symbol, operand, at in node.rest]
        if len(steps) == 1:
            operate, right, position = steps[0]
            general = self.operation(operate, first, right, position)
            return direct_comparison(node, general) or general

        def chained(variables: Lookup, context: Context) -> Value:
            left = first(variables, context)
            for operate, operand, position in steps:
                right = operand(variables, context)
                try:
                    if type(right) in _CONTAINERS:
                        context.charge_value(right)
                    if not operate(left, right):
                        return False
                except ExpressionError as error:
                    raise error.at(position) from None
                left = right
            return True

        return chained

    def logical(self, node: syntax.Logical) -> Run:
        operands = [(self.truth(operand)) for operand in node.operands]
        decisive = node.operator == "or"

        def decided(variables: Lookup, context: Context) -> Value:
            for operand in operands:
                if operand(variables, context) is decisive:
                    return decisive
            return not decisive

        return decided

    def truth(self, node: Node) -> Run:
        """The closure of an operand that must be a boolean."""
        if isinstance(node, syntax.Comparison | syntax.Not | syntax.Logical):
            return self.compile(node)
        return self.unary(operators.truth, node, node.position)

    def conditional(self, node: syntax.Conditional) -> Run:
        condition, then, otherwise = (
            self.truth(node.condition),
            self.compile(node.then),
            self.compile(node.otherwise),
        )

        def chosen(variables: Lookup, context: Context) -> Value:
            if condition(variables, context) is True:
                return then(variables, context)
            return otherwise(variables, context)

        return chosen

    def list_literal(self, node: syntax.ListLiteral) -> Run:
        items = [self.compile(item) for item in node.items]
        return lambda variables, context: [item(variables, context) for item in items]

    def context_literal(self, node: syntax.ContextLiteral) -> Run:
        entries = [(key, self.compile(value)) for key, value in node.entries]
        return lambda variables, context: {key: value(variables, context) for key, value in entries}

    def call(self, node: syntax.Call) -> Run:
        self.metered = True
        match node.function:
            case "now" | "today" | "dateTime":
                return self.clock(node)
            case "defined" | "is defined":
                return self.defined(node)
        if (variable := _named_data(node)) is not None:
            self.note_read(variable)
            return _variable_or_null(variable)
        function = self.functions.get(node.function)
        if function is None:
            message = f"there is no function {node.function!r} in the library"
            raise ExpressionError("UNKNOWN_FUNCTION", message, node.position)
        return self.called(function, node.arguments, node.names, node.position)

    def called(
        self, function: Function, arguments: tuple[Node, ...], names: tuple[str, ...], position: int
    ) -> Run:
        try:
            arranged = function.arrange(arguments, names)
        except ExpressionError as error:
            raise error.at(position) from None
        return self.invocation(function, [self.compile(argument) for argument in arranged], position)

    def method(self, node: syntax.Method) -> Run:
        self.metered = True
        if (variable := _asked_variable(node)) is not None:
            self.note_read(variable)
            return _exists(variable, ()) if node.name == "hasVariable" else _variable_or_null(variable)
        if function := self.methods.get(node.name):
            return self.called(function, (node.target, *node.arguments), (), node.position)
        key = accessed_key(node.name)
        if key is None or node.arguments:
            message = f"there is no method {node.name!r} here, and objects of other programs cannot be called"
            raise ExpressionError("UNKNOWN_FUNCTION", message, node.position)
        return self.path(syntax.Path(node.target, key, node.position))

    def invocation(self, function: Function, arguments: list[Run], position: int) -> Run:
        call = function.call

        def invoke(variables: Lookup, context: Context) -> Value:
            values = [argument(variables, context) for argument in arguments]
            try:
                return call(values, context)
            except ExpressionError as error:
                raise error.at(position) from None

        return invoke

    def clock(self, node: syntax.Call) -> Run:
        if node.arguments:
            raise ExpressionError("ARGUMENT", f"{node.function}() takes no arguments", node.position)
        self.uses_clock = True
        only_day, position = node.function == "today", node.position

        def read_clock(variables: Lookup, context: Context) -> Value:
            if context.now is None:
                raise ExpressionError("NO_CLOCK", "the time is not known where this is evaluated", position)
            return context.now.date() if only_day else context.now

        return read_clock

    def defined(self, node: syntax.Call) -> Run:
        """`defined(order.discount)`: whether a variable, or a key below it, exists; null exists."""
        if len(node.arguments) != 1 or not isinstance(node.arguments[0], syntax.Name | syntax.Path):
            message = f"{node.function}() takes a variable or a path"
            raise ExpressionError("ARGUMENT", message, node.position)
        names: list[str] = []
        current: Node = node.arguments[0]
        while isinstance(current, syntax.Path):
            names.append(current.key)
            current = current.target
        if not isinstance(current, syntax.Name):
            raise ExpressionError("ARGUMENT", f"{node.function}() takes a variable or a path", node.position)
        self.note_read(current.name)
        return _exists(current.name, tuple(reversed(names)))

    def loop(self, node: syntax.Loop) -> Run:
        self.metered = True
        with_locals = self.iteration(node.iterators)
        condition = self.truth(node.condition) if node.condition is not None else None
        body = self.compile(node.body)
        self.forget(node.iterators)

        def collect(variables: Lookup, context: Context) -> Value:
            return [
                body(local, context)
                for local in with_locals(variables, context)
                if condition is None or condition(local, context) is True
            ]

        return collect

    def iteration(
        self, iterators: tuple[tuple[str, Node], ...]
    ) -> Callable[[Lookup, Context], Iterator[Locals]]:
        """Every combination of the iterators' items, each as the local names in front of the variables."""
        sources: list[tuple[str, Run, int]] = []
        for name, source in iterators:
            sources.append((name, self.compile(source), source.position))
            self._local.append(name)
        items = self.items

        def combine(outer: Lookup, context: Context, place: int) -> Iterator[Locals]:
            name, source, position = sources[place]
            for value in items(source(outer, context), position):
                context.charge(1)
                local = Locals({name: value}, outer)
                if place + 1 == len(sources):
                    yield local
                else:
                    yield from combine(local, context, place + 1)

        return lambda variables, context: combine(variables, context, 0)

    def forget(self, iterators: tuple[tuple[str, Node], ...]) -> None:
        del self._local[len(self._local) - len(iterators) :]

    def items(self, value: Value, position: int) -> Iterator[Value]:
        if not isinstance(value, list):
            raise mismatch(f"a list is needed here, not a {kind(value)}").at(position)
        return iter(value)


def constant(value: Value) -> Run:
    return lambda variables, context: value


def unknown_variable(name: str, position: int) -> ExpressionError:
    return ExpressionError("UNKNOWN_VARIABLE", f"there is no variable {name!r}", position)


def refuse(value: Value, position: int) -> Value:
    try:
        return admitted(value)
    except ExpressionError as error:
        raise error.at(position) from None


def _asked_variable(node: syntax.Method) -> str | None:
    """The name in `execution.getVariable("x")`: how other engines ask for a variable that may be missing."""
    match node:
        case syntax.Method(
            target=syntax.Name(name="execution" | "task" | "kcontext"),
            name="getVariable" | "hasVariable",
            arguments=(syntax.Literal(value=str(name)),),
        ):
            return name
        case _:
            return None


def _named_data(node: syntax.Call) -> str | None:
    """The name in `getDataObject("order")` and its like, the functions of the standard itself (BPMN 2.0.2,
    10.4.3); the process or activity that holds the data may be named before it."""
    match node:
        case syntax.Call(function=function, arguments=(*_, syntax.Literal(value=str(name)))):
            is_data = function in _DATA_FUNCTIONS and len(node.arguments) <= 2 and not node.names
            return name if is_data and name.isidentifier() else None
        case _:
            return None


def _variable_or_null(name: str) -> Run:
    def read(variables: Lookup, context: Context) -> Value:
        try:
            return admitted(variables[name])
        except KeyError:
            return None

    return read


def _exists(name: str, keys: tuple[str, ...]) -> Run:
    def exists(variables: Lookup, context: Context) -> Value:
        try:
            value = variables[name]
        except KeyError:
            return False
        for key in keys:
            if not isinstance(value, dict) or key not in value:
                return False
            value = value[key]
        return True

    return exists
