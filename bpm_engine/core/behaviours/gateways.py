"""Gateways (13.4): how they split, and when they join."""

from __future__ import annotations

from collections.abc import Iterable, Set

from bpm_engine.bpmn.graph import Catch, Complex, EventChoice, Flow, Gather, Inclusive, Node
from bpm_engine.core.behaviours.events import payload_of, remembered
from bpm_engine.core.behaviours.flows import first_true_flow, true_flows
from bpm_engine.core.effects import Await, Awaited, Choose, Effect, Happened, Park, Take, Trigger
from bpm_engine.core.state import Join
from bpm_engine.core.visit import Visit


def enter_choice(visit: Visit) -> tuple[Effect, ...]:
    """Exclusive gateway: each token passes on its own, by the first flow that is true (13.4.2)."""
    return (Take(first_true_flow(visit)),)


def enter_parallel(visit: Visit) -> tuple[Effect, ...]:
    """Parallel gateway: one token from each incoming flow, one onto each outgoing (13.4.1)."""
    return (Park(),) if len(visit.node.incoming) > 1 else (Take(visit.node.outgoing),)


def parallel_joined(visit: Visit, trigger: Trigger) -> tuple[Effect, ...]:
    return (Take(visit.node.outgoing),)


def parallel_fires(node: Node, join: Join) -> bool:
    return join.joined >= len(node.incoming) and all(join.arrivals.get(flow) for flow in node.incoming)


def enter_inclusive(visit: Visit) -> tuple[Effect, ...]:
    """Inclusive gateway: splits onto all true flows; joins what can still arrive (13.4.3)."""
    return (Park(),) if len(visit.node.incoming) > 1 else (Take(true_flows(visit)),)


def inclusive_joined(visit: Visit, trigger: Trigger) -> tuple[Effect, ...]:
    return (Take(true_flows(visit)),)


def inclusive_fires(node: Node, filled: Set[str], elsewhere: Iterable[str]) -> bool:
    """Some flow holds a token, and no token elsewhere can reach an empty flow without also being able to
    reach a filled one."""
    spec = node.spec
    assert isinstance(spec, Inclusive | Complex)
    hopes: set[str] = set()
    for flow in node.incoming:
        if flow not in filled:
            hopes |= spec.reach.get(flow, frozenset())
    for flow in filled:
        hopes -= spec.reach.get(flow, frozenset())
    return bool(filled) and not any(node_id in hopes for node_id in elsewhere)


def enter_complex(visit: Visit) -> tuple[Effect, ...]:
    """Complex gateway: splits onto all true flows; joins when its activation condition holds, and again
    when the tokens that come late are there (13.4.5)."""
    spec = visit.node.spec
    assert isinstance(spec, Complex)
    waits = spec.activation is not None or len(visit.node.incoming) > 1
    return (Park(),) if waits else (Take(true_flows(visit)),)


def is_activated(visit: Visit) -> bool:
    spec = visit.node.spec
    assert isinstance(spec, Complex)
    return spec.activation is None or visit.holds(spec.activation)


def complex_activated(visit: Visit, trigger: Trigger) -> tuple[Effect, ...]:
    return (Take(true_flows(visit)),)


def flows_on_reset(visit: Visit) -> tuple[Flow, ...]:
    """Only flows whose condition says so: what is taken without a condition was taken on activation."""
    return tuple(
        flow
        for flow in visit.node.outgoing
        if not flow.default and flow.condition is not None and visit.holds(flow.condition)
    )


def enter_gather(visit: Visit) -> tuple[Effect, ...]:
    """Before an activity with a startQuantity: rests until so many tokens are there (13.3.2)."""
    return (Park(),)


def gathered(visit: Visit, trigger: Trigger) -> tuple[Effect, ...]:
    return (Take(visit.node.outgoing),)


def gather_fires(node: Node, join: Join) -> bool:
    assert isinstance(node.spec, Gather)
    return sum(join.arrivals.values()) >= node.spec.quantity


def enter_event_choice(visit: Visit) -> tuple[Effect, ...]:
    """Event-based gateway: waits for the events behind it; exactly one wins (13.4.4)."""
    spec = visit.node.spec
    assert isinstance(spec, EventChoice)
    awaited: list[Awaited] = []
    for target in spec.targets:
        catch = visit.graph.nodes[target].spec
        assert isinstance(catch, Catch)
        awaited += [Awaited(target, index, event) for index, event in enumerate(catch.events)]
    return (Await(tuple(awaited)),)


def event_chosen(visit: Visit, trigger: Trigger) -> tuple[Effect, ...]:
    assert isinstance(trigger, Happened)
    return (
        *remembered(visit.graph, trigger),
        Choose(trigger.node_id, payload_of(visit.graph, trigger)),
    )
