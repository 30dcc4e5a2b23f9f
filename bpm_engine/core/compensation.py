"""Compensation: undoing what completed, strictly last first, one after the other (13.5.5).

A completed activity that can be undone leaves a record with a snapshot of its variables; so does a
completed sub-process with something to undo inside. A throw, a saga that failed or a transaction that is
cancelled claims the records of its scope and runs them in falling order. A record runs its handler, or
the compensation event sub-process of the completed scope, or is descended into. The next record starts
when the former is done; each is used once. Whoever asked waits, and the records remember who that is.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from typing import TYPE_CHECKING

from msgspec.structs import replace

from bpm_engine.bpmn.graph import Scope as ScopeSpec
from bpm_engine.core import incidents, propagation, scopes, waits
from bpm_engine.core.effects import Compensate, Undone
from bpm_engine.core.lifecycle import TERMINAL_TOKENS
from bpm_engine.core.state import (
    CompensationRecord,
    CompensationStatus,
    Json,
    LogKind,
    Mode,
    Phase,
    Scope,
    ScopeState,
    Token,
    TokenState,
    Variables,
    Waiting,
)

if TYPE_CHECKING:
    from bpm_engine.core.marking import Marking
    from bpm_engine.core.visit import Visit

UNDONE = "undone"  # in the error of an incident: the steps before it that are undone
UNFINISHED = frozenset({CompensationStatus.RUNNING, CompensationStatus.FAILED})
ENDED = frozenset({ScopeState.COMPLETED, ScopeState.CANCELLED})
PASSED_OVER = frozenset({"event", "repeat"})  # a throw in these compensates the scope around them


# ------------------------------------------------------------------ records


def record(marking: Marking, visit: Visit, order: int) -> None:
    """Arm compensation: once per completion, with the variables as they are now."""
    node, token = visit.node, visit.token
    if token.mode is Mode.COMPENSATION:
        return
    if node.undo is not None:
        _write(marking, token, order, handler_id=node.undo, snapshot=visit.view().flat())
    elif visit.ended_scope is not None and _can_be_undone(visit.graph.scopes[node.id]):
        _write(marking, token, order, inner_scope_id=visit.ended_scope)


def _can_be_undone(spec: ScopeSpec) -> bool:
    return spec.compensable or spec.compensation_handler is not None


def _write(
    marking: Marking,
    token: Token,
    order: int,
    handler_id: str | None = None,
    inner_scope_id: str | None = None,
    snapshot: Variables | None = None,
) -> None:
    row = CompensationRecord(
        id=marking.context.new_id(),
        tenant_id=token.tenant_id,
        instance_id=token.instance_id,
        root_instance_id=token.root_instance_id,
        scope_id=token.scope_id,
        node_id=token.node_id,
        handler_id=handler_id,
        inner_scope_id=inner_scope_id,
        order=order,
        snapshot=snapshot or {},
    )
    marking.draft.compensations.put(row.id, row)


def mark(
    marking: Marking, record_id: str, status: CompensationStatus, requested_by: str | None = None
) -> None:
    row = marking.draft.compensations.get(record_id)
    assert row is not None
    changed = replace(row, status=status, requested_by=requested_by or row.requested_by)
    marking.draft.compensations.put(record_id, changed)


# ------------------------------------------------------------------ asking


def begin(marking: Marking, visit: Visit, effect: Compensate) -> None:
    marking.draft.require_records(visit.token.instance_id)
    marking.rest(visit, state=TokenState.WAITING, waiting_for=Waiting.COMPENSATION)
    only = effect.activities
    rows = marking.draft.compensations.where("scope_id", _compensated_scope(marking, visit.token, only))
    claim(marking, visit.token, [row.id for row in rows if only is None or row.node_id in only])
    proceed(marking, visit.token)


def claim(marking: Marking, requester: Token, record_ids: Iterable[str]) -> None:
    """Those of them that nobody undoes are the requester's; what completes later is not."""
    for row in map(marking.draft.compensations.get, record_ids):
        if row is not None and row.status is CompensationStatus.PENDING and row.requested_by is None:
            marking.draft.compensations.put(row.id, replace(row, requested_by=requester.id))


def records_inside(marking: Marking, instance_id: str, outer: Iterable[Scope]) -> list[str]:
    """The records of these scopes and of those that run inside them, to be asked for before they are stopped.
    So are records that somebody in there has claimed: the scope that they were made in may have been stopped.
    """
    marking.draft.require_records(instance_id)
    running = {scope.id for scope in scopes.running_inside(marking, outer)}
    rows = marking.draft.compensations.where("instance_id", instance_id)
    return [
        row.id
        for row in rows
        if row.scope_id in running or (row.requested_by is not None and _lies_in(marking, row, running))
    ]


def _lies_in(marking: Marking, row: CompensationRecord, places: Container[str]) -> bool:
    return any(scope.id in places for scope in _around(marking, row))


