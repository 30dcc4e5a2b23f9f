"""Human tasks as people look at them: finding, counting, and the free ones that somebody may take.

Every change of a task is a step and belongs to the committer; nothing here writes. A task is shown with the
instance it belongs to, and not at all once that instance is deleted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import sqlalchemy as sa

from bpm_engine.core.state import HumanTask, InstanceStatus, TaskStatus
from bpm_engine.errors import InvalidInputError
from bpm_engine.store.pages import Key, Page, Paging, newest_or_oldest
from bpm_engine.store.records import TASK
from bpm_engine.store.rows import contains, id_source, ids
from bpm_engine.store.schema import human_task, process_instance, scope
from bpm_engine.store.statuses import still
from bpm_engine.store.transaction import Transaction
from bpm_engine.store.types import LATEST, Instant, Json
from bpm_engine.store.values import is_row

Order = Literal["newest", "oldest", "due", "priority"]
Group = Literal["assignee", "definition", "node"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFilter:
    """All that is given must hold; candidates: the user, or one of the groups."""

    assignee: str | None = None
    owner: str | None = None
    unassigned: bool = False
    candidate_user: str | None = None
    candidate_groups: tuple[str, ...] = ()
    instance_id: str | None = None
    definition: str | None = None
    business_key: str | None = None
    node: str | None = None
    due_before: datetime | None = None
    due_after: datetime | None = None
    follow_up_before: datetime | None = None
    overdue: bool = False
    status: TaskStatus | None = TaskStatus.OPEN  # None: of any


@dataclass(frozen=True, slots=True)
class ListedTask:
    """A task and what its list says about its instance."""

    task: HumanTask
    definition_id: str
    definition_key: str
    business_key: str | None
    created_at: datetime


def find_tasks(
    tx: Transaction,
    tenant_id: str,
    wanted: TaskFilter,
    *,
    order: Order = "oldest",
    limit: int = 100,
    cursor: str | None = None,
) -> Page[ListedTask]:
    query = _listed().where(human_task.c.tenant_id == tenant_id, *_conditions(wanted, tx))
    paging = Paging(_keys(order), limit, cursor, [tenant_id, order, asdict(wanted)])
    found = tx.execute(paging.apply(query)).all()
    return paging.page(found, _read)


def get_task(tx: Transaction, tenant_id: str, task_id: str) -> ListedTask | None:
    query = _listed().where(human_task.c.tenant_id == tenant_id, is_row(human_task.c.id, task_id))
    return next(iter(_read(tx.execute(query).all())), None)


def get_task_of_token(tx: Transaction, tenant_id: str, token_id: str) -> ListedTask | None:
    """The latest one."""
    query = _listed().where(human_task.c.tenant_id == tenant_id, human_task.c.token_id == token_id)
    query = query.order_by(human_task.c.id.desc()).limit(1)
    return next(iter(_read(tx.execute(query).all())), None)


def count_tasks(
    tx: Transaction, tenant_id: str, wanted: TaskFilter, by: Group | None = None
) -> dict[str | None, int]:
    """How many; by assignee, definition or node. Without `by`, all of them under None."""
    key = _GROUPS[by] if by else sa.null()
    query = (
        sa.select(key.label("name"), sa.func.count().label("number"))
        .select_from(_TABLES)
        .where(human_task.c.tenant_id == tenant_id, IS_SHOWN, *_conditions(wanted, tx))
    )
    rows = tx.execute(query.group_by(key) if by else query)
    return {row.name: row.number for row in rows}


def find_free(
    tx: Transaction, tenant_id: str, user: str, wanted: TaskFilter, limit: int, *, lock: bool
) -> list[HumanTask]:
    """The next tasks that nobody has and `user` may do: highest priority first, then oldest.

    `wanted.candidate_groups` are the user's. With `lock` their call trees are held by `tx` from now on, and
    those that others hold at this moment are left out.
    """
    root = scope.alias("root")
    asked = sa.or_(
        *_candidates(user, wanted.candidate_groups),
        sa.and_(human_task.c.candidate_users == NOBODY, human_task.c.candidate_groups == NOBODY),
    )
    others = TaskFilter(unassigned=True, definition=wanted.definition, node=wanted.node)
    query = (
        sa.select(*TASK.columns)
        .select_from(_TABLES.join(root, root.c.id == human_task.c.root_instance_id))
        .where(human_task.c.tenant_id == tenant_id, asked, *_conditions(others, tx))
        .where(process_instance.c.status == InstanceStatus.RUNNING)
        .order_by(human_task.c.priority.desc(), human_task.c.id)
        .limit(limit)
    )
    if lock:
        query = query.with_for_update(key_share=True, skip_locked=True, of=root)
    return TASK.read(tx.execute(query), {})


def load_definition_ids(tx: Transaction, found: Sequence[HumanTask]) -> dict[str, set[str]]:
    """By the id of its instance, the definitions that the game needs for a task: the instance's own, and
    those of the instances that have called it."""
    needed: dict[str, set[str]] = {}
    for row in tx.execute(CALLERS, {"ids": ids(dict.fromkeys(each.instance_id for each in found))}):
        needed.setdefault(row.start, set()).add(row.definition_id)
    return needed


def _callers() -> sa.Select[Any]:
    """Each instance given, and outwards those that called it."""
    given, outer = id_source(), process_instance.alias("outer")
    columns = (process_instance.c.parent_instance_id, process_instance.c.definition_id)
    line = (
        sa.select(given.c.id.label("start"), *columns)
        .join(process_instance, process_instance.c.id == given.c.id)
        .cte("line", recursive=True)
    )
    around = sa.select(line.c.start, outer.c.parent_instance_id, outer.c.definition_id)
    return sa.select(line.union_all(around.join(outer, outer.c.id == line.c.parent_instance_id)))


def _listed() -> sa.Select[Any]:
    instance = process_instance.c
    return (
        sa.select(
            *TASK.columns,
            instance.definition_id,
            instance.definition_key,
            instance.business_key,
            human_task.c.created_at,
        )
        .select_from(_TABLES)
        .where(IS_SHOWN)
    )


def _read(rows: Sequence[sa.Row[Any]]) -> list[ListedTask]:
    width = len(TASK.columns)
    return [ListedTask(task, *row[width : width + 4]) for row in rows for task in TASK.read([row])]


def _keys(order: str) -> list[Key]:
    match order:
        case "due":
            return [Key(_DUE, datetime), Key(human_task.c.id, str)]
        case "priority":
            return [Key(human_task.c.priority, int, descending=True), Key(human_task.c.id, str)]
        case "newest" | "oldest":
            return newest_or_oldest(human_task.c.id, order)
        case _:
            raise InvalidInputError(f"order is newest, oldest, due or priority, not {order!r}")


def _conditions(wanted: TaskFilter, tx: Transaction) -> list[sa.ColumnElement[bool]]:
    task, instance = human_task.c, process_instance.c
    equal = {
        task.assignee: wanted.assignee,
        task.owner: wanted.owner,
        task.node_id: wanted.node,
        instance.definition_key: wanted.definition,
        instance.business_key: wanted.business_key,
    }
    conditions: list[sa.ColumnElement[bool]] = [c == value for c, value in equal.items() if value is not None]
    if wanted.status is not None:
        conditions.append(still(TaskStatus(wanted.status), task.status))
    if wanted.unassigned:
        conditions.append(task.assignee.is_(None))
    if candidates := _candidates(wanted.candidate_user, wanted.candidate_groups):
        conditions.append(sa.or_(*candidates))
    if wanted.instance_id is not None:
        conditions.append(is_row(task.instance_id, wanted.instance_id))
    if wanted.overdue:
        conditions.append(task.due_at <= tx.now())
    if wanted.due_before is not None:
        conditions.append(task.due_at < wanted.due_before)
    if wanted.due_after is not None:
        conditions.append(task.due_at >= wanted.due_after)
    if wanted.follow_up_before is not None:
        conditions.append(task.follow_up_at < wanted.follow_up_before)
    return conditions


def _candidates(user: str | None, groups: Sequence[str]) -> list[sa.ColumnElement[bool]]:
    candidates = [_has(human_task.c.candidate_groups, group) for group in groups]
    if user is not None:
        candidates.append(_has(human_task.c.candidate_users, user))
    return candidates


def _has(names: sa.ColumnElement[Any], name: str) -> sa.ColumnElement[bool]:
    return contains(names, sa.literal([name], Json))


CALLERS = _callers()
NOBODY = sa.literal([], Json)
IS_SHOWN = process_instance.c.deleted_at.is_(None)
_TABLES = human_task.join(process_instance, process_instance.c.id == human_task.c.instance_id)
_NO_DUE = LATEST - timedelta(days=1)  # tasks without a due date come last
_DUE = sa.func.coalesce(human_task.c.due_at, sa.literal(_NO_DUE.astimezone(UTC), Instant), type_=Instant)
_GROUPS: dict[Group, sa.ColumnElement[Any]] = {
    "assignee": human_task.c.assignee,
    "definition": process_instance.c.definition_key,
    "node": human_task.c.node_id,
}
