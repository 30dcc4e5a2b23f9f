"""What the targets of an event-based gateway say about their own waiting: the gateway waits in their place,
and when one of them is reached its event has come (10.6.6)."""

from __future__ import annotations

from collections.abc import Iterator

from bpm_engine.bpmn.compiling.draft import Draft, NodeDraft
from bpm_engine.bpmn.graph import EventChoice
from bpm_engine.problems import warning

EVENT_GATEWAY_TARGET_SETTINGS = warning(
    "EVENT_GATEWAY_TARGET_SETTINGS",
    "An event-based gateway waits in the place of its targets: none begins before its event has come.",
    "Use a timer branch of the gateway instead of a deadline; map inputs behind the event, or as outputs.",
)


def check_targets(draft: Draft) -> None:
    for flow in draft.flows.values():
        gateway, target = draft.nodes[flow.source].spec, draft.nodes[flow.target]
        if not isinstance(gateway, EventChoice) or gateway.parallel:
            continue  # a parallel one begins each of its targets but the first
        for setting in _unheard(target):
            message = f"{target.element!r} is behind an event-based gateway: its {setting} has no effect"
            draft.findings.add(
                EVENT_GATEWAY_TARGET_SETTINGS.at(message, element_id=target.element, line=target.line)
            )


def _unheard(node: NodeDraft) -> Iterator[str]:
    if node.deadline is not None:
        yield "deadline"
    if node.async_before:
        yield "asyncBefore"
    if node.inputs:
        yield "input mapping"
