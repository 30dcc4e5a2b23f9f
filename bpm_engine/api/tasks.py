"""User tasks: finding them, taking and handing them on, and completing one.

`user` is the person who acts; with `groups` the application says which groups that person is in. The rights
of that person are checked inside the transaction that acts. Without `user` it is the application itself that
acts, which may always. The actor in the history is `actor`, or else the user.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Unpack, overload

import sqlalchemy as sa

from bpm_engine.api.caller import Caller, missing
from bpm_engine.api.filters import TaskFilters, task_filter
from bpm_engine.api.views import CommentView, Page, TaskView, comment_view, task_view
from bpm_engine.bpmn.graph import Human
from bpm_engine.bpmn.settings import FormField
from bpm_engine.core.changes import Applied
from bpm_engine.core.state import HumanTask, LogKind, TaskStatus, Variables
from bpm_engine.core.stimuli import TaskChange, TaskChanged, TaskCommented, TaskCompleted
from bpm_engine.errors import ConflictError, InvalidInputError, UnavailableError
from bpm_engine.services.definitions import Lookup
from bpm_engine.services.step import Submission
from bpm_engine.store import log, lookup, tasks
from bpm_engine.store import work as claims
from bpm_engine.store.pages import MAX_LIMIT
from bpm_engine.store.tasks import Group, ListedTask, Order, TaskFilter
from bpm_engine.store.transaction import Transaction

COMMENT = 10_000  # characters
FURTHER = 4  # times as far a reservation looks when it has met tasks that cannot be reserved
ROUNDS = 10  # of a reservation: others take the same tasks at the same time


class Tasks:
    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    # -------------------------------------------------------------- looking

    def get(self, task_id: str, *, connection: sa.Connection | None = None) -> TaskView:
        with self._caller.reading(connection) as tx:
            return task_views(self._caller, tx, [self._known(tx, task_id)])[0]

    def find(
        self,
        *,
        assignee: str | None = None,
        owner: str | None = None,
        unassigned: bool = False,
        candidate_user: str | None = None,
        candidate_group: str | Sequence[str] | None = None,
        instance: str | None = None,
        definition: str | None = None,
        business_key: str | None = None,
        node: str | None = None,
        due_before: datetime | None = None,
        due_after: datetime | None = None,
        follow_up_before: datetime | None = None,
        overdue: bool = False,
        status: str | None = TaskStatus.OPEN,
        order: Order = "oldest",
        limit: int = 100,
        cursor: str | None = None,
    ) -> Page[TaskView]:
        """All that is given must hold; of the candidates, the user or one of the groups.

        `overdue`: past their due date now. `status` None finds open, completed and cancelled ones. `order` is
        oldest, newest, due (without a due date last) or priority (highest first, then oldest).
        """
        border = self._caller.border
        wanted = task_filter(
            border,
            assignee=assignee,
            owner=owner,
            unassigned=unassigned,
            candidate_user=candidate_user,
            candidate_group=candidate_group,
            instance=instance,
            definition=definition,
            business_key=business_key,
            node=node,
            due_before=due_before,
            due_after=due_after,
            follow_up_before=follow_up_before,
            overdue=overdue,
            status=status,
        )
        with self._caller.searching() as tx:
            page = tasks.find_tasks(
                tx, self._caller.tenant, wanted, order=order, limit=border.limit(limit), cursor=cursor
            )
            return Page(task_views(self._caller, tx, page.items), page.cursor)

    @overload
    def count(self, by: None = None, **filters: Unpack[TaskFilters]) -> int: ...

    @overload
    def count(self, by: Group, **filters: Unpack[TaskFilters]) -> dict[str, int]: ...

    def count(self, by: Group | None = None, **filters: Unpack[TaskFilters]) -> int | dict[str, int]:
        """How many tasks there are; `by` gives a number per assignee, definition or node.

        The filters are those of `find`. Tasks that nobody has are counted under the assignee "".
        """
        if by not in (None, "assignee", "definition", "node"):
            raise InvalidInputError(f"by is assignee, definition or node, not {by!r:.40}")
        wanted = task_filter(self._caller.border, **filters)
        with self._caller.searching() as tx:
            counted = tasks.count_tasks(tx, self._caller.tenant, wanted, by)
        return sum(counted.values()) if by is None else {name or "": n for name, n in counted.items()}

    def variables(self, task_id: str) -> Variables:
        """What the task sees of the process: what a form may show."""
        with self._caller.reading() as tx:
            task = self._known(tx, task_id).task
            token = lookup.get_token(tx, self._caller.tenant, task.token_id)
            work = [] if token is None else claims.load_work(tx, [token])
        if not work:
            raise ConflictError(f"task {task_id}: its variables cannot be read; see engine.incidents")
        return work[0].variables

    def comments(self, task_id: str) -> tuple[CommentView, ...]:
        """What was said about the task, oldest first."""
        with self._caller.reading() as tx:
            task = self._known(tx, task_id).task
            entries = log.find_entries(
                tx, self._caller.tenant, task.instance_id, LogKind.COMMENTED, task.token_id
            )
        return tuple(comment_view(each) for each in entries if (each.data or {}).get("task_id") == task.id)

    # -------------------------------------------------------------- taking and handing on

    def claim(
        self,
        task_id: str,
        user: str,
        *,
        groups: Sequence[str] = (),
        actor: str | None = None,
        connection: sa.Connection | None = None,
    ) -> TaskView:
        """Take the task. Of two people who claim it at once, one gets a ConflictError."""
        border = self._caller.border
        stimulus = TaskChanged(
            task_id=task_id,
            change=TaskChange.CLAIMED,
            user=border.name(user, "user"),
            groups=border.all_names(groups, "a group"),
        )
        return self._change(stimulus, actor or user, connection)

    def unclaim(
        self,
        task_id: str,
        *,
        user: str | None = None,
        actor: str | None = None,
        connection: sa.Connection | None = None,
    ) -> TaskView:
        """Give the task back: to the owner if it was delegated, else to all candidates."""
        self._caller.border.names(user=user)
        stimulus = TaskChanged(task_id=task_id, change=TaskChange.UNCLAIMED, by=user)
        return self._change(stimulus, actor or user, connection)

    def assign(
        self,
        task_id: str,
        user: str | None,
        *,
        actor: str | None = None,
        connection: sa.Connection | None = None,
    ) -> TaskView:
        """Give the task to somebody, whoever has it now; None: to nobody."""
        self._caller.border.names(user=user)
        stimulus = TaskChanged(task_id=task_id, change=TaskChange.ASSIGNED, user=user)
        return self._change(stimulus, actor, connection)

    def delegate(
        self,
        task_id: str,
        to: str,
        *,
        user: str | None = None,
        actor: str | None = None,
        connection: sa.Connection | None = None,
    ) -> TaskView:
        """Let somebody else do it. Who had it stays its owner and gets it back by `unclaim`."""
        border = self._caller.border
        border.names(user=user)
        stimulus = TaskChanged(
            task_id=task_id, change=TaskChange.DELEGATED, user=border.name(to, "to"), by=user
        )
        return self._change(stimulus, actor or user, connection)

    def plan(
        self,
        task_id: str,
        *,
        priority: int | None = None,
        due_at: datetime | None = None,
        follow_up_at: datetime | None = None,
        actor: str | None = None,
        connection: sa.Connection | None = None,
    ) -> TaskView:
        """Change priority and dates; what is not given stays. Modelled timers are not moved by that."""
        border = self._caller.border
        stimulus = TaskChanged(
            task_id=task_id,
            change=TaskChange.PLANNED,
            priority=None if priority is None else border.priority(priority),
            due_at=border.instant(due_at, "due_at"),
            follow_up_at=border.instant(follow_up_at, "follow_up_at"),
        )
        return self._change(stimulus, actor, connection)

    def comment(
        self,
        task_id: str,
        text: str,
        *,
        actor: str | None = None,
        connection: sa.Connection | None = None,
    ) -> None:
        """Say something about the task; kept in the history with who said it and when."""
        if not text:
            raise InvalidInputError("a comment needs words")
        said = self._caller.border.text(text, "text", COMMENT)
        self._ask(TaskCommented(task_id=task_id, text=said), actor, connection)

    def reserve(
        self,
        user: str,
        count: int,
        *,
        groups: Sequence[str] = (),
        definition: str | None = None,
        node: str | None = None,
        actor: str | None = None,
        connection: sa.Connection | None = None,
    ) -> tuple[TaskView, ...]:
        """Claim the next `count` tasks that nobody has and `user` may do.

        The highest priority comes first, then the oldest. Two people who reserve at the same time never get
        the same task. Fewer come back if there are no more. Tasks of a process that cannot be read are passed
        over.
        """
        border = self._caller.border
        border.names(definition=definition, node=node, actor=actor)
        border.name(user, "user")
        border.number(count, "count", 1, MAX_LIMIT)
        wanted = TaskFilter(
            candidate_groups=border.all_names(groups, "a group"), definition=definition, node=node
        )
        taken: list[str] = []
        for _ in range(ROUNDS):
            try:
                taken += self._reserve(user, wanted, count - len(taken), actor or user, connection)
                if len(taken) == count or not self._is_left(user, wanted, connection):
                    break
                taken += self._reserve(user, wanted, count - len(taken), actor or user, connection, wait=True)
            except UnavailableError:
                if not taken or connection is not None:
                    raise  # nothing has happened; otherwise what was taken must be told
        return self._caller.afterwards(lambda: self._views(taken, connection), connection)

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
        """Finish the task with these variables, which must suit its form and its guards.

        With `user`, only someone who may do the task can. Of two who complete it at once, one gets a
        ConflictError.
        """
        border = self._caller.border
        border.names(user=user)
        stimulus = TaskCompleted(
            task_id=task_id,
            variables=border.variables(variables),
            user=user,
            groups=border.all_names(groups, "a group"),
        )
        return self._change(stimulus, actor or user, connection)

    # -------------------------------------------------------------- inside

    def _change(
        self, stimulus: TaskChanged | TaskCompleted, actor: str | None, connection: sa.Connection | None
    ) -> TaskView:
        self._ask(stimulus, actor, connection)
        return self._caller.afterwards(lambda: self.get(stimulus.task_id, connection=connection), connection)

    def _ask(
        self,
        stimulus: TaskChanged | TaskCommented | TaskCompleted,
        actor: str | None,
        connection: sa.Connection | None,
    ) -> None:
        with self._caller.reading(connection) as tx:
            task = self._known(tx, stimulus.task_id).task
        about = f"task {task.id}"
        self._caller.ask(stimulus, task.root_instance_id, about=about, actor=actor, connection=connection)

    def _reserve(
        self,
        user: str,
        wanted: TaskFilter,
        count: int,
        actor: str,
        connection: sa.Connection | None,
        *,
        wait: bool = False,
    ) -> list[str]:
        """One critical section: the free tasks are found, locked and given in one transaction, past those
        that others are busy with; with `wait`, these are waited for as well."""

        def find(tx: Transaction) -> list[Submission]:
            free = self._free(tx, user, wanted, count, lock=not wait)
            return [_reservation(task, user, wanted.candidate_groups, actor) for task in free]

        runtime = self._caller.runtime
        if wait:
            with self._caller.reading(connection) as tx:
                found = find(tx)
            runtime.perform(found, connection, self._caller.tenant)
        else:
            found = runtime.perform_found(find, connection, self._caller.tenant)
        return [
            s.stimulus.task_id
            for s in found
            if isinstance(s.outcome, Applied) and isinstance(s.stimulus, TaskChanged)
        ]

    def _views(self, task_ids: Sequence[str], connection: sa.Connection | None) -> tuple[TaskView, ...]:
        with self._caller.reading(connection) as tx:
            return task_views(self._caller, tx, [self._known(tx, task_id) for task_id in task_ids])

    def _is_left(self, user: str, wanted: TaskFilter, connection: sa.Connection | None) -> bool:
        with self._caller.reading(connection) as tx:
            return bool(self._free(tx, user, wanted, 1, lock=False))

    def _free(
        self, tx: Transaction, user: str, wanted: TaskFilter, count: int, *, lock: bool
    ) -> list[HumanTask]:
        """Past those of a process that cannot be read, or whose caller's cannot: none could be reserved
        together with them."""
        known, tried, asked = Lookup(self._caller.runtime.cache), set[str](), count
        while True:
            free = tasks.find_free(tx, self._caller.tenant, user, wanted, asked, lock=lock)
            needed = tasks.load_definition_ids(tx, free)
            new = set().union(*needed.values()) - tried
            known.load_readable(tx, new)
            tried |= new
            readable = [
                task
                for task in free
                if all(known.graph(each) is not None for each in needed[task.instance_id])
            ]
            if len(readable) >= count or len(free) < asked:
                return readable[:count]
            asked *= FURTHER

    def _known(self, tx: Transaction, task_id: str) -> ListedTask:
        found = tasks.get_task(tx, self._caller.tenant, task_id)
        if found is None:
            raise missing("task", task_id)
        return found


def task_views(caller: Caller, tx: Transaction, listed: Sequence[ListedTask]) -> tuple[TaskView, ...]:
    """With the fields of their forms, which the model knows."""
    known = Lookup(caller.runtime.cache)
    known.load_readable(tx, {each.definition_id for each in listed})
    now = tx.now()
    return tuple(task_view(each, _fields(known, each), now) for each in listed)


def _reservation(task: HumanTask, user: str, groups: tuple[str, ...], actor: str) -> Submission:
    stimulus = TaskChanged(task_id=task.id, change=TaskChange.RESERVED, user=user, groups=groups)
    return Submission(stimulus=stimulus, root=task.root_instance_id, actor=actor)


def _fields(known: Lookup, listed: ListedTask) -> tuple[FormField, ...]:
    graph = known.graph(listed.definition_id)
    node = None if graph is None else graph.nodes.get(listed.task.node_id)
    return node.spec.fields if node is not None and isinstance(node.spec, Human) else ()
