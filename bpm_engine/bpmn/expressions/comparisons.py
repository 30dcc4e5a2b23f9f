"""The shortest way for the most frequent condition: a variable against a variable or a constant.

Two integers, floats or texts compare as Python does. Everything else (other types, a missing variable, an
error with its position) is left to the general closure, so there is one meaning and one place for it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable

from bpm_engine.bpmn.expressions import operators, syntax
from bpm_engine.bpmn.expressions.limits import Context
from bpm_engine.bpmn.expressions.values import Lookup, Value

Run = Callable[[Lookup, Context], Value]
Compare = Callable[[Value, Value], bool]
_DIRECT: dict[str, Compare] = {**operators.ORDERINGS, "==": operator.eq, "=": operator.eq, "!=": operator.ne}
_DIRECT_TYPES = frozenset({int, float, str})


def direct_comparison(node: syntax.Comparison, general: Run) -> Run | None:
    """The quick closure if the comparison has that form, with the general one behind it; else None."""
    symbol, operand, _ = node.rest[0]
    compare = _DIRECT.get(symbol)
    if compare is None or not isinstance(node.first, syntax.Name):
        return None
    name = node.first.name
    if isinstance(operand, syntax.Name):
        return _compare_variables(compare, name, operand.name, general)
    if isinstance(operand, syntax.Literal) and type(operand.value) in _DIRECT_TYPES:
        return _compare_constant(compare, name, operand.value, general)
    return None


def _compare_variables(compare: Compare, name: str, other: str, general: Run) -> Run:
    def compared(variables: Lookup, context: Context) -> Value:
        try:
            left, right = variables[name], variables[other]
        except KeyError:
            return general(variables, context)
        if type(left) is type(right) and type(left) in _DIRECT_TYPES:
            return compare(left, right)
        return general(variables, context)

    return compared


def _compare_constant(compare: Compare, name: str, right: Value, general: Run) -> Run:
    kind_of = type(right)

    def compared(variables: Lookup, context: Context) -> Value:
        try:
            left = variables[name]
        except KeyError:
            return general(variables, context)
        return compare(left, right) if type(left) is kind_of else general(variables, context)

    return compared
