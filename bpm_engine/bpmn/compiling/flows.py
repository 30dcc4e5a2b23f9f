"""Sequence flows: read with their conditions, and made where BPMN leaves them implicit.

Links are flows drawn in two halves (10.5.6). A scope without a start event starts at its nodes without
incoming flow, all at once (10.5.2); a node without outgoing flow ends its token (10.5.3). Both get an
event of their own here, so that nothing later has to ask.
"""

from __future__ import annotations

from collections import defaultdict

from bpm_engine.bpmn import graph, model
from bpm_engine.bpmn.compiling.adhoc import selection_of
from bpm_engine.bpmn.compiling.draft import Draft, NodeDraft, ScopeDraft
from bpm_engine.bpmn.compiling.texts import Texts
from bpm_engine.bpmn.expressions import Expression
from bpm_engine.bpmn.graph import Flow, Kind
from bpm_engine.problems import warning

CONDITION_IGNORED = warning(
    "CONDITION_IGNORED",
    "Conditions have no meaning after a parallel or event-based gateway (10.6.4, 10.6.6).",
    "Remove the condition, or use an exclusive or inclusive gateway.",
)
DEFAULT_CONDITION_IGNORED = warning(
    "DEFAULT_CONDITION_IGNORED",
    "A default flow is taken when no other can be; its own condition is not evaluated (8.4.13).",
    "Remove the condition from the default flow.",
)


def read_flows(draft: Draft, texts: Texts) -> None:
    for container in draft.containers:
        inside = {node.id for node in container.nodes}
        for flow in container.flows:
            if flow.id in draft.flows:
                draft.refuse(flow, f"there are two flows {flow.id!r}")
            elif not {flow.source, flow.target} <= inside:
                draft.refuse(flow, f"{flow.source!r} and {flow.target!r} are not in the same scope")
            elif flow.source not in draft.nodes or flow.target not in draft.nodes:
                draft.refuse(flow, "a compensation boundary event has no sequence flows")
            else:
                draft.flow(_flow(flow, draft, texts))


def _flow(flow: model.SequenceFlow, draft: Draft, texts: Texts) -> Flow:
    source = draft.nodes[flow.source]
    default = source.default == flow.id
    return Flow(
        id=flow.id,
        source=flow.source,
        target=flow.target,
        condition=_condition(flow, source, default, draft, texts),
        default=default,
        name=flow.name,
        line=flow.line,
    )


def _condition(
    flow: model.SequenceFlow, source: NodeDraft, default: bool, draft: Draft, texts: Texts
) -> Expression | None:
    if flow.condition is None or not flow.condition.source.strip():
        return None
    if source.kind in (Kind.PARALLEL, Kind.EVENT_CHOICE):
        rule, message = CONDITION_IGNORED, f"the condition after {source.id!r} is not evaluated"
    elif default:
        rule, message = DEFAULT_CONDITION_IGNORED, "the condition of a default flow is not evaluated"
    else:
        return texts.expression(flow.condition, flow)
    draft.findings.add(rule.at(message, element_id=flow.id, line=flow.line))
    return None


# ------------------------------------------------------------------ links


def join_links(draft: Draft) -> None:
    """A link throw flows to the catch of the same name in its scope; the nodes stay, for the history."""
    catches: dict[tuple[str, str], str] = {}
    throws: list[tuple[model.Event, model.LinkDefinition]] = []
    for node in draft.elements.values():
        for link in _links(node):
            if node.tag == "intermediateCatchEvent":
                catches.setdefault((draft.nodes[node.id].scope, link.name), node.id)
                catches[draft.nodes[node.id].scope, f"#{link.id}"] = node.id
            elif isinstance(node, model.Event) and node.tag == "intermediateThrowEvent":
                throws.append((node, link))
    for event, link in throws:
        scope = draft.nodes[event.id].scope
        target = catches.get((scope, f"#{link.target}")) or catches.get((scope, link.name))
        if target is None:
            draft.refuse(event, f"no link {link.name!r} is caught in this scope")
        else:
            draft.join(event.id, target)


def _links(node: model.FlowNode) -> list[model.LinkDefinition]:
    if not isinstance(node, model.Event):
        return []
    return [definition for definition in node.definitions if isinstance(definition, model.LinkDefinition)]


# ------------------------------------------------------------------ implicit starts and ends


def make_implicit_events(draft: Draft) -> None:
    targets, sources = draft.targets(), draft.sources()
    for scope in list(draft.scopes.values()):
        if scope.kind == "repeat":
            continue
        _find_starts(draft, scope, targets, sources)
        _make_end(draft, scope, sources)


def _find_starts(draft: Draft, scope: ScopeDraft, targets: set[str], sources: set[str]) -> None:
    starts = [node for node in draft.in_scope(scope) if node.kind is Kind.START]
    if starts or scope.kind == "event":
        scope.starts = [node.id for node in starts if scope.kind == "event" or not _triggered(node)]
        return
    waiting = [node for node in draft.in_scope(scope) if node.id not in targets and _may_begin(node, draft)]
    enabled = [node.id for node in waiting if not _instantiates(node)]
    if scope.kind == "adhoc":
        selection = selection_of(draft, scope, enabled)
        draft.add(selection)
        sources.add(selection.id)
        scope.starts = [selection.id]
    elif enabled or not scope.nodes:
        scope.starts = [_made(draft, scope, "start", Kind.START, graph.Start())]
        for node in enabled:
            draft.join(scope.starts[0], node)
            sources.add(scope.starts[0])


def _triggered(start: NodeDraft) -> bool:
    return isinstance(start.spec, graph.Start) and bool(start.spec.events)


def _may_begin(node: NodeDraft, draft: Draft) -> bool:
    """Not what something else begins: boundary events, handlers, event sub-processes, link targets."""
    return not (
        node.is_undo or node.kind is Kind.BOUNDARY or draft.is_event_handler(node) or _is_link_catch(node)
    )


def _is_link_catch(node: NodeDraft) -> bool:
    return node.kind is Kind.PASS and node.tag == "intermediateCatchEvent"


def _instantiates(node: NodeDraft) -> bool:
    return isinstance(node.spec, graph.EventChoice | graph.Catch) and node.spec.instantiate


def _make_end(draft: Draft, scope: ScopeDraft, sources: set[str]) -> None:
    open_ended = [
        node.id
        for node in draft.in_scope(scope)
        if node.id not in sources
        and not (node.is_undo or node.kind is Kind.END or draft.is_event_handler(node))
    ]
    if open_ended:
        end = _made(draft, scope, "end", Kind.END, graph.Throw())
        for node in open_ended:
            draft.join(node, end)


def _made(draft: Draft, scope: ScopeDraft, name: str, kind: Kind, spec: graph.Spec) -> str:
    made = NodeDraft(
        id=f"{scope.id}#{name}",
        kind=kind,
        scope=scope.id,
        element=scope.id,
        tag=f"{name}Event",
        spec=spec,
    )
    draft.add(made)
    return made.id


def outgoing_by_source(draft: Draft) -> dict[str, list[Flow]]:
    """Document order, the default flow last."""
    outgoing: defaultdict[str, list[Flow]] = defaultdict(list)
    for flow in draft.flows.values():
        outgoing[flow.source].append(flow)
    for flows in outgoing.values():
        flows.sort(key=lambda flow: flow.default)
    return outgoing
