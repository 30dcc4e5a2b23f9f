"""Complex gateways: activated once, and reset when the tokens that come late are there (13.4.5).

Waiting for start, the gateway fires when its activation condition holds: one token per filled flow is
consumed. Waiting for reset, it waits for a token on each flow that had none then, unless such a token can
no longer come, as an inclusive join would find. While it waits for the reset, a token of its own rests
at the gateway: it remembers the flows of the first phase, and an interrupted scope takes it along.

Conditions see `activationCount`, the tokens on all incoming flows, `activationCounts`, those of each flow
by its id, and `waitingForStart`. A reset that consumes nothing produces nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from bpm_engine.bpmn.graph import Node
from bpm_engine.core import joins
from bpm_engine.core.behaviours.gateways import (
    complex_activated,
    flows_on_reset,
    inclusive_fires,
    is_activated,
)
from bpm_engine.core.effects import Joined
from bpm_engine.core.state import Join, LogKind, Phase, Token, TokenState, Waiting

if TYPE_CHECKING:
    from bpm_engine.core.marking import Marking
    from bpm_engine.core.visit import Visit

RESET = ""  # the flow by which the gateway's own token is counted at its join
CONSUMED = "consumed"


def settle(marking: Marking, node: Node, here: Sequence[Token], elsewhere: Sequence[str]) -> bool:
    """Activate or reset the gateway if it can be; True when something changed."""
    waiting = next((token for token in here if token.flow_id == RESET), None)
    join = joins.join_at(marking, here[0])
    if waiting is not None:
        arrived = {token.flow_id or "" for token in here if token is not waiting}
        if not inclusive_fires(node, arrived | _consumed(waiting), elsewhere):
            return False
        marking.attempt(waiting, Phase.INSIDE, _reset, marking, _visit(marking, waiting, join), join)
        return True
    survivor = joins.parked_at(marking, join)[-1]
    marking.attempt(survivor, Phase.INSIDE, _activate, marking, _visit(marking, survivor, join), join)
    return marking.draft.token(survivor.id) is not survivor


def fire_anyway(marking: Marking, token: Token, join: Join) -> None:
    """An operator lets the gateway go on: it is activated, or reset without producing anything."""
    if token.flow_id == RESET:
        joins.consume(marking, join, token, _late(marking, join, token))
        marking.end(token)
    else:
        _fire(marking, _visit(marking, token, join), join)


def _visit(marking: Marking, token: Token, join: Join) -> Visit:
    """The gateway's own state goes before all variables."""
    visit = marking.visit(token)
    counts = {flow: join.arrivals.get(flow, 0) for flow in visit.node.incoming}
    visit.known = {
        "activationCount": sum(counts.values()),
        "activationCounts": counts,
        "waitingForStart": token.flow_id != RESET,
    }
    return visit


def _consumed(waiting: Token) -> set[str]:
    return set((waiting.local or {})[CONSUMED])


# ------------------------------------------------------------------ activation


def _activate(marking: Marking, visit: Visit, join: Join) -> None:
    if is_activated(visit):
        _fire(marking, visit, join)


def _fire(marking: Marking, visit: Visit, join: Join) -> None:
    survivor = visit.token
    parked = [token for token in joins.parked_at(marking, join) if token.id != survivor.id]
    others = joins.first_of_each_flow(parked, {survivor.flow_id or ""})
    fired = joins.consume(marking, join, survivor, others)
    consumed = sorted(token.flow_id or "" for token in (survivor, *others))
    if len(consumed) < len(visit.node.incoming):
        _await_reset(marking, survivor, fired, consumed)
    marking.perform(visit, complex_activated(visit, Joined()))


def _await_reset(marking: Marking, survivor: Token, join: Join, consumed: list[str]) -> None:
    scope = marking.draft.scope(join.scope_id)
    token = marking.spawn(scope, join.node_id, flow_id=RESET, mode=survivor.mode, local={CONSUMED: consumed})
    marking.put(token, state=TokenState.WAITING, waiting_for=Waiting.JOIN, phase=Phase.INSIDE)
    counted = joins.with_arrivals(join, {**join.arrivals, RESET: 1})
    marking.draft.joins.put((join.scope_id, join.node_id), counted)


# ------------------------------------------------------------------ reset


def _reset(marking: Marking, visit: Visit, join: Join) -> None:
    waiting = visit.token
    late = _late(marking, join, waiting)
    flows = flows_on_reset(visit) if late else ()
    joins.consume(marking, join, waiting, late)
    if flows:
        marking.journal.log(LogKind.COMPLETED, waiting)
        marking.take(marking.put(waiting, local=None), flows)
    else:
        marking.end(waiting)


def _late(marking: Marking, join: Join, waiting: Token) -> list[Token]:
    return joins.first_of_each_flow(joins.parked_at(marking, join), _consumed(waiting) | {RESET})
