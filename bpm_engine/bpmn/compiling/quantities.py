"""`startQuantity` becomes a node of its own: `task#gather`, before the activity, holds tokens back until
there are enough (10.3.1). An activity with several incoming flows merges them first, so the tokens of all
of them count together (13.3.2). `completionQuantity` stays with the node: it says how many leave.
"""

from __future__ import annotations

from dataclasses import replace

from bpm_engine.bpmn import graph
from bpm_engine.bpmn.compiling.draft import Draft, NodeDraft
from bpm_engine.bpmn.graph import Flow, Kind
from bpm_engine.problems import error

QUANTITY_BEHIND_EVENT_GATEWAY = error(
    "QUANTITY_BEHIND_EVENT_GATEWAY",
    "An event-based gateway lets exactly one token through; nothing behind it can wait for more (10.6.6).",
    "Remove the startQuantity, or put a gateway between the two.",
)


def gather_tokens(draft: Draft) -> None:
    wanting = [node for node in draft.nodes.values() if node.start_quantity > 1]
    for node in wanting:
        incoming = [flow for flow in draft.flows.values() if flow.target == node.id]
        if any(draft.nodes[flow.source].kind is Kind.EVENT_CHOICE for flow in incoming):
            message = f"{node.element!r} waits for {node.start_quantity} tokens behind an event-based gateway"
            draft.findings.add(
                QUANTITY_BEHIND_EVENT_GATEWAY.at(message, element_id=node.element, line=node.line)
            )
        elif incoming:
            _gather_before(draft, node, incoming)


def _gather_before(draft: Draft, node: NodeDraft, incoming: list[Flow]) -> None:
    gather = NodeDraft(
        id=f"{node.element}#gather",
        kind=Kind.GATHER,
        scope=node.scope,
        element=node.element,
        tag=node.tag,
        name=node.name,
        line=node.line,
        spec=graph.Gather(node.start_quantity),
    )
    draft.add(gather)
    for flow in incoming:
        draft.flows[flow.id] = replace(flow, target=gather.id)
    draft.join(gather.id, node.id)
