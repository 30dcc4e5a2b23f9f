"""The rows of one or many call trees that an advance may look at, and which of them were loaded.

A snapshot is narrow by default: the tokens that the stimuli name, their scopes outwards through the
callers, the tokens that wait around these scopes, and the instances. What more is at hand is said by
the sets, named as in `Needs`; `whole` means that every live row is there (tests, simulation).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from msgspec.structs import replace

from bpm_engine.core.changes import Changes, Rows
from bpm_engine.core.state import (
    CompensationRecord,
    HumanTask,
    Instance,
    Join,
    Record,
    Scope,
    Subscription,
    Timer,
    Token,
    Variables,
)

R = TypeVar("R", bound=Record)
JoinKey = tuple[str, str]  # scope id, node id


@dataclass(slots=True)
class Snapshot:
    instances: dict[str, Instance] = field(default_factory=dict)
    scopes: dict[str, Scope] = field(default_factory=dict)
    tokens: dict[str, Token] = field(default_factory=dict)
    joins: dict[JoinKey, Join] = field(default_factory=dict)
    timers: dict[str, Timer] = field(default_factory=dict)
    subscriptions: dict[str, Subscription] = field(default_factory=dict)
    tasks: dict[str, HumanTask] = field(default_factory=dict)
    compensations: dict[str, CompensationRecord] = field(default_factory=dict)

    whole: bool = False
    complete: set[str] = field(default_factory=set)
    inside: set[str] = field(default_factory=set)
    siblings: set[str] = field(default_factory=set)
    waits: set[str] = field(default_factory=set)
    handlers: set[str] = field(default_factory=set)
    joins_loaded: set[JoinKey] = field(default_factory=set)
    items: set[tuple[str, int]] = field(default_factory=set)
    outputs: set[str] = field(default_factory=set)
    records: set[str] = field(default_factory=set)
    conditions: set[str] = field(default_factory=set)
    absent: set[str] = field(default_factory=set)  # ids that were looked for and do not exist


def apply(snapshot: Snapshot, changes: Changes) -> Snapshot:
    """The snapshot after the changes, as if they had been written and loaded again."""
    return Snapshot(
        instances=_applied(snapshot.instances, changes.instances),
        scopes=_applied_scopes(snapshot.scopes, changes),
        tokens=_applied(snapshot.tokens, changes.tokens),
        joins={**snapshot.joins, **{(j.scope_id, j.node_id): j for j in _all(changes.joins)}},
        timers=_applied(snapshot.timers, changes.timers),
        subscriptions=_applied(snapshot.subscriptions, changes.subscriptions),
        tasks=_applied(snapshot.tasks, changes.tasks),
        compensations=_applied(snapshot.compensations, changes.compensations),
        whole=snapshot.whole,
        complete=snapshot.complete | {scope.id for scope in changes.scopes.inserted},
        inside=snapshot.inside | {token.id for token in changes.tokens.inserted},
        siblings=set(snapshot.siblings),
        waits=snapshot.waits | {token.id for token in changes.tokens.inserted},
        handlers=set(snapshot.handlers),
        joins_loaded=snapshot.joins_loaded | {(j.scope_id, j.node_id) for j in changes.joins.inserted},
        items=set(snapshot.items),
        outputs=set(snapshot.outputs),
        records=snapshot.records | {instance.id for instance in changes.instances.inserted},
        conditions=snapshot.conditions | {instance.id for instance in changes.instances.inserted},
        absent=snapshot.absent - {instance.id for instance in changes.instances.inserted},
    )


def merged(variables: Variables, patch: Variables) -> Variables:
    """Only written keys merge: a sibling's untouched copy never overwrites."""
    return {**variables, **patch}


def _all(rows: Rows[Join]) -> list[Join]:
    return [*rows.inserted, *rows.updated]


def _applied(table: Mapping[str, R], rows: Rows[R]) -> dict[str, R]:
    return {**table, **{row.id: row for row in rows.inserted}, **{row.id: row for row in rows.updated}}


def _applied_scopes(table: Mapping[str, Scope], changes: Changes) -> dict[str, Scope]:
    scopes = _applied(table, changes.scopes)
    for scope_id, patch in changes.patches.items():
        scope = scopes[scope_id]
        scopes[scope_id] = replace(scope, variables=merged(table[scope_id].variables, patch))
    return scopes
