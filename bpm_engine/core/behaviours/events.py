"""Events (13.5), apart from where they stand: catching waits, throwing says, ending consumes."""

from __future__ import annotations

from bpm_engine.bpmn.events import (
    CancelEvent,
    CompensationEvent,
    ErrorEvent,
    EscalationEvent,
    EventSpec,
    MessageEvent,
    SignalEvent,
    TerminateEvent,
)
from bpm_engine.bpmn.graph import Catch, Graph, Throw
from bpm_engine.core import correlation
from bpm_engine.core.effects import (
    Assign,
    Await,
    Awaited,
    Broadcast,
    CancelTransaction,
    Compensate,
    Consume,
    Defer,
    Effect,
    Escalate,
    Finish,
    Happened,
    RaiseError,
    SendMessage,
    SendSignal,
    Terminate,
    Trigger,
)
from bpm_engine.core.state import Variables
from bpm_engine.core.visit import Visit

FINISH, CONSUME = (Finish(),), (Consume(),)


def enter_pass(visit: Visit) -> tuple[Effect, ...]:
    """Start events, boundary events, abstract and manual tasks, none intermediate events: nothing to do."""
    return FINISH


def enter_catch(visit: Visit) -> tuple[Effect, ...]:
    """Intermediate catch event, receive task: rests until its event comes."""
    spec = visit.node.spec
    assert isinstance(spec, Catch)
    return (Await(tuple(Awaited(visit.node.id, index, event) for index, event in enumerate(spec.events))),)


def caught(visit: Visit, trigger: Trigger) -> tuple[Effect, ...]:
    assert isinstance(trigger, Happened)
    return (*remembered(visit.graph, trigger), Finish(payload_of(visit.graph, trigger)))


def remembered(graph: Graph, happened: Happened) -> tuple[Effect, ...]:
    keys = keys_of(graph, happened)
    return (Assign(keys),) if keys else ()


def keys_of(graph: Graph, happened: Happened) -> Variables:
    """The keys of its conversation that a message brings, whatever becomes of its payload."""
    event = _event_of(graph, happened)
    return correlation.initialised(event.keys, happened.payload) if isinstance(event, MessageEvent) else {}


def payload_of(graph: Graph, happened: Happened) -> Variables:
    """A message's payload goes under its variable, or is merged; the keys of its conversation go along."""
    event = _event_of(graph, happened)
    payload = happened.payload
    if isinstance(event, MessageEvent) and (event.payload_variable is not None or event.keys):
        keys = correlation.initialised(event.keys, payload)
        payload = {
            **(payload if event.payload_variable is None else {event.payload_variable: payload}),
            **keys,
        }
    return {**happened.earlier, **payload} if happened.earlier else payload


def _event_of(graph: Graph, happened: Happened) -> EventSpec | None:
    events: tuple[EventSpec, ...] = getattr(graph.nodes[happened.node_id].spec, "events", ())
    return events[happened.index] if events else None


def enter_throw(visit: Visit) -> tuple[Effect, ...]:
    """Intermediate throw event: says it, and goes on; a compensation waits first."""
    return _thrown(visit, then=FINISH)


def throw_compensated(visit: Visit, trigger: Trigger) -> tuple[Effect, ...]:
    return FINISH


def enter_end(visit: Visit) -> tuple[Effect, ...]:
    """End event: throws what it throws and consumes the token (13.5.6)."""
    return _thrown(visit, then=CONSUME)


def end_compensated(visit: Visit, trigger: Trigger) -> tuple[Effect, ...]:
    return _last_word(visit) or CONSUME


def _thrown(visit: Visit, then: tuple[Effect, ...]) -> tuple[Effect, ...]:
    """All of them (10.5.3): messages and signals, escalations, compensation, and last what ends the scope."""
    events = _events(visit)
    if not events:
        return then
    if visit.marking.agenda and any(isinstance(event, SignalEvent) for event in events):
        return (Defer(),)  # who is about to wait beside it is to hear it
    said = tuple(message_to_send(visit, event) for event in events if isinstance(event, MessageEvent))
    signals = tuple(_signal(visit, event) for event in events if isinstance(event, SignalEvent))
    compensations = [event for event in events if isinstance(event, CompensationEvent)]
    then = (Compensate(_activities(compensations)),) if compensations else _last_word(visit) or then
    codes = tuple(thrown_code(visit, event) for event in events if isinstance(event, EscalationEvent))
    then = (Escalate(codes, then),) if codes else then
    return (*said, Broadcast(signals, then)) if signals else (*said, *then)


def _events(visit: Visit) -> tuple[EventSpec, ...]:
    spec = visit.node.spec
    return spec.events if isinstance(spec, Throw) else ()


def _last_word(visit: Visit) -> tuple[Effect, ...]:
    """An error, a cancel or a terminate decides what becomes of the scope."""
    for event in _events(visit):
        match event:
            case ErrorEvent():
                message = "" if event.message is None else visit.text(event.message, "an error message")
                return (RaiseError(thrown_code(visit, event), message),)
            case CancelEvent():
                return (CancelTransaction(),)
            case TerminateEvent():
                return (Terminate(),)
    return ()


def thrown_code(visit: Visit, event: ErrorEvent | EscalationEvent) -> str | None:
    return event.code if event.computed is None else visit.text(event.computed, "a code")


def _activities(events: list[CompensationEvent]) -> frozenset[str] | None:
    named = frozenset(event.activity for event in events if event.activity is not None)
    return named if all(event.activity is not None for event in events) else None


def _signal(visit: Visit, event: SignalEvent) -> SendSignal:
    return SendSignal(visit.text(event.name, "a signal name"), visit.token.local or {})


def message_to_send(visit: Visit, event: MessageEvent) -> SendMessage:
    """The payload is what the input mappings of the node made."""
    key = None
    if event.correlation_key is not None:
        key = visit.text(event.correlation_key, "a correlation key")
    payload = visit.token.local or {}
    if event.keys:
        payload = correlation.completed(event.keys, payload, visit.view())
    keys = correlation.initialised(event.keys, payload)
    return SendMessage(visit.text(event.name, "a message name"), key, payload, keys)
