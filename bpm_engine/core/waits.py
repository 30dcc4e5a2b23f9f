"""Opening and closing what tokens and scopes wait for: timers, subscriptions, human tasks.

An event is the same wherever it stands: a catch event, a boundary event and the start of an event
sub-process open their rows here, and whoever leaves closes them here, in the same commit. Expressions
are evaluated when the wait opens (10.5.6: correlation keys and timers belong to the moment of waiting).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from bpm_engine.bpmn.events import (
    CancelEvent,
    CompensationEvent,
    ConditionEvent,
    ErrorEvent,
    EscalationEvent,
    EventSpec,
    MessageEvent,
    SignalEvent,
    TimerEvent,
)
from bpm_engine.bpmn.expressions import Expression, Value, to_json
from bpm_engine.bpmn.graph import Boundary, Catch, Graph, Node, Start
from bpm_engine.bpmn.graph import Scope as ScopeSpec
from bpm_engine.core import correlation
from bpm_engine.core.draft import Touched
from bpm_engine.core.effects import AskPerson, Await, Awaited, Choose, Fault
from bpm_engine.core.lifecycle import WAITING
from bpm_engine.core.state import (
    HumanTask,
    LogKind,
    Scope,
    Subscription,
    SubscriptionKind,
    SubscriptionStatus,
    TaskStatus,
    Timer,
    TimerPurpose,
    TimerStatus,
    Token,
    Variables,
    Waiting,
)
from bpm_engine.core.timing import moment, schedule
from bpm_engine.core.variables import View, view

if TYPE_CHECKING:
    from bpm_engine.core.marking import Marking
    from bpm_engine.core.visit import Visit

# See `marking` on words.
SCHEDULED, OPEN = TimerStatus.SCHEDULED, SubscriptionStatus.OPEN
MESSAGE, CONDITION = SubscriptionKind.MESSAGE, SubscriptionKind.CONDITION
AT_TIMER, AT_EVENT = Waiting.TIMER, Waiting.EVENT

WAITING_ROWS = frozenset({Waiting.RETRY, Waiting.START, Waiting.HUMAN, Waiting.EVENT})  # at any node
DEADLINE = "DEADLINE"
DATA = -1  # in place of the number of an event: the data with which an activity can begin


def may_have(node: Node, token: Token) -> bool:
    """Whether the token can have open waits; known without loading any."""
    return node.has_waits or token.waiting_for in WAITING_ROWS


def has_one(node: Node, token: Token) -> bool:
    """Whether the token has one open wait and cannot have more: it rests at a catch of one event."""
    catch = node.spec
    if not isinstance(catch, Catch) or len(catch.events) != 1 or node.boundary or node.deadline is not None:
        return False
    return token.state is WAITING and token.waiting_for in (AT_TIMER, AT_EVENT)


# ------------------------------------------------------------------ opening


def wait(marking: Marking, visit: Visit, effect: Await) -> None:
    only_timer = len(effect.events) == 1 and isinstance(effect.events[0].event, TimerEvent)
    reason = AT_TIMER if only_timer else AT_EVENT
    marking.rest(visit, state=WAITING, waiting_for=reason)
    scope = marking.draft.scope(visit.token.scope_id)
    seen = visit.view()
    for awaited in effect.events:
        _open(marking, scope, visit.token.id, awaited, seen)


def await_data(marking: Marking, visit: Visit) -> None:
    """An activity that is ready but has no data to begin with (13.3.2): `data_sets` says when it has."""
    marking.rest(visit, state=WAITING, waiting_for=AT_EVENT)
    scope = marking.draft.scope(visit.token.scope_id)
    _subscribe(marking, scope, visit.token.id, (visit.node.id, DATA), Terms(CONDITION))


def open_boundary(marking: Marking, visit: Visit) -> None:
    """Boundary events live as long as their host rests (10.5.6); its deadline, too."""
    scope = marking.draft.scope(visit.token.scope_id)
    seen = view(marking.draft, scope.id)
    for node_id in visit.node.boundary:
        for awaited in _awaited(visit.graph.nodes[node_id]):
            _open(marking, scope, visit.token.id, awaited, seen)
    if visit.node.deadline is not None:
        open_deadline(marking, scope, visit.node.id, visit.token.id, visit.node.deadline)


def open_handlers(marking: Marking, scope: Scope, graph: Graph) -> None:
    """Event sub-processes listen from the moment their scope begins (13.5.4)."""
    spec = graph.scopes[scope.node_id]
    if not has_handlers(graph, spec):
        return
    seen = view(marking.draft, scope.id)
    for handler_id in spec.handlers:
        for start_id in graph.scopes[handler_id].starts:
            for awaited in _awaited(graph.nodes[start_id]):
                _open(marking, scope, None, awaited, seen)
    if spec.kind == "process" and graph.deadline is not None:
        open_deadline(marking, scope, scope.node_id, None, graph.deadline)


def ask_person(marking: Marking, visit: Visit, effect: AskPerson) -> None:
    marking.rest(visit, state=WAITING, waiting_for=Waiting.HUMAN)
    _open_task(marking, visit.token, effect)


def ask_person_instead(marking: Marking, token: Token, effect: AskPerson) -> None:
    """Of a node that the token has entered already: its boundary events are armed."""
    marking.draft.require_waits(token)
    _close_tasks(marking, token)
    waiting = {"state": WAITING, "waiting_for": Waiting.HUMAN, "topic": None}
    fresh = {"error": None, "attempt": 0, "recoveries": 0}
    _open_task(marking, marking.put(token, **waiting, **fresh), effect)


def _open_task(marking: Marking, token: Token, effect: AskPerson) -> None:
    task = HumanTask(
        id=marking.context.new_id(),
        tenant_id=token.tenant_id,
        instance_id=token.instance_id,
        root_instance_id=token.root_instance_id,
        scope_id=token.scope_id,
        token_id=token.id,
        node_id=token.node_id,
        name=effect.name,
        assignee=effect.assignee,
        candidate_users=effect.candidate_users,
        candidate_groups=effect.candidate_groups,
        priority=effect.priority,
        due_at=effect.due_at,
        follow_up_at=effect.follow_up_at,
        form_key=effect.form_key,
    )
    marking.draft.tasks.put(task.id, task)


def begin(marking: Marking, scope: Scope, token: Token | None, node: Node, index: int) -> None:
    """One more event is awaited, by a token that rests already or by its scope. A boundary event does not see
    what its host keeps to itself."""
    own = None if token is None or isinstance(node.spec, Boundary) else token.local
    seen = view(marking.draft, scope.id, own)
    awaited = Awaited(node.id, index, event_of(node, index))
    _open(marking, scope, None if token is None else token.id, awaited, seen)


def awaited_events(node: Node) -> list[int]:
    """Which of the node's events are awaited by rows; the others find their catchers by themselves."""
    alone = () if needs_all(node) else (ErrorEvent, EscalationEvent)
    never = (CancelEvent, CompensationEvent, *alone)
    return [each.index for each in _awaited(node) if not isinstance(each.event, never)]


