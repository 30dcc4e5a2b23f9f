"""User tasks: finding them, and completing one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from bpm_engine.api.caller import Caller
from bpm_engine.api.views import Page, TaskView, task_view
from bpm_engine.core.state import HumanTask, TaskStatus
from bpm_engine.core.stimuli import TaskCompleted
from bpm_engine.errors import ConflictError, NotFoundError
from bpm_engine.store import tasks
from bpm_engine.store.tasks import Order, TaskFilter
from bpm_engine.store.transaction import Transaction


class Tasks:
    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def get(self, task_id: str, *, connection: sa.Connection | None = None) -> TaskView:
        with self._caller.reading(connection) as tx:
            return task_view(self._known(tx, task_id))

    def find(
        self,
        *,
        assignee: str | None = None,
        candidate_user: str | None = None,
        candidate_group: str | Sequence[str] | None = None,
        instance: str | None = None,
        node: str | None = None,
        due_before: datetime | None = None,
        status: str = TaskStatus.OPEN,
        order: Order = "oldest",
        limit: int = 100,
        cursor: str | None = None,
    ) -> Page[TaskView]:
        """All that is given must hold; of the candidates, the user or one of the groups."""
        border = self._caller.border
        groups = (candidate_group,) if isinstance(candidate_group, str) else tuple(candidate_group or ())
        border.names(assignee=assignee, candidate_user=candidate_user, instance=instance, node=node)
        wanted = TaskFilter(
            assignee=assignee,
            candidate_user=candidate_user,
            candidate_groups=tuple(border.name(group, "candidate_group") for group in groups),
            instance_id=instance,
            node=node,
            due_before=border.instant(due_before, "due_before"),
            status=border.word(status, TaskStatus, "status"),
        )
        with self._caller.reading() as tx:
            page = tasks.find_tasks(
                tx, self._caller.tenant, wanted, order=order, limit=border.limit(limit), cursor=cursor
            )
        return Page(tuple(task_view(each) for each in page.items), page.cursor)

    def complete(
        self,
        task_id: str,
        variables: Mapping[str, Any] | None = None,
        *,
        user: str | None = None,
        groups: Sequence[str] = (),
        actor: str | None = None,
        connection: sa.Connection | None = None,
    ) -> TaskView:
        """Finish the task with these variables. With `user`, only someone who may do the task can."""
        given = self._caller.border.variables(variables)
        self._caller.border.names(user=user)
        with self._caller.reading(connection) as tx:
            task = self._known(tx, task_id)
        if user is not None:
            _require_right(task, user, groups)
        stimulus = TaskCompleted(task_id=task.id, variables=given, user=user)
        self._caller.ask(
            stimulus,
            task.root_instance_id,
            about=f"task {task_id}",
            actor=actor or user,
            connection=connection,
        )
        return self.get(task_id, connection=connection)

    def _known(self, tx: Transaction, task_id: str) -> HumanTask:
        found = tasks.get_task(tx, self._caller.tenant, task_id)
        if found is None:
            raise NotFoundError(f"there is no task {task_id!r:.80}")
        return found


def _require_right(task: HumanTask, user: str, groups: Sequence[str]) -> None:
    """Whoever it is assigned to; else one of the candidates; else anybody."""
    if task.assignee is not None:
        if task.assignee != user:
            raise ConflictError(f"task {task.id} is assigned to {task.assignee!r}, not to {user!r}")
        return
    if not task.candidate_users and not task.candidate_groups:
        return
    if user not in task.candidate_users and not set(groups) & set(task.candidate_groups):
        allowed = ", ".join([*task.candidate_users, *task.candidate_groups])
        raise ConflictError(f"task {task.id} is for {allowed}; {user!r} is none of them")
