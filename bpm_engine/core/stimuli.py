"""What happened: the past-tense facts that the token game answers.

Every stimulus names the one thing it is about; the committer finds the call tree from that. A fact
that is about a claimed token carries the claim (`version`, `owner`), so that the core can tell a
late answer from a good one.
"""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

from bpm_engine.core.retry import RetryPolicy
from bpm_engine.core.state import Json, Variables, Word


class Claim(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A worker's right to answer for a token: the version it got when it claimed."""

    token_id: str
    version: int
    owner: str


class Failure(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A technical fault: what a handler raised, what the engine found."""

    code: str
    message: str
    traceback: str = ""


class Started(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    instance_id: str  # the new one
    tenant_id: str
    definition_id: str
    variables: Variables = {}
    at: str | None = None  # start node; None: the none start
    event_payload: Variables | None = None  # of the message, signal or timer that started it; None: a caller
    event: int | None = None  # which of the node's events that was
    signal: str | None = None  # or, where only that is known, the name of the signal
    business_key: str | None = None
    subject: str | None = None
    correlation_id: str | None = None
    idempotency_key: str | None = None
    input_hash: str | None = None
    priority: int = 0
    start_at: datetime | None = None
    retention: int | None = None


class WorkCompleted(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """`value`: a result that is no set of variables; only a node with a result variable takes one."""

    claim: Claim
    variables: Variables = {}
    value: Json | msgspec.UnsetType = msgspec.UNSET


class WorkFailed(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """`retry_after` None: the policy decides; `final`: no retry whatever the policy says."""

    claim: Claim
    failure: Failure
    retry_after: timedelta | None = None  # RetryLater: postponed, not counted as a failed attempt
    final: bool = False
    policy: RetryPolicy | None = None  # the handler's own; the node's settings go before it
    pause: timedelta | None = None  # before the next attempt, instead of the policy's
    least: timedelta | None = None  # before the next attempt, where the policy's is shorter


class ErrorThrown(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A handler raised BpmnError."""

    claim: Claim
    code: str
    message: str = ""
    variables: Variables = {}


class LeaseExpired(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    token_id: str
    version: int


class WorkerLost(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The process in which a handler ran has ended."""

    claim: Claim
    was_alone: bool  # no other handler ran there


class WorkUnclaimed(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """No worker has taken the token for too long (R21)."""

    token_id: str
    version: int


class Continued(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A token that rested Ready at a node without a handler goes on (step budget, asyncBefore)."""

    claim: Claim


class TimerFired(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    timer_id: str


class MessageDelivered(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    subscription_id: str
    payload: Variables = {}
    message_id: str | None = None


class SignalDelivered(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    subscription_id: str
    payload: Variables = {}


class TaskCompleted(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A person finished a user task."""

    task_id: str
    variables: Variables = {}
    user: str | None = None  # None: the application itself, which may always
    groups: tuple[str, ...] = ()  # of the user


class TaskChange(Word):
    CLAIMED = "claimed"
    RESERVED = "reserved"
    UNCLAIMED = "unclaimed"
    ASSIGNED = "assigned"
    DELEGATED = "delegated"
    PLANNED = "planned"  # its priority and dates


class TaskChanged(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A user task changes hands, or is planned anew."""

    task_id: str
    change: TaskChange
    user: str | None = None  # who has it from now on
    groups: tuple[str, ...] = ()  # of that user
    by: str | None = None  # who gives it away; None: the application itself, which may always
    priority: int | None = None
    due_at: datetime | None = None
    follow_up_at: datetime | None = None


class TaskCommented(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    task_id: str
    text: str


class PersonAsked(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The work of a failed task is given to a person, as a user task."""

    token_id: str
    name: str | None = None
    assignee: str | None = None
    candidate_users: tuple[str, ...] = ()
    candidate_groups: tuple[str, ...] = ()
    due_at: datetime | None = None


class CancelRequested(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    instance_id: str
    reason: str = ""


class SuspendRequested(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    instance_id: str
    reason: str = ""


class ResumeRequested(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    instance_id: str


class RetryRequested(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """All incidents of the instance, or the one of a token."""

    instance_id: str
    token_id: str | None = None
    variables: Variables = {}


class SkipRequested(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The incident's node counts as done, with these variables as its result."""

    token_id: str
    variables: Variables = {}


class VariablesSet(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    instance_id: str
    variables: Variables
    scope_id: str | None = None  # None: the root scope


class ActivitySelected(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An activity of an ad-hoc sub-process is to begin, with these variables of its own."""

    instance_id: str
    node_id: str
    variables: Variables = {}
    scope_id: str | None = None  # which activation of the sub-process; None: the only one


class TokensMoved(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Modification: what rests at `from_node` is cancelled, a token starts at `to_node`."""

    instance_id: str
    from_node: str | None
    to_node: str | None


class MigrationRequested(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The instance goes over to another version; `mapping` names nodes and flows that were renamed."""

    instance_id: str
    definition_id: str
    mapping: dict[str, str] = {}


Stimulus = (
    Started
    | WorkCompleted
    | WorkFailed
    | ErrorThrown
    | LeaseExpired
    | WorkerLost
    | WorkUnclaimed
    | Continued
    | TimerFired
    | MessageDelivered
    | SignalDelivered
    | TaskCompleted
    | TaskChanged
    | TaskCommented
    | PersonAsked
    | CancelRequested
    | SuspendRequested
    | ResumeRequested
    | RetryRequested
    | SkipRequested
    | VariablesSet
    | TokensMoved
    | ActivitySelected
    | MigrationRequested
)
