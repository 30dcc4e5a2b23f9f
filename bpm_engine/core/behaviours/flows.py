"""Which outgoing flows a token takes when a node lets it go (13.3.1, 13.4)."""

from __future__ import annotations

from bpm_engine.bpmn.graph import Flow
from bpm_engine.core.effects import Fault
from bpm_engine.core.visit import Visit


def leaving_flows(visit: Visit) -> tuple[Flow, ...]:
    """From an activity or event: all flows whose condition holds, in parallel; the default if none does.

    Flows without a condition are always taken (decision 4). Each gets as many tokens as the activity's
    completionQuantity says (10.3.1).
    """
    outgoing = visit.node.outgoing
    straight = len(outgoing) == 1 and outgoing[0].condition is None
    return (outgoing if straight else true_flows(visit)) * visit.node.completion_quantity


def true_flows(visit: Visit) -> tuple[Flow, ...]:
    chosen = tuple(
        flow
        for flow in visit.node.outgoing
        if not flow.default and (flow.condition is None or visit.holds(flow.condition))
    )
    return chosen or default_flow(visit)


def first_true_flow(visit: Visit) -> tuple[Flow, ...]:
    """In document order; the default flow's own condition is ignored (decision 3)."""
    for flow in visit.node.outgoing:
        if not flow.default and (flow.condition is None or visit.holds(flow.condition)):
            return (flow,)
    return default_flow(visit)


def default_flow(visit: Visit) -> tuple[Flow, ...]:
    last = visit.node.outgoing[-1]
    if not last.default:
        raise Fault("NO_FLOW_CHOSEN", f"no condition holds at {visit.node.id!r} and there is no default flow")
    return (last,)
