"""Data that crosses a border: operations, messages, events and called elements agree with the data around."""

from __future__ import annotations

from bpm_engine.bpmn.constraints.data import ITEM_MISMATCH
from bpm_engine.bpmn.constraints.facts import (
    Element,
    Facts,
    Scrutiny,
    child,
    children,
    is_true,
    name_of,
    named,
    text_in,
)
from bpm_engine.bpmn.constraints.items import has_classes, item_of, same_item, same_items
from bpm_engine.bpmn.schema import GROUPS
from bpm_engine.problems import error

OPERATION_WITHOUT_IO = error(
    "OPERATION_WITHOUT_IO",
    "A task that calls a web service operation has one input set and at most one output set (10.3.3).",
    "Add an ioSpecification with one input set for the message to send.",
)
MESSAGE_DATA_SURPLUS = error(
    "MESSAGE_DATA_SURPLUS",
    "A task sends one data input as its message, or receives its message as one data output (10.3.3).",
    "Keep the data that the message carries.",
)
SERVICE_NOT_BOUND = error(
    "SERVICE_NOT_BOUND",
    "What is offered as a service binds its data to an operation of that service (10.4.2).",
    "Add an ioBinding, or remove supportedInterfaceRef.",
)
EVENT_DATA_MISSING = error(
    "EVENT_DATA_MISSING",
    "An event with data and several definitions has one data element for each item they carry (10.5.1).",
    "Add the missing dataInput or dataOutput.",
)
CALL_DATA_MISMATCH = error(
    "CALL_DATA_MISMATCH",
    "A call activity has the same inputs and outputs as what it calls (10.3.6).",
    "Give both the same data inputs and outputs.",
)

_PAYLOADS = {
    "message": "messageRef",
    "signal": "signalRef",
    "error": "errorRef",
    "escalation": "escalationRef",
}


def check_interfaces(facts: Facts) -> None:
    for task in facts.each("serviceTask", "sendTask", "receiveTask"):
        _check_task(facts, task)
    for event in facts.each("Event"):
        _check_event(facts, event)
    _check_calls(facts)
    for offered in facts.each("Callable"):
        _check_service(facts, offered)
    for binding in facts.by_name["ioBinding"]:
        _check_binding(facts, binding)
    for loop in facts.by_name["multiInstanceLoopCharacteristics"]:
        _check_loop(facts, loop)


def _agree(facts: Facts, at: Element, data: Element | None, carrier: Element | None) -> None:
    """Report data whose item differs from that of the message (signal, …) that carries it."""
    if data is None or carrier is None:
        return
    if name_of(at) in GROUPS["Activity"] and _lacks_item(facts, data, carrier):
        message = f"{named(data)} has no item definition, and {named(carrier)} has one"
        facts.report(ITEM_MISMATCH, at, message, Scrutiny.EXECUTABLE)
    if not same_item(facts, item_of(facts, data), item_of(facts, carrier)):
        message = f"{named(data)} and {named(carrier)} have different item definitions"
        # No process says whether a global task is meant to be executed; none means it is not.
        outside = facts.process_of.get(at) is None
        facts.report(ITEM_MISMATCH, at, message, Scrutiny.RUNNABLE if outside else Scrutiny.EXECUTABLE)


def _lacks_item(facts: Facts, data: Element, carrier: Element) -> bool:
    """What a task sends or receives has the item of the message (10.3.3)."""
    return not data.get("itemSubjectRef") and item_of(facts, carrier) is not None and not has_classes(facts)


def _referred(facts: Facts, element: Element | None, name: str) -> Element | None:
    reference = child(element, name) if element is not None else None
    return facts.resolve(text_in(reference)) if reference is not None else None


# ------------------------------------------------------------------ tasks that send and receive


def _check_task(facts: Facts, task: Element) -> None:
    operation = facts.resolve(task.get("operationRef"))
    specification = child(task, "ioSpecification")
    if specification is None:
        if operation is not None and name_of(task) == "serviceTask" and _is_web_service(task):
            message = f"{named(task)} calls {named(operation)} and has no ioSpecification"
            facts.report(OPERATION_WITHOUT_IO, task, message, Scrutiny.EXECUTABLE)
        return
    message_element = facts.resolve(task.get("messageRef"))
    if operation is None and message_element is None:
        return
    _check_set_counts(facts, task, specification)
    if message_element is not None:
        _check_data_counts(facts, task, specification)
    inputs, outputs = children(specification, "dataInput"), children(specification, "dataOutput")
    sent = message_element if message_element is not None else _referred(facts, operation, "inMessageRef")
    if name_of(task) != "receiveTask" and inputs:
        _agree(facts, task, inputs[0], sent)
    if name_of(task) == "receiveTask" and outputs:
        _agree(facts, task, outputs[0], sent)
    if name_of(task) == "serviceTask" and outputs:
        _agree(facts, task, outputs[0], _referred(facts, operation, "outMessageRef"))


