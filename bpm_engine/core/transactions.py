"""Transactions that are cancelled (10.3.5, 13.5.5): stopped as a whole, undone, left by the cancel event.

A transaction runs like any sub-process. A cancel end event inside it, at whatever depth, ends everything
that lives in the transaction; then what had completed in it, also in sub-processes that were still
running, is compensated in reverse; then one token leaves by the cancel boundary event. Meanwhile the
transaction's own token waits around it for the compensation, and none of its other events is heard. On a
repetition the boundary event belongs to the body: one cancelled run cancels the whole.

An error that escapes is a hazard: it takes the error's way and compensates nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from bpm_engine.bpmn.events import CancelEvent
from bpm_engine.bpmn.graph import Boundary, Graph, Node
from bpm_engine.core import compensation, scopes, waits
from bpm_engine.core.effects import CancelTransaction, LeaveTransaction
from bpm_engine.core.state import ScopeState, Token, TokenState, Waiting

if TYPE_CHECKING:
    from bpm_engine.core.marking import Marking
    from bpm_engine.core.visit import Visit


def cancel(marking: Marking, visit: Visit, effect: CancelTransaction) -> None:
    host = _host(marking, visit.token)
    marking.draft.require_inside(host)
    marking.passed(visit)
    marking.end(visit.token)
    running = [s for s in marking.draft.scopes.where("token_id", host.id) if s.state is ScopeState.ACTIVE]
    records = compensation.records_inside(marking, host.instance_id, running)
    for scope in running:
        scopes.shut(marking, scope, ScopeState.COMPENSATING)
        scopes.cancel_tokens(marking, marking.draft.scope(scope.id))
    waits.close(marking, host)
    host = marking.put(host, state=TokenState.WAITING, waiting_for=Waiting.COMPENSATION)
    compensation.claim(marking, host, records)
    compensation.proceed(marking, host)


def leave(marking: Marking, visit: Visit, effect: LeaveTransaction) -> None:
    host = visit.token
    marking.draft.require_inside(host)
    for scope in marking.draft.scopes.where("token_id", host.id):
        if scope.state is not ScopeState.CANCELLED:
            marking.draft.scopes.put(scope.id, replace(scope, state=ScopeState.CANCELLED))
    scopes.leave_by_boundary(marking, host, _cancel_event(visit.graph, visit.node), interrupting=True)


def _host(marking: Marking, token: Token) -> Token:
    """The token around the nearest transaction; of a repeated one, the token around all runs."""
    graph = marking.graph(token.instance_id)
    scope = marking.draft.scope(token.scope_id)
    while graph.scopes[scope.node_id].kind != "transaction":
        assert scope.parent_id is not None, "a cancel end event lies in a transaction: checked at deploy"
        scope = marking.draft.scope(scope.parent_id)
    host = marking.draft.token(scope.token_id or "")
    around = marking.draft.scope(host.scope_id)
    return host if around.loop is None else marking.draft.token(around.token_id or "")


def _cancel_event(graph: Graph, host: Node) -> Node:
    for node in (graph.nodes[node_id] for node_id in host.boundary):
        assert isinstance(node.spec, Boundary)
        if any(isinstance(event, CancelEvent) for event in node.spec.events):
            return node
    raise AssertionError("a transaction with a cancel end event has a cancel boundary: checked at deploy")
