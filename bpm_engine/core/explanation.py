"""Why each token of an instance rests, what would release it, since when, and what is late.

For people who operate processes: whole sentences, and the same as data. Looks at rows and graph only; the
question is asked of a moment, `now`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from bpm_engine.bpmn.events import ErrorEvent, EscalationEvent
from bpm_engine.bpmn.graph import GATEWAYS, Graph, Kind, Node
from bpm_engine.core import outlook
from bpm_engine.core.compensation import UNDONE
from bpm_engine.core.external import is_external, topic_in
from bpm_engine.core.lifecycle import HALTED_INSTANCES
from bpm_engine.core.retry import WORKER_LOST
from bpm_engine.core.state import (
    CompensationRecord,
    CompensationStatus,
    HumanTask,
    Instance,
    Join,
    Phase,
    Scope,
    Subscription,
    SubscriptionKind,
    Timer,
    TimerPurpose,
    Token,
    TokenState,
    Waiting,
)
from bpm_engine.core.waits import DATA


@dataclass(frozen=True, slots=True)
class Reason:
    """Why one token rests. `kind` is one word for programs; `released_by` says what makes it go on."""

    kind: str
    text: str
    released_by: tuple[str, ...]
    since: datetime
    late: tuple[str, ...] = ()
    missing_flows: tuple[str, ...] = ()  # of a join that can never fire
    watched: tuple[str, ...] = ()  # events that may take the token away meanwhile


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """One instance at one moment. `handles`: whether this process has a handler for a topic; `paused`: the
    topics that it leaves alone because their runs keep failing."""

    instance: Instance
    graph: Graph
    now: datetime
    tokens: Sequence[Token]
    scopes: Mapping[str, Scope]
    joins: Sequence[Join]
    timers: Sequence[Timer]
    subscriptions: Sequence[Subscription]
    tasks: Sequence[HumanTask]
    records: Sequence[CompensationRecord]
    called: Mapping[str, Instance]
    handles: Callable[[str], bool]
    paused: Collection[str] = ()

    @property
    def is_halted(self) -> bool:
        return self.instance.status in HALTED_INSTANCES


def explain(scene: Scene, token: Token) -> Reason:
    match token.state:
        case TokenState.FAILED:
            reason = _incident(scene, token)
        case TokenState.EXECUTING:
            reason = _executing(scene, token)
        case TokenState.READY:
            reason = _ready(scene, token)
        case _:
            reason = WAITS[token.waiting_for or Waiting.EVENT](scene, token)
    watched = tuple(_watched(scene, token))
    late = (*reason.late, *(f"{word} is overdue" for word in _overdue(scene, token)))
    return Reason(
        reason.kind,
        reason.text,
        _unless_halted(scene, token, reason.released_by),
        reason.since,
        tuple(dict.fromkeys(late)),
        reason.missing_flows,
        watched,
    )


def _unless_halted(scene: Scene, token: Token, released_by: tuple[str, ...]) -> tuple[str, ...]:
    if not scene.is_halted or token.state in (TokenState.FAILED, TokenState.EXECUTING):
        return released_by
    return (f"a resume or retry of the instance, which is {scene.instance.status}", *released_by)


# ------------------------------------------------------------------ work


def _incident(scene: Scene, token: Token) -> Reason:
    error = token.error or {}
    since = error.get("since")
    missing: tuple[str, ...] = ()
    text = f"an incident: {error.get('code', '?')}: {error.get('message', '')}".rstrip(": ")
    retrying = f"a retry, when the cause is repaired: bpm retry {token.id}"
    skipping = f"skipping it with a result: bpm skip {token.id}"
    released = [retrying, skipping, "moving the token elsewhere"]
    if undone := error.get(UNDONE):
        text += f"; undone: {', '.join(map(str, undone))}"
        released = ["moving the token to the step with which it shall begin again"]
    elif token.waiting_for is Waiting.JOIN:
        seen = _outlook(scene, token)
        missing = seen.missing
        text += f" ({outlook.words(scene.graph, _node(scene, token), _join(scene, token), seen)})"
        released = [
            "moving a token before the missing flow",
            f"skipping it, so that the join fires with what is there: bpm skip {token.id}",
        ]
    elif _node(scene, token).kind in GATEWAYS:
        released.remove(skipping)  # it has no result
    elif token.attempt:
        text += f", after {token.attempt} failed attempt{'s' if token.attempt != 1 else ''}"
    at = datetime.fromisoformat(since) if isinstance(since, str) else token.entered_at
    return Reason("incident", text, tuple(released), at, missing_flows=missing)


def _executing(scene: Scene, token: Token) -> Reason:
    until = token.lease_until
    what = f"work on {topic_in(token.topic)!r}" if token.topic else "an automatic step"
    text = f"{what} is done by {token.lease_owner}"
    if token.attempt:
        text += f", after {token.attempt} failed attempt{'s' if token.attempt != 1 else ''}"
    late: tuple[str, ...] = ()
    if until is not None and until <= scene.now:
        late = (
            f"its lease ended at {_at(until)} and nobody has taken it back: is the recovery service running?",
        )
    elif until is not None:
        text += f", who has it until {_at(until)} unless the lease is extended"
    return Reason("executing", text, ("the answer of its worker",), token.entered_at, late)


def _ready(scene: Scene, token: Token) -> Reason:
    if token.held:
        text = f"ready to go on, and held because the instance is {scene.instance.status}"
        return Reason("held", text, (), token.entered_at)
    if token.topic is None:
        begin = "before" if token.phase is Phase.ENTER else "behind"
        text = f"ready to go on by itself, {begin} this node"
        return Reason("ready", text, ("the next worker that is free",), token.entered_at)
    topic = topic_in(token.topic)
    if is_external(token.topic):
        text = f"waits for an external worker to fetch the topic {topic!r}"
        return Reason("external", text, ("external.fetch and its answer",), token.entered_at)
    if not scene.handles(topic):
        text = f"waits for a worker with a handler for {topic!r}; the engine that was asked has none"
        return Reason("no handler", text, (f"a worker that handles {topic!r}",), token.entered_at)
    if topic in scene.paused:
        text = f"waits because runs of {topic!r} keep failing; this worker tries one of them after each pause"
        return Reason("paused", text, (f"a run of {topic!r} that succeeds",), token.entered_at)
    text = f"waits for a free worker that handles {topic!r}"
    return Reason("ready", text, ("the next worker that is free",), token.entered_at)


# ------------------------------------------------------------------ time and events


def _timer(scene: Scene, token: Token) -> Reason:
    due = [_at(timer.due_at) for timer in _own_timers(scene, token)]
    text = f"waits until {', '.join(due) or 'a timer that is not there'}"
    return Reason("timer", text, ("the time", *_by_hand(token)), token.entered_at)


def _start(scene: Scene, token: Token) -> Reason:
    due = [_at(timer.due_at) for timer in _own_timers(scene, token)]
    return Reason("start", f"is to start at {', '.join(due)}", ("the time",), token.entered_at)


def _retry(scene: Scene, token: Token) -> Reason:
    error = token.error or {}
    due = [t.due_at for t in _own_timers(scene, token) if t.purpose is TimerPurpose.RETRY]
    when = f"tried again at {', '.join(map(_at, due))}"
    why = f": {error.get('code')}: {error.get('message')}" if error else ""
    text = f"attempt {max(token.attempt, 1)} failed{why}; it is {when}"
    if error.get("code") == WORKER_LOST:
        text = f"{error.get('message')}; it is {when}"
    elif not token.attempt:
        text = f"its handler asked to be called later; it is {when}"
    return Reason("retry", text, ("the time", "a retry by hand"), token.entered_at)


def _event(scene: Scene, token: Token) -> Reason:
    node = _node(scene, token)
    own = {token.node_id, *getattr(node.spec, "targets", ())}
    events = [*_events(scene, token, own)]
    if node.kind is Kind.EVENT_CHOICE:
        text = f"waits for the first of: {'; '.join(events)}"
        return Reason("event gateway", text, tuple(events), token.entered_at)
    word = " and " if getattr(node.spec, "parallel", False) else " or "
    return Reason("event", f"waits for {word.join(events)}", tuple(events), token.entered_at)


def _events(scene: Scene, token: Token, nodes: set[str]) -> Iterator[str]:
    for subscription in scene.subscriptions:
        if subscription.token_id == token.id and subscription.node_id in nodes:
            yield _subscribed(scene, subscription)
    for timer in scene.timers:
        if timer.token_id == token.id and timer.node_id in nodes and timer.purpose is TimerPurpose.EVENT:
            yield f"the time {_at(timer.due_at)}" + _for_node(token, timer.node_id)


def _subscribed(scene: Scene, wait: Subscription) -> str:
    match wait.kind:
        case SubscriptionKind.MESSAGE:
            key = f" with the key {wait.correlation_key!r}" if wait.correlation_key is not None else ""
            match = f" containing {wait.match}" if wait.match else ""
            return f"the message {wait.name!r}{key}{match}"
        case SubscriptionKind.SIGNAL:
            return f"the signal {wait.name!r}"
        case _ if (code := _thrown(scene, wait)) is not None:
            return code
        case _ if wait.event == DATA:
            return f"the data that it needs to begin: {', '.join(_data(scene.graph.nodes[wait.node_id]))}"
        case _:
            return f"the condition of {wait.node_id!r} to hold"


def _thrown(scene: Scene, wait: Subscription) -> str | None:
    """What is thrown is waited for only where it is needed beside other events."""
    match getattr(scene.graph.nodes[wait.node_id].spec, "events", (None,))[max(wait.event, 0)]:
        case ErrorEvent(code=code):
            return f"the error {code!r}" if code else "an error"
        case EscalationEvent(code=code):
            return f"the escalation {code!r}" if code else "an escalation"
        case _:
            return None


def _data(node: Node) -> Iterator[str]:
    """Variables that must be there; one that tells the state of a data object, with the state."""
    states = dict(node.data.states) if node.data is not None else {}
    for name in sorted(node.data_reads):
        yield f"{name} = {states[name]!r}" if name in states else name


def _for_node(token: Token, node_id: str) -> str:
    return "" if node_id == token.node_id else f" of {node_id!r}"


def _by_hand(token: Token) -> tuple[str, ...]:
    return ("moving the token",)


# ------------------------------------------------------------------ others


def _waits_at_join(scene: Scene, token: Token) -> Reason:
    node, seen = _node(scene, token), _outlook(scene, token)
    text = f"waits at the join: {outlook.words(scene.graph, node, _join(scene, token), seen)}"
    if node.kind is Kind.INCLUSIVE:
        released = tuple(
            f"the token at {each!r}, when it arrives or can no longer arrive" for each in seen.coming
        )
    else:
        released = tuple(f"a token by {flow!r}" for flow in (*seen.awaited, *seen.missing))
    kind = "deadlock" if seen.is_dead and node.kind is not Kind.INCLUSIVE else "join"
    missing = seen.missing if node.kind is not Kind.INCLUSIVE else ()
    return Reason(kind, text, released, token.entered_at, missing_flows=missing)


def _scope(scene: Scene, token: Token) -> Reason:
    inner = [scope for scope in scene.scopes.values() if scope.token_id == token.id]
    text = "waits for what runs inside"
    for scope in inner:
        loop = scope.loop or {}
        if "nrOfInstances" in loop:
            done, total = loop["nrOfCompletedInstances"], loop["nrOfInstances"]
            text = f"{done} of {total} items are done, {loop['nrOfActiveInstances']} run"
        else:
            text = f"waits for {scope.live} tokens inside"
    released = tuple(f"the end of what rests at {each}" for each in _inside(scene, {s.id for s in inner}))
    return Reason("scope", text, released, token.entered_at)


def _inside(scene: Scene, scope_ids: set[str]) -> list[str]:
    return sorted({repr(token.node_id) for token in scene.tokens if token.scope_id in scope_ids})


def _call(scene: Scene, token: Token) -> Reason:
    called = scene.called.get(token.id)
    if called is None:
        return Reason("call", "waits for a called instance that is not there", (), token.entered_at)
    text = f"waits for the called {called.definition_key!r}, instance {called.id}, which is {called.status}"
    released = [f"the end of instance {called.id}"]
    if called.status in HALTED_INSTANCES:
        released.insert(0, f"a repair of instance {called.id}: explain that one")
    return Reason("call", text, tuple(released), token.entered_at)


def _human(scene: Scene, token: Token) -> Reason:
    tasks = [task for task in scene.tasks if task.token_id == token.id]
    late = tuple(
        f"task {task.id} was due at {_at(task.due_at)}"
        for task in tasks
        if task.due_at is not None and task.due_at <= scene.now
    )
    text = "; ".join(f"waits for {_person(task)}, task {task.id}" for task in tasks)
    return Reason("human", text, ("completing the task",), token.entered_at, late)


def _person(task: HumanTask) -> str:
    if task.assignee is not None:
        return task.assignee
    people = [*task.candidate_users, *(f"the group {group}" for group in task.candidate_groups)]
    return f"somebody of {', '.join(people)}" if people else "anybody"


def _compensation(scene: Scene, token: Token) -> Reason:
    asked = (CompensationStatus.RUNNING, CompensationStatus.FAILED)
    running = [r for r in scene.records if r.requested_by == token.id and r.status in asked]
    done = ", ".join(repr(record.node_id) for record in running) or "nothing"
    text = f"waits for compensation: {done} is being undone"
    if token.error is not None:
        text += f", because {token.error.get('code')}: {token.error.get('message')}"
    released = tuple(f"the handler that undoes {record.node_id!r}" for record in running)
    return Reason("compensation", text, released, token.entered_at)


def _turn(scene: Scene, token: Token) -> Reason:
    text = "waits until the activity before it is done"
    if token.loop_index is not None:
        text = f"is item {token.loop_index}, and waits for its turn"
    return Reason("turn", text, ("the end of the one that runs",), token.entered_at)


def _selection(scene: Scene, token: Token) -> Reason:
    return Reason(
        "selection", "waits for somebody to select an activity", ("instances.activate",), token.entered_at
    )


WAITS: Mapping[Waiting, Callable[[Scene, Token], Reason]] = {
    Waiting.TIMER: _timer,
    Waiting.EVENT: _event,
    Waiting.JOIN: _waits_at_join,
    Waiting.SCOPE: _scope,
    Waiting.CALL: _call,
    Waiting.HUMAN: _human,
    Waiting.RETRY: _retry,
    Waiting.START: _start,
    Waiting.COMPENSATION: _compensation,
    Waiting.TURN: _turn,
    Waiting.SELECTION: _selection,
}


# ------------------------------------------------------------------ looking


def _node(scene: Scene, token: Token) -> Node:
    return scene.graph.nodes[token.node_id]


def _own_timers(scene: Scene, token: Token) -> list[Timer]:
    boundary = _node(scene, token).boundary
    return [t for t in scene.timers if t.token_id == token.id and t.node_id not in boundary]


def _join(scene: Scene, token: Token) -> Join | None:
    here = (token.scope_id, token.node_id)
    return next((join for join in scene.joins if (join.scope_id, join.node_id) == here), None)


def _outlook(scene: Scene, token: Token) -> outlook.Outlook:
    beside = [
        other for other in scene.tokens if other.scope_id == token.scope_id and other.node_id != token.node_id
    ]
    return outlook.outlook(scene.graph, _node(scene, token), _join(scene, token), beside)


def _watched(scene: Scene, token: Token) -> Iterator[str]:
    """Boundary events and deadlines."""
    boundary = set(_node(scene, token).boundary)
    yield from (f"{each} at {token.node_id!r}" for each in _events(scene, token, boundary))
    for timer in scene.timers:
        if timer.token_id == token.id and timer.purpose is TimerPurpose.DEADLINE:
            yield f"the deadline {_at(timer.due_at)}"


def _overdue(scene: Scene, token: Token) -> Iterator[str]:
    for timer in scene.timers:
        if timer.token_id == token.id and timer.due_at < scene.now:
            yield f"the timer of {timer.node_id!r}, due at {_at(timer.due_at)},"


def _at(instant: datetime) -> str:
    return instant.isoformat(sep=" ", timespec="seconds")
