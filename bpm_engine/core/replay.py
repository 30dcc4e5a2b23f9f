"""Replaying the history of an instance against its definition, and comparing with the live tokens (R48).

History names visits: a token at a node, one activation after the other. Replayed, every visit must begin
where a flow of the definition leads from the last one, none may end twice, and those that have not ended are
where tokens must rest now. A token that was altered, put there or removed by foreign hands contradicts this,
and so does a history with a row missing. Migrations in between change the definition and rename what rests.

Parked and unentered tokens have no entry of their own: they are checked by the flow they came by, and at
parallel joins by counting who came and who went on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import networkx as nx

from bpm_engine.bpmn.graph import Graph, Kind, Node
from bpm_engine.core.lifecycle import TERMINAL_TOKENS
from bpm_engine.core.state import (
    Instance,
    InstanceStatus,
    LogEntry,
    LogKind,
    Phase,
    Scope,
    Token,
    TokenState,
    Waiting,
)

STATUSES = {
    LogKind.STARTED: InstanceStatus.RUNNING,
    LogKind.RESUMED: InstanceStatus.RUNNING,
    LogKind.SUSPENDED: InstanceStatus.SUSPENDED,
    LogKind.FAILED: InstanceStatus.FAILED,
    LogKind.CANCELLED: InstanceStatus.CANCELLED,
    LogKind.ENDED: InstanceStatus.COMPLETED,
}
VISITS = frozenset({LogKind.ENTERED, LogKind.COMPLETED, LogKind.CANCELLED})
HEALED = frozenset({LogKind.RETRIED, LogKind.RESOLVED, *VISITS})


@dataclass(slots=True)
class Trail:
    """What the history says of one token: its last visit."""

    node_id: str
    activation: int
    scope_id: str | None
    is_open: bool
    is_cancelled: bool = False
    has_incident: bool = False


@dataclass(slots=True)
class Replay:
    """`graphs` by version. `findings` say what contradicts what."""

    graphs: Mapping[int, Graph]
    graph: Graph | None = None
    status: InstanceStatus | None = None
    trails: dict[str, Trail] = field(default_factory=dict)
    completed: Counter[tuple[str, str]] = field(default_factory=Counter)  # scope, node
    disturbed: bool = False  # an operator moved tokens: counting says nothing any more
    findings: list[str] = field(default_factory=list)
    last: int = 0

    def play(self, entry: LogEntry) -> None:
        if entry.seq != self.last + 1:
            self.findings.append(f"the history has no entry {self.last + 1}")
        self.last = entry.seq
        if entry.token_id is None:
            self._instance(entry)
        elif entry.kind in VISITS:
            self._visit(entry)
        elif entry.token_id in self.trails:
            self._trouble(self.trails[entry.token_id], entry)
        elif entry.kind is LogKind.INCIDENT:
            trail = Trail(entry.node_id or "", entry.activation or 0, entry.scope_id, is_open=False)
            trail.has_incident = True
            self.trails[entry.token_id] = trail

    # -------------------------------------------------------------- the instance

    def _instance(self, entry: LogEntry) -> None:
        data = entry.data or {}
        self.status = STATUSES.get(entry.kind, self.status)
        match entry.kind:
            case LogKind.STARTED:
                self._use(data.get("version"))
            case LogKind.MIGRATED:
                self._use(data.get("to"))
                self._rename(data.get("nodes") or {})
                self.disturbed = True
            case LogKind.MOVED:
                self.disturbed = True

    def _use(self, version: object) -> None:
        self.graph = self.graphs.get(version) if isinstance(version, int) else None
        if self.graph is None:
            self.findings.append(f"the history speaks of version {version}, which is not there")

    def _rename(self, nodes: Mapping[str, str]) -> None:
        for trail in self.trails.values():
            if trail.is_open or trail.has_incident:
                trail.node_id = nodes.get(trail.node_id, trail.node_id)

    # -------------------------------------------------------------- visits

    def _visit(self, entry: LogEntry) -> None:
        assert entry.token_id is not None
        node_id, activation = entry.node_id or "", entry.activation or 0
        if self.graph is not None and node_id not in self.graph.nodes:
            self.findings.append(f"entry {entry.seq}: the definition has no node {node_id!r}")
            return
        before = self.trails.get(entry.token_id)
        if before is not None:
            self._follows(entry, before)
        is_open = entry.kind is LogKind.ENTERED
        cancelled = entry.kind is LogKind.CANCELLED
        self.trails[entry.token_id] = Trail(node_id, activation, entry.scope_id, is_open, cancelled)
        if entry.kind is LogKind.COMPLETED:
            self.completed[entry.scope_id or "", node_id] += 1
        self.disturbed = self.disturbed or cancelled

    def _follows(self, entry: LogEntry, before: Trail) -> None:
        node_id, activation = entry.node_id or "", entry.activation or 0
        where = f"entry {entry.seq}: token {entry.token_id} at {node_id!r}"
        if before.is_cancelled:
            self.findings.append(f"{where}, although it was cancelled at {before.node_id!r}")
        elif activation < before.activation:
            self.findings.append(f"{where} is an earlier visit than the one before")
        elif activation == before.activation:
            if before.node_id != node_id:
                self.findings.append(f"{where} is the same visit as at {before.node_id!r}")
        elif entry.kind is not LogKind.CANCELLED and before.is_open:
            self.findings.append(f"{where}, although it never left {before.node_id!r}")
        elif not self._leads(before.node_id, node_id, activation - before.activation):
            self.findings.append(f"{where}: no flow leads there from {before.node_id!r}")

    def _leads(self, start: str, end: str, visits: int) -> bool:
        """By one flow from visit to visit; by any way over nodes that leave no entry."""
        if self.graph is None or start not in self.graph.nodes or (self.disturbed and visits > 1):
            return True
        if start == end and self.graph.scopes[self.graph.nodes[start].scope].kind == "repeat":
            return True
        if visits == 1:
            return any(flow.target == end for flow in self.graph.nodes[start].outgoing)
        return bool(nx.has_path(self.graph.network, start, end))

    def _trouble(self, trail: Trail, entry: LogEntry) -> None:
        if entry.kind is LogKind.INCIDENT:
            trail.has_incident = True
            if (entry.activation or 0) > trail.activation:  # it failed on entering its next node
                trail.node_id, trail.activation = entry.node_id or "", entry.activation or 0
                trail.is_open = False
        elif entry.kind in HEALED:
            trail.has_incident = False


def verify(
    instance: Instance,
    graphs: Mapping[int, Graph],
    entries: Iterator[LogEntry],
    tokens: Sequence[Token],
    scopes: Mapping[str, Scope],
) -> list[str]:
    """What contradicts what; [] when all tell the same. `tokens`: all of them, also those that have ended."""
    replay = Replay(graphs)
    for entry in entries:
        replay.play(entry)
    return [*replay.findings, *_compared(replay, instance, tokens, scopes)]


# ------------------------------------------------------------------ comparing


def _compared(
    replay: Replay, instance: Instance, tokens: Sequence[Token], scopes: Mapping[str, Scope]
) -> Iterator[str]:
    if replay.status is not instance.status:
        yield f"the instance is {instance.status}; by its history it is {replay.status}"
    root = scopes.get(instance.id)
    if root is not None and root.seq != replay.last:
        yield f"the history ends at entry {replay.last}; the instance has written {root.seq}"
    if replay.graph is not None and instance.definition_version not in replay.graphs:
        yield f"the instance is of version {instance.definition_version}, of which its history does not know"
    elif replay.graph is not None and replay.graphs[instance.definition_version] is not replay.graph:
        yield f"the instance is of version {instance.definition_version}; by its history it is of another"
    known = {token.id: token for token in tokens}
    for token_id, trail in replay.trails.items():
        yield from _row_of(token_id, trail, known.get(token_id))
    for token in tokens:
        if token.state not in TERMINAL_TOKENS:
            yield from _justified(replay, token)
    if replay.graph is not None and not replay.disturbed:
        yield from _counted(replay, replay.graph, tokens)


def _row_of(token_id: str, trail: Trail, token: Token | None) -> Iterator[str]:
    """What history says of a token must be so."""
    if token is None:
        yield f"token {token_id}, last seen at {trail.node_id!r}, is not there"
        return
    is_live = token.state not in TERMINAL_TOKENS
    if trail.is_open and not is_live:
        yield f"token {token_id} is {token.state}; by its history it rests at {trail.node_id!r}"
    elif trail.is_open and (token.node_id, token.activation) != (trail.node_id, trail.activation):
        yield f"token {token_id} is at {token.node_id!r}; by its history it rests at {trail.node_id!r}"
    elif trail.is_cancelled and token.state is not TokenState.CANCELLED:
        yield f"token {token_id} is {token.state}; by its history it was cancelled at {trail.node_id!r}"
    elif token.activation < trail.activation:
        yield f"token {token_id} is at an earlier visit than its history, which has it at {trail.node_id!r}"
    if is_live and trail.has_incident is not (token.state is TokenState.FAILED):
        failed = "has an incident" if trail.has_incident else "has none"
        yield f"token {token_id} at {token.node_id!r} is {token.state}; by its history it {failed}"


def _justified(replay: Replay, token: Token) -> Iterator[str]:
    """Where a token rests, it must have come to."""
    graph, trail = replay.graph, replay.trails.get(token.id)
    if graph is None:
        return
    if token.node_id not in graph.nodes:
        yield f"token {token.id} is at {token.node_id!r}, which the definition does not have"
        return
    entered = trail is not None and (trail.node_id, trail.activation) == (token.node_id, token.activation)
    is_inside = token.phase is not Phase.ENTER and token.waiting_for is not Waiting.JOIN
    if entered and trail is not None and trail.has_incident:
        return  # that an incident is there is known; what failed on its way out of a node was passed only
    if is_inside and (trail is None or not entered or trail.is_open is (token.phase is Phase.LEAVE)):
        yield f"token {token.id} rests at {token.node_id!r}; its history does not know of it"
    elif not is_inside and not entered and not _came(replay, graph, token, trail):
        yield f"token {token.id} is at {token.node_id!r}; nothing in its history leads there"


def _came(replay: Replay, graph: Graph, token: Token, trail: Trail | None) -> bool:
    """By its flow: from its own last visit, or from a node that was completed and made it."""
    if replay.disturbed or token.flow_id is None or not token.flow_id:
        return True
    flow = graph.flows.get(token.flow_id)
    if flow is None or flow.target != token.node_id:
        return False
    if trail is None:
        return bool(replay.completed[token.scope_id, flow.source])
    if token.activation == trail.activation + 1:
        return flow.source == trail.node_id
    return token.activation > trail.activation


def _counted(replay: Replay, graph: Graph, tokens: Sequence[Token]) -> Iterator[str]:
    """At a parallel join as many wait by a flow as came by it and did not go on."""
    parked = Counter(
        (token.scope_id, token.flow_id)
        for token in tokens
        if token.waiting_for is Waiting.JOIN and token.state not in TERMINAL_TOKENS
    )
    unentered = Counter(
        (token.scope_id, token.flow_id)
        for token in tokens
        if token.phase is not Phase.INSIDE and token.state not in TERMINAL_TOKENS
    )
    leaving = {(t.scope_id, t.node_id) for t in tokens if t.phase in (Phase.LEAVE, Phase.COMPLETE)}
    for (scope_id, node_id), came in replay.completed.items():
        node = graph.nodes.get(node_id)
        flow = None if node is None else _only_flow(node)
        if flow is None or (scope_id, node_id) in leaving:
            continue
        join = graph.nodes[flow]
        if join.kind is not Kind.PARALLEL or len(join.incoming) < 2:
            continue
        way = (scope_id, graph.nodes[node_id].outgoing[0].id)
        left = came - replay.completed[scope_id, join.id]
        if parked[way] + unentered[way] != left:
            yield f"{left} tokens must wait at {join.id!r} by {way[1]!r}, and {parked[way]} do"


def _only_flow(node: Node) -> str | None:
    """Where everything goes that completes the node."""
    if len(node.outgoing) != 1 or node.outgoing[0].condition is not None or node.completion_quantity != 1:
        return None
    return node.outgoing[0].target
