"""What happened: the past-tense facts that the token game answers.

Every stimulus names the one thing it is about; the committer finds the call tree from that. A fact
that is about a claimed token carries the claim (`version`, `owner`), so that the core can tell a
late answer from a good one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from bpm_engine.core.retry import RetryPolicy
from bpm_engine.core.state import Variables


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A worker's right to answer for a token: the version it got when it claimed."""

    token_id: str
    version: int
    owner: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A technical fault: what a handler raised, what the engine found."""

    code: str
    message: str
    traceback: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    instance_id: str  # the new one
    tenant_id: str
    definition_id: str
    variables: Variables = field(default_factory=dict)
    at: str | None = None  # start node; None: the none start
    event_payload: Variables | None = None  # of the message, signal or timer that started it
    business_key: str | None = None
    subject: str | None = None
    correlation_id: str | None = None
    idempotency_key: str | None = None
    input_hash: str | None = None
    priority: int = 0
    start_at: datetime | None = None
    retention: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkCompleted:
    claim: Claim
    variables: Variables = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkFailed:
    """`retry_after` None: the policy decides; `final`: no retry whatever the policy says."""

    claim: Claim
    failure: Failure
    retry_after: timedelta | None = None  # RetryLater: postponed, not counted as a failed attempt
    final: bool = False
    policy: RetryPolicy | None = None  # the handler's own; the node's settings go before it


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorThrown:
    """A handler raised BpmnError."""

    claim: Claim
    code: str
    message: str = ""
    variables: Variables = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseExpired:
    token_id: str
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Continued:
    """A token that rested Ready at a node without a handler goes on (step budget, asyncBefore)."""

    claim: Claim


@dataclass(frozen=True, slots=True, kw_only=True)
class TimerFired:
    timer_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageDelivered:
    subscription_id: str
    payload: Variables = field(default_factory=dict)
    message_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalDelivered:
    subscription_id: str
    payload: Variables = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskCompleted:
    """A person finished a user task."""

    task_id: str
    variables: Variables = field(default_factory=dict)
    user: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelRequested:
    instance_id: str
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SuspendRequested:
    instance_id: str
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeRequested:
    instance_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryRequested:
    """All incidents of the instance, or the one of a token."""

    instance_id: str
    token_id: str | None = None
    variables: Variables = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SkipRequested:
    """The incident's node counts as done, with these variables as its result."""

    token_id: str
    variables: Variables = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class VariablesSet:
    instance_id: str
    variables: Variables
    scope_id: str | None = None  # None: the root scope


@dataclass(frozen=True, slots=True, kw_only=True)
class TokensMoved:
    """Modification: what rests at `from_node` is cancelled, a token starts at `to_node`."""

    instance_id: str
    from_node: str | None
    to_node: str | None


Stimulus = (
    Started
    | WorkCompleted
    | WorkFailed
    | ErrorThrown
    | LeaseExpired
    | Continued
    | TimerFired
    | MessageDelivered
    | SignalDelivered
    | TaskCompleted
    | CancelRequested
    | SuspendRequested
    | ResumeRequested
    | RetryRequested
    | SkipRequested
    | VariablesSet
    | TokensMoved
)
