"""What a process says to the outside and to other processes: messages, signals, events for the outbox."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from bpm_engine.core.effects import SendMessage, SendSignal
from bpm_engine.core.state import LogKind, ThrownMessage, ThrownSignal

if TYPE_CHECKING:
    from bpm_engine.core.marking import Marking
    from bpm_engine.core.visit import Visit


def send_message(marking: Marking, visit: Visit, effect: SendMessage) -> None:
    """Correlated inside the tenant like an incoming message, and told to the outside (decision 23)."""
    token = visit.token
    thrown = ThrownMessage(
        id=marking.context.new_id(),
        tenant_id=token.tenant_id,
        instance_id=token.instance_id,
        root_instance_id=token.root_instance_id,
        name=effect.name,
        correlation_key=effect.correlation_key,
        payload=effect.payload,
    )
    marking.draft.append(marking.draft.messages, thrown)
    if effect.keys:
        marking.assign(visit, effect.keys)
    data = {"message": thrown.name, "correlation_key": thrown.correlation_key, "payload": thrown.payload}
    entry = marking.journal.log(LogKind.THROWN, token, data)
    marking.journal.publish(entry, "message.thrown", data)


def send_signal(marking: Marking, visit: Visit, effect: SendSignal, heard: Sequence[str] = ()) -> None:
    """`heard`: subscriptions that get it by another way, in this very step."""
    token = visit.token
    thrown = ThrownSignal(
        id=marking.context.new_id(),
        tenant_id=token.tenant_id,
        instance_id=token.instance_id,
        root_instance_id=token.root_instance_id,
        name=effect.name,
        payload=effect.payload,
        later=list(heard),
    )
    marking.draft.append(marking.draft.signals, thrown)
    marking.draft.heard_by[thrown.id] = len(marking.draft.subscriptions.current)
    data = {"signal": thrown.name, "payload": thrown.payload}
    entry = marking.journal.log(LogKind.THROWN, token, data)
    marking.journal.publish(entry, "signal.thrown", data)


def emit(marking: Marking, visit: Visit, event_type: str) -> None:
    """`bpm:emit`: the named event, with the variables that the node sees."""
    entry = marking.journal.log(LogKind.THROWN, visit.token, {"event": event_type})
    data = {"node_id": visit.node.id, "variables": visit.view().flat()}
    marking.journal.publish(entry, event_type, data)
