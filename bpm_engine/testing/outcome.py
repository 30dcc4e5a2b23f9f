"""What a run has come to, without what may differ: ids, times, the order of things at the same time."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from bpm_engine.core.state import Variables
from bpm_engine.testing.engine import TestEngine
from bpm_engine.testing.expectation import events_of
from bpm_engine.testing.texts import compared, compared_variables

Names = Mapping[str, str]  # an id of this run -> what it stands for


@dataclass(frozen=True, slots=True)
class Ended:
    """One instance in the end."""

    process: str
    business_key: str | None
    status: str
    variables: Variables
    path: Counter[str]
    waiting: Counter[str]
    incidents: Counter[str]

    @property
    def name(self) -> str:
        return f"{self.process} {self.business_key}" if self.business_key else self.process

    def order(self) -> tuple[str, str, str]:
        return (self.name, self.status, json.dumps(self.variables, sort_keys=True))


@dataclass(frozen=True, slots=True)
class Outcome:
    instances: tuple[Ended, ...]
    effects: Counter[str]  # work done per node: calls with one idempotency key are one
    events: Counter[str]  # written for the outside world, per type
    state: Any = None  # what the test itself wants compared
    wrong: tuple[str, ...] = field(default=())  # what must not happen in any run


def outcome_of(engine: TestEngine, effects: Mapping[str, str], state: Any, wrong: Iterable[str]) -> Outcome:
    """`effects`: idempotency key -> node."""
    found = engine.instances.find(order="oldest", limit=500).items
    names = {key: f"<key of {node}>" for key, node in effects.items()}
    names |= {view.id: f"<id of {view.definition_key}>" for view in found}
    names |= {key.partition(":")[0]: f"<token of {node}>" for key, node in effects.items()}
    instances = [
        Ended(
            view.definition_key,
            view.business_key,
            view.status,
            _renamed(view.variables, names),
            Counter(engine.path(view)),
            Counter(engine.waiting_at(view)),
            Counter(f"{each.node_id}: {each.code}" for each in engine.incidents.find(instance=view.id)),
        )
        for view in found
    ]
    return Outcome(
        instances=tuple(sorted(instances, key=Ended.order)),
        effects=Counter(effects.values()),
        events=Counter(event.type for view in found for event in events_of(engine, view.id)),
        state=_renamed(state, names),
        wrong=tuple(wrong),
    )


def _renamed(value: Any, names: Names) -> Any:
    match value:
        case str():
            for key, name in names.items():
                value = value.replace(key, name)
            return value
        case dict():
            return {_renamed(key, names): _renamed(each, names) for key, each in value.items()}
        case list() | tuple():
            return [_renamed(each, names) for each in value]
        case _:
            return value


def differences(expected: Outcome, actual: Outcome) -> list[str]:
    """Where two outcomes differ, as text; [] when they do not."""
    lines = list(actual.wrong)
    lines += _counted("instances", _names(expected), _names(actual))
    if not lines:
        for one, other in zip(expected.instances, actual.instances, strict=True):
            lines += _between(one, other)
    lines += _counted("effects", expected.effects, actual.effects)
    lines += _counted("events", expected.events, actual.events)
    if expected.state != actual.state:
        lines += ["state:", f"  expected: {expected.state!r}", f"  actual:   {actual.state!r}"]
    return lines


def _names(outcome: Outcome) -> Counter[str]:
    return Counter(each.name for each in outcome.instances)


def _between(one: Ended, other: Ended) -> list[str]:
    lines: list[str] = []
    if one.status != other.status:
        lines += ["status:", *compared([one.status], [other.status])]
    extra = {name: None for name in other.variables if name not in one.variables}
    changed = compared_variables({**one.variables, **extra}, other.variables)
    lines += ["variables:", *changed] if changed or extra else []
    lines += _counted("path", one.path, other.path)
    lines += _counted("waiting at", one.waiting, other.waiting)
    lines += _counted("incidents", one.incidents, other.incidents)
    return [f"{one.name}:", *(f"  {line}" for line in lines)] if lines else []


def _counted(what: str, expected: Counter[str], actual: Counter[str]) -> list[str]:
    if expected == actual:
        return []
    lines = [
        f"  {name}: expected {expected[name]} times, actual {actual[name]}"
        for name in sorted({*expected, *actual})
        if expected[name] != actual[name]
    ]
    return [f"{what}:", *lines]