def _around(marking: Marking, row: CompensationRecord) -> Iterator[Scope]:
    """From the scope in which the activity completed outwards."""
    place: str | None = row.scope_id
    while place is not None:
        scope = marking.draft.scope(place)
        yield scope
        place = scope.parent_id


def proceed(marking: Marking, requester: Token) -> None:
    """Run the next record, or tell the requester that there is none."""
    marking.draft.require_records(requester.instance_id)
    rows = marking.draft.compensations.where("instance_id", requester.instance_id)
    row = _next(marking, requester, [row for row in rows if row.requested_by == requester.id])
    if row is not None:
        _run(marking, requester, row)
    elif requester.error is not None:
        _end_saga(marking, requester)
    else:
        marking.resume(requester, Undone())


def _compensated_scope(marking: Marking, requester: Token, activities: frozenset[str] | None) -> str:
    """A throw compensates its own scope; from an event sub-process, the enclosing one (decision 9), unless
    it names an activity of the event sub-process itself."""
    scope = marking.draft.scope(requester.scope_id)
    graph = marking.graph(requester.instance_id)
    named = {graph.nodes[activity].scope for activity in activities or ()}
    while graph.scopes[scope.node_id].kind in PASSED_OVER and scope.parent_id is not None:
        if scope.node_id in named:
            break
        scope = marking.draft.scope(scope.parent_id)
    return scope.id


def _next(
    marking: Marking, requester: Token, rows: Iterable[CompensationRecord]
) -> CompensationRecord | None:
    """The record to run now; sub-processes on the way are descended into, and done when they are empty."""
    for row in sorted(rows, key=lambda row: -row.order):
        row = marking.draft.compensations.get(row.id) or row
        is_open = row.status is CompensationStatus.PENDING or (
            row.status is CompensationStatus.RUNNING and row.requested_by == requester.id
        )
        if not is_open:
            continue
        if _handler(marking, row) is not None:
            if row.status is CompensationStatus.PENDING:
                return row
            continue
        mark(marking, row.id, CompensationStatus.RUNNING, requester.id)
        inner = marking.draft.compensations.where("scope_id", row.inner_scope_id)
        found = _next(marking, requester, inner)
        if found is not None:
            return found
        mark(marking, row.id, CompensationStatus.COMPLETED)
    return None


def _handler(marking: Marking, row: CompensationRecord) -> str | None:
    """The node that undoes it: its own handler, or the compensation event sub-process inside."""
    if row.handler_id is not None or row.inner_scope_id is None:
        return row.handler_id
    inner = marking.draft.scope(row.inner_scope_id)
    return marking.graph(row.instance_id).scopes[inner.node_id].compensation_handler


def _run(marking: Marking, requester: Token, row: CompensationRecord) -> None:
    handler_id = _handler(marking, row)
    assert handler_id is not None
    mark(marking, row.id, CompensationStatus.RUNNING, requester.id)
    scope = _opened_again(marking, _place(row))
    token = marking.spawn(
        scope, handler_id, mode=Mode.COMPENSATION, compensates=row.id, local=row.snapshot or None
    )
    marking.start(token)


def _opened_again(marking: Marking, scope_id: str) -> Scope:
    """With the scopes around it, as far as they have ended: who looks inwards must find what runs here."""
    place: str | None = scope_id
    while place is not None and (scope := marking.draft.scope(place)).state in ENDED:
        marking.draft.scopes.put(scope.id, replace(scope, state=ScopeState.COMPENSATING))
        place = scope.parent_id
    return marking.draft.scope(scope_id)


def handler_done(marking: Marking, token: Token) -> None:
    assert token.compensates is not None
    marking.draft.require_records(token.instance_id)
    row = marking.draft.compensations.get(token.compensates)
    assert row is not None
    assert row.requested_by is not None
    mark(marking, row.id, CompensationStatus.COMPLETED)
    marking.journal.log(LogKind.COMPENSATED, token, node_id=row.node_id)
    marking.end(token)
    _settle_scope(marking, token.scope_id)
    requester = marking.draft.token(row.requested_by)
    if requester.state not in TERMINAL_TOKENS:
        proceed(marking, requester)


def abandon(marking: Marking, requester: Token) -> None:
    """Who asked is cancelled: the handler that runs for it may live in a scope that ended long ago."""
    draft = marking.draft
    draft.require_records(requester.instance_id)
    for row in draft.compensations.where("instance_id", requester.instance_id):
        if row.requested_by != requester.id:
            continue
        if row.status is CompensationStatus.PENDING:
            draft.compensations.put(row.id, replace(row, requested_by=None))
        elif row.status in UNFINISHED and _handler(marking, row) is not None:
            _stop_handler(marking, row)
        elif row.status is CompensationStatus.RUNNING:  # descended into: what is left inside can be asked for
            pending = CompensationStatus.PENDING
            draft.compensations.put(row.id, replace(row, status=pending, requested_by=None))


