"""The lives of tokens and instances: every allowed move, in two tables.

All state changes of the core pass `check_token` or `check_instance`; what is not in a table is a bug
and raises. Completed and Cancelled are final. Failed and Suspended are halts: retry or resume goes on.
`docs/reference/states.md` is generated from these tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeVar

from bpm_engine.core.state import InstanceStatus, TokenState
from bpm_engine.errors import EngineError

S = TypeVar("S", bound=StrEnum)


class IllegalTransitionError(EngineError):
    """A token or instance was to make a move that its life does not have."""


READY, EXECUTING, WAITING = TokenState.READY, TokenState.EXECUTING, TokenState.WAITING
COMPLETED, FAILED, CANCELLED = TokenState.COMPLETED, TokenState.FAILED, TokenState.CANCELLED

TOKEN_MOVES: Mapping[TokenState, Mapping[TokenState, str]] = {
    READY: {
        READY: "goes on and rests at another node",
        EXECUTING: "claimed under a lease",
        WAITING: "goes on and waits",
        COMPLETED: "goes on and ends",
        FAILED: "goes on into an incident",
        CANCELLED: "interrupted or cancelled",
    },
    EXECUTING: {
        READY: "done, and the next node has work; or its lease expired",
        WAITING: "done, and the next node waits; or back-off before the next attempt",
        COMPLETED: "done, and its path ends",
        FAILED: "failed for good",
        CANCELLED: "interrupted or cancelled; the late result is dropped",
    },
    WAITING: {
        READY: "what it waited for came, and there is work",
        WAITING: "what it waited for came, and it waits again",
        COMPLETED: "what it waited for came, and its path ends",
        FAILED: "what it waited for cannot be used, or can never come",
        CANCELLED: "interrupted or cancelled",
    },
    FAILED: {
        READY: "retried or skipped",
        WAITING: "retried or skipped, and waits",
        COMPLETED: "retried or skipped, and its path ends",
        FAILED: "retried, and failed again",
        CANCELLED: "cancelled",
    },
    COMPLETED: {},
    CANCELLED: {},
}

INSTANCE_MOVES: Mapping[InstanceStatus, Mapping[InstanceStatus, str]] = {
    InstanceStatus.RUNNING: {
        InstanceStatus.SUSPENDED: "suspended by an operator or by the failure policy",
        InstanceStatus.COMPLETED: "no token is left",
        InstanceStatus.FAILED: "an incident",
        InstanceStatus.CANCELLED: "cancelled, or ended by an error its caller handles",
    },
    InstanceStatus.SUSPENDED: {
        InstanceStatus.RUNNING: "resumed",
        InstanceStatus.FAILED: "a handler that was still running failed for good",
        InstanceStatus.CANCELLED: "cancelled",
    },
    InstanceStatus.FAILED: {
        InstanceStatus.RUNNING: "retried, skipped or resumed",
        InstanceStatus.SUSPENDED: "suspended by an operator",
        InstanceStatus.CANCELLED: "cancelled",
    },
    InstanceStatus.COMPLETED: {},
    InstanceStatus.CANCELLED: {},
}

TERMINAL_TOKENS = frozenset(state for state, moves in TOKEN_MOVES.items() if not moves)
TERMINAL_INSTANCES = frozenset(status for status, moves in INSTANCE_MOVES.items() if not moves)
HALTED_INSTANCES = frozenset({InstanceStatus.SUSPENDED, InstanceStatus.FAILED})


def check_token(before: TokenState, after: TokenState) -> None:
    if after not in TOKEN_MOVES[before]:
        raise IllegalTransitionError(f"a token cannot go from {before} to {after}")


def check_instance(before: InstanceStatus, after: InstanceStatus) -> None:
    if after not in INSTANCE_MOVES[before]:
        raise IllegalTransitionError(f"an instance cannot go from {before} to {after}")


def render_states() -> str:
    """The page `docs/reference/states.md`."""
    return "\n".join(
        [
            "# States",
            "",
            "Generated from `bpm_engine/core/lifecycle.py`. A move that is not listed here is refused.",
            "",
            "## Token",
            "",
            *_section(TOKEN_MOVES, TokenState.READY),
            "",
            "## Instance",
            "",
            *_section(INSTANCE_MOVES, InstanceStatus.RUNNING),
            "",
        ]
    )


def _section(moves: Mapping[S, Mapping[S, str]], first: S) -> list[str]:
    return [*_diagram(moves, first), "", "| from | to | when |", "|---|---|---|", *_rows(moves)]


def _diagram(moves: Mapping[S, Mapping[S, str]], first: S) -> list[str]:
    arrows = [f"    {before} --> {after}" for before, afters in moves.items() for after in afters]
    ends = [f"    {state} --> [*]" for state, afters in moves.items() if not afters]
    return ["```mermaid", "stateDiagram-v2", f"    [*] --> {first}", *arrows, *ends, "```"]


def _rows(moves: Mapping[S, Mapping[S, str]]) -> list[str]:
    rows = [f"| {before} | {after} | {why} |" for before, to in moves.items() for after, why in to.items()]
    return [*rows, *(f"| {state} | | final |" for state, afters in moves.items() if not afters)]
