"""What usual steps change of a row: most change no more, and writing no more takes half the time.

Each set of columns has a comparison beside it: whether nothing but these has changed. They are written out,
since every step asks. JSON has to be the very same value: Python takes 1 and true for equal.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from bpm_engine.core.changes import Rows
from bpm_engine.core.state import Instance, Scope, Subscription, Timer, Token
from bpm_engine.store.bulk import Implied

R = TypeVar("R", Token, Scope, Instance, Timer, Subscription)

# Of a token that goes from one handler to the next. No index asks for any of it.
MOVE = ("node_id", "topic", "activation", "version", "flow_id", "lease_until", "entered_at")
# Of one that begins or ceases to wait, or ends.
REST = (*MOVE, "state", "phase", "waiting_for", "lease_owner")
# Of the scope around a token that moves, and around one that is new or ends; so ends a scope itself.
COUNT = ("steps", "seq")
POPULATION = (*COUNT, "state", "live", "population")
# Of an instance that ends.
END = ("status", "version", "error", "ended_at")
# Of a timer that fires or is cancelled, and of a wait that is over.
FIRE = ("status", "fired")
CLOSE = ("status",)


def is_move(seen: Token, now: Token) -> bool:
    return (
        now.state is seen.state
        and now.lease_owner == seen.lease_owner
        and now.phase is seen.phase
        and now.waiting_for is seen.waiting_for
        and is_rest(seen, now)
    )


def is_rest(seen: Token, now: Token) -> bool:
    return (
        now.held is seen.held
        and now.priority == seen.priority
        and now.attempt == seen.attempt
        and now.recoveries == seen.recoveries
        and now.loop_index == seen.loop_index
        and now.local is seen.local
        and now.output is seen.output
        and now.error is seen.error
    )


def is_count(seen: Scope, now: Scope) -> bool:
    return (
        now.state is seen.state
        and now.live == seen.live
        and now.population == seen.population
        and is_population(seen, now)
    )


def is_population(seen: Scope, now: Scope) -> bool:
    return (
        now.parked == seen.parked
        and now.inclusive_waiting == seen.inclusive_waiting
        and now.conditional == seen.conditional
        and now.loop is seen.loop
        and now.written is seen.written
    )


def is_end(seen: Instance, now: Instance) -> bool:
    return (
        now.parent_token_id == seen.parent_token_id
        and now.parent_instance_id == seen.parent_instance_id
        and now.depth == seen.depth
        and now.definition_id == seen.definition_id
        and now.definition_key == seen.definition_key
        and now.definition_version == seen.definition_version
        and now.business_key == seen.business_key
        and now.subject == seen.subject
        and now.correlation_id == seen.correlation_id
        and now.idempotency_key == seen.idempotency_key
        and now.input_hash == seen.input_hash
        and now.priority == seen.priority
        and now.retention == seen.retention
        and now.started_at == seen.started_at
    )


def is_fire(seen: Timer, now: Timer) -> bool:
    return (
        now.due_at == seen.due_at
        and now.remaining == seen.remaining
        and now.anchor_at == seen.anchor_at
        and now.cycle == seen.cycle
        and now.node_id == seen.node_id
        and now.token_id == seen.token_id
        and now.event == seen.event
        and now.purpose is seen.purpose
    )


def is_close(seen: Subscription, now: Subscription) -> bool:
    return (
        now.name == seen.name
        and now.correlation_key == seen.correlation_key
        and now.match is seen.match
        and now.node_id == seen.node_id
        and now.token_id == seen.token_id
        and now.event == seen.event
        and now.kind is seen.kind
    )


# Of what is told, by instances that nobody called; and of tokens that have just moved.
TOLD: Implied = {"at": None, "root_instance_id": "instance_id"}
ENTERED: Implied = {"entered_at": None}


def parted(rows: Rows[R], *tests: Callable[[R, R], bool]) -> list[list[R]]:
    """The changed rows by the first of the tests that they pass; last those that pass none, or of which
    nobody knows what they were."""
    groups: list[list[R]] = [[] for _ in tests]
    others: list[R] = []
    before = rows.before
    for row in rows.updated:
        seen = before.get(row.id)
        if seen is not None:
            for is_usual, group in zip(tests, groups, strict=True):
                if is_usual(seen, row):
                    group.append(row)
                    break
            else:
                others.append(row)
        else:
            others.append(row)
    groups.append(others)
    return groups
