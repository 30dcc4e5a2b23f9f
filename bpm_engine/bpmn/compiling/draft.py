"""The graph while it is being made: the same nouns as in `graph`, still mutable.

Passes read and rewrite a `Draft`; `finish` freezes it. A pass never looks at XML, and none but the
first looks at the file's model.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from bpm_engine.bpmn.expressions import Expression
from bpm_engine.bpmn.graph import Activated, DataNeeds, Flow, Kind, Scope, Spec
from bpm_engine.bpmn.model import Container, Definitions, Element, FlowNode, Process
from bpm_engine.bpmn.stores import Operation
from bpm_engine.problems import Findings, error

BROKEN_REFERENCE = error(
    "BROKEN_REFERENCE",
    "Flows, boundary events, links and compensation handlers refer to elements of the same process.",
    "Correct the reference, or remove the element that holds it.",
)

Mappings = tuple[tuple[str, Expression], ...]
ScopeKind = Literal["process", "embedded", "transaction", "adhoc", "event", "repeat"]


@dataclass(slots=True, kw_only=True)
class NodeDraft:
    id: str
    kind: Kind
    scope: str
    element: str
    tag: str
    name: str = ""
    line: int = 0
    spec: Spec | None = None
    inputs: Mappings = ()
    outputs: Mappings = ()
    data: DataNeeds | None = None
    undo: str | None = None
    is_undo: bool = False
    emit: str | None = None
    async_before: bool = False
    async_after: bool = False
    deadline: Expression | None = None
    start_quantity: int = 1
    completion_quantity: int = 1
    is_activity: bool = False
    default: str | None = None  # id of the default flow


@dataclass(slots=True, kw_only=True)
class ScopeDraft:
    id: str
    parent: str | None
    kind: ScopeKind
    nodes: list[str] = field(default_factory=list)
    starts: list[str] = field(default_factory=list)
    handlers: list[str] = field(default_factory=list)
    compensation_handler: str | None = None
    saga: bool = False
    isolated: bool = False
    locals: tuple[tuple[str, Expression | None], ...] = ()
    ordering: Literal["Parallel", "Sequential"] = "Parallel"
    completion: Expression | None = None
    cancel_remaining: bool = True
    activate: Activated | None = None


@dataclass(frozen=True, slots=True)
class StoreUse:
    """An element reads or writes a data store, by one of its references."""

    element: str
    reference: str
    operation: Operation


@dataclass(slots=True)
class Draft:
    """One process on its way from model to graph."""

    process: Process
    definitions: Definitions
    findings: Findings
    nodes: dict[str, NodeDraft] = field(default_factory=dict)
    scopes: dict[str, ScopeDraft] = field(default_factory=dict)
    flows: dict[str, Flow] = field(default_factory=dict)
    elements: dict[str, FlowNode] = field(default_factory=dict)  # the model's nodes by id
    containers: list[Container] = field(default_factory=list)
    store_uses: list[StoreUse] = field(default_factory=list)
    broken: bool = False

    def add(self, node: NodeDraft) -> None:
        self.nodes[node.id] = node
        self.scopes[node.scope].nodes.append(node.id)

    def flow(self, flow: Flow) -> None:
        self.flows[flow.id] = flow

    def join(self, source: str, target: str) -> None:
        """A flow made by compilation."""
        self.flow(Flow(f"{source}>{target}", source, target))

    def refuse(self, element: Element, message: str) -> None:
        """The structure cannot be built as the file says; no graph comes out of it."""
        self.broken = True
        self.findings.add(BROKEN_REFERENCE.at(message, element_id=element.id, line=element.line))

    def is_event_handler(self, node: NodeDraft) -> bool:
        """An event sub-process: no flow leads to it, its own start events are what begins it."""
        return node.kind is Kind.SCOPE and self.scopes[node.id].kind == "event"

    def outer(self, element: str) -> NodeDraft:
        """The node that stands in the element's own scope: its REPEAT when it has one."""
        return self.nodes.get(f"{element}#body") or self.nodes[element]

    def targets(self) -> set[str]:
        return {flow.target for flow in self.flows.values()}

    def sources(self) -> set[str]:
        return {flow.source for flow in self.flows.values()}

    def in_scope(self, scope: ScopeDraft) -> Iterable[NodeDraft]:
        return (self.nodes[node] for node in scope.nodes)


def frozen_scope(scope: ScopeDraft, *, inclusives: tuple[str, ...], compensable: bool) -> Scope:
    return Scope(
        id=scope.id,
        parent=scope.parent,
        kind=scope.kind,
        nodes=tuple(scope.nodes),
        starts=tuple(scope.starts),
        handlers=tuple(scope.handlers),
        compensation_handler=scope.compensation_handler,
        saga=scope.saga,
        isolated=scope.isolated,
        locals=scope.locals,
        ordering=scope.ordering,
        inclusives=inclusives,
        compensable=compensable,
    )
