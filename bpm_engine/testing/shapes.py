"""What values the variables of a process may take, concluded from the expressions that read them.

`total > 100` makes 100, 101 and 99 worth trying, `paid` true and false, `line.price` an object with a price,
`count(files) = 0` an empty list and one with an item. A mapping `result = ${match}` gives both one shape.
Nothing is solved symbolically: values are proposed here and tried by playing the process.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import combinations, islice, product
from typing import Any

from bpm_engine.bpmn.expressions import syntax
from bpm_engine.bpmn.expressions.expression import Expression, syntax_trees
from bpm_engine.core.state import Json

NUMBERS: tuple[Json, ...] = (1, 1000, 0, 100_000)  # of what is calculated with
ORDERS = ("<", "<=", ">", ">=")
COUNTING = ("count", "len", "size", "sum", "min", "max")
DATE = "2030-06-01T09:00:00Z"
MOST = 12  # values of one variable


@dataclass(slots=True)
class Shape:
    """Proposed values of a variable or of a part of one; or its fields, or its elements."""

    name: str
    values: list[Json] = field(default_factory=list)
    fields: dict[str, Shape] = field(default_factory=dict)
    element: Shape | None = None
    is_number: bool = False
    is_date: bool = False
    _same: Shape | None = None

    def actual(self) -> Shape:
        return self if self._same is None else self._same.actual()

    def propose(self, *values: Json) -> None:
        for value in values:
            if not any(type(value) is type(known) and value == known for known in self.values):
                self.values.append(value)

    def part(self, key: str) -> Shape:
        return self.fields.setdefault(key, Shape(key)).actual()

    def item(self) -> Shape:
        if self.element is None:
            self.element = Shape(f"{self.name}-item")
        return self.element.actual()

    def unite(self, other: Shape) -> None:
        """From now on both are one."""
        other = other.actual()
        if other is self:
            return
        self.propose(*other.values)
        self.is_number |= other.is_number
        self.is_date |= other.is_date
        for key, shape in other.fields.items():
            self.part(key).unite(shape)
        if other.element is not None:
            self.item().unite(other.element)
        other._same = self

    def candidates(self) -> list[Json]:
        """The first is what to take where it does not matter."""
        return list(islice(self._candidates(), MOST))

    def _candidates(self) -> Iterator[Json]:
        if self.element is not None:
            items = self.element.actual().candidates()
            yield from ([item] for item in items[:4])
            yield [items[0], items[-1]]
            yield []
        elif self.fields:
            yield from assignments({key: shape.actual() for key, shape in self.fields.items()}, MOST)
        elif self.values:
            yield from self.values
            yield from (number for number in NUMBERS if self.is_number and number not in self.values)
        elif self.is_number:
            yield from NUMBERS
        else:
            yield DATE if self.is_date else f"{self.name}-1"


def assignments(shapes: Mapping[str, Shape], most: int) -> Iterator[dict[str, Json]]:
    """Combinations of candidates: the first of each, the second of each …, then those first that differ
    least from the first of each."""
    lists = {name: shape.actual().candidates() for name, shape in shapes.items()}
    yield from islice(_varied(lists), most)


def _varied(lists: Mapping[str, list[Json]]) -> Iterator[dict[str, Json]]:
    for place in range(max((len(values) for values in lists.values()), default=1)):
        yield {name: values[min(place, len(values) - 1)] for name, values in lists.items()}
    plain = {name: values[0] for name, values in lists.items()}
    for count in range(1, len(lists) + 1):
        for names in combinations(lists, count):
            for values in product(*(lists[name][1:] for name in names)):
                yield plain | dict(zip(names, values, strict=True))


class Shapes:
    """The shapes of all variables, by name; names are taken to mean the same everywhere in a file."""

    def __init__(self) -> None:
        self._variables: dict[str, Shape] = {}

    def of(self, name: str) -> Shape:
        return self._variables.setdefault(name, Shape(name)).actual()

    def learn(self, expression: Expression | None, *, condition: bool = False) -> None:
        """From an expression that is evaluated somewhere."""
        if expression is not None:
            for tree in syntax_trees(expression):
                self._visit(tree, {}, "condition" if condition else None)

    def reference(self, expression: Expression | None) -> Shape | None:
        """The shape that an expression points at, if it does nothing else."""
        trees = syntax_trees(expression) if expression is not None else []
        return self._place(trees[0], {}) if len(trees) == 1 else None

    # -------------------------------------------------------------- reading expressions

    def _place(self, node: syntax.Node, bound: Mapping[str, Shape]) -> Shape | None:
        match node:
            case syntax.Name(name=name):
                return bound[name].actual() if name in bound else self.of(name)
            case syntax.Path(target=target, key=key):
                whole = self._place(target, bound)
                return whole.part(key) if whole is not None else None
            case syntax.Index(target=target):
                whole = self._place(target, bound)
                return whole.item() if whole is not None else None
            case _:
                return None

    def _visit(self, node: syntax.Node, bound: Mapping[str, Shape], use: str | None) -> None:
        shape = self._place(node, bound)
        if shape is not None:
            if use == "condition":
                shape.propose(True, False)
            shape.is_number |= use == "number"
            return
        match node:
            case syntax.Comparison(first=first, rest=rest):
                left = first
                for operator, right, _ in rest:
                    self._compare(left, operator, right, bound)
                    left = right
            case syntax.Logical(operands=operands):
                for operand in operands:
                    self._visit(operand, bound, "condition")
            case syntax.Not(operand=operand):
                self._visit(operand, bound, "condition")
            case syntax.Binary(left=left, right=right):
                for side in (left, right):
                    self._visit(side, bound, "number")
            case syntax.Conditional(condition=condition, then=then, otherwise=otherwise):
                self._visit(condition, bound, "condition")
                self._visit(then, bound, use)
                self._visit(otherwise, bound, use)
            case syntax.Call(function=function, arguments=arguments):
                self._call(function, arguments, bound)
            case syntax.Loop(iterators=iterators, condition=filtered, body=body):
                inner = self._iterated(iterators, bound)
                if filtered is not None:
                    self._visit(filtered, inner, "condition")
                self._visit(body, inner, None)
            case syntax.Quantified(iterators=iterators, condition=condition):
                self._visit(condition, self._iterated(iterators, bound), "condition")
            case syntax.Membership(value=value, tests=tests):
                for test in tests:
                    self._compare(value, test.operator or "==", test.operand, bound)
            case _:
                for part in _parts(node):
                    self._visit(part, bound, None)

    def _iterated(
        self, iterators: tuple[tuple[str, syntax.Node], ...], bound: Mapping[str, Shape]
    ) -> dict[str, Shape]:
        inner = dict(bound)
        for name, source in iterators:
            whole = self._place(source, inner)
            inner[name] = whole.item() if whole is not None else Shape(name)
        return inner

    def _call(self, function: str, arguments: tuple[syntax.Node, ...], bound: Mapping[str, Shape]) -> None:
        for argument in arguments:
            shape = self._place(argument, bound)
            if shape is not None and function in COUNTING:
                shape.item()
            elif shape is None:
                self._visit(argument, bound, None)

    def _compare(
        self, left: syntax.Node, operator: str, right: syntax.Node, bound: Mapping[str, Shape]
    ) -> None:
        for one, other in ((left, right), (right, left)):
            shape = self._place(one, bound)
            if shape is None:
                self._visit(one, bound, "number" if operator in ORDERS else None)
            elif isinstance(other, syntax.Literal):
                shape.propose(*_around(other.value))
            elif isinstance(other, syntax.ListLiteral):
                values = [item.value for item in other.items if isinstance(item, syntax.Literal)]
                shape.propose(*(near for value in values for near in _around(value)))
            elif operator in ORDERS:
                shape.is_number = True


def _around(value: Any) -> tuple[Json, ...]:
    """A value, and others that are not it."""
    match value:
        case bool():
            return (value, not value)
        case int() | float():
            return (value, value + 1, value - 1)
        case str():
            return (value, f"not {value}")
        case None:
            return (None, "something")
        case _:
            return ()


def _parts(node: object) -> Iterator[syntax.Node]:
    """What an expression of another kind is made of."""
    for name in getattr(node, "__dataclass_fields__", ()):
        value = getattr(node, name)
        for part in value if isinstance(value, tuple) else (value,):
            if type(part).__module__ == syntax.__name__ and not isinstance(part, syntax.Test):
                yield part
