"""Ad-hoc sub-processes: what the specification says of their activities becomes nodes around these (13.3.5).

`box#select` is where the sub-process begins and where it waits for somebody to select an activity.
`task#turn` lies before an activity that may have to wait for its turn (sequential ordering) or come too late
(the completion condition held, and what still runs is only to end). `task#done` lies behind an activity
where the completion condition is looked at. What a sub-process does not need is not made.
"""

from __future__ import annotations

from dataclasses import replace

from bpm_engine.bpmn import graph
from bpm_engine.bpmn.compiling.draft import Draft, NodeDraft, ScopeDraft
from bpm_engine.bpmn.graph import Kind
from bpm_engine.problems import warning

AD_HOC_WITHOUT_END = warning(
    "AD_HOC_WITHOUT_END",
    "An ad-hoc sub-process ends when its completion condition holds, or when what it began is done (13.3.5).",
    "Add a completionCondition, or let it begin with its activities.",
)


def surround_ad_hoc_activities(draft: Draft) -> None:
    for scope in list(draft.scopes.values()):
        if scope.kind == "adhoc":
            for node in [node for node in draft.in_scope(scope) if _is_performed(draft, node)]:
                if _may_wait(scope) and not _is_chosen_by_event(draft, node):
                    _add_turn(draft, node)
                if scope.completion is not None:
                    _add_done(draft, node, scope)


def _is_performed(draft: Draft, node: NodeDraft) -> bool:
    return node.is_activity and not node.is_undo and not draft.is_event_handler(node)


def _may_wait(scope: ScopeDraft) -> bool:
    return scope.ordering == "Sequential" or (scope.completion is not None and not scope.cancel_remaining)


def _is_chosen_by_event(draft: Draft, node: NodeDraft) -> bool:
    """A receive task behind an event-based gateway has happened when it is chosen."""
    return any(
        flow.target == node.id and draft.nodes[flow.source].kind is Kind.EVENT_CHOICE
        for flow in draft.flows.values()
    )


def _add_turn(draft: Draft, node: NodeDraft) -> None:
    turn = _beside(node, "turn", Kind.TURN)
    draft.add(turn)
    for flow in [flow for flow in draft.flows.values() if flow.target == node.id]:
        draft.flows[flow.id] = replace(flow, target=turn.id)
    draft.join(turn.id, node.id)


def _add_done(draft: Draft, node: NodeDraft, scope: ScopeDraft) -> None:
    done = _beside(node, "done", Kind.DONE)
    assert scope.completion is not None
    cancels = scope.cancel_remaining or scope.ordering == "Sequential"
    done.spec = graph.Completion(scope.completion, cancels)
    done.completion_quantity, node.completion_quantity = node.completion_quantity, 1
    draft.add(done)
    for flow in [flow for flow in draft.flows.values() if flow.source == node.id]:
        draft.flows[flow.id] = replace(flow, source=done.id)
    draft.join(node.id, done.id)


def _beside(node: NodeDraft, name: str, kind: Kind) -> NodeDraft:
    return NodeDraft(
        id=f"{node.element}#{name}",
        kind=kind,
        scope=node.scope,
        element=node.element,
        tag=node.tag,
        name=node.name,
        line=node.line,
    )


def selection_of(draft: Draft, scope: ScopeDraft, enabled: list[str]) -> NodeDraft:
    """Where the sub-process begins. Nobody has to select what runs by itself: without a completion condition
    and without another word every enabled activity does, once."""
    element = draft.nodes[scope.id]
    selects = scope.completion is not None if scope.activate is None else scope.activate == "none"
    if selects and scope.completion is None:
        message = f"{element.element!r} waits for activities to be selected and never ends by itself"
        draft.findings.add(AD_HOC_WITHOUT_END.at(message, element_id=element.element, line=element.line))
    return NodeDraft(
        id=f"{scope.id}#select",
        kind=Kind.SELECT,
        scope=scope.id,
        element=element.element,
        tag=element.tag,
        line=element.line,
        spec=graph.Selection(
            enabled=tuple((draft.nodes[node].element, node) for node in enabled),
            activate=_activated(scope),
            waits=selects or scope.completion is not None,
        ),
    )


def _activated(scope: ScopeDraft) -> graph.Activated:
    if scope.activate is not None:
        return scope.activate
    return "all" if scope.completion is None else "none"
