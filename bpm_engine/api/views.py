"""What the engine shows of itself: frozen, with the names that users type. Times are aware and in UTC."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Generic, TypeVar

from bpm_engine.bpmn.settings import FormField
from bpm_engine.core.external import topic_in
from bpm_engine.core.state import Instance, LogEntry, TaskStatus, Token, TokenState, Variables
from bpm_engine.problems import Problem
from bpm_engine.store.definitions import Definition
from bpm_engine.store.incidents import ListedIncident
from bpm_engine.store.outbox import OutboxRow
from bpm_engine.store.tasks import ListedTask
from bpm_engine.store.timers import Schedule

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    items: tuple[T, ...]
    cursor: str | None  # of the next page; None: this was the last one

    def __iter__(self) -> Iterator[T]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)


@dataclass(frozen=True, slots=True)
class TokenView:
    id: str
    node_id: str
    state: str
    waiting_for: str | None  # why it waits, or the topic it is ready or executing for
    error: Variables | None = None
    scope_id: str = ""  # the activation of the sub-process it is in


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceView:
    id: str
    definition_key: str
    definition_version: int
    status: str
    business_key: str | None
    subject: str | None
    correlation_id: str | None
    priority: int
    variables: Variables
    tokens: tuple[TokenView, ...]
    parent_id: str | None
    started_at: datetime
    ended_at: datetime | None
    error: Variables | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DefinitionView:
    id: str
    key: str
    version: int
    version_tag: str | None
    name: str
    deployment_id: str
    deployed_at: datetime
    deployed_by: str | None


@dataclass(frozen=True, slots=True)
class Deployment:
    id: str
    definitions: tuple[DefinitionView, ...]
    problems: tuple[Problem, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskView:
    """A user task that a person does."""

    id: str
    instance_id: str
    definition_key: str
    business_key: str | None
    node_id: str
    name: str
    status: str
    assignee: str | None
    owner: str | None  # who delegated it to the assignee
    candidate_users: tuple[str, ...]
    candidate_groups: tuple[str, ...]
    priority: int
    created_at: datetime
    due_at: datetime | None
    overdue: bool  # open, and its due date is over
    follow_up_at: datetime | None
    form_key: str | None
    fields: tuple[FormField, ...]  # what to hand in


@dataclass(frozen=True, slots=True, kw_only=True)
class CommentView:
    """Something that was said about a task."""

    at: datetime
    actor: str | None
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalTask:
    """Work that an external worker has locked: what it is about, and the lock to answer with."""

    id: str  # of the token
    lock: str  # what complete, fail, throw_error and extend take; good until `locked_until`
    topic: str
    worker: str
    locked_until: datetime
    instance_id: str
    definition_key: str
    business_key: str | None
    correlation_id: str | None
    node_id: str
    priority: int
    attempt: int  # 1 for the first run
    idempotency_key: str  # the same on every attempt
    variables: Variables
    properties: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentView:
    """A token that cannot go on: why, where, since when."""

    id: str  # of the token
    instance_id: str
    definition_key: str
    business_key: str | None
    node_id: str
    code: str
    message: str
    traceback: str
    since: datetime
    attempts: int  # failed ones of this activation
    item: Variables | None = None  # of a repeated activity: `loopCounter`, its element, …


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptView:
    """One failed attempt at a piece of work."""

    number: int
    at: datetime
    code: str
    message: str
    traceback: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryEntry:
    """One row of the append-only history; `seq` counts without a gap per instance."""

    seq: int
    kind: str
    at: datetime
    node_id: str | None
    token_id: str | None
    activation: int | None
    actor: str | None
    data: Variables | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StepView:
    """One run of one node."""

    node_id: str
    token_id: str
    activation: int
    status: str  # running, completed, skipped, cancelled or failed
    started_at: datetime
    ended_at: datetime | None
    duration: timedelta | None
    attempts: int
    input: Variables | None
    output: Variables | None
    error: Variables | None  # the last one


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleView:
    """A timer start event of the latest version of a process."""

    id: str
    definition_key: str
    node_id: str
    status: str
    due_at: datetime | None  # None: nothing left to fire
    cycle: str | None
    fired: int
    catch_up: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EventView:
    """An event on its way out."""

    id: str
    instance_id: str
    seq: int
    type: str
    data: Variables
    at: datetime
    status: str
    attempts: int
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something in the database that must not be."""

    name: str
    rows: tuple[str, ...]  # ids of the first of them
    count: int
    advice: str

    def __str__(self) -> str:
        more = ", …" if self.count > len(self.rows) else ""
        return f"{self.name} ({self.count}): {', '.join(self.rows)}{more}. {self.advice}"


