"""Signals that a process throws: whoever waits hears them, each in a step of its own (decision 16).

What stands around the thrower hears them at once: a boundary event of a sub-process, or an event sub-process,
waits at the moment of the throw, and by the next step its scope may have ended. An interrupting one ends the
thrower with everything beside it. One that needs several events, or that the thrower itself is part of, hears
the signal with all the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from bpm_engine.bpmn.events import SignalEvent
from bpm_engine.bpmn.graph import Boundary, Graph, Node, Start
from bpm_engine.core import throwing, triggering, waits
from bpm_engine.core.effects import Broadcast, SendSignal
from bpm_engine.core.state import (
    LogKind,
    Scope,
    Subscription,
    SubscriptionKind,
    SubscriptionStatus,
    Token,
)

if TYPE_CHECKING:
    from bpm_engine.core.marking import Marking
    from bpm_engine.core.visit import Visit


def broadcast(marking: Marking, visit: Visit, effect: Broadcast) -> None:
    """Those react first that let the thrower go on."""
    heard: list[tuple[Subscription, SendSignal]] = []
    for signal in effect.signals:
        around = list(_around(marking, visit.token, signal.name))
        throwing.send_signal(marking, visit, signal, heard=[each.id for each in around])
        heard += [(each, signal) for each in around]
    interrupted = any(_interrupts(marking, each) for each, _ in heard)
    if interrupted:  # the throw is done, whatever becomes of its surroundings
        marking.passed(visit)
        marking.end(visit.token)
    for each, signal in sorted(heard, key=lambda pair: _interrupts(marking, pair[0])):
        _deliver(marking, each.id, signal)
    if not interrupted:
        marking.perform(visit, effect.then)


def _deliver(marking: Marking, subscription_id: str, signal: SendSignal) -> None:
    subscription = marking.draft.subscriptions.get(subscription_id)
    if subscription is None or subscription.status is not SubscriptionStatus.OPEN:
        return  # another one has interrupted what it belongs to
    if _interrupts(marking, subscription):
        waits.end_subscription(marking, subscription, SubscriptionStatus.CONSUMED)
    triggering.happened(marking, subscription, signal.payload, LogKind.DELIVERED)


def _interrupts(marking: Marking, subscription: Subscription) -> bool:
    return triggering.happens_once(marking.graph(subscription.instance_id).nodes[subscription.node_id])


# ------------------------------------------------------------------ who stands around


def _around(marking: Marking, thrower: Token, name: str) -> Iterator[Subscription]:
    """From the inside outwards, through callers."""
    draft = marking.draft
    scope: Scope | None = draft.scope(thrower.scope_id)
    inside = ""  # the scope that the climb comes from
    while scope is not None and not marking.is_halted(scope.instance_id):
        graph = marking.graph(scope.instance_id)
        if any(_hears(node) for node in _starts(graph, scope, inside)):
            draft.require_handlers(scope)
            found = [
                each for each in draft.subscriptions.where("scope_id", scope.id) if each.token_id is None
            ]
            yield from _named(
                found, name, {node.id for node in _starts(graph, scope, inside) if _hears(node)}
            )
        host = marking.owner(scope)
        if host is None or marking.is_halted(host.instance_id):
            return
        around = marking.graph(host.instance_id)
        events = [around.nodes[each] for each in around.nodes[host.node_id].boundary]
        if any(_hears(node) for node in events):
            draft.require_waits(host)
            yield from _named(
                draft.subscriptions.where("token_id", host.id), name, {n.id for n in events if _hears(n)}
            )
        inside, scope = scope.node_id, draft.scope(host.scope_id)


def _starts(graph: Graph, scope: Scope, inside: str) -> Iterator[Node]:
    """The start events of its event sub-processes, but for the one that the thrower is in."""
    for handler in graph.scopes[scope.node_id].handlers:
        if handler != inside:
            yield from (graph.nodes[node] for node in graph.scopes[handler].nodes)


def _hears(node: Node) -> bool:
    spec = node.spec
    return (
        isinstance(spec, Boundary | Start)
        and any(isinstance(event, SignalEvent) for event in spec.events)
        and not waits.needs_all(node)
    )


def _named(found: list[Subscription], name: str, nodes: set[str]) -> Iterator[Subscription]:
    for each in found:
        is_open = each.kind is SubscriptionKind.SIGNAL and each.status is SubscriptionStatus.OPEN
        if is_open and each.name == name and each.node_id in nodes:
            yield each