def _awaited(node: Node) -> list[Awaited]:
    spec = node.spec
    assert isinstance(spec, Boundary | Start | Catch)
    return [Awaited(node.id, index, event) for index, event in enumerate(spec.events)]


def _open(marking: Marking, scope: Scope, token_id: str | None, awaited: Awaited, seen: View) -> None:
    match awaited.event:
        case TimerEvent():
            _open_timer(marking, scope, token_id, awaited, awaited.event, seen)
        case MessageEvent() | SignalEvent() | ConditionEvent():
            at = awaited.node_id, awaited.index
            _subscribe(marking, scope, token_id, at, _terms(marking, awaited.event, seen))
        case ErrorEvent() | EscalationEvent() if needs_all(_node(marking, scope, awaited)):
            at = awaited.node_id, awaited.index
            _subscribe(marking, scope, token_id, at, Terms(CONDITION))
        case _:
            pass  # errors, escalations, cancels and compensations find their catchers by themselves


def _node(marking: Marking, scope: Scope, awaited: Awaited) -> Node:
    return marking.graph(scope.instance_id).nodes[awaited.node_id]


def needs_all(node: Node) -> bool:
    """Whether the event is triggered by all of its definitions together (10.5.1: parallelMultiple)."""
    spec = node.spec
    return isinstance(spec, Boundary | Start | Catch) and spec.parallel and len(spec.events) > 1


def _open_timer(
    marking: Marking, scope: Scope, token_id: str | None, awaited: Awaited, event: TimerEvent, seen: View
) -> None:
    now = marking.context.now
    planned = schedule(event, event.expression.evaluate(seen, now), now)
    timer = Timer(
        id=marking.context.new_id(),
        tenant_id=scope.tenant_id,
        instance_id=scope.instance_id,
        root_instance_id=scope.root_instance_id,
        scope_id=scope.id,
        token_id=token_id,
        node_id=awaited.node_id,
        event=awaited.index,
        due_at=planned.due_at,
        cycle=planned.cycle,
        remaining=planned.remaining,
        anchor_at=planned.anchor_at,
    )
    marking.draft.timers.put(timer.id, timer)


