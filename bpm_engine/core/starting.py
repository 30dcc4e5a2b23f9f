"""Starting an instance: at a none start event, or by the event that a start, a receive task or an
event-based gateway waits for (10.5.2, 10.3.3, 10.6.6).

Whatever event comes first makes the instance. Where several are needed (a parallel multiple start, a
parallel event-based gateway) the new instance itself waits for the others, correlated by what it knows
from the first; the branches of such a gateway go on one by one, each with its event.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING

from bpm_engine.bpmn.events import ConditionEvent, EventSpec, SignalEvent
from bpm_engine.bpmn.expressions import ExpressionError, parse_duration
from bpm_engine.bpmn.graph import Catch, EventChoice, Graph, Kind, Node
from bpm_engine.core import calls, triggering, waits
from bpm_engine.core.behaviours.events import keys_of, payload_of
from bpm_engine.core.changes import APPLIED, Outcome, Refused, Stale
from bpm_engine.core.context import Context
from bpm_engine.core.effects import Await, Awaited, Choose, Happened
from bpm_engine.core.needs import Lacking, Needs
from bpm_engine.core.state import (
    Instance,
    LogKind,
    Phase,
    TimerPurpose,
    Token,
    TokenState,
    Variables,
    Waiting,
)
from bpm_engine.core.stimuli import Started

if TYPE_CHECKING:
    from bpm_engine.core.marking import Marking


def started(marking: Marking, stimulus: Started) -> Outcome:
    if marking.draft.instances.get(stimulus.instance_id) is not None:
        return Stale("the instance is already there")
    graph = marking.definitions.graph(stimulus.definition_id)
    if graph is None:
        raise Lacking(Needs(graphs=frozenset({stimulus.definition_id})))
    start = _start_node(marking, graph, stimulus)
    if isinstance(start, Refused):
        return start
    came = _trigger(start, stimulus)
    node = start if came is None else _gateway_before(graph, start) or start
    brought = payload_of(graph, came) if came is not None and node.kind is Kind.START else {}
    own = brought if node.outputs else {}  # with output mappings what came is the start event's own
    if came is not None and own:
        brought = keys_of(graph, came)
    instance = _new_instance(marking, stimulus, graph)
    marking.graphs[instance.id] = graph
    variables = {**stimulus.variables, **brought}
    (token,) = calls.begin_instance(marking, instance, graph, variables, [node.id])
    if own and not waits.needs_all(node):
        token = marking.put(token, local=own)
    if stimulus.start_at is not None and stimulus.start_at > marking.context.now:
        token = marking.put(token, state=TokenState.WAITING, waiting_for=Waiting.START)
        scope = marking.draft.scope(instance.id)
        waits.open_timer(marking, scope, node.id, token.id, TimerPurpose.START, stimulus.start_at)
    elif came is None or (node.kind is Kind.START and not waits.needs_all(node)):
        marking.start(token)
    else:
        marking.attempt(token, Phase.ENTER, _begin, marking, token, came)
    return APPLIED


# ------------------------------------------------------------------ where


def _start_node(marking: Marking, graph: Graph, stimulus: Started) -> Node | Refused:
    """Decision 24: one none start, or the one that was asked for."""
    if stimulus.at is not None:
        node = graph.nodes.get(stimulus.at)
        if node is None or node.scope != graph.root.id or not _can_start(graph, node, stimulus):
            places = ", ".join(_places(graph)) or "nothing"
            return Refused("NO_SUCH_START", f"it cannot start at {stimulus.at!r}; what starts it: {places}")
        return node
    candidates = graph.none_starts or tuple(_with_true_condition(marking, graph, stimulus.variables))
    if len(candidates) == 1:
        return candidates[0]
    if not candidates:
        words = "no none start event, and no conditional one whose condition is true; say where: at=…"
        return Refused("NO_NONE_START", f"it has {words} ({', '.join(_places(graph))})")
    names = ", ".join(node.id for node in candidates)
    return Refused("AMBIGUOUS_START", f"it can start at {names}; say where: at=…")


def _places(graph: Graph) -> Iterator[str]:
    """Where somebody may ask the process to start."""
    for node in (graph.nodes[node_id] for node_id in graph.root.nodes):
        if _makes_instances(node):
            yield node.id


def _makes_instances(node: Node) -> bool:
    return node.kind is Kind.START or (isinstance(node.spec, Catch | EventChoice) and node.spec.instantiate)


def _can_start(graph: Graph, node: Node, stimulus: Started) -> bool:
    if _makes_instances(node):
        return True
    return stimulus.event_payload is not None and _gateway_before(graph, node) is not None


def _gateway_before(graph: Graph, node: Node) -> Node | None:
    """The event-based gateway that makes instances when the event of this target comes."""
    for flow in node.incoming:
        gateway = graph.nodes[graph.flows[flow].source]
        if isinstance(gateway.spec, EventChoice) and gateway.spec.instantiate:
            return gateway
    return None


def _with_true_condition(marking: Marking, graph: Graph, variables: Variables) -> Iterator[Node]:
    for node, _, event in graph.start_events():
        if isinstance(event, ConditionEvent) and holds(event, variables, marking.context):
            yield node


def holds(event: ConditionEvent, variables: Variables, context: Context) -> bool:
    """A condition that lacks a variable, or cannot be evaluated with these, starts nothing."""
    try:
        return event.condition.holds(variables, context.now)
    except ExpressionError:
        return False


# ------------------------------------------------------------------ by what


def _trigger(node: Node, stimulus: Started) -> Happened | None:
    """None: somebody asked for it."""
    if stimulus.event_payload is None:
        return None
    index = stimulus.event
    if index is None:
        index = _signal_index(getattr(node.spec, "events", ()), stimulus.signal)
    return Happened(node.id, index, stimulus.event_payload)


def _signal_index(events: tuple[EventSpec, ...], name: str | None) -> int:
    for index, event in enumerate(events):
        if isinstance(event, SignalEvent) and name in (None, str(event.name.evaluate({}))):
            return index
    return 0


def _begin(marking: Marking, token: Token, came: Happened) -> None:
    visit = marking.visit(token)
    visit.is_answered = True
    node = visit.node
    target = visit.graph.nodes[came.node_id]
    brought = payload_of(visit.graph, came)
    if isinstance(node.spec, EventChoice) and node.spec.parallel:
        _begin_all(marking, token, node.spec, came)
    elif waits.needs_all(target):
        _await_the_rest(marking, token, came)
        if node.kind is not Kind.START or node.outputs:
            triggering.keep(marking, marking.draft.token(token.id), target.id, brought)
    elif isinstance(node.spec, EventChoice):
        waits.choose(marking, visit, Choose(target.id, brought))
    else:
        marking.finish(visit, brought)


def _begin_all(marking: Marking, token: Token, gateway: EventChoice, came: Happened) -> None:
    """A branch for each event; that of the one which came first is past it, the others wait."""
    marking.journal.log(LogKind.COMPLETED, token)
    scope = marking.draft.scope(token.scope_id)
    group = marking.context.new_id()
    branches = [marking.spawn(scope, target, parallel_group_id=group) for target in gateway.targets]
    marking.end(token)
    for branch in branches:
        if branch.node_id == came.node_id:
            marking.attempt(branch, Phase.ENTER, _begin, marking, branch, came)
        else:
            marking.start(branch)


def _await_the_rest(marking: Marking, token: Token, came: Happened) -> None:
    """Everything that its node waits for, but for what has come."""
    visit = marking.visit(token)
    spec = visit.node.spec
    targets = spec.targets if isinstance(spec, EventChoice) else (visit.node.id,)
    awaited = [
        Awaited(target, index, event)
        for target in targets
        for index, event in enumerate(getattr(visit.graph.nodes[target].spec, "events", ()))
        if (target, index) != (came.node_id, came.index)
    ]
    waits.wait(marking, visit, Await(tuple(awaited)))


# ------------------------------------------------------------------ the new instance


def _new_instance(marking: Marking, stimulus: Started, graph: Graph) -> Instance:
    return Instance(
        id=stimulus.instance_id,
        tenant_id=stimulus.tenant_id,
        root_instance_id=stimulus.instance_id,
        definition_id=stimulus.definition_id,
        definition_key=graph.key,
        definition_version=marking.definitions.version(stimulus.definition_id),
        business_key=stimulus.business_key,
        subject=stimulus.subject,
        correlation_id=stimulus.correlation_id,
        idempotency_key=stimulus.idempotency_key,
        input_hash=stimulus.input_hash,
        priority=stimulus.priority,
        retention=_retention(graph, marking.context) if stimulus.retention is None else stimulus.retention,
        started_at=marking.context.now,
    )


def _retention(graph: Graph, context: Context) -> int | None:
    if graph.retention is None:
        return context.retention
    duration = parse_duration(graph.retention)
    return int((duration.rest + timedelta(days=30 * duration.months)).total_seconds())
