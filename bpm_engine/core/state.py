"""The rows that make up a running process: what the core reads and writes and the store keeps.

One record per table; the fields are the columns, in the same words (times of creation and update are
the store's affair). Records are frozen msgspec structs: as strict as frozen dataclasses, much faster to
make and to copy, and turned into JSON arrays and made of rows without a detour
(docs/adr/0006-rows-as-msgspec-structs.md). A change is a new record made by `replace`. They hold JSON,
which has no cycles, so the garbage collector passes them by.

Root scope: an instance's outermost scope has the id of the instance. It carries the instance's log
counter `seq`; the root scope of the top instance of a call tree is what the committer locks.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any

import msgspec
from msgspec.structs import replace as replace

Json = Any  # a JSON value: None, bool, int, float, str, list, dict
Variables = dict[str, Json]


class Word(StrEnum):
    """Equal to its text, and hashed like it: fast as a key, which StrEnum by itself is not."""

    __hash__ = str.__hash__


class InstanceStatus(Word):
    RUNNING = "Running"
    SUSPENDED = "Suspended"
    COMPLETED = "Completed"
    FAILED = "Failed"
    CANCELLED = "Cancelled"


class TokenState(Word):
    READY = "Ready"  # claimable now, unless held
    EXECUTING = "Executing"  # under a lease
    WAITING = "Waiting"  # for time, an event, a person, a join, what it contains
    COMPLETED = "Completed"
    FAILED = "Failed"  # an incident; `error` says why
    CANCELLED = "Cancelled"


class Mode(Word):
    FORWARD = "Forward"
    COMPENSATION = "Compensation"


class ScopeState(Word):
    ACTIVE = "Active"
    COMPENSATING = "Compensating"  # ended or failing; its records are being undone
    COMPLETED = "Completed"
    CANCELLED = "Cancelled"


class TimerStatus(Word):
    SCHEDULED = "Scheduled"
    FIRED = "Fired"
    CANCELLED = "Cancelled"


class SubscriptionStatus(Word):
    OPEN = "Open"
    CONSUMED = "Consumed"
    CANCELLED = "Cancelled"


class CompensationStatus(Word):
    PENDING = "Pending"
    RUNNING = "Running"
    COMPLETED = "Completed"
    FAILED = "Failed"


class TaskStatus(Word):
    OPEN = "Open"
    COMPLETED = "Completed"
    CANCELLED = "Cancelled"


class Waiting(Word):
    """Why a Waiting token waits: exactly one reason each."""

    TIMER = "timer"
    EVENT = "event"  # one or several subscriptions or timers of a catch or event gateway
    JOIN = "join"
    SCOPE = "scope"
    CALL = "call"
    HUMAN = "human"
    RETRY = "retry"  # back-off after a failed attempt
    START = "start"  # delayed start
    COMPENSATION = "compensation"  # a throw that waits for handlers
    TURN = (
        "turn"  # a later item of a sequential multi-instance, an activity of a sequential ad-hoc sub-process
    )
    SELECTION = "selection"  # an ad-hoc sub-process: somebody to select an activity


class Phase(Word):
    """What comes next for a token that rests Ready without a topic, or that is Failed and is tried again."""

    ENTER = "enter"  # the node was not entered yet
    INSIDE = "inside"  # entered: its work, its wait or its content decides
    COMPLETE = "complete"  # the result is in; outputs are to be mapped
    LEAVE = "leave"  # done; the outgoing flows are to be taken


class Record(msgspec.Struct, frozen=True, kw_only=True, gc=False, array_like=True):
    id: str
    tenant_id: str


class OwnedRecord(Record, frozen=True, kw_only=True):
    """A row of an instance; `root_instance_id` is the top of its call tree."""

    instance_id: str
    root_instance_id: str


class Instance(Record, frozen=True, kw_only=True):
    """Table process_instance."""

    root_instance_id: str
    parent_token_id: str | None = None  # the call activity's token in the calling instance
    parent_instance_id: str | None = None
    depth: int = 0
    definition_id: str
    definition_key: str
    definition_version: int
    status: InstanceStatus = InstanceStatus.RUNNING
    business_key: str | None = None
    subject: str | None = None
    correlation_id: str | None = None
    idempotency_key: str | None = None
    input_hash: str | None = None
    priority: int = 0
    version: int = 1
    retention: int | None = None  # seconds
    error: Variables | None = None  # code, message, node_id of what made it Failed
    started_at: datetime
    ended_at: datetime | None = None


class Scope(OwnedRecord, frozen=True, kw_only=True):
    """Table scope: variables and counters of one activation of a process, sub-process or repetition."""

    parent_id: str | None = None
    node_id: str  # id of the graph's scope
    token_id: str | None = None  # the token that waits outside for this scope
    state: ScopeState = ScopeState.ACTIVE
    variables: Variables = {}
    loop: Variables | None = None  # a repetition's own counters and items
    live: int = 0  # tokens in it that are not terminal
    parked: int = 0  # of these, waiting at joins, or around a scope in which all are parked
    inclusive_waiting: int = 0  # of these, at inclusive or complex joins
    conditional: int = 0  # open conditional waits of the whole instance, on a root scope
    steps: int = 0  # automatic steps since the last rest, on a root scope: bounds endless loops
    seq: int = 0  # last log number, on a root scope
    population: int = 0  # live tokens of the whole instance, on a root scope
    written: list[str] | None = (
        None  # on the root scope of a called instance: the names written since its start
    )


class Token(OwnedRecord, frozen=True, kw_only=True):
    scope_id: str
    node_id: str
    state: TokenState = TokenState.READY
    mode: Mode = Mode.FORWARD
    phase: Phase = Phase.INSIDE
    held: bool = False  # its instance is halted: not claimable
    waiting_for: Waiting | None = None
    topic: str | None = None  # who may claim it; None: the engine itself (an automatic node to go on with)
    priority: int = 0
    attempt: int = 0  # failed attempts of this activation
    activation: int = 1  # raised on each node entry: part of the idempotency key
    recoveries: int = 0
    version: int = 1
    flow_id: str | None = None  # the flow it arrived by
    parallel_group_id: str | None = None
    loop_index: int | None = None
    local: Variables | None = None  # variables of this activation only: input mappings, loop item
    output: bool | int | float | str | list[Any] | dict[str, Any] | None = (
        None  # an ended repetition's contribution to the output collection
    )
    compensates: str | None = None  # the compensation record this token works for
    lease_owner: str | None = None
    lease_until: datetime | None = None
    error: Variables | None = None  # code, message, traceback, since
    entered_at: datetime


class Join(OwnedRecord, frozen=True, kw_only=True):
    """Table parallel_join, unique per (scope, node)."""

    scope_id: str
    node_id: str
    expected: int
    joined: int = 0  # incoming flows that hold at least one token
    arrivals: dict[str, int] = {}  # tokens per incoming flow
    fired: int = 0


class TimerPurpose(Word):
    EVENT = "event"  # triggers the event at node_id
    RETRY = "retry"  # makes the token Ready again
    START = "start"  # delayed start of an instance
    DEADLINE = "deadline"  # of the token's activity, or of the instance when there is no token


class Timer(OwnedRecord, frozen=True, kw_only=True):
    scope_id: str
    token_id: str | None = None  # host or waiting token; None: an event sub-process of the scope
    node_id: str  # the event that it triggers
    event: int = 0  # which of the node's events
    purpose: TimerPurpose = TimerPurpose.EVENT
    due_at: datetime
    cycle: str | None = None  # text of a repeating timer
    remaining: int | None = None  # firings left after this one; None: endless, when there is a cycle
    anchor_at: datetime | None = None  # where a cycle's calendar arithmetic starts
    status: TimerStatus = TimerStatus.SCHEDULED
    fired: int = 0


class SubscriptionKind(Word):
    MESSAGE = "message"
    SIGNAL = "signal"
    CONDITION = "condition"  # nobody delivers it: the engine itself sees when it has come


class Subscription(OwnedRecord, frozen=True, kw_only=True):
    scope_id: str
    token_id: str | None = None
    node_id: str
    event: int = 0  # which of the node's events; -1: the data that the token needs to begin
    kind: SubscriptionKind
    name: str = ""  # of the message or signal; of a condition, whether it held when it was last looked at
    correlation_key: str | None = None
    match: Variables | None = None  # must be contained in the payload
    status: SubscriptionStatus = SubscriptionStatus.OPEN


class HumanTask(OwnedRecord, frozen=True, kw_only=True):
    scope_id: str
    token_id: str
    node_id: str
    name: str = ""
    assignee: str | None = None
    owner: str | None = None  # who delegated it to the assignee, and gets it back
    candidate_users: list[str] = []
    candidate_groups: list[str] = []
    priority: int = 0
    due_at: datetime | None = None
    follow_up_at: datetime | None = None
    form_key: str | None = None
    status: TaskStatus = TaskStatus.OPEN
    version: int = 1


class CompensationRecord(OwnedRecord, frozen=True, kw_only=True):
    """Immutable but for its status. `order` rises with completion; undoing walks it downwards."""

    scope_id: str  # where the activity completed
    node_id: str  # the activity
    handler_id: str | None = None  # its handler node; None: a completed sub-process to descend into
    inner_scope_id: str | None = None  # the completed sub-process
    order: int
    snapshot: Variables = {}
    status: CompensationStatus = CompensationStatus.PENDING
    requested_by: str | None = None  # token that waits for it while it runs


class LogKind(Word):
    STARTED = "started"
    ENTERED = "entered"
    COMPLETED = "completed"
    CANCELLED = "cancelled"
    FAILED = "failed"  # an attempt, or an incident
    RETRIED = "retried"
    FIRED = "fired"  # timer
    DELIVERED = "delivered"  # message or signal
    THROWN = "thrown"
    CAUGHT = "caught"
    COMPENSATED = "compensated"
    VARIABLES = "variables"
    MOVED = "moved"
    MIGRATED = "migrated"  # to another version
    SUSPENDED = "suspended"
    RESUMED = "resumed"
    RECOVERED = "recovered"
    INCIDENT = "incident"
    RESOLVED = "resolved"
    ASSIGNED = "assigned"  # a user task was claimed, given back, delegated, planned anew
    COMMENTED = "commented"
    ENDED = "ended"


class LogEntry(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """Table execution_log: append-only, ordered by (instance_id, seq)."""

    tenant_id: str
    instance_id: str
    root_instance_id: str
    seq: int
    kind: LogKind
    at: datetime
    node_id: str | None = None
    token_id: str | None = None
    scope_id: str | None = None
    activation: int | None = None
    actor: str | None = None
    data: Variables | None = None


class OutboxEvent(OwnedRecord, frozen=True, kw_only=True):
    """Table event_outbox."""

    seq: int
    type: str
    data: Variables
    at: datetime


class ThrownMessage(OwnedRecord, frozen=True, kw_only=True):
    """A message thrown by a process: correlated inside the tenant like an incoming one."""

    name: str
    correlation_key: str | None = None
    payload: Variables = {}


class ThrownSignal(OwnedRecord, frozen=True, kw_only=True):
    name: str
    payload: Variables = {}
    later: list[str] = []  # subscriptions not reached: opened in the same commit after the throw, or served