def _is_web_service(task: Element) -> bool:
    return (task.get("implementation") or "##WebService") == "##WebService"


def _check_set_counts(facts: Facts, task: Element, specification: Element) -> None:
    for name in ("inputSet", "outputSet"):
        count = len(children(specification, name))
        if count > 1:
            message = f"{named(task)} has {count} {name}s for one message"
            facts.report(OPERATION_WITHOUT_IO, task, message, Scrutiny.RUNNABLE)


def _check_data_counts(facts: Facts, task: Element, specification: Element) -> None:
    name = "dataOutput" if name_of(task) == "receiveTask" else "dataInput"
    count = len(children(specification, name))
    if count > 1:
        message = f"{named(task)} has {count} {name}s for one message"
        facts.report(MESSAGE_DATA_SURPLUS, task, message, Scrutiny.EXECUTABLE)


# ------------------------------------------------------------------ events


def _check_event(facts: Facts, event: Element) -> None:
    data = children(event, "dataInput" if name_of(event) in GROUPS["ThrowEvent"] else "dataOutput")
    if not data:
        return
    carriers = [
        carrier for each in facts.definitions(event) if (carrier := _payload(facts, each)) is not None
    ]
    items = [item for carrier in carriers if (item := item_of(facts, carrier)) is not None]
    if len(items) > 1 and len(data) != len(items):
        message = f"{named(event)} has {len(data)} data elements for {len(items)} items"
        facts.report(EVENT_DATA_MISSING, event, message, Scrutiny.EXECUTABLE)
    elif len(items) == len(data) and not same_items(facts, [item_of(facts, each) for each in data], items):
        message = f"the data of {named(event)} and what it catches or throws have different item definitions"
        facts.report(ITEM_MISMATCH, event, message, Scrutiny.EXECUTABLE)


def _payload(facts: Facts, definition: Element) -> Element | None:
    reference = _PAYLOADS.get(name_of(definition).removesuffix("EventDefinition"))
    return facts.resolve(definition.get(reference)) if reference else None


# ------------------------------------------------------------------ calls, bindings, multi-instance


def _check_calls(facts: Facts) -> None:
    signatures: dict[tuple[Element, str], list[Element | None]] = {}

    def signature(specification: Element, kind: str) -> list[Element | None]:
        key = (specification, kind)
        if key not in signatures:
            signatures[key] = [item_of(facts, each) for each in children(specification, kind)]
        return signatures[key]

    specifications = {each: child(each, "ioSpecification") for each in facts.each("Callable")}
    for call in facts.by_name["callActivity"]:
        called = facts.resolve(call.get("calledElement"))
        own, other = (
            child(call, "ioSpecification"),
            specifications.get(called) if called is not None else None,
        )
        if called is None or own is None or other is None:
            continue
        for kind in ("dataInput", "dataOutput"):
            ours, theirs = signature(own, kind), signature(other, kind)
            if len(ours) != len(theirs) or not same_items(facts, ours, theirs):
                message = f"{named(call)} and {named(called)} differ in their {kind}s"
                facts.report(CALL_DATA_MISMATCH, call, message, Scrutiny.EXECUTABLE)


def _check_service(facts: Facts, offered: Element) -> None:
    if child(offered, "supportedInterfaceRef") is not None and child(offered, "ioBinding") is None:
        message = f"{named(offered)} is offered as a service and has no ioBinding"
        facts.report(SERVICE_NOT_BOUND, offered, message, Scrutiny.RUNNABLE)


def _check_binding(facts: Facts, binding: Element) -> None:
    operation = facts.resolve(binding.get("operationRef"))
    for attribute, reference in (("inputDataRef", "inMessageRef"), ("outputDataRef", "outMessageRef")):
        data = facts.resolve(binding.get(attribute))
        _agree(facts, binding, data, _referred(facts, operation, reference))


def _check_loop(facts: Facts, loop: Element) -> None:
    """Where the collection's definition says what it is a collection of, the item is one of those."""
    for reference, name in (("loopDataInputRef", "inputDataItem"), ("loopDataOutputRef", "outputDataItem")):
        collection, item = _referred(facts, loop, reference), child(loop, name)
        if collection is None or item is None:
            continue
        kind = item_of(facts, collection)
        if kind is not None and is_true(kind, "isCollection"):
            _agree(facts, loop, item, collection)
            _check_scalar(facts, loop, item, kind)


def _check_scalar(facts: Facts, loop: Element, item: Element, collection: Element) -> None:
    """An item of texts is a text, not texts again (10.3.8)."""
    own = item_of(facts, item)
    if own is None or not is_true(own, "isCollection") or has_classes(facts):
        return
    if own is collection or own.get("structureRef") == collection.get("structureRef"):
        message = f"{named(item)} is as much a collection as what it is an item of"
        facts.report(ITEM_MISMATCH, loop, message, Scrutiny.EXECUTABLE)
