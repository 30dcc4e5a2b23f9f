"""Compiled events, apart from their position: a timer is the same at a start, a catch and a boundary event.

Where an event stands, and what that means, is said by the node (`graph`) whose spec holds it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from bpm_engine.bpmn.expressions import Expression


@dataclass(frozen=True, slots=True)
class ConversationKey:
    """A correlation key of a conversation (8.4.2): the variable that keeps its values, and for each of its
    properties where a message carries it."""

    variable: str
    properties: tuple[tuple[str, tuple[str, ...]], ...]  # name -> path in the payload


@dataclass(frozen=True, slots=True)
class MessageEvent:
    name: Expression
    correlation_key: Expression | None = None
    match: tuple[tuple[str, Expression], ...] = ()  # path in the payload -> expected value
    payload_variable: str | None = None
    keys: tuple[ConversationKey, ...] = ()


@dataclass(frozen=True, slots=True)
class TimerEvent:
    kind: Literal["date", "duration", "cycle"]
    expression: Expression  # a constant text or an expression giving text, date or duration
    catch_up: Literal["once", "all", "skip"] = "once"


@dataclass(frozen=True, slots=True)
class SignalEvent:
    name: Expression


@dataclass(frozen=True, slots=True)
class ErrorEvent:
    code: str | None  # None catches every code; thrown, it is caught only by those who catch every code
    code_variable: str | None = None
    message_variable: str | None = None
    message: Expression | None = None  # throw: what the error says
    computed: Expression | None = None  # throw: gives the code, in the place of `code`


@dataclass(frozen=True, slots=True)
class EscalationEvent:
    code: str | None
    code_variable: str | None = None
    computed: Expression | None = None  # throw: gives the code, in the place of `code`


@dataclass(frozen=True, slots=True)
class ConditionEvent:
    condition: Expression


@dataclass(frozen=True, slots=True)
class CompensationEvent:
    activity: str | None = None  # throw: only this activity; node id, the REPEAT when it has one
    wait: bool = True


@dataclass(frozen=True, slots=True)
class CancelEvent:
    pass


@dataclass(frozen=True, slots=True)
class TerminateEvent:
    pass


EventSpec = (
    MessageEvent
    | TimerEvent
    | SignalEvent
    | ErrorEvent
    | EscalationEvent
    | ConditionEvent
    | CompensationEvent
    | CancelEvent
    | TerminateEvent
)
