"""Everyone outside the process: handlers, people, senders of messages, the clock. What could they do now?

For each answer that could be given, several are offered with other values, the most ordinary first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from bpm_engine.bpmn import graph as bpmn
from bpm_engine.bpmn.events import (
    ConditionEvent,
    ErrorEvent,
    EscalationEvent,
    EventSpec,
    MessageEvent,
    SignalEvent,
    TimerEvent,
)
from bpm_engine.bpmn.graph import Graph
from bpm_engine.core import stimuli
from bpm_engine.core.external import is_external, topic_in
from bpm_engine.core.state import (
    HumanTask,
    Subscription,
    SubscriptionKind,
    TaskStatus,
    Token,
    TokenState,
    Variables,
    Waiting,
)
from bpm_engine.core.waits import DATA
from bpm_engine.handlers import BpmnError
from bpm_engine.testing.board import TENANT, Board, Position
from bpm_engine.testing.demand import Demand
from bpm_engine.testing.shapes import Shape, assignments
from bpm_engine.testing.steps import Activate, Answer, Begin, Complete, Message, Set, Signal, Throw, Wait
from bpm_engine.testing.terrain import Place, Terrain

MOST_STARTS = 120
MOST_ANSWERS = 40

Given = Mapping[str, Any] | BpmnError
Answers = Mapping[str, Sequence[Given]]


@dataclass(slots=True)
class Robots:
    board: Board
    terrain: Terrain
    demand: Demand
    answers: Answers = field(default_factory=dict)  # by topic or node: instead of generated ones
    variables: Variables = field(default_factory=dict)  # of every start

    # -------------------------------------------------------------- beginning

    def begin(self, graph: Graph) -> Iterator[Position]:
        """All ways in which an instance can start."""
        for node_id in graph.root.starts:
            node = graph.nodes[node_id]
            if isinstance(node.spec, bpmn.Start) and not node.spec.events:
                for variables in self._offered(Place(graph.key, node_id), {}, MOST_STARTS):
                    given = {**variables, **self.variables}
                    step = Begin(graph.key, node_id, variables=given)
                    yield from self._started(graph, step, variables=given)
        for node, index, event in graph.start_events():
            place = Place(graph.key, node.id)
            for payload in self._payloads(place, event, {}, MOST_STARTS):
                begun = _begin(graph, node.id, event, payload)
                if begun is not None:
                    yield from self._started(graph, begun, event=index, event_payload=payload)

    def _started(self, graph: Graph, step: Begin, **fields: Any) -> Iterator[Position]:
        told = stimuli.Started(
            instance_id=self.board.new_id(),
            tenant_id=TENANT,
            definition_id=graph.key,
            at=step.node,
            **fields,
        )
        position = self.board.play(self.board.empty(), step, told)
        if position is not None:
            yield position

    # -------------------------------------------------------------- going on

    def moves(self, position: Position) -> Iterator[Position]:
        """All positions that one answer from outside leads to."""
        for token in position.tokens:
            if token.state is TokenState.READY and token.topic is not None and not token.held:
                yield from self._work(position, token)
            elif token.waiting_for is Waiting.SELECTION:
                yield from self._activities(position, token)
        for task in position.snapshot.tasks.values():
            if task.status is TaskStatus.OPEN:
                yield from self._person(position, task)
        for subscription in position.subscriptions:
            yield from self._event(position, subscription)
        if position.timers:
            after = self.board.fire(position, Wait(position.timers[0].node_id))
            if after is not None:
                yield after

    def _work(self, position: Position, token: Token) -> Iterator[Position]:
        place = self._place(position, token.instance_id, token.node_id)
        claimed, claim = self.board.claim(position, token)
        topic, external = topic_in(token.topic or ""), is_external(token.topic)
        rank = sum(_is_like(other, token) and other.id < token.id for other in position.tokens)
        for given in self._results(position, token, place, topic):
            told: stimuli.Stimulus
            if isinstance(given, BpmnError):
                told = stimuli.ErrorThrown(claim=claim, code=given.code, variables=given.variables)
                step: Throw | Answer = Throw(*place, topic, given.code, external, rank)
            else:
                told = stimuli.WorkCompleted(claim=claim, variables=dict(given))
                step = Answer(*place, topic, dict(given), external, rank)
            after = self.board.play(claimed, step, told)
            if after is not None:
                yield after

    def _results(self, position: Position, token: Token, place: Place, topic: str) -> Iterator[Given]:
        own = self.answers.get(place.node, self.answers.get(topic))
        if own is not None:
            yield from own
            return
        node = self.terrain.node(place)
        seen = position.visible(token.scope_id, token.local)
        if node.outputs:
            names = sorted({name for _, expression in node.outputs for name in expression.reads} - set(seen))
            shapes = {name: self.demand.shapes.of(name) for name in names}
            yield from assignments(shapes, MOST_ANSWERS)
        else:
            yield from self._offered(place, seen, MOST_ANSWERS)
        yield from (BpmnError(code) for code in self.terrain.errors.get(place, ()))

    def _person(self, position: Position, task: HumanTask) -> Iterator[Position]:
        place = self._place(position, task.instance_id, task.node_id)
        spec = self.terrain.node(place).spec
        seen = position.visible(task.scope_id)
        tasks = position.snapshot.tasks.values()
        rank = sum(
            each.status is TaskStatus.OPEN and each.node_id == task.node_id and each.id < task.id
            for each in tasks
        )
        own = self.answers.get(place.node)
        if own is not None:
            offers: Iterator[Variables] = (dict(each) for each in own if not isinstance(each, BpmnError))
        elif isinstance(spec, bpmn.Human) and spec.fields:
            fields = {each.name: self.demand.shapes.of(each.name) for each in spec.fields}
            offers = assignments(fields, MOST_ANSWERS)
        else:
            offers = self._offered(place, seen, MOST_ANSWERS)
        for variables in offers:
            told = stimuli.TaskCompleted(task_id=task.id, variables=variables)
            after = self.board.play(position, Complete(*place, variables, rank), told)
            if after is not None:
                yield after

    def _event(self, position: Position, waiting: Subscription) -> Iterator[Position]:
        place = self._place(position, waiting.instance_id, waiting.node_id)
        after: Position | None
        for payload in self._awaited(position, waiting, place):
            match waiting.kind:
                case SubscriptionKind.MESSAGE:
                    payload = {**payload, **(waiting.match or {})}
                    step = Message(place.node, waiting.name, waiting.correlation_key, payload)
                    told = stimuli.MessageDelivered(subscription_id=waiting.id, payload=payload)
                    after = self.board.play(position, step, told)
                case SubscriptionKind.SIGNAL:
                    heard = Signal(place.node, waiting.name, payload)
                    after = self.board.broadcast(position, heard, waiting.name, payload)
                case _:
                    written = Set(*place, payload)
                    change = stimuli.VariablesSet(instance_id=waiting.instance_id, variables=payload)
                    after = self.board.play(position, written, change)
            if after is not None:
                yield after

    def _awaited(self, position: Position, waiting: Subscription, place: Place) -> Iterator[Variables]:
        node = self.terrain.node(place)
        if waiting.event == DATA:
            shapes = {name: self.demand.shapes.of(name) for name in sorted(node.data_reads)}
            return assignments(shapes, MOST_ANSWERS)
        event = getattr(node.spec, "events", (None,))[waiting.event]
        if isinstance(event, ErrorEvent | EscalationEvent):
            return iter(())  # somebody inside throws it, or nobody does
        return self._payloads(place, event, position.visible(waiting.scope_id), MOST_ANSWERS)

    def _activities(self, position: Position, token: Token) -> Iterator[Position]:
        place = self._place(position, token.instance_id, token.node_id)
        spec = self.terrain.node(place).spec
        rank = sum(
            other.waiting_for is Waiting.SELECTION and other.node_id == token.node_id and other.id < token.id
            for other in position.tokens
        )
        for element, _ in spec.enabled if isinstance(spec, bpmn.Selection) else ():
            told = stimuli.ActivitySelected(
                instance_id=token.instance_id, node_id=element, scope_id=token.scope_id
            )
            after = self.board.play(position, Activate(place.process, element, place.node, rank), told)
            if after is not None:
                yield after

    # -------------------------------------------------------------- values

    def _offered(self, place: Place, seen: Variables, most: int) -> Iterator[Variables]:
        """What is needed from here on and not there yet, and what is there with other values."""
        shapes: dict[str, Shape] = {}
        for name in self.demand.needed(place):
            shape = self.demand.shapes.of(name)
            if name not in seen:
                shapes[name] = shape
            elif len(shape.candidates()) > 1:
                shapes[name] = Shape(name, values=[seen[name]])
                shapes[name].propose(*shape.candidates())
        for variables in assignments(shapes, most):
            yield {
                name: value for name, value in variables.items() if name not in seen or seen[name] != value
            }

    def _payloads(
        self, place: Place, event: EventSpec | None, seen: Variables, most: int
    ) -> Iterator[Variables]:
        match event:
            case MessageEvent(payload_variable=str() as variable):
                shape = self.demand.shapes.of(variable)
                offers = shape.candidates() if shape.fields else [{}]
                yield from islice((each for each in offers if isinstance(each, dict)), most)
            case ConditionEvent(condition=condition):
                shapes = {name: self.demand.shapes.of(name) for name in sorted(condition.reads)}
                yield from assignments(shapes, most)
            case TimerEvent():
                yield {}
            case _:
                yield from self._offered(place, seen, most)

    def _place(self, position: Position, instance_id: str, node_id: str) -> Place:
        return Place(position.instance(instance_id).definition_key, node_id)


def _is_like(other: Token, token: Token) -> bool:
    """Whether it is ready for the same work."""
    return other.state is TokenState.READY and (other.node_id, other.topic) == (token.node_id, token.topic)


def _begin(graph: Graph, node_id: str, event: EventSpec, payload: Variables) -> Begin | None:
    match event:
        case MessageEvent(name=name) if name.is_constant:
            return Begin(graph.key, node_id, "message", str(name.evaluate({})), payload)
        case SignalEvent(name=name) if name.is_constant:
            return Begin(graph.key, node_id, "signal", str(name.evaluate({})), payload)
        case TimerEvent():
            return Begin(graph.key, node_id, "timer")
        case ConditionEvent():
            return Begin(graph.key, node_id, variables=payload)
        case _:
            return None
