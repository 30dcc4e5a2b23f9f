"""The statements behind `trees`: each loads one kind of row for all trees of a batch.

Tokens and human tasks are locked in the order of their ids as they are read. Only rows that still matter are
loaded (live tokens, open waits), by partial indexes, so that the past of a long-running instance costs
nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from bpm_engine.core.state import (
    CompensationStatus,
    ScopeState,
    SubscriptionKind,
    SubscriptionStatus,
    TaskStatus,
    TimerStatus,
    TokenState,
)
from bpm_engine.store.records import (
    COMPENSATION,
    INSTANCE,
    JOIN,
    PROGRESS,
    SCOPE,
    SUBSCRIPTION,
    TASK,
    TIMER,
    TOKEN,
)
from bpm_engine.store.rows import id_source, row_source
from bpm_engine.store.schema import (
    compensation_record,
    human_task,
    parallel_join,
    process_instance,
    scope,
    subscription,
    timer,
    token,
)
from bpm_engine.store.statuses import fixed, still
from bpm_engine.store.types import Id

GIVEN = id_source()
IS_LIVE = token.c.state.not_in([fixed(TokenState.COMPLETED), fixed(TokenState.CANCELLED)])
IS_OPEN_SCOPE = scope.c.state.not_in([fixed(ScopeState.COMPLETED), fixed(ScopeState.CANCELLED)])
IS_SCHEDULED = still(TimerStatus.SCHEDULED, timer.c.status)
IS_OPEN = still(SubscriptionStatus.OPEN, subscription.c.status)
IS_OPEN_TASK = still(TaskStatus.OPEN, human_task.c.status)


def members(root: sa.ColumnElement[str]) -> sa.CompoundSelect[tuple[str]]:
    """The ids of the instances of a call tree: the top, and what is below it. For an OR of the two a server
    would walk through the whole table."""
    instance = process_instance.alias()
    return sa.union_all(
        sa.select(instance.c.id).where(instance.c.id == root),
        sa.select(instance.c.id).where(*is_below(instance, root)),
    )


def is_below(instance: sa.FromClause, root: sa.ColumnElement[str]) -> tuple[sa.ColumnElement[bool], ...]:
    """In its call tree, and not the top itself."""
    return instance.c.root_instance_id == root, instance.c.depth > sa.literal_column("0")


def _locked(query: sa.Select[Any], table: sa.Table) -> sa.Select[Any]:
    """FOR NO KEY UPDATE: inserts of rows that refer to it go on."""
    return query.order_by(table.c.id).with_for_update(key_share=True, of=table)


def _tokens(*conditions: sa.ColumnElement[bool]) -> sa.Select[Any]:
    return _locked(sa.select(*TOKEN.columns).where(*conditions), token)


def _tasks(*conditions: sa.ColumnElement[bool]) -> sa.Select[Any]:
    return _locked(sa.select(*TASK.columns).where(*conditions), human_task)


def _timers(*conditions: sa.ColumnElement[bool]) -> sa.Select[Any]:
    return sa.select(*TIMER.columns).where(*conditions)


def _subscriptions(*conditions: sa.ColumnElement[bool]) -> sa.Select[Any]:
    return sa.select(*SUBSCRIPTION.columns).where(*conditions)


def _take(columns: Sequence[sa.Column[Any]], *, wait: bool = False) -> sa.Select[Any]:
    roots = sa.select(*columns).where(scope.c.id == GIVEN.c.id).order_by(scope.c.id)
    return roots.with_for_update(key_share=True, skip_locked=not wait, of=scope)


TAKE_ROOTS = _take(SCOPE.columns)
TAKE_ROOTS_WAITING = _take(SCOPE.columns, wait=True)
TAKE_KNOWN_ROOTS = _take(PROGRESS.columns)

FIND_ROOTS = sa.union_all(
    *(
        sa.select(table.c.id, table.c.root_instance_id).where(table.c.id == GIVEN.c.id)
        for table in (process_instance, token, timer, subscription, human_task)
    )
)

SCOPES = sa.select(*SCOPE.columns).where(scope.c.id == GIVEN.c.id)
INSTANCES = sa.select(*INSTANCE.columns).where(process_instance.c.id == GIVEN.c.id)
TOKENS = _tokens(token.c.id == GIVEN.c.id)
LIVE_TOKENS = _tokens(token.c.scope_id == GIVEN.c.id, IS_LIVE)
COMPLETED_ITEMS = _tokens(
    token.c.scope_id == GIVEN.c.id,
    token.c.loop_index.is_not(None),
    token.c.state == TokenState.COMPLETED,
)
_ITEMS = row_source([sa.Column("scope_id", Id), sa.Column("loop_index", sa.Integer())])
ITEM_TOKENS = _tokens(token.c.scope_id == _ITEMS.c.scope_id, token.c.loop_index == _ITEMS.c.loop_index)
_PLACES = row_source([sa.Column("scope_id", Id), sa.Column("node_id", sa.Text())])
PARKED_TOKENS = _tokens(
    token.c.scope_id == _PLACES.c.scope_id,
    token.c.node_id == _PLACES.c.node_id,
    still(TokenState.WAITING, token.c.state),
    IS_LIVE,
)
JOINS = sa.select(*JOIN.columns).where(
    parallel_join.c.scope_id == _PLACES.c.scope_id, parallel_join.c.node_id == _PLACES.c.node_id
)
JOINS_OF_SCOPES = sa.select(*JOIN.columns).where(parallel_join.c.scope_id == GIVEN.c.id)

TIMERS = _timers(timer.c.id == GIVEN.c.id)
TIMERS_OF_TOKENS = _timers(timer.c.token_id == GIVEN.c.id, IS_SCHEDULED)
TIMERS_OF_SCOPES = _timers(timer.c.scope_id == GIVEN.c.id, IS_SCHEDULED)
TIMERS_WITHOUT_TOKEN = _timers(timer.c.scope_id == GIVEN.c.id, IS_SCHEDULED, timer.c.token_id.is_(None))
SUBSCRIPTIONS = _subscriptions(subscription.c.id == GIVEN.c.id, subscription.c.instance_id.is_not(None))
SUBSCRIPTIONS_OF_TOKENS = _subscriptions(subscription.c.token_id == GIVEN.c.id, IS_OPEN)
SUBSCRIPTIONS_OF_SCOPES = _subscriptions(subscription.c.scope_id == GIVEN.c.id, IS_OPEN)
SUBSCRIPTIONS_WITHOUT_TOKEN = _subscriptions(
    subscription.c.scope_id == GIVEN.c.id, IS_OPEN, subscription.c.token_id.is_(None)
)
CONDITIONS = _subscriptions(
    subscription.c.instance_id == GIVEN.c.id,
    IS_OPEN,
    still(SubscriptionKind.CONDITION, subscription.c.kind),
)
TASKS = _tasks(human_task.c.id == GIVEN.c.id)
TASKS_OF_TOKENS = _tasks(human_task.c.token_id == GIVEN.c.id, IS_OPEN_TASK)
TASKS_OF_SCOPES = _tasks(human_task.c.scope_id == GIVEN.c.id, IS_OPEN_TASK)
UNFINISHED_COMPENSATIONS = sa.select(*COMPENSATION.columns).where(
    compensation_record.c.instance_id == GIVEN.c.id,
    compensation_record.c.status != CompensationStatus.COMPLETED,
)


def _scope_chains() -> sa.Select[Any]:
    """Outwards: the scope around a scope, and from the root of a called instance the scope of the calling
    token.
    """
    caller = token.alias("caller")
    chain = sa.select(GIVEN.c.id.label("id")).cte("chain", recursive=True)
    around = (
        sa.select(sa.func.coalesce(scope.c.parent_id, caller.c.scope_id, type_=Id))
        .select_from(chain)
        .join(scope, scope.c.id == chain.c.id)
        .outerjoin(process_instance, process_instance.c.id == scope.c.id)
        .outerjoin(caller, caller.c.id == process_instance.c.parent_token_id)
        .where(sa.or_(scope.c.parent_id.is_not(None), caller.c.scope_id.is_not(None)))
    )
    chain = chain.union(around)
    return sa.select(*SCOPE.columns).join_from(chain, scope, scope.c.id == chain.c.id)


def _scopes_inside() -> sa.Select[Any]:
    """Inwards: the open scopes in a scope, and the root scopes of instances that its live tokens have called.

    A recursive query may name itself only once: the two ways in are two rows of a small table.
    """
    inside = sa.select(GIVEN.c.id.label("id")).cte("inside", recursive=True)
    way = sa.union_all(
        sa.select(sa.literal_column("0").label("called")), sa.select(sa.literal_column("1"))
    ).subquery("way")
    nested, called = way.c.called == 0, way.c.called == 1
    inner = sa.func.coalesce(scope.c.id, process_instance.c.id, type_=Id)
    inwards = (
        sa.select(inner)
        .select_from(inside)
        .join(way, sa.true())
        .outerjoin(
            scope,
            sa.and_(nested, scope.c.parent_id == inside.c.id, scope.c.parent_id.is_not(None), IS_OPEN_SCOPE),
        )
        .outerjoin(token, sa.and_(called, token.c.scope_id == inside.c.id, IS_LIVE))
        .outerjoin(
            process_instance,
            sa.and_(process_instance.c.parent_token_id == token.c.id, process_instance.c.ended_at.is_(None)),
        )
        .where(inner.is_not(None))
    )
    inside = inside.union(inwards)
    return sa.select(*SCOPE.columns).join_from(inside, scope, scope.c.id == inside.c.id)


SCOPE_CHAINS = _scope_chains()
SCOPES_INSIDE = _scopes_inside()
INNER_SCOPES = sa.union(
    sa.select(scope.c.id).where(scope.c.token_id == GIVEN.c.id, scope.c.token_id.is_not(None), IS_OPEN_SCOPE),
    sa.select(process_instance.c.id).where(
        process_instance.c.parent_token_id == GIVEN.c.id, process_instance.c.ended_at.is_(None)
    ),
)
