"""What an advance will want to see, said as early as it can be known: one round of loading is the rule.

`named` asks for what the stimuli name. `foreseen` looks at the graph from where their tokens stand: waits
to close, joins ahead, siblings that matter, and what lies around a scope that is about to end. It may
miss something (the core then says so) and may ask for a little too much; neither changes the outcome.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from bpm_engine.bpmn.graph import Graph, Repeat
from bpm_engine.core.context import Definitions
from bpm_engine.core.needs import Needs, union
from bpm_engine.core.snapshot import Snapshot
from bpm_engine.core.state import Scope, Token
from bpm_engine.core.stimuli import (
    ActivitySelected,
    CancelRequested,
    Continued,
    ErrorThrown,
    LeaseExpired,
    MessageDelivered,
    MigrationRequested,
    PersonAsked,
    ResumeRequested,
    RetryRequested,
    SignalDelivered,
    SkipRequested,
    Started,
    Stimulus,
    SuspendRequested,
    TaskChanged,
    TaskCommented,
    TaskCompleted,
    TimerFired,
    TokensMoved,
    VariablesSet,
    WorkCompleted,
    WorkerLost,
    WorkFailed,
    WorkUnclaimed,
)
from bpm_engine.core.waits import has_handlers, has_one, may_have


def named(stimuli: Iterable[Stimulus]) -> Needs:
    answered = set()  # by far the most common: taken together at once
    others = []
    for stimulus in stimuli:
        if isinstance(stimulus, WorkCompleted):
            answered.add(stimulus.claim.token_id)
        else:
            others.append(_named(stimulus))
    needs = union(others) if others else Needs()
    return replace(needs, tokens=needs.tokens | answered) if answered else needs


def _named(stimulus: Stimulus) -> Needs:
    match stimulus:
        case Started():
            return Needs(graphs=frozenset({stimulus.definition_id}))
        case WorkCompleted() | WorkFailed() | ErrorThrown() | WorkerLost() | Continued():
            return Needs(tokens=frozenset({stimulus.claim.token_id}))
        case LeaseExpired() | WorkUnclaimed() | SkipRequested() | PersonAsked():
            return Needs(tokens=frozenset({stimulus.token_id}))
        case TimerFired():
            return Needs(timers=frozenset({stimulus.timer_id}))
        case MessageDelivered() | SignalDelivered():
            return Needs(subscriptions=frozenset({stimulus.subscription_id}))
        case TaskCompleted() | TaskChanged() | TaskCommented():
            return Needs(tasks=frozenset({stimulus.task_id}))
        case ActivitySelected():
            whole = frozenset({stimulus.instance_id})
            return Needs(instances=whole, complete=whole)
        case VariablesSet():
            scopes = frozenset({stimulus.scope_id} if stimulus.scope_id else ())
            return Needs(instances=frozenset({stimulus.instance_id}), scopes=scopes)
        case MigrationRequested():
            whole, target = frozenset({stimulus.instance_id}), frozenset({stimulus.definition_id})
            return Needs(instances=whole, complete=whole, records=whole, graphs=target)
        case CancelRequested() | SuspendRequested() | ResumeRequested() | RetryRequested() | TokensMoved():
            whole = frozenset({stimulus.instance_id})
            return Needs(instances=whole, complete=whole)  # a root scope has the id of its instance


def foreseen(definitions: Definitions, snapshot: Snapshot, stimuli: Sequence[Stimulus]) -> Needs:
    """Call it when what is `named` has been loaded. Where a wait that was named must be the only one of its
    token, the snapshot learns that there are no others."""
    for stimulus in stimuli:
        if isinstance(stimulus, MessageDelivered | SignalDelivered | TimerFired):
            _note_sole_wait(definitions, snapshot, _token_of(snapshot, stimulus))
    wanted = [
        need
        for stimulus in stimuli
        if (token := _token_of(snapshot, stimulus)) is not None
        for need in _around(definitions, snapshot, token)
    ]
    return union(wanted) if wanted else Needs()


def _note_sole_wait(definitions: Definitions, snapshot: Snapshot, token: Token | None) -> None:
    instance = None if token is None else snapshot.instances.get(token.instance_id)
    graph = None if instance is None else definitions.graph(instance.definition_id)
    if token is not None and graph is not None and has_one(graph.nodes[token.node_id], token):
        snapshot.waits.add(token.id)


def _token_of(snapshot: Snapshot, stimulus: Stimulus) -> Token | None:
    token_id: str | None = None
    match stimulus:
        case WorkCompleted() | WorkFailed() | ErrorThrown() | WorkerLost() | Continued():
            token_id = stimulus.claim.token_id
        case TimerFired():
            timer = snapshot.timers.get(stimulus.timer_id)
            token_id = timer.token_id if timer is not None else None
        case MessageDelivered() | SignalDelivered():
            subscription = snapshot.subscriptions.get(stimulus.subscription_id)
            token_id = subscription.token_id if subscription is not None else None
        case TaskCompleted():
            task = snapshot.tasks.get(stimulus.task_id)
            token_id = task.token_id if task is not None else None
    return None if token_id is None else snapshot.tokens.get(token_id)


def _around(definitions: Definitions, snapshot: Snapshot, token: Token) -> Iterator[Needs]:
    """The token's own surroundings, and outwards as long as its end may end the scope around it."""
    at: Token | None = token
    while at is not None:
        scope, instance = snapshot.scopes.get(at.scope_id), snapshot.instances.get(at.instance_id)
        graph = None if instance is None else definitions.graph(instance.definition_id)
        if scope is None or graph is None:
            return
        if graph.watched and (root := snapshot.scopes.get(at.instance_id)) is not None and root.conditional:
            yield Needs(conditions=frozenset({at.instance_id}))
        if at.id not in snapshot.waits and may_have(graph.nodes[at.node_id], at):
            yield Needs(waits=frozenset({at.id}))
        yield from _ahead(graph, scope, at)
        if scope.live > 1:
            return
        if has_handlers(graph, graph.scopes[scope.node_id]):
            yield Needs(handlers=frozenset({scope.id}))
        at = _owner(snapshot, scope)


def _ahead(graph: Graph, scope: Scope, token: Token) -> Iterator[Needs]:
    ahead = graph.ahead.get(token.node_id)
    if ahead is not None and ahead.joins:
        here = (node_id for node_id in ahead.joins if graph.nodes[node_id].scope == scope.node_id)
        yield Needs(joins=frozenset((scope.id, node_id) for node_id in here))
    if scope.inclusive_waiting or (ahead is not None and ahead.siblings and scope.live > 1):
        yield Needs(siblings=frozenset({scope.id}))
    if scope.loop is not None:
        yield from _repetition(graph, scope, token)


def _repetition(graph: Graph, scope: Scope, token: Token) -> Iterator[Needs]:
    spec = graph.nodes[scope.node_id].spec
    if not isinstance(spec, Repeat):
        return
    if spec.mode == "sequential" and token.loop_index is not None and scope.live > 1:
        yield Needs(items=frozenset({(scope.id, token.loop_index + 1)}))
    if spec.output_collection is not None and scope.live == 1:
        yield Needs(outputs=frozenset({scope.id}))


def _owner(snapshot: Snapshot, scope: Scope) -> Token | None:
    token_id = scope.token_id
    if token_id is None and (instance := snapshot.instances.get(scope.instance_id)) is not None:
        token_id = instance.parent_token_id
    return None if token_id is None else snapshot.tokens.get(token_id)
