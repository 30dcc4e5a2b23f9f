"""What the core lacks to go on: named, so that the committer can load it and ask again.

The core is pure, so starting over is free. Each field says what to load; `Snapshot` records what was
loaded in sets of the same names, which is how "not there" is told from "not looked for".
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from bpm_engine.core.context import DefinitionRef


class Needs(msgspec.Struct, frozen=True, kw_only=True):
    instances: frozenset[str] = frozenset()  # the row, its root scope and the chain of its callers
    tokens: frozenset[str] = frozenset()  # the row and its chain: scopes, their owners, instances, callers
    timers: frozenset[str] = frozenset()  # the row and the chain of its scope (and of its token)
    subscriptions: frozenset[str] = frozenset()  # likewise
    tasks: frozenset[str] = frozenset()  # likewise
    scopes: frozenset[str] = frozenset()  # the row and its chain outwards
    complete: frozenset[str] = frozenset()  # scope ids: everything live inside, recursively
    inside: frozenset[str] = frozenset()  # token ids: its inner scope or called instance, complete
    siblings: frozenset[str] = frozenset()  # scope ids: the live tokens directly in it
    waits: frozenset[str] = frozenset()  # token ids: its open timers, subscriptions and human task
    handlers: frozenset[str] = frozenset()  # scope ids: open timers and subscriptions without a token
    joins: frozenset[tuple[str, str]] = frozenset()  # (scope, node): the join and the tokens parked at it
    items: frozenset[tuple[str, int]] = frozenset()  # (scope, loop index): that token of a repetition
    outputs: frozenset[str] = frozenset()  # scope ids: the completed tokens of a repetition
    records: frozenset[str] = (
        frozenset()
    )  # instance ids: unfinished compensation records, the scopes they name
    conditions: frozenset[str] = frozenset()  # instance ids: open conditional waits, and their chains
    graphs: frozenset[str] = frozenset()  # definition ids
    definitions: frozenset[DefinitionRef] = frozenset()

    def __or__(self, other: Needs) -> Needs:
        return Needs(**{name: getattr(self, name) | getattr(other, name) for name in NAMES})

    def __bool__(self) -> bool:
        return any(getattr(self, name) for name in NAMES)


NAMES = Needs.__struct_fields__


def union(parts: Iterable[Needs]) -> Needs:
    wanted = tuple(parts)
    if len(wanted) == 1:
        return wanted[0]
    merged: dict[str, set[object]] = {}
    for part in wanted:
        for name in NAMES:
            if value := getattr(part, name):
                merged.setdefault(name, set()).update(value)
    return Needs(**{name: frozenset(values) for name, values in merged.items()})  # type: ignore[arg-type]


class Lacking(Exception):  # noqa: N818 - not an error: a question
    """Raised inside the core, and only there: the step cannot be decided with the rows at hand."""

    def __init__(self, needs: Needs) -> None:
        super().__init__(needs)
        self.needs = needs
