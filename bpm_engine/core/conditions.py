"""Conditional events (10.5.5): triggered when their condition becomes true.

A condition is looked at when its wait begins, and after each step that wrote a variable which it reads,
wherever in the instance that was (decision 18). It triggers when it is true and was not before, so one
that does not interrupt has to become false before it can trigger again. A variable that is not there yet,
or a data object that nobody has written, is no fault: the condition is not true yet. Conditions of a halted
instance are looked at when it goes on.

An activity that waits for its data (13.3.2) is looked at in the same way.

A process without any of these pays for one question per write: `Graph.watched` is empty.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from bpm_engine.bpmn.events import ConditionEvent
from bpm_engine.bpmn.expressions import ExpressionError
from bpm_engine.bpmn.graph import Kind
from bpm_engine.core import data_sets, triggering, waits
from bpm_engine.core.state import (
    LogKind,
    Phase,
    ScopeState,
    Subscription,
    SubscriptionKind,
    SubscriptionStatus,
    Token,
    Variables,
    Waiting,
)
from bpm_engine.core.variables import STANDARD_COUNTERS, TERMINATED, View, view

if TYPE_CHECKING:
    from bpm_engine.core.marking import Marking

HOLDS = "holds"  # the name of a subscription whose condition was true when it was last looked at
UNKNOWN_VARIABLE = "UNKNOWN_VARIABLE"
COUNTERS = frozenset({*STANDARD_COUNTERS, *STANDARD_COUNTERS.values(), TERMINATED})


def look(marking: Marking) -> None:
    """At the conditions that the last step may have made true: outer scopes first, then in order of age."""
    touched = marking.draft.touched
    news, marking.looked = touched[marking.looked :], len(touched)
    for instance_id in dict.fromkeys(each.instance_id for each in news):
        opened = {each.subscription_id for each in news}
        names = {name for each in news if each.instance_id == instance_id for name in each.names}
        found = [
            each for each in _open(marking, instance_id, names) if _concerned(marking, each, names, opened)
        ]
        for subscription in sorted(found, key=lambda each: _order(marking, each)):
            if marking.is_halted(instance_id):
                break
            _look_at(marking, subscription.id)


def _open(marking: Marking, instance_id: str, names: set[str]) -> list[Subscription]:
    """Conditions that were opened in this very step are at hand; the others are asked for when needed."""
    draft = marking.draft
    if names and draft.tally(instance_id).conditional:
        draft.require_conditions(instance_id)
    return [
        row
        for row in draft.subscriptions.where("instance_id", instance_id)
        if row.kind is SubscriptionKind.CONDITION and row.status is SubscriptionStatus.OPEN
    ]


def _concerned(marking: Marking, row: Subscription, names: set[str], opened: set[str | None]) -> bool:
    reads = _reads(marking, row)
    return reads is not None and (row.id in opened or not names.isdisjoint(reads))


def _reads(marking: Marking, row: Subscription) -> frozenset[str] | None:
    """None: an error or escalation that is needed beside other events; `propagation` sees to it."""
    if row.event == waits.DATA:
        return marking.graph(row.instance_id).nodes[row.node_id].data_reads
    event = waits.event_of(marking.graph(row.instance_id).nodes[row.node_id], row.event)
    return event.condition.reads if isinstance(event, ConditionEvent) else None


def _event(marking: Marking, row: Subscription) -> ConditionEvent:
    event = waits.event_of(marking.graph(row.instance_id).nodes[row.node_id], row.event)
    assert isinstance(event, ConditionEvent)
    return event


def _order(marking: Marking, row: Subscription) -> tuple[int, bool, str]:
    depth, place = 0, marking.draft.scope(row.scope_id)
    while place.parent_id is not None:
        depth, place = depth + 1, marking.draft.scope(place.parent_id)
    return depth, row.token_id is not None, row.id


def _look_at(marking: Marking, subscription_id: str) -> None:
    row = marking.draft.subscriptions.get(subscription_id)
    if row is None or row.status is not SubscriptionStatus.OPEN:
        return  # another one has interrupted meanwhile
    if row.event == waits.DATA:
        _look_for_data(marking, row)
        return
    try:
        holds = _holds(marking, row)
    except ExpressionError as fault:
        triggering.fail(marking, row, fault.code, f"the condition of {row.node_id!r}: {fault}")
        return
    if holds and row.name != HOLDS:
        triggering.meet(marking, row, _trigger, marking, row)
    elif not holds and row.name == HOLDS:
        marking.draft.subscriptions.put(row.id, replace(row, name=""))


def _look_for_data(marking: Marking, row: Subscription) -> None:
    assert row.token_id is not None
    token = marking.draft.token(row.token_id)
    marking.attempt(token, Phase.ENTER, _begin_with_data, marking, row)


def _begin_with_data(marking: Marking, row: Subscription) -> None:
    mapped = data_sets.available(marking, row)
    if mapped is not None:
        data_sets.begin(marking, row, mapped)


def _holds(marking: Marking, row: Subscription) -> bool:
    condition, seen = _event(marking, row).condition, _seen(marking, row)
    try:
        return condition.holds(seen, marking.context.now)
    except ExpressionError as fault:
        if fault.code == UNKNOWN_VARIABLE or any(seen.get(name, 0) is None for name in condition.reads):
            return False
        raise


def _seen(marking: Marking, row: Subscription) -> View:
    """From where the wait is: a boundary event does not see what its host keeps to itself, but the counters
    of one that is repeated."""
    if row.token_id is None:
        return view(marking.draft, row.scope_id)
    host = marking.draft.token(row.token_id)
    if marking.graph(row.instance_id).nodes[row.node_id].kind is not Kind.BOUNDARY:
        return view(marking.draft, row.scope_id, host.local)
    return view(marking.draft, row.scope_id, _counters(marking, row, host))


def _counters(marking: Marking, row: Subscription, host: Token) -> Variables | None:
    """Looked for only where the condition asks for them: the scope of the runs may not be at hand."""
    if marking.node(host).kind is not Kind.REPEAT or host.waiting_for is not Waiting.SCOPE:
        return None
    if COUNTERS.isdisjoint(_event(marking, row).condition.reads):
        return None
    around = marking.draft.scopes.where("token_id", host.id)
    runs = next((scope for scope in around if scope.state is ScopeState.ACTIVE), None)
    if runs is None:
        marking.draft.require_inside(host)
    return None if runs is None else runs.loop


def _trigger(marking: Marking, row: Subscription) -> None:
    node = marking.graph(row.instance_id).nodes[row.node_id]
    if triggering.happens_once(node):
        waits.end_subscription(marking, row, SubscriptionStatus.CONSUMED)
    else:
        marking.draft.subscriptions.put(row.id, replace(row, name=HOLDS))
    triggering.happened(marking, row, {}, LogKind.CAUGHT)
