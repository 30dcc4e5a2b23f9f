"""Activities: quantities, performers, ad-hoc content, repetition, calls and scripts."""

from __future__ import annotations

from bpm_engine.bpmn.constraints.facts import (
    LOOPS,
    Element,
    Facts,
    Scrutiny,
    child,
    children,
    has_vendor_content,
    is_true,
    name_of,
    named,
)
from bpm_engine.bpmn.schema import GROUPS
from bpm_engine.problems import error, warning

QUANTITY_TOO_SMALL = error(
    "QUANTITY_TOO_SMALL",
    "startQuantity and completionQuantity are one or more (BPMN 2.0.2, 10.3).",
    "Write a positive number, or leave the attribute out.",
)
HANDLER_WITH_BOUNDARY = error(
    "HANDLER_WITH_BOUNDARY",
    "Event sub-processes and compensation handlers stand apart from the flow; no boundary event leads back.",
    "Put what may happen, and its boundary event, into a sub-process inside the handler.",
)
HANDLER_REPEATED = error(
    "HANDLER_REPEATED",
    "An event sub-process runs once for each event: it has no loop marker and no quantities (10.3.5).",
    "Put the repetition into the event sub-process.",
)
HANDLER_QUANTITY = error(
    "HANDLER_QUANTITY",
    "A compensation handler runs once for each activity that it undoes: it has no quantities (10.7.1).",
    "Remove startQuantity and completionQuantity.",
)
TRANSACTION_METHOD = warning(
    "TRANSACTION_METHOD",
    "A transaction that is cancelled is undone by compensation, whatever its method says (10.7.2).",
    "Write ##Compensate, or leave the method out.",
)
RESOURCE_ASSIGNED_TWICE = error(
    "RESOURCE_ASSIGNED_TWICE",
    "A performer is found by a resource with parameters or by an assignment expression, not both (10.3.2).",
    "Keep one of the two.",
)
AD_HOC_EMPTY = error(
    "AD_HOC_EMPTY",
    "An ad-hoc sub-process contains an activity (10.3.5).",
    "Add an activity.",
)
AD_HOC_CONTENT = error(
    "AD_HOC_CONTENT",
    "An ad-hoc sub-process has neither start nor end events: its activities start in any order (10.3.5).",
    "Remove the events, or use a plain sub-process.",
)
MULTI_INSTANCE_WITHOUT_COUNT = error(
    "MULTI_INSTANCE_WITHOUT_COUNT",
    "A multi-instance activity states its cardinality or its collection (10.3.8).",
    "Add loopCardinality or loopDataInputRef, or the collection in the engine's namespace.",
)
MULTI_INSTANCE_EVENT_MISSING = error(
    "MULTI_INSTANCE_EVENT_MISSING",
    "A multi-instance activity that throws on completion names the event to throw (10.3.8).",
    "Add the reference or definition that its `behavior` asks for.",
)
CALLED_PROCESS_NOT_STARTABLE = error(
    "CALLED_PROCESS_NOT_STARTABLE",
    "A called process has a none start event, or no start event at all (10.3.6).",
    "Add a none start event to the called process.",
)
SCRIPT_FORMAT_UNKNOWN = error(
    "SCRIPT_FORMAT_UNKNOWN",
    "scriptFormat is a media type or the name of a script language (10.3.3).",
    "Write the language, for example `bpm`, `feel` or `text/javascript`.",
)
SUBPROCESS_HAS_IO = error(
    "SUBPROCESS_HAS_IO",
    "A sub-process has no input/output specification: it sees the data around it (10.4.2).",
    "Remove the ioSpecification.",
)
PUBLIC_PROCESS_EXECUTABLE = warning(
    "PUBLIC_PROCESS_EXECUTABLE",
    "A public process describes what partners see and is not executable (10.2.1).",
    "Leave processType out.",
)

_LANGUAGES = """
    bpm feel juel javascript ecmascript js typescript groovy python python3 jython ruby jruby mvel java drools
    scala kotlin kts php perl lua bash sh shell cmd powershell csharp c# vbscript vb xpath xquery xslt
    freemarker velocity thymeleaf camel sql clojure beanshell bsh rexx tcl nashorn graal.js graaljs rhino
    secure-javascript go rust r julia matlab jexl ognl spel dmn jq jsonata aviator qlexpress
"""
_SCRIPT_LANGUAGES = frozenset(_LANGUAGES.split())


def check_activities(facts: Facts) -> None:
    for activity in facts.each("Activity"):
        _check_quantities(facts, activity)
        _check_handler(facts, activity)
    for transaction in facts.by_name["transaction"]:
        _check_method(facts, transaction)
    for role in facts.each("ResourceRole"):
        _check_role(facts, role)
    for loop in facts.by_name["multiInstanceLoopCharacteristics"]:
        _check_multi_instance(facts, loop)
    for subprocess in facts.each("Subprocess"):
        _check_subprocess(facts, subprocess)
    _check_calls(facts)
    for script in facts.by_name["scriptTask"]:
        _check_script(facts, script)
    for process in facts.by_name["process"]:
        if process.get("processType") == "Public" and is_true(process, "isExecutable"):
            facts.report(PUBLIC_PROCESS_EXECUTABLE, process, f"{named(process)} is public and executable")


