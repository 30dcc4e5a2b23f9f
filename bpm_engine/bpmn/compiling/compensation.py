"""Compensation handlers find their activities: `undo` on the activity, `is_undo` on the handler.

A boundary compensation event is tied to its handler by an association (10.7.1); `bpm:compensate` is
the short form: the handler is a made node `task#undo` that does work of that topic. A multi-instance
activity is undone once per completed run, so `undo` sits on the inner node.
"""

from __future__ import annotations

from collections import defaultdict

from bpm_engine.bpmn import graph, model
from bpm_engine.bpmn.compiling.draft import Draft, NodeDraft, ScopeDraft
from bpm_engine.bpmn.events import CompensationEvent, EventSpec
from bpm_engine.bpmn.graph import Kind
from bpm_engine.problems import warning

COMPENSATION_HANDLER_UNUSED = warning(
    "COMPENSATION_HANDLER_UNUSED",
    "A compensation activity is associated with a compensation boundary event (10.7.1).",
    "Draw the association from the boundary event to the activity.",
)
COMPENSATION_TWICE = warning(
    "COMPENSATION_TWICE",
    "An activity has one compensation handler; a drawn handler comes before bpm:compensate.",
    "Keep one of the two.",
)
COMPENSATION_OUT_OF_REACH = warning(
    "COMPENSATION_OUT_OF_REACH",
    "A compensation event names an activity of its own level, or around its event sub-process (10.5.6).",
    "Name the sub-process that contains the activity: what completed in it is undone with it.",
)


def tie_handlers(draft: Draft) -> None:
    drawn = _drawn_handlers(draft)
    for node in list(draft.elements.values()):
        if isinstance(node, model.Event) and _compensates(node):
            _tie_drawn(draft, node, drawn.get(node.id, []))
    for node in list(draft.elements.values()):
        if isinstance(node, model.Activity) and node.settings.compensate_topic:
            _make_handler(draft, node, node.settings.compensate_topic)
    _check_used(draft)
    _check_throws(draft)


def _compensates(event: model.Event) -> bool:
    return event.tag == "boundaryEvent" and any(
        isinstance(definition, model.CompensateDefinition) for definition in event.definitions
    )


def _drawn_handlers(draft: Draft) -> dict[str, list[str]]:
    """For each boundary event, the activities at the other end of its associations."""
    ends: defaultdict[str, list[str]] = defaultdict(list)
    drawn = (association for container in draft.containers for association in container.associations)
    for line in {each.id: each for each in (*drawn, *draft.definitions.associations)}.values():
        ends[line.source].append(line.target)
        ends[line.target].append(line.source)
    return ends


def _tie_drawn(draft: Draft, boundary: model.Event, associated: list[str]) -> None:
    handlers = [other for other in associated if isinstance(draft.elements.get(other), model.Activity)]
    host = draft.nodes.get(boundary.attached_to or "")
    if host is None or not isinstance(draft.elements.get(host.id), model.Activity):
        draft.refuse(boundary, "the boundary event is attached to no activity")
    elif len(handlers) != 1:
        draft.refuse(boundary, f"the compensation event has {len(handlers) or 'no'} handlers instead of one")
    elif host.undo is not None:
        draft.refuse(boundary, f"{host.id!r} has two compensation events")
    else:
        handler = draft.outer(handlers[0])
        host.undo = handler.id
        handler.is_undo = True


def _make_handler(draft: Draft, activity: model.Activity, topic: str) -> None:
    node = draft.nodes[activity.id]
    if node.undo is not None:
        message = f"bpm:compensate is not used: {node.undo!r} is the handler"
        draft.findings.add(COMPENSATION_TWICE.at(message, element_id=activity.id, line=activity.line))
        return
    node.undo = f"{activity.id}#undo"
    draft.add(
        NodeDraft(
            id=node.undo,
            kind=Kind.WORK,
            scope=draft.outer(activity.id).scope,
            element=node.element,
            tag=node.tag,
            name=node.name,
            line=node.line,
            spec=graph.Work(topic),
            is_undo=True,
            is_activity=True,
        )
    )


def _check_used(draft: Draft) -> None:
    used = {node.undo for node in draft.nodes.values()}
    for node in draft.nodes.values():
        if node.is_undo and node.id not in used:
            draft.findings.add(
                COMPENSATION_HANDLER_UNUSED.at(
                    "nothing is undone by this compensation activity", element_id=node.element, line=node.line
                )
            )


def _check_throws(draft: Draft) -> None:
    for node in draft.nodes.values():
        for event in node.spec.events if isinstance(node.spec, graph.Throw) else ():
            if isinstance(event, CompensationEvent) and event.activity is not None:
                target = draft.nodes.get(event.activity)
                if target is None or not target.is_activity:
                    draft.refuse(draft.elements[node.element], f"{event.activity!r} is no activity here")
                elif target.scope not in _levels(draft, node):
                    message = f"{target.element!r} is on another level: nothing is undone"
                    found = COMPENSATION_OUT_OF_REACH.at(message, element_id=node.element, line=node.line)
                    draft.findings.add(found)


def _levels(draft: Draft, throw: NodeDraft) -> set[str]:
    """The scopes whose activities a throw may name: its own, outwards past event sub-processes."""
    scope = draft.scopes[throw.scope]
    levels = {scope.id}
    while scope.kind in ("event", "repeat") and scope.parent is not None:
        scope = draft.scopes[scope.parent]
        levels.add(scope.id)
    return levels


def split_throws(draft: Draft) -> None:
    """A throw that does not wait is a fork: one token goes on, one waits for the compensation at a made end
    event. An end event has nowhere to go on to, so it may as well wait."""
    for node in list(draft.nodes.values()):
        if not isinstance(node.spec, graph.Throw) or all(map(_waits, node.spec.events)):
            continue
        if node.kind is Kind.THROW:
            left = tuple(event for event in node.spec.events if _waits(event))
            _fork(draft, node, tuple(event for event in node.spec.events if not _waits(event)))
            node.kind, node.spec = (Kind.THROW, graph.Throw(left)) if left else (Kind.PASS, None)


def _waits(event: EventSpec) -> bool:
    return not isinstance(event, CompensationEvent) or event.wait


def _fork(draft: Draft, throw: NodeDraft, events: tuple[EventSpec, ...]) -> None:
    made = NodeDraft(
        id=f"{throw.id}#compensation",
        kind=Kind.END,
        scope=throw.scope,
        element=throw.element,
        tag="endEvent",
        name=throw.name,
        line=throw.line,
        spec=graph.Throw(events),
    )
    draft.add(made)
    draft.join(throw.id, made.id)


def compensable_scopes(draft: Draft) -> set[str]:
    """The scopes that must keep records: something in them, or in a scope inside, can be undone."""
    found: set[str] = set()
    for node in draft.nodes.values():
        if node.undo is not None:
            _mark_outwards(draft, draft.scopes[node.scope], found)
    for scope in draft.scopes.values():
        if scope.compensation_handler is not None and scope.parent is not None:
            _mark_outwards(draft, draft.scopes[scope.parent], found)
    return found


def _mark_outwards(draft: Draft, scope: ScopeDraft, found: set[str]) -> None:
    current: ScopeDraft | None = scope
    while current is not None and current.id not in found:
        found.add(current.id)
        current = draft.scopes[current.parent] if current.parent else None
