"""The first pass: every flow node of the file becomes one node of the draft, in the scope it lies in.

One function per family of elements; after this pass nothing reads the model of the file but for loop
markers and associations.
"""

from __future__ import annotations

from dataclasses import replace

from bpm_engine.bpmn import graph, model
from bpm_engine.bpmn.compiling.data import DataNames, associated
from bpm_engine.bpmn.compiling.draft import Draft, Mappings, NodeDraft, ScopeDraft, ScopeKind
from bpm_engine.bpmn.compiling.events import Events
from bpm_engine.bpmn.compiling.tasks import Meaning, Tasks
from bpm_engine.bpmn.compiling.texts import Texts
from bpm_engine.bpmn.events import CompensationEvent, EventSpec
from bpm_engine.bpmn.expressions import Notation, compile_expression
from bpm_engine.bpmn.graph import Kind
from bpm_engine.bpmn.settings import Settings
from bpm_engine.problems import error

EVENT_WITHOUT_TRIGGER = error(
    "EVENT_WITHOUT_TRIGGER",
    "A catching intermediate or boundary event says what it waits for (10.5.4).",
    "Give the event a definition: message, timer, signal …",
)

EMPTY = compile_expression("None", notation=Notation.PLAIN)
_SCOPE_KINDS: dict[str, ScopeKind] = {"transaction": "transaction", "adHocSubProcess": "adhoc"}
_GATEWAY_KINDS = {
    "exclusiveGateway": Kind.CHOICE,
    "parallelGateway": Kind.PARALLEL,
    "inclusiveGateway": Kind.INCLUSIVE,
    "complexGateway": Kind.COMPLEX,
    "eventBasedGateway": Kind.EVENT_CHOICE,
}