def open_deadline(
    marking: Marking, scope: Scope, node_id: str, token_id: str | None, deadline: Expression
) -> None:
    due = deadline.evaluate(view(marking.draft, scope.id), marking.context.now)
    open_timer(marking, scope, node_id, token_id, TimerPurpose.DEADLINE, due)


def open_timer(
    marking: Marking, scope: Scope, node_id: str, token_id: str | None, purpose: TimerPurpose, due: Value
) -> None:
    """A timer of the engine's own: retry, delayed start, deadline."""
    timer = Timer(
        id=marking.context.new_id(),
        tenant_id=scope.tenant_id,
        instance_id=scope.instance_id,
        root_instance_id=scope.root_instance_id,
        scope_id=scope.id,
        token_id=token_id,
        node_id=node_id,
        purpose=purpose,
        due_at=moment(due, marking.context.now),
    )
    marking.draft.timers.put(timer.id, timer)


class Terms:
    """What a subscription asks for."""

    __slots__ = ("correlation_key", "kind", "match", "name")

    def __init__(
        self,
        kind: SubscriptionKind,
        name: str = "",
        correlation_key: str | None = None,
        match: Variables | None = None,
    ) -> None:
        self.kind = kind
        self.name = name
        self.correlation_key = correlation_key
        self.match = match


def _terms(marking: Marking, event: EventSpec, seen: View) -> Terms:
    now = marking.context.now
    match event:
        case MessageEvent():
            key = None
            if event.correlation_key is not None:
                key = correlation_text(event.correlation_key.evaluate(seen, now))
            wanted = {path: to_json(value.evaluate(seen, now)) for path, value in event.match}
            if event.keys:
                wanted |= correlation.demanded(event.keys, seen)
            return Terms(MESSAGE, str(event.name.evaluate(seen, now)), key, _nested(wanted))
        case SignalEvent():
            return Terms(SubscriptionKind.SIGNAL, str(event.name.evaluate(seen, now)))
        case _:
            return Terms(CONDITION)


