"""Joins: counting arrivals, firing, and seeing when one can never fire.

A join belongs to (scope, gateway). Arrived tokens wait at the gateway with the flow they came by; when
it fires, one token per flow is consumed and the last of them goes on; a surplus stays for the next
time. The parallel join decides on arrival; the inclusive join decides when everything else rests,
because a token far away may decide it (13.4.3).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set
from typing import TYPE_CHECKING

from msgspec.structs import replace

from bpm_engine.bpmn.graph import Gather, Kind, Node
from bpm_engine.core import adhoc, incidents, resets
from bpm_engine.core.behaviours.gateways import gather_fires, inclusive_fires, parallel_fires
from bpm_engine.core.effects import Joined, Park
from bpm_engine.core.lifecycle import TERMINAL_TOKENS, WAITING
from bpm_engine.core.state import (
    Join,
    Phase,
    Scope,
    ScopeState,
    SubscriptionStatus,
    TimerStatus,
    Token,
    TokenState,
    Waiting,
)

if TYPE_CHECKING:
    from bpm_engine.core.marking import Marking
    from bpm_engine.core.visit import Visit


# See `marking` on words.
AT_JOIN, INSIDE = Waiting.JOIN, Phase.INSIDE
ACTIVE = ScopeState.ACTIVE

FIRES_ON_ARRIVAL: dict[Kind, Callable[[Node, Join], bool]] = {
    Kind.PARALLEL: parallel_fires,
    Kind.GATHER: gather_fires,
}


def park(marking: Marking, visit: Visit, effect: Park) -> None:
    join = _arrived(marking, visit)
    marking.draft.joins.put((join.scope_id, join.node_id), join)
    fires = FIRES_ON_ARRIVAL.get(visit.node.kind)
    if fires is not None and fires(visit.node, join):
        _fire(marking, visit, join)
    else:
        marking.put(
            visit.token,
            state=WAITING,
            waiting_for=AT_JOIN,
            phase=INSIDE,
            flow_id=_flow(visit, join),
        )


def _arrived(marking: Marking, visit: Visit) -> Join:
    token, node = visit.token, visit.node
    scope = marking.draft.scope(token.scope_id)
    marking.draft.require_join(scope, node.id)
    join = marking.draft.joins.get((scope.id, node.id)) or Join(
        id=marking.context.new_id(),
        tenant_id=token.tenant_id,
        instance_id=token.instance_id,
        root_instance_id=token.root_instance_id,
        scope_id=scope.id,
        node_id=node.id,
        expected=len(node.incoming),
    )
    flow = _flow(visit, join)
    visit.token = replace(token, flow_id=flow) if token.flow_id != flow else token
    return with_arrivals(join, {**join.arrivals, flow: join.arrivals.get(flow, 0) + 1})


def _flow(visit: Visit, join: Join) -> str:
    """The flow that the token came by; one put here by an operator fills the first empty flow."""
    incoming = visit.node.incoming
    if visit.token.flow_id in incoming:
        return visit.token.flow_id or incoming[0]
    return next((flow for flow in incoming if not join.arrivals.get(flow)), incoming[0])


def with_arrivals(join: Join, arrivals: dict[str, int]) -> Join:
    filled = {flow: count for flow, count in arrivals.items() if count}
    return replace(join, arrivals=filled, joined=len(filled))


def _fire(marking: Marking, visit: Visit, join: Join) -> None:
    """Consume one token per filled flow; the visiting token goes on."""
    consume(marking, join, visit.token, _consumed(visit, parked_at(marking, join)))
    marking.resume(visit.token, Joined())


def _consumed(visit: Visit, parked: list[Token]) -> list[Token]:
    others = [token for token in parked if token.id != visit.token.id]
    if isinstance(visit.node.spec, Gather):
        return others[: visit.node.spec.quantity - 1]
    return first_of_each_flow(others, {visit.token.flow_id or ""})


def first_of_each_flow(tokens: Iterable[Token], without: Set[str]) -> list[Token]:
    """One token from each flow, but none from those."""
    chosen: dict[str, Token] = {}
    for token in tokens:
        if (token.flow_id or "") not in without:
            chosen.setdefault(token.flow_id or "", token)
    return list(chosen.values())


def consume(marking: Marking, join: Join, survivor: Token, others: list[Token]) -> Join:
    """The others end at the gateway; the survivor is about to go on for them."""
    left = dict(join.arrivals)
    for token in (survivor, *others):
        left[token.flow_id or ""] -= 1
    for token in others:
        marking.end(token)
    fired = replace(with_arrivals(join, left), fired=join.fired + 1)
    marking.draft.joins.put((join.scope_id, join.node_id), fired)
    return fired


def withdraw(marking: Marking, token: Token) -> None:
    """A parked token is taken away: the join forgets that it arrived."""
    join = join_at(marking, token)
    flow = token.flow_id or ""
    left = with_arrivals(join, {**join.arrivals, flow: join.arrivals.get(flow, 0) - 1})
    marking.draft.joins.put((join.scope_id, join.node_id), left)


def fire_anyway(marking: Marking, token: Token) -> None:
    """An operator lets the join fire with what has arrived."""
    join = join_at(marking, token)
    if marking.node(token).kind is Kind.COMPLEX:
        resets.fire_anyway(marking, token, join)
    else:
        _fire(marking, marking.visit(token), join)


def join_at(marking: Marking, token: Token) -> Join:
    """The join where the token is parked."""
    scope = marking.draft.scope(token.scope_id)
    marking.draft.require_join(scope, token.node_id)
    join = marking.draft.joins.get((scope.id, token.node_id))
    assert join is not None
    return join


def fire_if_complete(marking: Marking, scope: Scope, node: Node) -> None:
    """A join that came to have all it needs without an arrival."""
    fires = FIRES_ON_ARRIVAL.get(node.kind)
    join = marking.draft.joins.get((scope.id, node.id))
    while fires is not None and join is not None and join.arrivals and fires(node, join):
        _fire_waiting(marking, parked_at(marking, join)[0])
        join = marking.draft.joins.get((scope.id, node.id))


def parked_at(marking: Marking, join: Join) -> list[Token]:
    """First come, first served; ids settle ties, so that the choice is the same everywhere."""
    here = [
        token
        for token in marking.draft.tokens.where("scope_id", join.scope_id)
        if token.node_id == join.node_id and token.waiting_for is AT_JOIN and token.state is WAITING
    ]
    return sorted(here, key=lambda token: (token.entered_at, token.id))


# ------------------------------------------------------------------ when everything rests


def settle(marking: Marking) -> bool:
    """Fire what the rest of the marking lets fire; True when there is something to do again."""
    touched, marking.dirty = marking.dirty, {}
    scopes = marking.draft.scopes
    dead: Scope | None = None
    for scope_id in touched:
        scope = scopes.current.get(scope_id) or scopes.base.get(scope_id) or marking.draft.scope(scope_id)
        if not scope.parked:
            continue
        if scope.inclusive_waiting and scope.state is ACTIVE and _fire_inclusive(marking, scope):
            marking.dirty.update(touched)
            return True
        if scope.state is ACTIVE and adhoc.next_turn(marking, scope):
            marking.dirty.update(touched)
            return True
        if scope.parked == scope.live and scope_id == scope.root_instance_id:
            dead = scope
    if dead is not None:
        _report_deadlock(marking, dead)
    return bool(marking.agenda)


def _fire_inclusive(marking: Marking, scope: Scope) -> bool:
    if marking.is_halted(scope.instance_id):
        return False
    marking.draft.require_siblings(scope)
    graph = marking.graph(scope.instance_id)
    tokens = [t for t in marking.draft.tokens.where("scope_id", scope.id) if t.state not in TERMINAL_TOKENS]
    moving = [token for token in tokens if token.flow_id != resets.RESET]  # a gateway's memory goes nowhere
    for node_id in graph.scopes[scope.node_id].inclusives:
        node = graph.nodes[node_id]
        here = [token for token in tokens if token.node_id == node_id and token.waiting_for is Waiting.JOIN]
        if not here or any(token.state is TokenState.FAILED for token in here):
            continue
        if any(token.node_id == node_id and token.phase is Phase.ENTER for token in moving):
            continue  # tokens that rest before the gateway are on its flows: they enter first
        elsewhere = [token.node_id for token in moving if token not in here]
        if node.kind is Kind.COMPLEX:
            if resets.settle(marking, node, here, elsewhere):
                return True
        elif inclusive_fires(node, {token.flow_id or "" for token in here}, elsewhere):
            _fire_waiting(marking, here[0])
            return True
    return False


def _fire_waiting(marking: Marking, parked: Token) -> None:
    join = join_at(marking, parked)
    survivor = parked_at(marking, join)[-1]
    marking.attempt(survivor, Phase.INSIDE, _fire, marking, marking.visit(survivor), join)


# ------------------------------------------------------------------ deadlock


def _report_deadlock(marking: Marking, root: Scope) -> None:
    """Every token of the call tree is parked. If nothing else is awaited either, say so (decision 20)."""
    marking.draft.require_complete(root)
    if _something_is_awaited(marking, root.id):
        return
    for token in _dead(marking, root.id):
        if not marking.is_halted(token.instance_id):
            incidents.fail(marking, token, Phase.INSIDE, "DEADLOCK", _deadlock_words(marking, token))


def _something_is_awaited(marking: Marking, root_id: str) -> bool:
    draft = marking.draft
    timers = draft.timers.where("root_instance_id", root_id)
    subscriptions = draft.subscriptions.where("root_instance_id", root_id)
    return any(timer.status is TimerStatus.SCHEDULED for timer in timers) or any(
        subscription.status is SubscriptionStatus.OPEN for subscription in subscriptions
    )


def _dead(marking: Marking, root_id: str) -> list[Token]:
    """One token of each join that misses a partner."""
    waiting = [
        token
        for token in marking.draft.tokens.where("root_instance_id", root_id)
        if token.waiting_for is Waiting.JOIN and token.state is TokenState.WAITING
    ]
    missing = [token for token in waiting if not _waits_for_others(marking, token)]
    return list({(token.scope_id, token.node_id): token for token in _in_order(missing or waiting)}.values())


def _waits_for_others(marking: Marking, token: Token) -> bool:
    """It would go on if the others were gone: not the cause."""
    return marking.node(token).kind is Kind.INCLUSIVE or token.flow_id == resets.RESET


def _in_order(tokens: Iterable[Token]) -> list[Token]:
    return sorted(tokens, key=lambda token: (token.entered_at, token.id), reverse=True)


def _deadlock_words(marking: Marking, token: Token) -> str:
    node = marking.node(token)
    join = marking.draft.joins.get((token.scope_id, token.node_id))
    arrivals = join.arrivals if join is not None else {}
    if isinstance(node.spec, Gather):
        count = sum(arrivals.values())
        return f"{node.element!r} needs {node.spec.quantity} tokens and has {count}; no other can arrive"
    if node.kind is Kind.COMPLEX:
        return f"the activation condition of {node.id!r} does not hold, and no token can arrive any more"
    missing = ", ".join(flow for flow in node.incoming if not arrivals.get(flow))
    return f"the join {node.id!r} can never fire: no token can arrive any more by {missing}"