def _check_quantities(facts: Facts, activity: Element) -> None:
    for attribute in ("startQuantity", "completionQuantity"):
        number = whole_number(activity.get(attribute))
        if number is not None and number < 1:
            facts.report(QUANTITY_TOO_SMALL, activity, f"{named(activity)}: {attribute} is {number}")


def _check_handler(facts: Facts, activity: Element) -> None:
    is_event, is_undo = is_true(activity, "triggeredByEvent"), is_true(activity, "isForCompensation")
    if not (is_event or is_undo):
        return
    for boundary in facts.boundaries.get(activity, []):
        message = f"{named(boundary)} stands at {named(activity)}, which is no part of the flow"
        facts.report(HANDLER_WITH_BOUNDARY, boundary, message, Scrutiny.RUNNABLE)
    counted = any(
        whole_number(activity.get(attribute)) not in (None, 1)
        for attribute in ("startQuantity", "completionQuantity")
    )
    if is_event and (counted or children(activity, *LOOPS)):
        message = f"{named(activity)} is begun by an event and repeated"
        facts.report(HANDLER_REPEATED, activity, message, Scrutiny.RUNNABLE)
    elif is_undo and counted:
        facts.report(HANDLER_QUANTITY, activity, f"{named(activity)} counts its runs", Scrutiny.RUNNABLE)


def _check_method(facts: Facts, transaction: Element) -> None:
    method = transaction.get("method") or ""
    if method.removeprefix("##").lower() in ("store", "image"):
        message = f"{named(transaction)} has the method {method} and is undone by compensation"
        facts.report(TRANSACTION_METHOD, transaction, message)


def whole_number(text: str | None) -> int | None:
    """The number, or None where the text is none; its form is checked elsewhere."""
    digits = (text or "").strip()
    return int(digits) if len(digits) < 19 and digits.lstrip("+-").isdecimal() else None


def _check_role(facts: Facts, role: Element) -> None:
    expression = child(role, "resourceAssignmentExpression")
    if expression is not None and children(role, "resourceRef", "resourceParameterBinding"):
        message = f"{named(role)} has a resource and an assignment expression"
        facts.report(RESOURCE_ASSIGNED_TWICE, role, message, Scrutiny.RUNNABLE)


# ------------------------------------------------------------------ repetition


def _check_multi_instance(facts: Facts, loop: Element) -> None:
    activity = loop.getparent()
    where = named(activity) if activity is not None else "an activity"
    if not children(loop, "loopCardinality", "loopDataInputRef") and not has_vendor_content(loop):
        message = f"{where} does not say how often it runs"
        facts.report(MULTI_INSTANCE_WITHOUT_COUNT, loop, message, Scrutiny.EXECUTABLE)
    behavior = loop.get("behavior")
    missing = {
        "One": not loop.get("oneBehaviorEventRef"),
        "None": not loop.get("noneBehaviorEventRef"),
        "Complex": child(loop, "complexBehaviorDefinition") is None,
    }
    if behavior and missing.get(behavior, False):
        message = f"{where} has the behavior {behavior} and no event for it"
        facts.report(MULTI_INSTANCE_EVENT_MISSING, loop, message, Scrutiny.EXECUTABLE)


# ------------------------------------------------------------------ sub-processes and calls


def _check_subprocess(facts: Facts, subprocess: Element) -> None:
    repeated = child(subprocess, "multiInstanceLoopCharacteristics") is not None
    if child(subprocess, "ioSpecification") is not None and not repeated:
        message = f"{named(subprocess)} has an ioSpecification"
        facts.report(SUBPROCESS_HAS_IO, subprocess, message, Scrutiny.EXECUTABLE)
    if name_of(subprocess) != "adHocSubProcess":
        return
    if not children(subprocess, *GROUPS["Activity"]):
        message = f"{named(subprocess)} contains no activity"
        facts.report(AD_HOC_EMPTY, subprocess, message, Scrutiny.EXECUTABLE)
    for event in children(subprocess, "startEvent", "endEvent"):
        message = f"{named(event)} stands in {named(subprocess)}"
        facts.report(AD_HOC_CONTENT, event, message, Scrutiny.EXECUTABLE)


def _check_calls(facts: Facts) -> None:
    waiting = {process for process in facts.by_name["process"] if _only_waits(facts, process)}
    for call in facts.by_name["callActivity"]:
        called = facts.resolve(call.get("calledElement"))
        if called is not None and called in waiting:
            message = f"{named(call)} calls {named(called)}, whose start events all wait for something"
            facts.report(CALLED_PROCESS_NOT_STARTABLE, call, message, Scrutiny.RUNNABLE)


def _only_waits(facts: Facts, process: Element) -> bool:
    starts = children(process, "startEvent")
    return bool(starts) and all(
        facts.triggers(start) or facts.references(start, "eventDefinitionRef") for start in starts
    )


def _check_script(facts: Facts, script: Element) -> None:
    language = (script.get("scriptFormat") or "").strip()
    if not language or any(mark in language for mark in "/:{"):
        return
    if language.lower() not in _SCRIPT_LANGUAGES:
        message = f"{named(script)}: scriptFormat {language!r} is no script language"
        facts.report(SCRIPT_FORMAT_UNKNOWN, script, message, Scrutiny.EXECUTABLE)
