"""A token at a node: what a behaviour may look at. It reads; it changes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from bpm_engine.bpmn.expressions import Expression, Value, to_json
from bpm_engine.bpmn.graph import Graph, Node
from bpm_engine.core.context import Context
from bpm_engine.core.effects import Fault
from bpm_engine.core.state import Instance, Json, Token, Variables
from bpm_engine.core.variables import View, view

if TYPE_CHECKING:
    from bpm_engine.core.marking import Marking


class Visit(msgspec.Struct, eq=False, gc=False):
    marking: Marking
    token: Token
    node: Node
    graph: Graph
    is_answered: bool = False  # resumed by an answer from outside, which must not be lost
    ended_scope: str | None = None  # the inner scope whose end resumed the token
    is_last: bool = False  # of its step: nothing else is done before the token goes on
    is_entered: bool = False  # it has waited for its data: history knows, and boundary events are armed
    known: Variables | None = None  # what the element itself says of its state, before all variables

    @property
    def context(self) -> Context:
        return self.marking.context

    @property
    def instance(self) -> Instance:
        return self.marking.draft.instance(self.token.instance_id)

    def view(self) -> View:
        seen = view(self.marking.draft, self.token.scope_id, self.token.local)
        if self.known is not None:
            seen.layers.insert(0, self.known)
        return seen

    def from_outside(self) -> Visit:
        """As the flows that leave the node see it: without what it keeps to itself."""
        return self if not self.token.local else replace(self, token=replace(self.token, local=None))

    def value(self, expression: Expression) -> Value:
        """Times and durations keep their type."""
        return expression.evaluate(self.view(), self.context.now)

    def json(self, expression: Expression) -> Json:
        """As it may be stored in a variable."""
        return to_json(self.value(expression))

    def stored(self, value: Value) -> Json:
        return to_json(value)

    def holds(self, expression: Expression) -> bool:
        return expression.holds(self.view(), self.context.now)

    def text(self, expression: Expression, what: str) -> str:
        value = self.json(expression)
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise Fault("NOT_A_TEXT", f"{what} must be a text or a number, not {value!r:.80}")
        return str(value)

    def integer(self, expression: Expression, what: str) -> int:
        value = self.json(expression)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise Fault("NOT_AN_INTEGER", f"{what} must be a whole number, not {value!r:.80}")
        return value

    def mapped(self, pairs: tuple[tuple[str, Expression], ...], *, changing: bool = False) -> Variables:
        """Mappings in their order; a later one sees what an earlier one made. `changing`: see `put`."""
        if not pairs:
            return {}
        seen, now = self.view(), self.context.now
        made: Variables = {}
        seen.layers.insert(0, made)
        for name, expression in pairs:
            put(made, seen, name, to_json(expression.evaluate(seen, now)), changing=changing)
        return made


def put(made: Variables, seen: View, name: str, value: Json, *, changing: bool) -> None:
    """What a mapping made. A name with dots is a path into a context: a new one, or when `changing`, the one
    that is there."""
    top, *keys = name.split(".")
    made[top] = _set(seen.get(top) if changing or top in made else None, keys, value)


def _set(context: Json, keys: list[str], value: Json) -> Json:
    """The context with the value at that path; what is no context gives way to one."""
    if not keys:
        return value
    entries = context if isinstance(context, dict) else {}
    return {**entries, keys[0]: _set(entries.get(keys[0]), keys[1:], value)}
