"""Human tasks beside the token game: who has one, finding, taking, handing on, reserving.

Completing a task is a step and belongs to the committer. What is here changes only the row of the task,
checked by its version: of two people who claim it at once one gets a conflict.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import sqlalchemy as sa

from bpm_engine.core.state import HumanTask, TaskStatus
from bpm_engine.errors import InvalidInputError
from bpm_engine.store.pages import Key, Page, Paging, newest_or_oldest
from bpm_engine.store.records import TASK
from bpm_engine.store.rows import contains, row_source
from bpm_engine.store.schema import fixed, human_task
from bpm_engine.store.transaction import Transaction
from bpm_engine.store.types import LATEST, Instant, Json
from bpm_engine.store.values import is_row

Order = Literal["newest", "oldest", "due", "priority"]
NOW = sa.bindparam("now", type_=Instant)
IS_OPEN = human_task.c.status == fixed(TaskStatus.OPEN)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFilter:
    """All that is given must hold; candidates: the user, or one of the groups."""

    assignee: str | None = None
    unassigned: bool = False
    candidate_user: str | None = None
    candidate_groups: tuple[str, ...] = ()
    instance_id: str | None = None
    node: str | None = None
    due_before: datetime | None = None
    follow_up_before: datetime | None = None
    status: TaskStatus = TaskStatus.OPEN


def find_tasks(
    tx: Transaction,
    tenant_id: str,
    wanted: TaskFilter,
    *,
    order: Order = "oldest",
    limit: int = 100,
    cursor: str | None = None,
) -> Page[HumanTask]:
    query = sa.select(*TASK.columns).where(human_task.c.tenant_id == tenant_id, *_conditions(wanted))
    paging = Paging(_keys(order), limit, cursor, [tenant_id, order, asdict(wanted)])
    found = tx.execute(paging.apply(query)).all()
    return paging.page(found, TASK.read(found))


def get_task(tx: Transaction, tenant_id: str, task_id: str) -> HumanTask | None:
    query = sa.select(*TASK.columns).where(
        human_task.c.tenant_id == tenant_id, is_row(human_task.c.id, task_id)
    )
    return next(iter(TASK.read(tx.execute(query))), None)


def update_task(tx: Transaction, task: HumanTask) -> bool:
    """Write assignee, priority and dates of an open task; `version` is one more than was read.

    False: somebody else changed or finished it meanwhile.
    """
    values = {"given": TASK.given([task]), "now": tx.now()}
    return bool(tx.execute(UPDATE_TASK, values).rowcount)


def reserve_tasks(
    tx: Transaction, tenant_id: str, user: str, groups: Iterable[str], count: int
) -> list[HumanTask]:
    """Give the next `count` free tasks that `user` may do to that user, in one statement.

    Highest priority first, then oldest; two people who reserve at once never get the same one.
    """
    wanted = TaskFilter(unassigned=True, candidate_user=user, candidate_groups=tuple(groups))
    free = (
        sa.select(human_task.c.id)
        .where(human_task.c.tenant_id == tenant_id, *_conditions(wanted))
        .order_by(human_task.c.priority.desc(), human_task.c.id)
        .limit(count)
        .with_for_update(skip_locked=True)
        .cte("free")
    )
    statement = (
        human_task.update()
        .values(assignee=user, version=human_task.c.version + 1, updated_at=tx.now())
        .where(human_task.c.id == free.c.id, human_task.c.assignee.is_(None), IS_OPEN)
        .returning(*TASK.columns)
    )
    return sorted(TASK.read(tx.execute(statement)), key=lambda task: (-task.priority, task.id))


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


def _conditions(wanted: TaskFilter) -> list[sa.ColumnElement[bool]]:
    task = human_task.c
    conditions: list[sa.ColumnElement[bool]] = [task.status == fixed(TaskStatus(wanted.status))]
    if wanted.assignee is not None:
        conditions.append(task.assignee == wanted.assignee)
    if wanted.unassigned:
        conditions.append(task.assignee.is_(None))
    candidates = [_has(task.candidate_groups, group) for group in wanted.candidate_groups]
    if wanted.candidate_user is not None:
        candidates.append(_has(task.candidate_users, wanted.candidate_user))
    if candidates:
        conditions.append(sa.or_(*candidates))
    if wanted.instance_id is not None:
        conditions.append(is_row(task.instance_id, wanted.instance_id))
    if wanted.node is not None:
        conditions.append(task.node_id == wanted.node)
    if wanted.due_before is not None:
        conditions.append(task.due_at < wanted.due_before)
    if wanted.follow_up_before is not None:
        conditions.append(task.follow_up_at < wanted.follow_up_before)
    return conditions


def _has(names: sa.ColumnElement[Any], name: str) -> sa.ColumnElement[bool]:
    return contains(names, sa.literal([name], Json))


_NO_DUE = LATEST - timedelta(days=1)  # tasks without a due date come last
_DUE = sa.func.coalesce(human_task.c.due_at, sa.literal(_NO_DUE.astimezone(UTC), Instant), type_=Instant)
_GIVEN = row_source(TASK.columns)
UPDATE_TASK = (
    human_task.update()
    .values(
        **{name: _GIVEN.c[name] for name in ("assignee", "priority", "due_at", "follow_up_at", "version")},
        updated_at=NOW,
    )
    .where(human_task.c.id == _GIVEN.c.id, human_task.c.version == _GIVEN.c.version - 1, IS_OPEN)
)
