"""What a library function is: a name, its parameters, and a Python function over values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from bpm_engine.bpmn.expressions import syntax
from bpm_engine.bpmn.expressions.errors import ExpressionError
from bpm_engine.bpmn.expressions.limits import Context
from bpm_engine.bpmn.expressions.syntax import Node
from bpm_engine.bpmn.expressions.values import Value, kind, mismatch

SIZED = frozenset({str, list, dict})
Implementation = Callable[..., Value]


class Cost(Enum):
    """What a call has to pay for its arguments, in steps of the evaluation."""

    SHALLOW = auto()
    """It walks over texts and lists once."""
    DEEP = auto()
    """It compares or copies what is nested inside its arguments."""
    PATTERN = auto()
    """It follows a pattern (second argument) through a text (first argument)."""


@dataclass(frozen=True, slots=True)
class Function:
    name: str
    parameters: tuple[str, ...]
    required: int
    variadic: bool
    implementation: Implementation
    cost: Cost

    @property
    def signature(self) -> str:
        shown = [name if place < self.required else f"{name}?" for place, name in enumerate(self.parameters)]
        return f"{self.name}({', '.join(shown)}{'…' if self.variadic else ''})"

    def call(self, values: list[Value], context: Context) -> Value:
        """Charge the evaluation for arguments and result, and run the function."""
        self._charge(values, context)
        result = self.implementation(*values)
        if type(result) in SIZED:
            context.charge_bulk(len(result))  # type: ignore[arg-type]
        return result

    def _charge(self, values: list[Value], context: Context) -> None:
        if self.cost is Cost.PATTERN and isinstance(values[0], str) and isinstance(values[1], str):
            context.charge_bulk(3 * len(values[0]) * len(values[1]))
        for value in values:
            if type(value) in SIZED:
                if self.cost is Cost.DEEP:
                    context.charge_value(value)
                else:
                    context.charge_bulk(len(value))  # type: ignore[arg-type]

    def arrange(self, arguments: Sequence[Node], names: Sequence[str]) -> Sequence[Node]:
        """The arguments in the order of the parameters; too many, too few or unknown ones are refused."""
        if names:
            return self._by_name(arguments, names)
        if len(arguments) < self.required or (len(arguments) > len(self.parameters) and not self.variadic):
            raise ExpressionError("ARGUMENT", f"wrong number of arguments; it is {self.signature}")
        return arguments

    def _by_name(self, arguments: Sequence[Node], names: Sequence[str]) -> Sequence[Node]:
        given = dict(zip(names, arguments, strict=True))
        wanted = self.parameters[
            : max((self.parameters.index(n) for n in given if n in self.parameters), default=0) + 1
        ]
        unknown = set(given) - set(self.parameters)
        if unknown or len(given) < len(names) or not set(self.parameters[: self.required]) <= set(given):
            raise ExpressionError("ARGUMENT", f"wrong argument names; it is {self.signature}")
        return [given.get(name) or syntax.Literal(None, arguments[0].position) for name in wanted]


class Library(dict[str, Function]):
    """A table of functions under construction."""

    def add(
        self, names: str, parameters: str, implementation: Implementation, *, cost: Cost = Cost.SHALLOW
    ) -> None:
        """Register under several names (`len|size`); parameters as `text, start, length?` or `*items`."""
        parts = [part.strip() for part in parameters.split(",") if part.strip()]
        variadic = bool(parts) and parts[-1].startswith("*")
        required = sum(1 for part in parts if not part.endswith("?"))
        plain = tuple(part.strip("*?") for part in parts)
        for name in names.split("|"):
            self[name] = Function(name, plain, required, variadic, implementation, cost)


def text(value: Value) -> str:
    if isinstance(value, str):
        return value
    raise mismatch(f"a text is needed here, not a {kind(value)}")


def items(value: Value) -> list[Value]:
    if isinstance(value, list):
        return value
    raise mismatch(f"a list is needed here, not a {kind(value)}")


def context(value: Value) -> dict[str, Value]:
    if isinstance(value, dict):
        return value
    raise mismatch(f"a context is needed here, not a {kind(value)}")


def argument_error(message: str) -> ExpressionError:
    return ExpressionError("ARGUMENT", message)
