"""A node is done: its outputs are written, it can be compensated from now on, and its token leaves it.

What has no way on ends here: the path, an item of a repetition, a compensation handler.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bpm_engine.core import compensation, data_sets, repetition, throwing
from bpm_engine.core.agenda import Step
from bpm_engine.core.behaviours.flows import leaving_flows
from bpm_engine.core.lifecycle import READY
from bpm_engine.core.state import LogKind, Phase, Token, Variables
from bpm_engine.core.variables import write

if TYPE_CHECKING:
    from bpm_engine.core.marking import Marking
    from bpm_engine.core.visit import Visit

PASSED = LogKind.COMPLETED  # see `marking` on words


def complete_token(marking: Marking, token: Token) -> None:
    complete(marking, marking.visit(token), None)


def complete(marking: Marking, visit: Visit, data: Variables | None) -> None:
    """Outputs are evaluated inside and written from outside; then the activity can be compensated.

    `data`: what the node produced, for the history; with outputs it is what they make of it.
    """
    node, token = visit.node, visit.token
    if node.outputs:
        data = write_outputs(marking, visit)
        token = visit.token
    entry = marking.journal.log(PASSED, token, {"output": data} if data else None)
    if node.is_activity:
        if node.undo is not None or visit.ended_scope is not None:
            compensation.record(marking, visit, entry.seq)
        if marking.context.step_events:
            told = {"node_id": node.id, "name": node.name, "token_id": token.id}
            marking.journal.publish(entry, "activity.completed", told)
    if node.emit is not None:
        throwing.emit(marking, visit, node.emit)
    if node.async_after or marking.is_halted(token.instance_id):
        _rest_leaving(marking, token)
    elif node.way is not None:
        marking.go_on(visit, token, node.way)
    else:
        marking.queue(Step.LEAVE, token.id)


def write_outputs(marking: Marking, visit: Visit) -> Variables:
    node, token = visit.node, visit.token
    data = (
        visit.mapped(node.outputs, changing=True)
        if node.data is None
        else data_sets.outputs(visit, node.data)
    )
    kept = write(marking.draft, visit.graph, token.scope_id, None, data)
    if kept or (token.loop_index is not None and token.local):
        visit.token = marking.put(token, local={**_unchanged(token, data), **kept})
    return data


def _unchanged(token: Token, written: Variables) -> Variables:
    """A run's own variables without those that its outputs have written outside: what is asked of the run
    afterwards (whether it goes on, what it gives) sees what was written, not what it began with."""
    own = token.local or {}
    return own if token.loop_index is None else {name: own[name] for name in own if name not in written}


def _rest_leaving(marking: Marking, token: Token) -> None:
    marking.put(
        token,
        state=READY,
        phase=Phase.LEAVE,
        waiting_for=None,
        topic=None,
        held=marking.is_halted(token.instance_id),
        lease_owner=None,
        lease_until=None,
    )


def leave(marking: Marking, token: Token) -> None:
    if marking.is_halted(token.instance_id):
        _rest_leaving(marking, token)
        return
    visit = marking.visit(token)
    if visit.node.outgoing:
        marking.take(token, leaving_flows(visit.from_outside()))
    else:
        end_path(marking, visit)


def end_path(marking: Marking, visit: Visit) -> None:
    """No way on: an end event, a repeated node, a compensation handler, an event sub-process."""
    token = visit.token
    if token.loop_index is not None:
        repetition.item_done(marking, visit)
    elif token.compensates is not None:
        compensation.handler_done(marking, token)
    else:
        marking.end(token)
