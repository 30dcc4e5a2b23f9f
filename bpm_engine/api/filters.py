"""What instances, tasks and incidents are looked for by: the same words for `find`, `count` and batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from difflib import get_close_matches
from typing import Any, TypedDict, Unpack

from bpm_engine.api.border import Border
from bpm_engine.core.state import InstanceStatus, TaskStatus
from bpm_engine.errors import InvalidInputError
from bpm_engine.store.incidents import IncidentFilter
from bpm_engine.store.search import InstanceFilter
from bpm_engine.store.tasks import TaskFilter


class ProcessFilters(TypedDict, total=False):
    """Among the instances of one process."""

    status: str | None
    version: int | None
    business_key: str | None
    subject: str | None
    correlation_id: str | None
    variables: Mapping[str, Any] | None
    node: str | None
    incidents: bool | None
    started_after: datetime | None
    started_before: datetime | None
    ended_after: datetime | None
    ended_before: datetime | None
    parent: str | None
    called: bool | None
    ended: bool | None
    deleted: bool


class InstanceFilters(ProcessFilters, total=False):
    """All that is given must hold. `variables` must be contained in those of the process."""

    definition: str | None


def instance_filter(border: Border, **given: Unpack[InstanceFilters]) -> InstanceFilter:
    _refuse_unknown(given, InstanceFilters)
    names = ("definition", "business_key", "subject", "correlation_id", "node", "parent")
    border.names(**{name: given.get(name) for name in names})
    status, variables = given.get("status"), given.get("variables")
    return InstanceFilter(
        status=None if status is None else border.word(status, InstanceStatus, "status"),
        definition=given.get("definition"),
        version=border.optional_number(given.get("version"), "version"),
        business_key=given.get("business_key"),
        subject=given.get("subject"),
        correlation_id=given.get("correlation_id"),
        variables=None if variables is None else border.variables(variables),
        node=given.get("node"),
        incidents=given.get("incidents"),
        started_after=border.instant(given.get("started_after"), "started_after"),
        started_before=border.instant(given.get("started_before"), "started_before"),
        ended_after=border.instant(given.get("ended_after"), "ended_after"),
        ended_before=border.instant(given.get("ended_before"), "ended_before"),
        parent_id=given.get("parent"),
        called=given.get("called"),
        ended=given.get("ended"),
        deleted=given.get("deleted", False),
    )


class TaskFilters(TypedDict, total=False):
    """All that is given must hold; of the candidates, the user or one of the groups."""

    assignee: str | None
    owner: str | None
    unassigned: bool
    candidate_user: str | None
    candidate_group: str | Sequence[str] | None
    instance: str | None
    definition: str | None
    business_key: str | None
    node: str | None
    due_before: datetime | None
    due_after: datetime | None
    follow_up_before: datetime | None
    overdue: bool
    status: str | None


def task_filter(border: Border, **given: Unpack[TaskFilters]) -> TaskFilter:
    _refuse_unknown(given, TaskFilters)
    names = ("assignee", "owner", "candidate_user", "instance", "definition", "business_key", "node")
    border.names(**{name: given.get(name) for name in names})
    group, status = given.get("candidate_group"), given.get("status", TaskStatus.OPEN)
    return TaskFilter(
        assignee=given.get("assignee"),
        owner=given.get("owner"),
        unassigned=given.get("unassigned", False),
        candidate_user=given.get("candidate_user"),
        candidate_groups=border.all_names([group] if isinstance(group, str) else group or (), "a group"),
        instance_id=given.get("instance"),
        definition=given.get("definition"),
        business_key=given.get("business_key"),
        node=given.get("node"),
        due_before=border.instant(given.get("due_before"), "due_before"),
        due_after=border.instant(given.get("due_after"), "due_after"),
        follow_up_before=border.instant(given.get("follow_up_before"), "follow_up_before"),
        overdue=given.get("overdue", False),
        status=None if status is None else border.word(status, TaskStatus, "status"),
    )


class IncidentFilters(TypedDict, total=False):
    """All that is given must hold."""

    instance: str | None
    definition: str | None
    business_key: str | None
    node: str | None
    code: str | None
    since_after: datetime | None
    since_before: datetime | None


def incident_filter(border: Border, **given: Unpack[IncidentFilters]) -> IncidentFilter:
    _refuse_unknown(given, IncidentFilters)
    names = ("instance", "definition", "business_key", "node", "code")
    border.names(**{name: given.get(name) for name in names})
    return IncidentFilter(
        instance_id=given.get("instance"),
        definition=given.get("definition"),
        business_key=given.get("business_key"),
        node=given.get("node"),
        code=given.get("code"),
        since_after=border.instant(given.get("since_after"), "since_after"),
        since_before=border.instant(given.get("since_before"), "since_before"),
    )


def _refuse_unknown(given: Mapping[str, object], known: type) -> None:
    """Left out, a name that is mistyped would widen what is found, and what is done to it."""
    for name in given:
        if name not in known.__annotations__:
            near = get_close_matches(name, known.__annotations__, 1)
            meant = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known.__annotations__)}"
            raise InvalidInputError(f"there is no filter {name!r}; {meant}")


def narrows(filters: InstanceFilters) -> bool:
    """Whether anything is asked for at all."""
    return any(value is not None and (name, value) != ("deleted", False) for name, value in filters.items())
