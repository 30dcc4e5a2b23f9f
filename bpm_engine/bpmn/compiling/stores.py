"""Data stores: what is read or written there is a step of its own before or behind the activity (10.4.1).

A data store reference is a variable of its scope. `task#read_orders` fetches it before an activity that
reads it begins, `task#write_orders` stores it when one that writes it has completed. Both are work for the
provider that is registered for the store, with all that holds for handlers: leases, retries, incidents, and
on demand the transaction of the step. A repeated activity is read for and written once, as a whole.
"""

from __future__ import annotations

from dataclasses import replace

from bpm_engine.bpmn import graph
from bpm_engine.bpmn.compiling.data import DataNames
from bpm_engine.bpmn.compiling.draft import Draft, NodeDraft, StoreUse
from bpm_engine.bpmn.compiling.texts import Texts
from bpm_engine.bpmn.frozen import FrozenDict
from bpm_engine.bpmn.graph import Flow, Kind
from bpm_engine.bpmn.stores import store_topic
from bpm_engine.bpmn.text import Text
from bpm_engine.problems import error

DATA_STORE_PLACE = error(
    "DATA_STORE_PLACE",
    "A data store is read before an activity and written behind it: there must be a flow to do it on.",
    "Put the activity into a sub-process of its own, and let that hold the association's activity.",
)
VALUE = "value"


def add_store_steps(draft: Draft, names: DataNames, texts: Texts) -> None:
    for use in dict.fromkeys(draft.store_uses):
        node = draft.outer(use.element)
        if _has_no_place(draft, node, use):
            message = f"the data store of {use.reference!r} cannot be reached from {use.element!r} here"
            draft.findings.add(DATA_STORE_PLACE.at(message, element_id=use.element, line=node.line))
            continue
        step = _step(draft, names, texts, node, use)
        draft.add(step)
        if use.operation == "read":
            _put_before(draft, step, draft.nodes.get(f"{use.element}#gather") or node, node)
        else:
            _put_behind(draft, step, node)


def _has_no_place(draft: Draft, node: NodeDraft, use: StoreUse) -> bool:
    if node.is_undo or draft.scopes[node.scope].kind == "adhoc" or draft.is_event_handler(node):
        return True
    if use.operation == "write":
        return node.kind is Kind.END
    sources = (flow.source for flow in draft.flows.values() if flow.target == node.id)
    return any(draft.nodes[source].kind is Kind.EVENT_CHOICE for source in sources)


def _step(draft: Draft, names: DataNames, texts: Texts, node: NodeDraft, use: StoreUse) -> NodeDraft:
    variable, store = names.variables[use.reference], names.stores[use.reference]
    element = draft.elements[use.element]
    value = texts.expression(Text(VALUE, line=node.line), element)
    held = texts.expression(Text(variable, line=node.line), element)
    reads = use.operation == "read"
    properties = {"store": store, "reference": use.reference, "operation": use.operation}
    return NodeDraft(
        id=f"{use.element}#{use.operation}_{variable}",
        kind=Kind.WORK,
        scope=node.scope,
        element=use.element,
        tag="dataStoreReference",
        name=store,
        line=node.line,
        spec=graph.Work(store_topic(store, use.operation), properties=FrozenDict(properties)),
        inputs=() if reads else ((VALUE, held),),
        outputs=((variable, value),) if reads else (),
    )


def _put_before(draft: Draft, step: NodeDraft, gather: NodeDraft, node: NodeDraft) -> None:
    """Behind the gathering of tokens: one read for all of them."""
    between = gather.id if gather is not node else None
    for flow in _flows(draft, target=node.id):
        if between is None or flow.source == between:
            draft.flows[flow.id] = replace(flow, target=step.id)
    draft.join(step.id, node.id)


def _put_behind(draft: Draft, step: NodeDraft, node: NodeDraft) -> None:
    """What the activity decides about its flows is decided when its data is stored."""
    step.completion_quantity, node.completion_quantity = node.completion_quantity, 1
    for flow in [flow for flow in draft.flows.values() if flow.source == node.id]:
        draft.flows[flow.id] = replace(flow, source=step.id)
    draft.join(node.id, step.id)


def _flows(draft: Draft, target: str) -> list[Flow]:
    return [flow for flow in draft.flows.values() if flow.target == target]