def _stop_handler(marking: Marking, row: CompensationRecord) -> None:
    draft = marking.draft
    scope = draft.scope(_place(row))
    draft.require_complete(scope)
    for token in draft.tokens.where("scope_id", scope.id):
        if token.compensates == row.id and token.state not in TERMINAL_TOKENS:
            scopes.cancel_token(marking, token)
    mark(marking, row.id, CompensationStatus.FAILED)
    _settle_scope(marking, scope.id)


def _place(row: CompensationRecord) -> str:
    """The scope that its handler runs in."""
    return row.scope_id if row.handler_id is not None else row.inner_scope_id or ""


def _settle_scope(marking: Marking, scope_id: str) -> None:
    """Completed scopes that were opened again for a handler are completed as before, from the inside out."""
    place: str | None = scope_id
    while place is not None:
        scope = marking.draft.scope(place)
        beside = marking.draft.scopes.where("parent_id", place)
        is_open = scope.live or any(each.state in scopes.LIVING for each in beside)
        if scope.state is not ScopeState.COMPENSATING or is_open:
            return
        marking.draft.scopes.put(scope.id, replace(scope, state=ScopeState.COMPLETED))
        place = scope.parent_id


# ------------------------------------------------------------------ sagas


def saga_around(marking: Marking, token: Token) -> Scope | None:
    """The nearest scope with `bpm:saga`, outwards through the callers, up to a compensation handler: if one
    fails, that holds the order, and begins no saga anew (decision 9)."""
    at: Token | None = token
    while at is not None and at.mode is not Mode.COMPENSATION:
        scope = marking.draft.scope(at.scope_id)
        if marking.graph(at.instance_id).scopes[scope.node_id].saga:
            return scope
        at = marking.owner(scope)
    return None


def begin_saga(marking: Marking, token: Token, scope: Scope, error: Variables) -> None:
    """A step failed for good: what else runs in the scope stops, what completed is undone (decision 11).

    Whoever waits for that is a token of the saga's own scope: what is around the step in there is stopped and
    undone as well, and can only be begun anew.
    """
    requester = token
    while requester.scope_id != scope.id:
        owner = marking.owner(marking.draft.scope(requester.scope_id))
        assert owner is not None
        requester = owner
    if requester.id != token.id or scope.live > 1:
        marking.draft.require_complete(scope)
    records = records_inside(marking, scope.instance_id, [scope])
    waits.close_handlers(marking, scope)
    scopes.cancel_content(marking, requester)
    scopes.cancel_tokens(marking, marking.draft.scope(scope.id), spared=requester.id)
    if waits.may_have(marking.node(requester), requester):
        waits.close(marking, requester)
    requester = marking.put(
        marking.draft.token(requester.id),
        state=TokenState.WAITING,
        waiting_for=Waiting.COMPENSATION,
        phase=Phase.ENTER,
        error=error,
        topic=None,
        lease_owner=None,
        lease_until=None,
    )
    marking.journal.log(LogKind.FAILED, requester, {k: error[k] for k in ("code", "message")})
    marking.draft.scopes.put(scope.id, replace(marking.draft.scope(scope.id), state=ScopeState.COMPENSATING))
    claim(marking, requester, records)
    proceed(marking, requester)


def _end_saga(marking: Marking, requester: Token) -> None:
    """Everything is undone: the scope fails with the original error, as seen from outside."""
    error = requester.error or {}
    scope = marking.draft.scope(requester.scope_id)
    marking.draft.scopes.put(scope.id, replace(scope, state=ScopeState.ACTIVE))
    owner = marking.owner(scope)
    thrown = propagation.Thrown(error["code"], error["message"], {}, error["technical"])
    catcher = None if owner is None else propagation.find_catcher(marking, owner, thrown)
    outer = None if owner is None else saga_around(marking, owner)
    if owner is not None and catcher is not None:
        propagation.catch(marking, requester.instance_id, catcher, thrown)
    elif owner is not None and outer is not None:
        begin_saga(marking, owner, outer, error)
    else:
        if undone := _undone_beside(marking, requester):
            error = {**error, UNDONE: undone}
        failed = marking.put(requester, waiting_for=None, state=TokenState.FAILED)
        incidents.raise_incident(marking, failed, Phase.ENTER, error)


def _undone_beside(marking: Marking, requester: Token) -> list[Json]:
    """The steps that were undone, in their order, but for those inside the activity that failed: begun anew,
    it does these again, and the others are missing."""
    rows = marking.draft.compensations.where("instance_id", requester.instance_id)
    undone = [row for row in rows if row.requested_by == requester.id and row.handler_id is not None]
    return [
        row.node_id
        for row in sorted(undone, key=lambda row: row.order)
        if row.status is CompensationStatus.COMPLETED
        and all(scope.token_id != requester.id for scope in _around(marking, row))
    ]
