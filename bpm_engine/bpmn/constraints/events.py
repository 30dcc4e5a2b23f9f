"""Events: which definitions stand in which position, and what a definition needs to be usable."""

from __future__ import annotations

from bpm_engine.bpmn.constraints.facts import (
    Element,
    Facts,
    Scrutiny,
    a,
    child,
    children,
    has_vendor_content,
    is_true,
    name_of,
    named,
)
from bpm_engine.bpmn.constraints.messages import how_to_name
from bpm_engine.bpmn.schema import GROUPS
from bpm_engine.problems import error, warning

EVENT_NOT_ALLOWED = error(
    "EVENT_NOT_ALLOWED",
    "An event definition stands in a position that BPMN allows for it (BPMN 2.0.2, table 10.93).",
    "Move the event, or choose another definition.",
)
EVENT_DEFINITION_MISSING = error(
    "EVENT_DEFINITION_MISSING",
    "Catching intermediate, boundary and event sub-process start events say what they wait for (10.5).",
    "Add an event definition.",
)
EVENT_SUBPROCESS_START = error(
    "EVENT_SUBPROCESS_START",
    "An event sub-process has exactly one start event (10.3.5).",
    "Use one event sub-process per trigger.",
)
EVENT_DEFINITION_SHARED = error(
    "EVENT_DEFINITION_SHARED",
    "A definition inside a throwing event belongs to that event alone (10.5.1).",
    "Move the definition to the top of the file.",
)
CANCEL_OUTSIDE_TRANSACTION = error(
    "CANCEL_OUTSIDE_TRANSACTION",
    "Cancel events belong to transactions: the end event inside, the boundary event on it (10.5.3, 10.5.4).",
    "Make the sub-process a transaction, or use an error.",
)
CANCEL_BOUNDARY_MISSING = error(
    "CANCEL_BOUNDARY_MISSING",
    "A transaction that can be cancelled has a cancel boundary event to leave by (10.3.5).",
    "Attach a cancel boundary event to the transaction.",
)
PARALLEL_MULTIPLE_TRIGGER = error(
    "PARALLEL_MULTIPLE_TRIGGER",
    "A parallel multiple event needs triggers that can come beside others (10.5.1). A cancelled transaction "
    "leaves by its cancel event at once (10.3.5), compensation begins when nothing else can come any more "
    "(10.7), and of two errors the first ends what could throw the second (10.5.6).",
    "Use an event of its own for it, or one that any of its triggers triggers.",
)
MESSAGE_MISSING = error(
    "MESSAGE_MISSING",
    "A message event of an executable process names its message (10.5.5).",
    "Declare the message and refer to it by messageRef; a message flow alone joins nothing.",
)
SIGNAL_MISSING = error(
    "SIGNAL_MISSING",
    "A signal event of an executable process names its signal (10.5.5).",
    "Declare the signal and refer to it by signalRef.",
)
ESCALATION_CODE_MISSING = error(
    "ESCALATION_CODE_MISSING",
    "An escalation thrown in an executable process has a code (8.4.4).",
    "Refer to an escalation that has an escalationCode.",
)
ERROR_CODE_MISSING = error(
    "ERROR_CODE_MISSING",
    "An error thrown in an executable process has a code (8.4.3).",
    "Refer to an error that has an errorCode.",
)
MESSAGE_NOT_NAMED = warning(
    "MESSAGE_NOT_NAMED",
    "A throwing message event without a message sends nothing by itself.",
    "Refer to a message, or give the event a handler.",
)

_ON_ITS_OWN = frozenset({"message", "timer", "conditional", "signal"})
_START = _ON_ITS_OWN
_EVENT_SUBPROCESS_INTERRUPTING = _ON_ITS_OWN | {"error", "escalation", "compensate"}
_NON_INTERRUPTING = _ON_ITS_OWN | {"escalation"}
_CATCH = _ON_ITS_OWN | {"link"}
_BOUNDARY_INTERRUPTING = _ON_ITS_OWN | {"error", "escalation", "cancel", "compensate"}
_THROW = frozenset({"message", "escalation", "link", "compensate", "signal"})
_END = frozenset({"message", "error", "escalation", "cancel", "compensate", "signal", "terminate"})


def check_events(facts: Facts) -> None:
    for event in facts.each("Event"):
        _check_position(facts, event)
        _check_sharing(facts, event)
        for definition in facts.definitions(event):
            _check_definition(facts, event, definition)
    for subprocess in facts.each("Subprocess"):
        if is_true(subprocess, "triggeredByEvent"):
            _check_event_subprocess(facts, subprocess)
    for transaction in facts.by_name["transaction"]:
        _check_transaction(facts, transaction)


# ------------------------------------------------------------------ positions


def _check_position(facts: Facts, event: Element) -> None:
    allowed, position, needed = _position(event)
    triggers = facts.triggers(event)
    for trigger in triggers:
        if trigger not in allowed:
            message = f"{named(event)} is {position}, where {a(trigger)} definition may not stand"
            facts.report(EVENT_NOT_ALLOWED, event, message, Scrutiny.RUNNABLE)
    if is_true(event, "parallelMultiple"):
        _check_all_needed(facts, event)
    if needed and not triggers and not children(event, "eventDefinitionRef"):
        message = f"{named(event)} does not say what it waits for"
        facts.report(EVENT_DEFINITION_MISSING, event, message, Scrutiny.RUNNABLE)


def _check_all_needed(facts: Facts, event: Element) -> None:
    names = [name_of(each).removesuffix("EventDefinition") for each in facts.definitions(event)]
    if len(names) < 2:
        return
    alone: list[str] = [name for name in ("cancel", "compensate") if name in names]
    if names.count("error") > 1:
        alone.append("second error")
    for name in alone:
        message = f"{named(event)} needs all of its triggers, and {a(name)} does not come beside others"
        facts.report(PARALLEL_MULTIPLE_TRIGGER, event, message, Scrutiny.RUNNABLE)