def correlation_text(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
        raise Fault(
            "CORRELATION_KEY", f"a correlation key must be a text or a whole number, not {value!r:.80}"
        )
    return str(value)


def _nested(wanted: Variables) -> Variables | None:
    """`order.kind` asks for a `kind` inside an `order`."""
    if not wanted:
        return None
    nested: Variables = {}
    for path, value in wanted.items():
        *parents, last = path.split(".")
        place = nested
        for parent in parents:
            place = place.setdefault(parent, {})
        place[last] = value
    return nested


def _subscribe(
    marking: Marking, scope: Scope, token_id: str | None, at: tuple[str, int], terms: Terms
) -> None:
    subscription = Subscription(
        id=marking.context.new_id(),
        tenant_id=scope.tenant_id,
        instance_id=scope.instance_id,
        root_instance_id=scope.root_instance_id,
        scope_id=scope.id,
        token_id=token_id,
        node_id=at[0],
        event=at[1],
        kind=terms.kind,
        name=terms.name,
        correlation_key=terms.correlation_key,
        match=terms.match,
    )
    marking.draft.subscriptions.put(subscription.id, subscription)
    if terms.kind is CONDITION:
        _count_conditions(marking, scope.instance_id, 1)
        touched = Touched(scope.instance_id, subscription_id=subscription.id)
        marking.draft.append(marking.draft.touched, touched)


def _count_conditions(marking: Marking, instance_id: str, difference: int) -> None:
    draft = marking.draft
    tally = draft.tally(instance_id)
    draft.set_counter(tally, "conditional", tally.conditional + difference)


def open_again(marking: Marking, scope: Scope, token_id: str | None, node: Node) -> None:
    """A parallel multiple event that does not interrupt waits for all anew, if all can come again."""
    awaited = _awaited(node)
    if all(not isinstance(each.event, TimerEvent) or each.event.kind == "cycle" for each in awaited):
        seen = view(marking.draft, scope.id)
        for each in awaited:
            _open(marking, scope, token_id, each, seen)


# ------------------------------------------------------------------ closing


def close(marking: Marking, token: Token) -> None:
    """Everything the token, or a boundary event on its behalf, waits for."""
    draft = marking.draft
    draft.require_waits(token)
    for timer in draft.timers.where("token_id", token.id):
        if timer.status is SCHEDULED:
            draft.timers.put(timer.id, replace(timer, status=TimerStatus.CANCELLED))
    for subscription in draft.subscriptions.where("token_id", token.id):
        if subscription.status is OPEN:
            end_subscription(marking, subscription, SubscriptionStatus.CANCELLED)
    _close_tasks(marking, token)


def _close_tasks(marking: Marking, token: Token) -> None:
    tasks = marking.draft.tasks
    for task in tasks.where("token_id", token.id):
        if task.status is TaskStatus.OPEN:
            tasks.put(task.id, replace(task, status=TaskStatus.CANCELLED, version=task.version + 1))


def close_retry(marking: Marking, token: Token) -> None:
    """A retry by hand makes the planned one pointless."""
    draft = marking.draft
    draft.require_waits(token)
    for timer in draft.timers.where("token_id", token.id):
        if timer.purpose is TimerPurpose.RETRY and timer.status is SCHEDULED:
            draft.timers.put(timer.id, replace(timer, status=TimerStatus.CANCELLED))


def has_handlers(graph: Graph, spec: ScopeSpec) -> bool:
    return bool(spec.handlers or (spec.kind == "process" and graph.deadline is not None))


def close_handlers(marking: Marking, scope: Scope) -> None:
    """The event sub-processes of the scope listen no more; nor does the instance's deadline run."""
    graph = marking.graph(scope.instance_id)
    if not has_handlers(graph, graph.scopes[scope.node_id]):
        return
    draft = marking.draft
    draft.require_handlers(scope)
    for timer in draft.timers.where("scope_id", scope.id):
        if timer.token_id is None and timer.status is SCHEDULED:
            draft.timers.put(timer.id, replace(timer, status=TimerStatus.CANCELLED))
    for subscription in draft.subscriptions.where("scope_id", scope.id):
        if subscription.token_id is None and subscription.status is OPEN:
            end_subscription(marking, subscription, SubscriptionStatus.CANCELLED)


def end_subscription(marking: Marking, subscription: Subscription, status: SubscriptionStatus) -> None:
    marking.draft.subscriptions.put(subscription.id, replace(subscription, status=status))
    if subscription.kind is CONDITION:
        _count_conditions(marking, subscription.instance_id, -1)


# ------------------------------------------------------------------ what came


def choose(marking: Marking, visit: Visit, effect: Choose) -> None:
    """An event gateway's winner: the losers' waits go, the token stands at the winner, which is done.

    What came is the winner's now: like any answer it must survive a fault in the output mappings.
    """
    marking.journal.log(LogKind.COMPLETED, visit.token)
    close(marking, visit.token)
    token = marking.put(
        visit.token, node_id=effect.node_id, activation=visit.token.activation + 1, local=None
    )
    chosen = marking.visit(token)
    chosen.is_answered = visit.is_answered
    marking.finish(chosen, effect.result)


def is_awaited(marking: Marking, met: Timer | Subscription, node_id: str) -> bool:
    """Whether any event of the node is still to come, beside the one that was met just now."""
    draft = marking.draft
    if met.token_id is not None:
        draft.require_waits(draft.token(met.token_id))
        column, place = "token_id", met.token_id
    else:
        draft.require_handlers(draft.scope(met.scope_id))
        column, place = "scope_id", met.scope_id
    rows: list[Timer | Subscription] = [
        *(row for row in draft.timers.where(column, place) if row.status is SCHEDULED),
        *(row for row in draft.subscriptions.where(column, place) if row.status is OPEN),
    ]
    return any(row.node_id == node_id and row.token_id == met.token_id and row.id != met.id for row in rows)


def thrown_awaited(
    marking: Marking, scope: Scope, host: Token | None, node: Node, event: EventSpec
) -> Subscription | None:
    """Where all definitions of an event are needed: the wait for this error or escalation, if it is open."""
    draft = marking.draft
    if host is not None:
        draft.require_waits(host)
        rows = draft.subscriptions.where("token_id", host.id)
    else:
        draft.require_handlers(scope)
        rows = [row for row in draft.subscriptions.where("scope_id", scope.id) if row.token_id is None]
    return next(
        (
            row
            for row in rows
            if row.node_id == node.id and row.status is OPEN and event_of(node, row.event) is event
        ),
        None,
    )


def event_of(node: Node, index: int) -> EventSpec:
    events: tuple[EventSpec, ...] = getattr(node.spec, "events", ())
    return events[index]
