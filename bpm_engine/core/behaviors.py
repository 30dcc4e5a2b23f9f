"""What a multi-instance activity throws when one of its runs completes: its `behavior` (10.3.8, 13.3.7).

`None` throws an event for each run, `One` for the first, `Complex` where a condition holds, `All` never. The
events are thrown from the activity as a whole, so that its own boundary events catch them, in the same step:
an interrupting one ends the runs that are left before any of them begins. They carry the counters of the
repetition. A signal also reaches everybody else who waits for it; a message that no boundary event of the
activity takes is sent like any other.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from bpm_engine.bpmn.events import ErrorEvent, EscalationEvent, EventSpec, MessageEvent, SignalEvent
from bpm_engine.bpmn.graph import Repeat
from bpm_engine.core import answers, propagation, throwing
from bpm_engine.core.behaviours.events import message_to_send, thrown_code
from bpm_engine.core.changes import Refused
from bpm_engine.core.effects import Fault, SendMessage, SendSignal
from bpm_engine.core.state import (
    LogKind,
    Phase,
    Scope,
    ScopeState,
    Subscription,
    SubscriptionKind,
    SubscriptionStatus,
    Token,
    Variables,
)
from bpm_engine.core.stimuli import MessageDelivered, SignalDelivered

if TYPE_CHECKING:
    from bpm_engine.core.marking import Marking
    from bpm_engine.core.visit import Visit


def thrown(visit: Visit, spec: Repeat, counters: dict[str, int]) -> Iterator[EventSpec]:
    """The events that the end of this run throws."""
    match spec.behavior:
        case "None" if spec.none_event is not None:
            yield spec.none_event
        case "One" if spec.one_event is not None and counters["nrOfCompletedInstances"] == 1:
            yield spec.one_event
        case "Complex":
            for condition, event in spec.complex_events:
                if event is not None and visit.holds(condition):
                    yield event


def throw_all(marking: Marking, visit: Visit, scope: Scope, events: list[EventSpec]) -> bool:
    """False: a boundary event has ended the activity."""
    for event in events:
        host = marking.owner(scope)
        assert host is not None
        _throw(marking, visit, marking.draft.token(host.id), event)
        if marking.draft.scope(scope.id).state is not ScopeState.ACTIVE:
            return False
    return True


def _throw(marking: Marking, visit: Visit, host: Token, event: EventSpec) -> None:
    carried = dict(marking.draft.scope(visit.token.scope_id).loop or {})
    match event:
        case SignalEvent():
            _signal(marking, visit, host, visit.text(event.name, "a signal name"), carried)
        case MessageEvent():
            _message(marking, visit, host, message_to_send(visit, event), carried)
        case ErrorEvent():
            message = "" if event.message is None else visit.text(event.message, "an error message")
            error = propagation.Thrown(thrown_code(visit, event), message, carried)
            propagation.throw(marking, host, Phase.INSIDE, error)
        case EscalationEvent():
            code = thrown_code(visit, event)
            _escalate(marking, host, propagation.Thrown(code, variables=carried, critical=False))
        case _:
            raise AssertionError(f"{type(event).__name__} is refused by compilation")


def _escalate(marking: Marking, host: Token, thrown: propagation.Thrown) -> None:
    """Uncaught it is only told (decision 8)."""
    marking.journal.log(LogKind.THROWN, host, thrown.told())
    catcher = propagation.find_catcher(marking, host, thrown)
    if catcher is not None:
        propagation.catch(marking, host.instance_id, catcher, thrown)


def _signal(marking: Marking, visit: Visit, host: Token, name: str, carried: Variables) -> None:
    awaiting = [each.id for each in _open(marking, host, SubscriptionKind.SIGNAL, name)]
    throwing.send_signal(marking, visit, SendSignal(name, carried), heard=awaiting)
    for subscription_id in awaiting:
        _deliver(marking, SignalDelivered(subscription_id=subscription_id, payload=carried))


def _message(marking: Marking, visit: Visit, host: Token, message: SendMessage, carried: Variables) -> None:
    for each in _open(marking, host, SubscriptionKind.MESSAGE, message.name):
        if each.match is None and each.correlation_key in (None, message.correlation_key):
            _deliver(marking, MessageDelivered(subscription_id=each.id, payload=carried))
            return
    throwing.send_message(marking, visit, SendMessage(message.name, message.correlation_key, carried))


def _deliver(marking: Marking, stimulus: MessageDelivered | SignalDelivered) -> None:
    """What cannot be taken takes back the step of the run that throws it: else nobody would say it again."""
    outcome = answers.delivered(marking, stimulus)
    if isinstance(outcome, Refused):
        raise Fault(outcome.code, outcome.message)


def _open(marking: Marking, host: Token, kind: SubscriptionKind, name: str) -> list[Subscription]:
    """What the boundary events of the activity wait for."""
    marking.draft.require_waits(host)
    return [
        each
        for each in marking.draft.subscriptions.where("token_id", host.id)
        if each.kind is kind and each.name == name and each.status is SubscriptionStatus.OPEN
    ]
