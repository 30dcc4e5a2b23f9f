"""What is worth saying about a node in a few words: its handler, its people, its events, its repetition."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import assert_never

from bpm_engine.bpmn import graph as g
from bpm_engine.bpmn.events import (
    CancelEvent,
    CompensationEvent,
    ConditionEvent,
    ErrorEvent,
    EscalationEvent,
    EventSpec,
    MessageEvent,
    SignalEvent,
    TerminateEvent,
    TimerEvent,
)
from bpm_engine.bpmn.expressions import Expression, Script

_KINDS = {
    "task": "task",
    "subProcess": "sub-process",
    "adHocSubProcess": "ad-hoc sub-process",
    "intermediateCatchEvent": "catch event",
    "intermediateThrowEvent": "throw event",
    "eventBasedGateway": "event gateway",
}


def kind_of(tag: str) -> str:
    """`serviceTask` as a person says it: "service task"."""
    if tag in _KINDS:
        return _KINDS[tag]
    return "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in tag)


def facts_of(node: g.Node) -> list[str]:
    facts = list(_of_spec(node.spec)) if node.spec else []
    if node.undo:
        facts.append(f"undone by {node.undo}")
    if node.emit:
        facts.append(f"emits {node.emit}")
    if node.deadline:
        facts.append(f"deadline {_source(node.deadline)}")
    return facts


def _of_spec(spec: g.Spec) -> Iterator[str]:
    match spec:
        case g.Work():
            yield f"handler {spec.topic}"
            if spec.retry.attempts:
                yield f"{spec.retry.attempts} attempts"
            if spec.external:
                yield "external workers"
        case g.Human():
            yield from _people(spec)
        case g.ScriptSpec():
            names = sorted(spec.script.writes) or [spec.result_variable or ""]
            yield f"sets {', '.join(names)}" if any(names) else "script"
        case g.Start() | g.Catch() | g.Throw() | g.Boundary():
            yield from map(event_words, spec.events)
            if isinstance(spec, g.Start | g.Boundary) and not spec.interrupting:
                yield "not interrupting"
        case g.Repeat():
            yield from _repetition(spec)
        case g.Call():
            yield f"calls {_source(spec.called)}"
            yield f"version {spec.version_tag or spec.version}"
        case g.Scope():
            if spec.saga:
                yield "saga"
        case g.EventChoice():
            yield "first event wins" if not spec.parallel else "all events are needed"
        case g.Gather():
            yield f"waits for {spec.quantity} tokens"
        case g.Complex():
            if spec.activation is not None:
                yield f"activated when {_source(spec.activation)}"
        case g.Selection() if spec.waits:
            yield "activities are selected"
        case g.Completion():
            yield f"complete when {_source(spec.condition)}"
        case g.Inclusive() | g.Selection():
            return
        case _:
            assert_never(spec)


def _people(human: g.Human) -> Iterator[str]:
    if human.assignee:
        yield f"for {_source(human.assignee)}"
    groups = _source(human.candidate_groups) if human.candidate_groups else human.lane
    if groups and not human.assignee:
        yield f"for group {groups}"
    if human.candidate_users:
        yield f"for users {_source(human.candidate_users)}"
    if human.due:
        yield f"due {_source(human.due)}"
    if human.fields:
        yield f"form {', '.join(field.name for field in human.fields)}"


def _repetition(repeat: g.Repeat) -> Iterator[str]:
    if repeat.mode == "loop":
        yield f"repeats while {_source(repeat.condition)}" if repeat.condition else "repeats"
        return
    order = "one after the other" if repeat.mode == "sequential" else "all at once"
    if repeat.collection:
        yield f"for each {repeat.element_variable or 'item'} in {_source(repeat.collection)}, {order}"
    elif repeat.cardinality:
        yield f"{_source(repeat.cardinality)} times, {order}"
    if repeat.output_collection:
        yield f"collects {repeat.output_collection}"


def event_words(event: EventSpec) -> str:
    match event:
        case MessageEvent():
            key = f" by {_source(event.correlation_key)}" if event.correlation_key else ""
            return f"message {_source(event.name)}{key}"
        case TimerEvent():
            return f"timer {event.kind} {_source(event.expression)}"
        case SignalEvent():
            return f"signal {_source(event.name)}"
        case ErrorEvent():
            return f"error {_code(event)}"
        case EscalationEvent():
            return f"escalation {_code(event)}"
        case ConditionEvent():
            return f"when {_source(event.condition)}"
        case CompensationEvent():
            return f"compensates {event.activity}" if event.activity else "compensation"
        case CancelEvent():
            return "cancel"
        case TerminateEvent():
            return "terminate"
        case _:
            assert_never(event)


def _code(event: ErrorEvent | EscalationEvent) -> str:
    return _source(event.computed) or event.code or "(any)"


def _source(expression: Expression | None) -> str:
    return expression.source.strip() if expression else ""


def events_of(node: g.Node) -> tuple[EventSpec, ...]:
    match node.spec:
        case g.Start() | g.Catch() | g.Throw() | g.Boundary():
            return node.spec.events
        case g.Work(sends=MessageEvent() as message):
            return (message,)
        case _:
            return ()


def reads_of(node: g.Node) -> frozenset[str]:
    """Every variable that an expression of the node or of its flows may read."""
    local = {name for name, _ in node.inputs}
    own = _reads((node.spec, node.outputs))
    mapped = _reads((node.inputs, *(flow.condition for flow in node.outgoing)))
    return frozenset(own - local) | mapped


def _reads(value: object) -> frozenset[str]:
    found: set[str] = set()
    pending = [value]
    while pending:
        current = pending.pop()
        if isinstance(current, Expression | Script):
            found |= current.reads
        elif isinstance(current, tuple):
            pending.extend(current)
        elif is_dataclass(current):
            pending.extend(getattr(current, field.name) for field in fields(current))
    return frozenset(found)
