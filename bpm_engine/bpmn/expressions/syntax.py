"""The syntax tree all three notations are parsed into. Every node knows its position in the text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias, Union

from bpm_engine.bpmn.expressions.values import Value


@dataclass(frozen=True, slots=True)
class Literal:
    value: Value
    position: int


@dataclass(frozen=True, slots=True)
class Name:
    name: str
    position: int


@dataclass(frozen=True, slots=True)
class Path:
    """`target.key`: a key of a context, or a part of a date; never an attribute of an object."""

    target: Node
    key: str
    position: int


@dataclass(frozen=True, slots=True)
class Index:
    """`target[index]`. In FEEL the brackets may also hold a filter; the value decides."""

    target: Node
    index: Node
    position: int


@dataclass(frozen=True, slots=True)
class Negate:
    operand: Node
    position: int


@dataclass(frozen=True, slots=True)
class Not:
    operand: Node
    position: int


@dataclass(frozen=True, slots=True)
class Empty:
    operand: Node
    position: int


@dataclass(frozen=True, slots=True)
class Binary:
    operator: str
    left: Node
    right: Node
    position: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """`a < b <= c`: each operand is evaluated once, the first false ends it."""

    first: Node
    rest: tuple[tuple[str, Node, int], ...]
    position: int


@dataclass(frozen=True, slots=True)
class Logical:
    """`and` / `or` over two or more operands, from left to right."""

    operator: str
    operands: tuple[Node, ...]
    position: int


@dataclass(frozen=True, slots=True)
class Conditional:
    condition: Node
    then: Node
    otherwise: Node
    position: int


@dataclass(frozen=True, slots=True)
class ListLiteral:
    items: tuple[Node, ...]
    position: int


@dataclass(frozen=True, slots=True)
class ContextLiteral:
    entries: tuple[tuple[str, Node], ...]
    position: int


@dataclass(frozen=True, slots=True)
class Call:
    function: str
    arguments: tuple[Node, ...]
    names: tuple[str, ...]
    """Names of the arguments where they are given by name; else empty."""
    position: int


@dataclass(frozen=True, slots=True)
class Method:
    """`target.name(arguments)`: one of a fixed table, never something the target itself brings."""

    target: Node
    name: str
    arguments: tuple[Node, ...]
    position: int


@dataclass(frozen=True, slots=True)
class Loop:
    """`for x in xs return body`, or `[body for x in xs if condition]`."""

    iterators: tuple[tuple[str, Node], ...]
    condition: Node | None
    body: Node
    position: int


@dataclass(frozen=True, slots=True)
class Quantified:
    every: bool
    iterators: tuple[tuple[str, Node], ...]
    condition: Node
    position: int


@dataclass(frozen=True, slots=True)
class RangeLiteral:
    low: Node
    high: Node
    includes_low: bool
    includes_high: bool
    position: int


@dataclass(frozen=True, slots=True)
class Test:
    """A FEEL unary test: `< 5` with an operator; without one a value, a range or a list to be in."""

    operator: str | None
    operand: Node


@dataclass(frozen=True, slots=True)
class Membership:
    """`value in (tests)`: true if any test holds."""

    value: Node
    tests: tuple[Test, ...]
    position: int


@dataclass(frozen=True, slots=True)
class InstanceOf:
    value: Node
    type_name: str
    position: int


Node: TypeAlias = Union[  # noqa: UP007
    Literal,
    Name,
    Path,
    Index,
    Negate,
    Not,
    Empty,
    Binary,
    Comparison,
    Logical,
    Conditional,
    ListLiteral,
    ContextLiteral,
    Call,
    Method,
    Loop,
    Quantified,
    RangeLiteral,
    Membership,
    InstanceOf,
]
