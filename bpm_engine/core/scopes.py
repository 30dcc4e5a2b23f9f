"""Scopes: beginning, ending, and being cancelled with everything inside.

A scope ends when no token is left in it (13.4.2); the token around it then goes on. Cancelling takes
the whole subtree at once: tokens, timers, subscriptions, tasks, inner scopes, called instances. What a
cancelled scope had counted at its joins is forgotten.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from msgspec.structs import replace

from bpm_engine.bpmn.expressions import Expression, to_json
from bpm_engine.bpmn.graph import Kind, Node
from bpm_engine.core import calls, compensation, joins, repetition, waits
from bpm_engine.core.agenda import Step
from bpm_engine.core.effects import Ended, OpenScope
from bpm_engine.core.lifecycle import TERMINAL_INSTANCES, TERMINAL_TOKENS
from bpm_engine.core.state import (
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
from bpm_engine.core.variables import own_variables, view

if TYPE_CHECKING:
    from bpm_engine.core.marking import Marking
    from bpm_engine.core.visit import Visit

ACTIVE = ScopeState.ACTIVE
LIVING = frozenset({ACTIVE, ScopeState.COMPENSATING})


# ------------------------------------------------------------------ beginning


def open_inner(marking: Marking, visit: Visit, effect: OpenScope) -> None:
    brought = _taken_out(marking, visit)
    begin(marking, opened(marking, visit), visit.token, brought)


def _taken_out(marking: Marking, visit: Visit) -> dict[str, Variables]:
    """What the start event of an event sub-process brought and keeps to itself: see `run_handler`."""
    spec, local = visit.graph.scopes[visit.node.id], visit.token.local or {}
    if spec.kind != "event":
        return {}
    starts = [start for start in spec.starts if start in local and visit.graph.nodes[start].outputs]
    if starts:
        rest = {name: value for name, value in local.items() if name not in starts}
        visit.token = marking.put(visit.token, local=rest or None)
    return {start: local[start] for start in starts}


def opened(marking: Marking, visit: Visit) -> Scope:
    """The variables of the activation become the variables of the scope."""
    spec = visit.graph.scopes[visit.node.id]
    born = declared(marking, spec.locals, visit.token.scope_id)
    scope = inner_scope(marking, visit.token, {**born, **(visit.token.local or {})})
    marking.rest(visit, state=TokenState.WAITING, waiting_for=Waiting.SCOPE, local=None)
    return scope


def inner_scope(marking: Marking, token: Token, variables: Variables, loop: Variables | None = None) -> Scope:
    scope = Scope(
        id=marking.context.new_id(),
        tenant_id=token.tenant_id,
        instance_id=token.instance_id,
        root_instance_id=token.root_instance_id,
        parent_id=token.scope_id,
        node_id=token.node_id,
        token_id=token.id,
        variables=variables,
        loop=loop,
    )
    marking.draft.scopes.put(scope.id, scope)
    return scope


def declared(
    marking: Marking, pairs: tuple[tuple[str, Expression | None], ...], scope_id: str | None
) -> Variables:
    """Data objects and properties that are born with a scope."""
    if not pairs:
        return {}
    seen = view(marking.draft, scope_id) if scope_id is not None else {}
    now = marking.context.now
    return {name: None if value is None else to_json(value.evaluate(seen, now)) for name, value in pairs}


def begin(marking: Marking, scope: Scope, owner: Token, brought: dict[str, Variables]) -> None:
    """`brought`: what start events have of their own."""
    graph = marking.graph(scope.instance_id)
    waits.open_handlers(marking, scope, graph)
    starts = graph.scopes[scope.node_id].starts
    tokens = [marking.spawn(scope, start, mode=owner.mode, local=brought.get(start)) for start in starts]
    for token in tokens:
        marking.start(token)


def mode_inside(marking: Marking, scope: Scope) -> Mode:
    """What runs inside a compensation handler compensates as well; a called process runs for itself."""
    return Mode.FORWARD if scope.token_id is None else marking.draft.token(scope.token_id).mode


def running_inside(marking: Marking, outer: Iterable[Scope]) -> list[Scope]:
    """These scopes and those that run inside them, down to the last; not called instances."""
    found = list(outer)
    for scope in found:
        for token in marking.draft.tokens.where("scope_id", scope.id):
            if token.state not in TERMINAL_TOKENS and token.waiting_for is Waiting.SCOPE:
                inner = marking.draft.scopes.where("token_id", token.id)
                found += [each for each in inner if each.state is ACTIVE]
    return found


# ------------------------------------------------------------------ ending


def close_if_empty(marking: Marking, scope_id: str) -> None:
    scope = marking.draft.scope(scope_id)
    if scope.live or scope.state is not ACTIVE:
        return
    owner = marking.owner(scope)
    if owner is None:
        calls.end_instance(marking, scope)
    elif scope.parent_id is None:
        marking.attempt(owner, Phase.INSIDE, calls.end_instance, marking, scope)
    else:
        marking.attempt(owner, Phase.INSIDE, _close, marking, scope, owner)


def _close(marking: Marking, scope: Scope, owner: Token) -> None:
    shut(marking, scope, ScopeState.COMPLETED)
    result = own_variables(marking.draft, scope) if scope.loop is None else repetition.result(marking, scope)
    marking.resume(owner, Ended(result, scope.id))


def shut(marking: Marking, scope: Scope, state: ScopeState) -> None:
    waits.close_handlers(marking, scope)
    marking.draft.scopes.put(scope.id, replace(marking.draft.scope(scope.id), state=state))


# ------------------------------------------------------------------ cancelling


def cancel_scope(marking: Marking, scope: Scope) -> None:
    shut(marking, scope, ScopeState.CANCELLED)
    cancel_tokens(marking, scope)


def cancel_tokens(marking: Marking, scope: Scope, spared: str | None = None) -> None:
    """Cancel what lives in the scope, but for one token."""
    draft = marking.draft
    if scope.live > (spared is not None):
        draft.require_complete(scope)
    for found in draft.tokens.where("scope_id", scope.id):
        token = draft.token(found.id)  # cancelling one may cancel another: a throw takes its handler along
        if token.id != spared and token.state not in TERMINAL_TOKENS:
            cancel_token(marking, token)


def cancel_token(marking: Marking, token: Token) -> None:
    cancel_content(marking, token)
    if token.waiting_for is Waiting.JOIN:
        joins.withdraw(marking, token)
    if waits.may_have(marking.node(token), token):
        waits.close(marking, token)
    was_there = not _has_not_begun(marking, token)
    token = marking.put(
        token,
        state=TokenState.CANCELLED,
        waiting_for=None,
        topic=None,
        held=False,
        local=None,
        lease_owner=None,
        lease_until=None,
    )
    if was_there:
        marking.journal.log(LogKind.CANCELLED, token)


def _has_not_begun(marking: Marking, token: Token) -> bool:
    """An item that never had its turn, a token sent to its node in this very step: nothing the history could
    tell of."""
    if token.waiting_for is Waiting.TURN:
        return True
    sent = (Step.ENTER, token.id) in marking.agenda or token.id in marking.deferred
    return token.phase is Phase.ENTER and sent


def cancel_content(marking: Marking, token: Token) -> None:
    """What the token waits around: an inner scope, a called instance, a compensation it asked for."""
    draft = marking.draft
    if token.waiting_for is Waiting.SCOPE:
        _cancel_inner(marking, token)
    elif token.waiting_for is Waiting.CALL:
        draft.require_inside(token)
        for instance in draft.instances.where("parent_token_id", token.id):
            if instance.status not in TERMINAL_INSTANCES:
                calls.cancel_instance(marking, instance, "its caller ended it")
    elif token.waiting_for is Waiting.COMPENSATION:
        compensation.abandon(marking, token)
        if marking.node(token).kind in (Kind.SCOPE, Kind.REPEAT):  # a transaction that is being cancelled
            _cancel_inner(marking, token)


def _cancel_inner(marking: Marking, token: Token) -> None:
    marking.draft.require_inside(token)
    for scope in marking.draft.scopes.where("token_id", token.id):
        if scope.state in LIVING:
            cancel_scope(marking, scope)


# ------------------------------------------------------------------ interrupting


def leave_by_boundary(
    marking: Marking, host: Token, boundary: Node, interrupting: bool, own: Variables | None = None
) -> Token:
    """One token leaves by the boundary event, with what is the event's own; when it interrupts, the host and
    its content are gone."""
    scope = marking.draft.scope(host.scope_id)
    spawn = marking.spawn_instead if interrupting else marking.spawn
    token = spawn(scope, boundary.id, mode=host.mode, priority=host.priority, local=own or None)
    if interrupting:
        cancel_token(marking, host)
    marking.start(token)
    return token


def run_handler(
    marking: Marking, scope: Scope, handler_id: str, interrupting: bool, own: Variables | None = None
) -> Token:
    """An event sub-process begins; when it interrupts, everything else in its scope is gone (13.5.4).

    `own`: what its start event keeps to itself, under the id of that.
    """
    spawn = marking.spawn_instead if interrupting else marking.spawn
    token = spawn(scope, handler_id, local=own, mode=mode_inside(marking, scope))
    if interrupting:
        waits.close_handlers(marking, scope)
        cancel_tokens(marking, marking.draft.scope(scope.id), spared=token.id)
    marking.start(token)
    return token
