"""Loop and multi-instance markers become a node of their own: `task#body`, a REPEAT around `task`.

What surrounds the activity belongs to the body: flows, boundary events, deadline, asynchronous
continuation, token quantities, what it emits, and the data associations of its collections. What happens
in each run stays with the inner node: other mappings, the work itself, and its compensation, because each
completed run is undone on its own (10.7.1). As a compensation handler, it is the body that compensation
runs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from bpm_engine.bpmn import graph, model
from bpm_engine.bpmn.compiling.data import (
    DataNames,
    associated,
    identifier,
    input_variable,
    output_variable,
    variable_name,
)
from bpm_engine.bpmn.compiling.draft import Draft, NodeDraft, ScopeDraft
from bpm_engine.bpmn.compiling.events import Events
from bpm_engine.bpmn.compiling.texts import Texts
from bpm_engine.bpmn.events import (
    CompensationEvent,
    ErrorEvent,
    EscalationEvent,
    EventSpec,
    MessageEvent,
    SignalEvent,
)
from bpm_engine.bpmn.expressions import Expression, ExpressionError
from bpm_engine.bpmn.graph import Kind
from bpm_engine.bpmn.text import OWN_LANGUAGE, Text
from bpm_engine.problems import error

REPETITION_WITHOUT_COUNT = error(
    "REPETITION_WITHOUT_COUNT",
    "A multi-instance activity says how often it runs: a cardinality or a collection (10.3.8).",
    "Add a loopCardinality, or bpm:collection with the list to go through.",
)
REPETITION_COUNT = error(
    "REPETITION_COUNT",
    "A cardinality and a loop's maximum are whole numbers of at least 0 (10.3.8).",
    "Correct the number.",
)
BEHAVIOR_EVENT = error(
    "BEHAVIOR_EVENT",
    "What the runs of a multi-instance activity throw is caught by its boundary events (10.3.8).",
    "Throw a message, a signal, an error or an escalation.",
)
THROWABLE = (MessageEvent, SignalEvent, ErrorEvent, EscalationEvent)
LOOP_WITHOUT_END = error(
    "LOOP_WITHOUT_END",
    "A loop says when it is over: a condition or a maximum (10.3.8).",
    "Add a loopCondition, or a loopMaximum.",
)


class Repetition:
    def __init__(self, draft: Draft, texts: Texts, data: DataNames) -> None:
        self._draft = draft
        self._texts = texts
        self._data = data
        self._events = Events(draft.process, draft.definitions, texts, draft.findings)

    def wrap_all(self) -> None:
        bodies = {
            node.id: self._wrap(node, node.loop)
            for node in self._draft.elements.values()
            if isinstance(node, model.Activity) and node.loop and not self._is_event_handler(node)
        }
        if bodies:
            _move_into_scopes(self._draft, bodies)
            _move_flows(self._draft, bodies)
            _move_references(self._draft.nodes.values(), bodies)

    def _is_event_handler(self, node: model.Activity) -> bool:
        return self._draft.is_event_handler(self._draft.nodes[node.id])

    def _wrap(self, activity: model.Activity, loop: model.StandardLoop | model.MultiInstance) -> str:
        inner = self._draft.nodes[activity.id]
        outer = self._draft.scopes[inner.scope]
        spec = (
            self._loop(activity, loop)
            if isinstance(loop, model.StandardLoop)
            else self._multi_instance(activity, loop)
        )
        body = _body_around(inner, spec)
        self._associate(body, activity)
        self._draft.nodes[body.id] = body
        self._draft.scopes[body.id] = ScopeDraft(
            id=body.id, parent=outer.id, kind="repeat", nodes=[inner.id], starts=[inner.id]
        )
        if inner.kind is Kind.SCOPE:
            self._draft.scopes[inner.id].parent = body.id
        inner.scope = body.id
        return body.id

    def _associate(self, body: NodeDraft, activity: model.Activity) -> None:
        found = associated(activity, self._data, self._draft, self._texts, as_a_whole=True)
        body.inputs, body.outputs = tuple(found.inputs), tuple(found.outputs)
        body.data = found.needs(activity.io)

    # -------------------------------------------------------------- standard loop

    def _loop(self, activity: model.Activity, loop: model.StandardLoop) -> graph.Repeat:
        if loop.maximum is not None and loop.maximum < 0:
            self._refuse_count(activity, f"the loop's maximum {loop.maximum} is negative", loop.line)
        if loop.condition is None and loop.maximum is None:
            message = "the loop does not say when it is over"
            self._draft.findings.add(
                LOOP_WITHOUT_END.at(message, element_id=activity.id, line=loop.line or activity.line)
            )
        return graph.Repeat(
            inner=activity.id,
            mode="loop",
            condition=self._texts.optional(loop.condition, activity),
            test_before=loop.test_before,
            maximum=loop.maximum,
        )

    # -------------------------------------------------------------- multi-instance

    def _multi_instance(self, activity: model.Activity, loop: model.MultiInstance) -> graph.Repeat:
        settings = loop.settings
        cardinality = self._texts.optional(loop.cardinality, activity)
        collection = self._collection(activity, loop)
        self._check_count(activity, loop, cardinality, collection)
        return graph.Repeat(
            inner=activity.id,
            mode="sequential" if loop.sequential else "parallel",
            cardinality=cardinality,
            collection=collection,
            element_variable=input_variable(loop),
            output_collection=settings.output_collection or self._output_collection(activity, loop),
            output_element=self._output_element(activity, loop),
            completion=self._texts.optional(loop.completion_condition, activity),
            counter_base=settings.loop_counter_base,
            behavior=loop.behavior,
            one_event=self._thrown(loop.one_event, activity),
            none_event=self._thrown(loop.none_event, activity),
            complex_events=tuple(
                (
                    self._texts.expression(complex_behavior.condition, activity),
                    self._complex(complex_behavior, activity),
                )
                for complex_behavior in loop.complex_behaviors
            ),
        )

    def _collection(self, activity: model.Activity, loop: model.MultiInstance) -> Expression | None:
        if loop.settings.collection:
            return self._texts.optional(loop.settings.collection, activity)
        if loop.input_data is None:
            return None
        return self._variable(self._source(activity, loop.input_data), activity)

    def _output_collection(self, activity: model.Activity, loop: model.MultiInstance) -> str | None:
        if loop.output_data is None:
            return None
        return identifier(self._target(activity, loop.output_data))

    def _output_element(self, activity: model.Activity, loop: model.MultiInstance) -> Expression | None:
        if loop.settings.output_element:
            return self._texts.optional(loop.settings.output_element, activity)
        item = output_variable(loop)
        return self._variable(item, activity) if item else None

    def _variable(self, name: str, activity: model.Activity) -> Expression:
        language = OWN_LANGUAGE if name.isidentifier() else ""  # a name is one in every language
        return self._texts.expression(Text(name, language, activity.line), activity)

    def _source(self, activity: model.Activity, reference: str) -> str:
        """The variable that a collection is read from: of a data input that is a mere copy, the original.

        What refers to no data item is a variable's name or an expression, as some engines allow.
        """
        filled = [
            association
            for association in activity.data_associations
            if association.direction == "input" and association.target == reference
        ]
        if filled and _is_copy(filled[-1]):
            reference = filled[-1].sources[0]
        return self._data.variables.get(reference) or _own_data(activity).get(reference) or reference

    def _target(self, activity: model.Activity, reference: str) -> str:
        """The variable that a collection is written to: a data output, from which associations take it
        along; one that is not declared is what it is associated with."""
        own = _own_data(activity)
        if reference in own:
            return own[reference]
        for association in activity.data_associations:
            if association.direction == "output" and reference in association.sources:
                reference = association.target or reference
        return self._data.variables.get(reference) or reference

    def _thrown(self, reference: str | None, activity: model.Activity) -> EventSpec | None:
        definition = self._draft.definitions.event_definitions.get(reference or "")
        return self._throwable(definition, activity) if definition else None

    def _complex(self, behavior: model.ComplexBehavior, activity: model.Activity) -> EventSpec | None:
        return self._throwable(behavior.event, activity) if behavior.event else None

    def _throwable(self, definition: model.EventDefinition, activity: model.Activity) -> EventSpec | None:
        spec = self._events.spec(definition, activity, throws=True)
        if spec is None or isinstance(spec, THROWABLE):
            return spec
        message = "a run of a multi-instance activity throws a message, a signal, an error or an escalation"
        self._draft.findings.add(BEHAVIOR_EVENT.at(message, element_id=activity.id, line=activity.line))
        return None

    # -------------------------------------------------------------- counts known at deploy

    def _check_count(
        self,
        activity: model.Activity,
        loop: model.MultiInstance,
        cardinality: Expression | None,
        collection: Expression | None,
    ) -> None:
        line = loop.line or activity.line
        if cardinality is None and collection is None:
            message = "the activity does not say how often it runs"
            self._draft.findings.add(REPETITION_WITHOUT_COUNT.at(message, element_id=activity.id, line=line))
        if cardinality is not None and cardinality.is_constant:
            count = _constant(cardinality)
            if isinstance(count, bool) or not isinstance(count, int) or count < 0:
                self._refuse_count(activity, f"the cardinality {cardinality.source!r} is no count", line)

    def _refuse_count(self, activity: model.Activity, message: str, line: int) -> None:
        self._draft.findings.add(
            REPETITION_COUNT.at(message, element_id=activity.id, line=line or activity.line)
        )


def _constant(expression: Expression) -> object:
    try:
        return expression.evaluate({})
    except ExpressionError:
        return None


def _own_data(activity: model.Activity) -> dict[str, str]:
    own = (*activity.io.inputs, *activity.io.outputs) if activity.io else ()
    return {item.id: variable_name(item) for item in own}


def _is_copy(association: model.DataAssociation) -> bool:
    return bool(association.sources) and not (association.transformation or association.assignments)


def _body_around(inner: NodeDraft, spec: graph.Repeat) -> NodeDraft:
    body = NodeDraft(
        id=f"{inner.id}#body",
        kind=Kind.REPEAT,
        scope=inner.scope,
        element=inner.element,
        tag=inner.tag,
        name=inner.name,
        line=inner.line,
        spec=spec,
        is_undo=inner.is_undo,
        emit=inner.emit,
        async_before=inner.async_before,
        async_after=inner.async_after,
        deadline=inner.deadline,
        start_quantity=inner.start_quantity,
        completion_quantity=inner.completion_quantity,
        is_activity=inner.is_activity,
        default=inner.default,
    )
    inner.is_undo = inner.async_before = inner.async_after = False
    inner.emit = inner.deadline = inner.default = None
    inner.start_quantity = inner.completion_quantity = 1
    return body


def _move_into_scopes(draft: Draft, bodies: dict[str, str]) -> None:
    for scope in draft.scopes.values():
        if scope.kind != "repeat":
            scope.nodes = [bodies.get(node, node) for node in scope.nodes]


def _move_flows(draft: Draft, bodies: dict[str, str]) -> None:
    for flow in list(draft.flows.values()):
        if flow.source in bodies or flow.target in bodies:
            source = bodies.get(flow.source, flow.source)
            target = bodies.get(flow.target, flow.target)
            draft.flows[flow.id] = replace(flow, source=source, target=target)


def _move_references(nodes: Iterable[NodeDraft], bodies: dict[str, str]) -> None:
    """Boundary events hang on the body; who compensates one activity names its body."""
    for node in nodes:
        match node.spec:
            case graph.Boundary(host=host) if host in bodies:
                node.spec = replace(node.spec, host=bodies[host])
            case graph.Throw(events=events):
                moved = tuple(_moved(event, bodies) for event in events)
                if moved != events:
                    node.spec = graph.Throw(moved)


def _moved(event: EventSpec, bodies: dict[str, str]) -> EventSpec:
    if isinstance(event, CompensationEvent) and event.activity in bodies:
        return replace(event, activity=bodies[event.activity])
    return event