def _position(event: Element) -> tuple[frozenset[str], str, bool]:
    """Which triggers are allowed, how the position is called, and whether one is needed."""
    match name_of(event):
        case "startEvent":
            return _start_position(event)
        case "intermediateCatchEvent":
            return _CATCH, "a catching intermediate event", True
        case "boundaryEvent" if is_true(event, "cancelActivity", default=True):
            return _BOUNDARY_INTERRUPTING, "an interrupting boundary event", True
        case "boundaryEvent":
            return _NON_INTERRUPTING, "a non-interrupting boundary event", True
        case "endEvent":
            return _END, "an end event", False
        case _:
            return _THROW, "a throwing intermediate event", False


def _start_position(event: Element) -> tuple[frozenset[str], str, bool]:
    scope = event.getparent()
    if scope is None or name_of(scope) not in GROUPS["Subprocess"]:
        return _START, "the start of a process", False
    if not is_true(scope, "triggeredByEvent"):
        return frozenset(), "the start of a sub-process that a flow enters", False
    if is_true(event, "isInterrupting", default=True):
        return _EVENT_SUBPROCESS_INTERRUPTING, "the interrupting start of an event sub-process", True
    return _NON_INTERRUPTING, "the non-interrupting start of an event sub-process", True


def _check_event_subprocess(facts: Facts, subprocess: Element) -> None:
    count = len(children(subprocess, "startEvent"))
    if count != 1:
        message = f"{named(subprocess)} has {count} start events"
        facts.report(EVENT_SUBPROCESS_START, subprocess, message, Scrutiny.RUNNABLE)


def _check_sharing(facts: Facts, event: Element) -> None:
    for reference in children(event, "eventDefinitionRef"):
        target = facts.resolve((reference.text or "").strip())
        holder = target.getparent() if target is not None else None
        if holder is not None and name_of(holder) in GROUPS["ThrowEvent"]:
            message = f"{named(event)} uses the definition inside {named(holder)}"
            facts.report(EVENT_DEFINITION_SHARED, event, message, Scrutiny.RUNNABLE)


# ------------------------------------------------------------------ cancel


def _check_transaction(facts: Facts, transaction: Element) -> None:
    cancels = [end for end in _ends_within(transaction) if "cancel" in facts.triggers(end)]
    caught = any("cancel" in facts.triggers(event) for event in facts.boundaries.get(transaction, ()))
    if cancels and not caught:
        message = f"{named(cancels[0])} cancels {named(transaction)}, which has no cancel boundary event"
        facts.report(CANCEL_BOUNDARY_MISSING, transaction, message, Scrutiny.RUNNABLE)


def _ends_within(scope: Element) -> list[Element]:
    """The end events of a transaction, also those inside its plain sub-processes."""
    found = children(scope, "endEvent")
    for inner in children(scope, "subProcess", "adHocSubProcess"):
        found.extend(_ends_within(inner))
    return found


def _check_cancel(facts: Facts, event: Element) -> None:
    if name_of(event) == "boundaryEvent":
        host = facts.resolve(event.get("attachedToRef"))
        fits = host is None or name_of(host) == "transaction"
    else:
        fits = any(name_of(around) == "transaction" for around in event.iterancestors())
    if not fits:
        message = f"{named(event)} cancels, and there is no transaction"
        facts.report(CANCEL_OUTSIDE_TRANSACTION, event, message, Scrutiny.RUNNABLE)


# ------------------------------------------------------------------ what a definition refers to


def _check_definition(facts: Facts, event: Element, definition: Element) -> None:
    throws = name_of(event) in GROUPS["ThrowEvent"]
    match name_of(definition):
        case "cancelEventDefinition" if name_of(event) in {"boundaryEvent", "endEvent"}:
            _check_cancel(facts, event)
        case "messageEventDefinition" if not definition.get("messageRef"):
            _check_message(facts, event, definition, throws)
        case "signalEventDefinition" if not definition.get("signalRef") and not has_vendor_content(
            definition
        ):
            facts.report(SIGNAL_MISSING, event, f"{named(event)} names no signal", Scrutiny.EXECUTABLE)
        case "escalationEventDefinition" if throws:
            _check_code(facts, event, definition, "escalation")
        case "errorEventDefinition" if throws:
            _check_code(facts, event, definition, "error")
        case _:
            pass


def _check_message(facts: Facts, event: Element, definition: Element, throws: bool) -> None:
    if has_vendor_content(definition) or has_vendor_content(event):
        return  # a dialect says how the message is made
    message = f"{named(event)} names no message"
    if throws and child(definition, "operationRef") is None:
        hint = f"{how_to_name(facts, event)} Or give the event a handler by bpm:topic."
        facts.report(MESSAGE_NOT_NAMED, event, message, hint=hint)
    else:
        facts.report(MESSAGE_MISSING, event, message, Scrutiny.EXECUTABLE, hint=how_to_name(facts, event))


def _check_code(facts: Facts, event: Element, definition: Element, kind: str) -> None:
    rule = ESCALATION_CODE_MISSING if kind == "escalation" else ERROR_CODE_MISSING
    reference = definition.get(f"{kind}Ref")
    target = facts.resolve(reference)
    if not reference:
        facts.report(rule, event, f"{named(event)} throws without naming its {kind}", Scrutiny.EXECUTABLE)
    elif target is not None and not target.get(f"{kind}Code"):
        message = f"{named(event)} throws the {kind} {reference!r}, which has no {kind}Code"
        facts.report(rule, event, message, Scrutiny.EXECUTABLE)
