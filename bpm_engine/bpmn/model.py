"""What a BPMN file says, as typed values: one class per family of elements.

`parse` turns a checked document into a `Definitions`; `compile` turns each of its processes into a
graph. The model stays close to the file (a task with a loop marker is one `Task` with a `loop`), so
that drawing, checking and reporting speak the author's words. Settings of the engine, whichever
dialect they were written in, are already the same (`settings`).

Texts that are expressions stay texts here (`text`); `compile` compiles them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from bpm_engine.bpmn.diagram import Diagram
from bpm_engine.bpmn.frozen import FrozenDict
from bpm_engine.bpmn.settings import NO_SETTINGS, Settings
from bpm_engine.bpmn.text import Text


@dataclass(frozen=True, slots=True, kw_only=True)
class Element:
    """What every element of a file carries. `id` is derived, stable and unique where the file has none."""

    id: str
    name: str = ""
    documentation: str = ""
    line: int = 0


# ------------------------------------------------------------------ root elements


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemDefinition(Element):
    structure: str = ""
    is_collection: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Message(Element):
    item: str | None = None
    correlation_key: Text | None = None  # zeebe:subscription on the message
    payload_variable: str | None = None  # spiffworkflow:messageVariable on the message


@dataclass(frozen=True, slots=True, kw_only=True)
class Signal(Element):
    item: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Error(Element):
    code: str | None = None
    message: Text | None = None  # camunda:errorMessage: what a thrown error says


@dataclass(frozen=True, slots=True, kw_only=True)
class Escalation(Element):
    code: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DataStore(Element):
    capacity: int | None = None
    is_unlimited: bool = True
    item: str | None = None


@dataclass(frozen=True, slots=True)
class CorrelationProperty:
    """One path into each message that carries the property."""

    id: str
    name: str
    paths: Mapping[str, Text]  # message id -> message path


@dataclass(frozen=True, slots=True)
class CorrelationKey:
    id: str
    name: str
    properties: tuple[str, ...]


# ------------------------------------------------------------------ event definitions (positions are apart)


@dataclass(frozen=True, slots=True, kw_only=True)
class EventDefinition(Element):
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageDefinition(EventDefinition):
    message: str | None = None  # id of the root element
    expression: Text | None = None  # of a dialect: the name, computed
    operation: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TimerDefinition(EventDefinition):
    kind: Literal["date", "duration", "cycle", "none"] = "none"
    text: Text | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalDefinition(EventDefinition):
    signal: str | None = None
    expression: Text | None = None  # of a dialect: the name, computed


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorDefinition(EventDefinition):
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EscalationDefinition(EventDefinition):
    escalation: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionalDefinition(EventDefinition):
    condition: Text | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CompensateDefinition(EventDefinition):
    activity: str | None = None
    wait_for_completion: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkDefinition(EventDefinition):
    target: str | None = None
    sources: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TerminateDefinition(EventDefinition):
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelDefinition(EventDefinition):
    pass


# ------------------------------------------------------------------ data


@dataclass(frozen=True, slots=True, kw_only=True)
class DataItem(Element):
    """Data object, data object reference, data store reference, property, data input or output."""

    kind: Literal["object", "object_reference", "store_reference", "property", "input", "output"]
    refers_to: str | None = None
    item: str | None = None
    is_collection: bool = False
    state: str = ""
    initial: Text | None = None  # what a dialect gives it at its birth


@dataclass(frozen=True, slots=True)
class DataAssignment:
    source: Text
    target: Text


@dataclass(frozen=True, slots=True, kw_only=True)
class DataAssociation(Element):
    direction: Literal["input", "output"]
    sources: tuple[str, ...] = ()
    target: str | None = None
    transformation: Text | None = None
    assignments: tuple[DataAssignment, ...] = ()


@dataclass(frozen=True, slots=True)
class DataSet:
    """An input or output set: ids of data inputs or outputs."""

    required: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class IoSpecification:
    inputs: tuple[DataItem, ...] = ()
    outputs: tuple[DataItem, ...] = ()
    input_sets: tuple[DataSet, ...] = ()
    output_sets: tuple[DataSet, ...] = ()


# ------------------------------------------------------------------ flow elements


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceFlow(Element):
    source: str
    target: str
    condition: Text | None = None
    is_immediate: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowNode(Element):
    tag: str  # local name in the file: "serviceTask", "exclusiveGateway", …
    settings: Settings = NO_SETTINGS


@dataclass(frozen=True, slots=True)
class StandardLoop:
    condition: Text | None = None
    test_before: bool = False
    maximum: int | None = None
    line: int = 0


@dataclass(frozen=True, slots=True)
class MultiInstance:
    sequential: bool = False
    cardinality: Text | None = None
    completion_condition: Text | None = None
    input_data: str | None = None  # loopDataInputRef
    output_data: str | None = None
    input_item: str | None = None  # inputDataItem's name
    output_item: str | None = None
    input_item_id: str | None = None  # by which data associations refer to it
    output_item_id: str | None = None
    behavior: Literal["None", "One", "All", "Complex"] = "All"
    one_event: str | None = None
    none_event: str | None = None
    complex_behaviors: tuple[ComplexBehavior, ...] = ()
    settings: Settings = NO_SETTINGS  # collection, element variable … of this marker
    line: int = 0


@dataclass(frozen=True, slots=True)
class ComplexBehavior:
    condition: Text
    event: EventDefinition | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Activity(FlowNode):
    default: str | None = None
    is_for_compensation: bool = False
    start_quantity: int = 1
    completion_quantity: int = 1
    loop: StandardLoop | MultiInstance | None = None
    io: IoSpecification | None = None
    data_associations: tuple[DataAssociation, ...] = ()
    properties: tuple[DataItem, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Task(Activity):
    """`tag`: task, manualTask, serviceTask, sendTask, receiveTask, userTask, scriptTask, businessRuleTask."""

    message: str | None = None  # send, receive
    operation: str | None = None
    implementation: str | None = None
    instantiate: bool = False
    script: Text | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CallActivity(Activity):
    called_element: Text | None = None


@dataclass(frozen=True, slots=True)
class Lane:
    """A node belongs to its innermost lane only. Outer lanes come before the lanes inside them."""

    id: str
    name: str
    nodes: tuple[str, ...]
    parent: str | None = None  # the lane around this one


@dataclass(frozen=True, slots=True)
class Association:
    id: str
    source: str
    target: str
    direction: Literal["None", "One", "Both"] = "None"
    line: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """The flow elements of a process or sub-process, in document order."""

    nodes: tuple[FlowNode, ...] = ()
    flows: tuple[SequenceFlow, ...] = ()
    data: tuple[DataItem, ...] = ()
    associations: tuple[Association, ...] = ()
    lanes: tuple[Lane, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SubProcess(Activity):
    """`tag`: subProcess, transaction, adHocSubProcess."""

    content: Container
    triggered_by_event: bool = False
    ordering: Literal["Parallel", "Sequential"] = "Parallel"  # ad-hoc
    completion_condition: Text | None = None
    cancel_remaining: bool = True
    method: str = ""  # transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class Gateway(FlowNode):
    """`tag`: exclusiveGateway, parallelGateway, inclusiveGateway, eventBasedGateway, complexGateway."""

    direction: Literal["Unspecified", "Converging", "Diverging", "Mixed"] = "Unspecified"
    default: str | None = None
    instantiate: bool = False
    event_type: Literal["Exclusive", "Parallel"] = "Exclusive"
    activation_condition: Text | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Event(FlowNode):
    """`tag`: startEvent, endEvent, intermediateCatchEvent, intermediateThrowEvent, boundaryEvent."""

    definitions: tuple[EventDefinition, ...] = ()
    parallel_multiple: bool = False
    attached_to: str | None = None
    interrupting: bool = True  # cancelActivity / isInterrupting
    data_associations: tuple[DataAssociation, ...] = ()
    data_items: tuple[DataItem, ...] = ()
    properties: tuple[DataItem, ...] = ()


# ------------------------------------------------------------------ processes and the file


@dataclass(frozen=True, slots=True)
class CorrelationSubscription:
    key: str
    bindings: Mapping[str, Text]  # correlation property id -> data path


@dataclass(frozen=True, slots=True, kw_only=True)
class Process(Element):
    content: Container
    executable: bool | None = None  # None: the file does not say
    kind: str = "None"
    properties: tuple[DataItem, ...] = ()
    io: IoSpecification | None = None
    correlation_subscriptions: tuple[CorrelationSubscription, ...] = ()
    settings: Settings = NO_SETTINGS


@dataclass(frozen=True, slots=True, kw_only=True)
class GlobalTask(Element):
    tag: str
    settings: Settings = NO_SETTINGS
    script: Text | None = None
    io: IoSpecification | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Participant(Element):
    process: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageFlow(Element):
    source: str
    target: str
    message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Collaboration(Element):
    participants: tuple[Participant, ...] = ()
    message_flows: tuple[MessageFlow, ...] = ()
    correlation_keys: tuple[CorrelationKey, ...] = ()


@dataclass(frozen=True, slots=True)
class Annotation:
    """Text annotation or group: drawn, not executed."""

    id: str
    text: str
    kind: Literal["text", "group"] = "text"


@dataclass(frozen=True, slots=True, kw_only=True)
class Definitions:
    """A whole file."""

    id: str = ""
    name: str = ""
    target_namespace: str = ""
    exporter: str = ""
    expression_language: str = ""
    processes: tuple[Process, ...] = ()
    collaborations: tuple[Collaboration, ...] = ()
    messages: Mapping[str, Message] = field(default_factory=FrozenDict)
    signals: Mapping[str, Signal] = field(default_factory=FrozenDict)
    errors: Mapping[str, Error] = field(default_factory=FrozenDict)
    escalations: Mapping[str, Escalation] = field(default_factory=FrozenDict)
    items: Mapping[str, ItemDefinition] = field(default_factory=FrozenDict)
    data_stores: Mapping[str, DataStore] = field(default_factory=FrozenDict)
    global_tasks: Mapping[str, GlobalTask] = field(default_factory=FrozenDict)
    correlation_properties: Mapping[str, CorrelationProperty] = field(default_factory=FrozenDict)
    event_definitions: Mapping[str, EventDefinition] = field(
        default_factory=FrozenDict
    )  # of the whole file, by id
    annotations: tuple[Annotation, ...] = ()
    associations: tuple[Association, ...] = ()  # of annotations, for drawing
    diagrams: tuple[Diagram, ...] = ()


def walk(container: Container) -> Iterator[tuple[FlowNode, Container]]:
    """Every flow node with the container it lies in, outermost first, iteratively."""
    pending = [container]
    while pending:
        current = pending.pop()
        for node in current.nodes:
            yield node, current
            if isinstance(node, SubProcess):
                pending.append(node.content)