class Elements:
    def __init__(self, draft: Draft, texts: Texts, data: DataNames) -> None:
        self._draft = draft
        self._texts = texts
        self._data = data
        self._events = Events(draft.process, draft.definitions, texts, draft.findings)
        self._tasks = Tasks(texts, self._events, draft.findings)

    def place_all(self) -> None:
        """Walk all containers, outermost first, without recursion: files may nest deeply."""
        process = self._draft.process
        root = ScopeDraft(id=process.id, parent=None, kind="process", saga=process.settings.saga)
        root.locals = self._data.locals((*process.properties, *process.content.data), self._texts)
        self._draft.scopes[root.id] = root
        pending: list[tuple[model.Container, str, str | None]] = [(process.content, root.id, None)]
        while pending:
            container, scope, lane = pending.pop()
            self._draft.containers.append(container)
            lanes = _lane_names(container)
            for node in container.nodes:
                if node.id in self._draft.elements or node.id == process.id:
                    self._draft.refuse(node, f"there are two elements {node.id!r}")
                    continue
                self._draft.elements[node.id] = node
                self._place(node, scope, lanes.get(node.id, lane))
                if isinstance(node, model.SubProcess):
                    pending.append((node.content, node.id, lanes.get(node.id, lane)))

    # -------------------------------------------------------------- one element

    def _place(self, node: model.FlowNode, scope: str, lane: str | None) -> None:
        match node:
            case model.SubProcess():
                self._open_scope(node, scope)
                self._add(node, scope, (Kind.SCOPE, None))
            case model.CallActivity():
                self._add(node, scope, (Kind.CALL, self._tasks.call(node)))
            case model.Task():
                self._add(node, scope, self._tasks.meaning(node, lane))
            case model.Gateway():
                self._add(node, scope, self._gateway(node))
            case model.Event():
                meaning = self._event(node)
                if meaning is not None:
                    self._add(node, scope, meaning)

    def _add(self, node: model.FlowNode, scope: str, meaning: Meaning) -> None:
        kind, spec = meaning
        settings = node.settings
        inputs, outputs, data = self._mappings(node)
        if isinstance(spec, graph.Call):
            spec = _passing(spec, settings, inputs, outputs)
        draft = NodeDraft(
            id=node.id,
            kind=kind,
            scope=scope,
            element=node.id.partition("#")[0],
            tag=node.tag,
            name=node.name,
            line=node.line,
            spec=spec,
            inputs=inputs,
            outputs=outputs,
            data=data,
            emit=settings.emit,
            async_before=settings.async_before,
            async_after=settings.async_after,
            deadline=self._texts.deadline(settings.deadline, node),
            is_activity=isinstance(node, model.Activity),
        )
        if isinstance(node, model.Activity):
            draft.start_quantity = node.start_quantity
            draft.completion_quantity = node.completion_quantity
            draft.is_undo = node.is_for_compensation and not _is_event_sub_process(node)
        if isinstance(node, model.Activity | model.Gateway):
            draft.default = node.default
        self._draft.add(draft)
        if kind is Kind.SCOPE:
            self._draft.scopes[node.id].isolated = bool(outputs)

    def _mappings(self, node: model.FlowNode) -> tuple[Mappings, Mappings, graph.DataNeeds | None]:
        settings = node.settings
        inputs = tuple((m.name, self._texts.expression(m.value, node)) for m in settings.inputs)
        outputs = tuple((m.name, self._texts.expression(m.value, node)) for m in settings.outputs)
        if not isinstance(node, model.Activity | model.Event):
            return inputs, outputs, None
        inputs = self._properties(node) + inputs
        if not node.data_associations:
            return inputs, outputs, None
        found = associated(node, self._data, self._draft, self._texts, (inputs, outputs))
        io = node.io if isinstance(node, model.Activity) else None
        return tuple(found.inputs), tuple(found.outputs), found.needs(io)

    def _properties(self, node: model.Activity | model.Event) -> Mappings:
        """The properties of a task are variables of each of its activations; of a scope, see its locals."""
        if not isinstance(node, model.Task):
            return ()
        return tuple((name, EMPTY) for name, _ in self._data.locals(node.properties, self._texts))

    # -------------------------------------------------------------- sub-processes

    def _open_scope(self, node: model.SubProcess, parent: str) -> None:
        kind: ScopeKind = "event" if node.triggered_by_event else _SCOPE_KINDS.get(node.tag, "embedded")
        self._draft.scopes[node.id] = ScopeDraft(
            id=node.id,
            parent=parent,
            kind=kind,
            saga=node.settings.saga,
            locals=self._data.locals((*node.properties, *node.content.data), self._texts),
            ordering=node.ordering,
            completion=self._texts.optional(node.completion_condition, node) if kind == "adhoc" else None,
            cancel_remaining=node.cancel_remaining,
            activate=self._activated(node) if kind == "adhoc" else None,
        )
        if kind == "event":
            self._attach_handler(node, self._draft.scopes[parent])

    def _activated(self, node: model.SubProcess) -> graph.Activated | None:
        asked = node.settings.activate
        match asked.source.strip() if asked else None:
            case "all" | "none" as word:
                return word
            case _:
                return self._texts.optional(asked, node)

    def _attach_handler(self, node: model.SubProcess, parent: ScopeDraft) -> None:
        """One that waits for events listens while its scope lives; one for compensation is run by that when
        the scope has ended (10.3.5). With several definitions it may be both."""
        compensates = [isinstance(each, model.CompensateDefinition) for each in _triggers(node)]
        if not compensates or not all(compensates):
            parent.handlers.append(node.id)
        if not any(compensates):
            return
        if parent.compensation_handler is not None:
            self._draft.refuse(node, f"{parent.id!r} has two compensation event sub-processes")
        parent.compensation_handler = node.id

    # -------------------------------------------------------------- gateways

    def _gateway(self, node: model.Gateway) -> Meaning:
        kind = _GATEWAY_KINDS[node.tag]
        match kind:
            case Kind.INCLUSIVE:
                return kind, graph.Inclusive()
            case Kind.COMPLEX:
                return kind, graph.Complex(self._texts.optional(node.activation_condition, node))
            case Kind.EVENT_CHOICE:
                parallel = node.event_type == "Parallel"
                return kind, graph.EventChoice((), node.instantiate, node.instantiate and parallel)
            case _:
                return kind, None

    # -------------------------------------------------------------- events

    def _event(self, event: model.Event) -> Meaning | None:
        throws = event.tag in ("intermediateThrowEvent", "endEvent")
        if throws and event.settings.topic:
            if len(event.definitions) == 1 and isinstance(event.definitions[0], model.MessageDefinition):
                return self._handled_message(event, event.settings.topic)
            self._tasks.warn_ignored_topic(event)
        specs = self._events.specs(event, throws=throws)
        match event.tag:
            case "startEvent":
                return Kind.START, graph.Start(specs, event.interrupting, event.parallel_multiple)
            case "endEvent":
                return Kind.END, graph.Throw(specs)
            case "intermediateThrowEvent":
                return (Kind.THROW, graph.Throw(specs)) if specs else (Kind.PASS, None)
            case "boundaryEvent":
                return self._boundary(event, specs)
            case _:
                return self._catch(event, specs)

    def _handled_message(self, event: model.Event, topic: str) -> Meaning:
        """A handler sends the message; an end event's token then flows to the implicit end."""
        definition = event.definitions[0]
        assert isinstance(definition, model.MessageDefinition)
        sends = (
            self._events.message(definition.message, event, event.settings) if definition.message else None
        )
        return Kind.WORK, self._tasks.work(event, topic, sends)

    def _catch(self, event: model.Event, specs: tuple[EventSpec, ...]) -> Meaning:
        if any(isinstance(definition, model.LinkDefinition) for definition in event.definitions):
            return Kind.PASS, None
        self._demand_definition(event)
        return Kind.CATCH, graph.Catch(specs, event.parallel_multiple)

    def _boundary(self, event: model.Event, specs: tuple[EventSpec, ...]) -> Meaning | None:
        """A compensation boundary is no place for tokens: it ties a handler to its host (10.5.7)."""
        self._demand_definition(event)
        waits = tuple(spec for spec in specs if not isinstance(spec, CompensationEvent))
        if not waits and specs:
            return None
        if event.attached_to is None:
            self._draft.refuse(event, "the boundary event is attached to nothing")
            return None
        return Kind.BOUNDARY, graph.Boundary(
            event.attached_to, waits, event.interrupting, event.parallel_multiple
        )

    def _demand_definition(self, event: model.Event) -> None:
        if not event.definitions:
            message = "the event does not say what it waits for"
            self._draft.findings.add(EVENT_WITHOUT_TRIGGER.at(message, element_id=event.id, line=event.line))


def _lane_names(container: model.Container) -> dict[str, str]:
    return {node: lane.name for lane in container.lanes if lane.name for node in lane.nodes}


def _is_event_sub_process(node: model.Activity) -> bool:
    return isinstance(node, model.SubProcess) and node.triggered_by_event


def _passing(spec: graph.Call, settings: Settings, inputs: Mappings, outputs: Mappings) -> graph.Call:
    """Mappings stand for everything, unless everything is asked for as well."""
    into, back = settings.pass_all_inputs, settings.pass_all_outputs
    return replace(
        spec,
        pass_all_inputs=not inputs if into is None else into,
        pass_all_outputs=not outputs if back is None else back,
    )


def _triggers(node: model.SubProcess) -> list[model.EventDefinition]:
    return [
        definition
        for start in node.content.nodes
        if isinstance(start, model.Event) and start.tag == "startEvent"
        for definition in start.definitions
    ]