def token_view(token: Token) -> TokenView:
    waiting = (
        token.waiting_for if token.state is TokenState.WAITING else token.topic and topic_in(token.topic)
    )
    return TokenView(
        token.id, token.node_id, str(token.state), waiting and str(waiting), token.error, token.scope_id
    )


def instance_view(instance: Instance, variables: Variables, tokens: list[Token]) -> InstanceView:
    return InstanceView(
        id=instance.id,
        definition_key=instance.definition_key,
        definition_version=instance.definition_version,
        status=str(instance.status),
        business_key=instance.business_key,
        subject=instance.subject,
        correlation_id=instance.correlation_id,
        priority=instance.priority,
        variables=variables,
        tokens=tuple(token_view(token) for token in tokens),
        parent_id=instance.parent_instance_id,
        started_at=instance.started_at,
        ended_at=instance.ended_at,
        error=instance.error,
    )


def definition_view(definition: Definition) -> DefinitionView:
    return DefinitionView(
        id=definition.id,
        key=definition.key,
        version=definition.version,
        version_tag=definition.version_tag,
        name=definition.name,
        deployment_id=definition.deployment_id,
        deployed_at=definition.created_at,
        deployed_by=definition.deployed_by,
    )


def task_view(listed: ListedTask, fields: tuple[FormField, ...], now: datetime) -> TaskView:
    task = listed.task
    return TaskView(
        id=task.id,
        instance_id=task.instance_id,
        definition_key=listed.definition_key,
        business_key=listed.business_key,
        node_id=task.node_id,
        name=task.name,
        status=str(task.status),
        assignee=task.assignee,
        owner=task.owner,
        candidate_users=tuple(task.candidate_users),
        candidate_groups=tuple(task.candidate_groups),
        priority=task.priority,
        created_at=listed.created_at,
        due_at=task.due_at,
        overdue=task.status is TaskStatus.OPEN and task.due_at is not None and task.due_at <= now,
        follow_up_at=task.follow_up_at,
        form_key=task.form_key,
        fields=fields,
    )


def comment_view(entry: LogEntry) -> CommentView:
    return CommentView(at=entry.at, actor=entry.actor, text=str((entry.data or {}).get("text", "")))


def incident_view(listed: ListedIncident) -> IncidentView:
    token = listed.token
    error = token.error or {"message": "the error of this token cannot be read"}
    return IncidentView(
        id=token.id,
        instance_id=token.instance_id,
        definition_key=listed.definition_key,
        business_key=listed.business_key,
        node_id=token.node_id,
        code=str(error.get("code", "")),
        message=str(error.get("message", "")),
        traceback=str(error.get("traceback", "")),
        since=listed.since,
        attempts=token.attempt,
        item=listed.item,
    )


def attempt_view(entry: LogEntry) -> AttemptView:
    data = entry.data or {}
    return AttemptView(
        number=int(data.get("attempt", 0)),
        at=entry.at,
        code=str(data.get("code", "")),
        message=str(data.get("message", "")),
        traceback=str(data.get("traceback", "")),
    )


def history_entry(entry: LogEntry) -> HistoryEntry:
    return HistoryEntry(
        seq=entry.seq,
        kind=str(entry.kind),
        at=entry.at,
        node_id=entry.node_id,
        token_id=entry.token_id,
        activation=entry.activation,
        actor=entry.actor,
        data=entry.data,
    )


def schedule_view(schedule: Schedule) -> ScheduleView:
    return ScheduleView(
        id=schedule.id,
        definition_key=schedule.definition_key,
        node_id=schedule.node_id,
        status=str(schedule.status),
        due_at=schedule.due_at,
        cycle=schedule.cycle,
        fired=schedule.fired,
        catch_up=schedule.catch_up,
    )


def event_view(event: OutboxRow) -> EventView:
    return EventView(
        id=event.id,
        instance_id=event.instance_id,
        seq=event.seq,
        type=event.type,
        data=event.data or {},
        at=event.at,
        status=str(event.status),
        attempts=event.attempts,
        error=event.error,
    )
