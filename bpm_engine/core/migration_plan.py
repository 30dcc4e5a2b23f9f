"""What a migration to another version would do to the marking of one instance, before anything is done.

Every live token, every open wait and every unfinished compensation record is looked at. A token that rests
inside a node needs a node of the same kind in the corresponding scope; one that has not entered yet, or is
done, needs any node there. Waits keep their due times and their terms; what the new version does not have is
dropped, what it adds begins now. The dry run and the migration itself use this one plan.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from bpm_engine.bpmn.graph import Catch, EventChoice, Kind, Node, Repeat, Work
from bpm_engine.core.correspondence import Correspondence
from bpm_engine.core.resets import CONSUMED, RESET
from bpm_engine.core.state import (
    CompensationRecord,
    CompensationStatus,
    Phase,
    Scope,
    ScopeState,
    Subscription,
    Timer,
    TimerPurpose,
    Token,
    TokenState,
    Waiting,
    Word,
)
from bpm_engine.core.waits import DATA, awaited_events, event_of

JOINS = frozenset({Kind.PARALLEL, Kind.INCLUSIVE})  # either may become the other
OPEN = frozenset({ScopeState.ACTIVE, ScopeState.COMPENSATING})
Wait = Timer | Subscription


class Verdict(Word):
    SAFE = "safe"
    BUSY = "busy"  # a handler runs at a node that is renamed: later, or suspended, it can be done
    NEEDS_MAPPING = "needs mapping"
    IMPOSSIBLE = "impossible"


ORDER = tuple(Verdict)


@dataclass(frozen=True, slots=True)
class Judgement:
    """Of what rests at one node."""

    node_id: str
    to_node: str | None
    verdict: Verdict = Verdict.SAFE
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Opening:
    """An event of the new version that begins to wait: at a token, or in a scope. No node: the deadline.
    `event`: which of the node's definitions it is."""

    scope_id: str
    token_id: str | None
    node_id: str | None
    event: int = 0


@dataclass(frozen=True, slots=True)
class Marked:
    """The live rows of one instance; `scopes` also those that compensation records name."""

    tokens: Sequence[Token]
    scopes: Mapping[str, Scope]
    timers: Sequence[Timer]
    subscriptions: Sequence[Subscription]
    records: Sequence[CompensationRecord]

    def waits(self) -> Iterator[Wait]:
        yield from self.timers
        yield from self.subscriptions


@dataclass(slots=True)
class Plan:
    judgements: list[Judgement] = field(default_factory=list)
    tokens: dict[str, str] = field(default_factory=dict)  # token -> node
    flows: dict[str, str | None] = field(default_factory=dict)  # token at a join -> incoming flow
    consumed: dict[str, list[str]] = field(default_factory=dict)  # token that waits for a reset -> flows
    scopes: dict[str, str] = field(default_factory=dict)  # scope -> node
    waits: dict[str, str | None] = field(default_factory=dict)  # wait -> node; None: dropped
    opened: list[Opening] = field(default_factory=list)
    records: dict[str, tuple[str, str | None]] = field(default_factory=dict)  # record -> activity, handler
    notes: list[str] = field(default_factory=list)

    @property
    def verdict(self) -> Verdict:
        return max((each.verdict for each in self.judgements), key=ORDER.index, default=Verdict.SAFE)

    def objections(self) -> list[str]:
        """Without repetition, in order."""
        bad = (each for each in self.judgements if each.verdict is not Verdict.SAFE)
        return list(dict.fromkeys(f"{each.verdict}: {each.reason}" for each in bad))


def plan(correspondence: Correspondence, marked: Marked) -> Plan:
    planner = _Planner(correspondence, marked)
    planner.scopes()
    for token in marked.tokens:
        planner.token(token)
    for record in marked.records:
        planner.record(record)
    planner.handlers()
    return planner.plan


class _Planner:
    def __init__(self, correspondence: Correspondence, marked: Marked) -> None:
        self.plan = Plan()
        self._same = correspondence
        self._marked = marked
        self._source, self._target = correspondence.source, correspondence.target

    # -------------------------------------------------------------- scopes and tokens

    def scopes(self) -> None:
        for scope in self._marked.scopes.values():
            place = self._same.scope(scope.node_id)
            if place is not None:
                self.plan.scopes[scope.id] = place

    def token(self, token: Token) -> None:
        judgement = self._judge(token)
        self.plan.judgements.append(judgement)
        if judgement.to_node is None or judgement.verdict is not Verdict.SAFE:
            return
        self.plan.tokens[token.id] = judgement.to_node
        self._waits_of(token, self._source.nodes[token.node_id], self._target.nodes[judgement.to_node])

    def _judge(self, token: Token) -> Judgement:
        before = self._source.nodes[token.node_id]
        around = self._marked.scopes[token.scope_id]
        place, name = self.plan.scopes.get(around.id), _named(before)
        if place is None:
            words = f"{name} lies in {around.node_id!r}, which the new version does not have"
            return Judgement(before.id, None, Verdict.NEEDS_MAPPING, words)
        found = self._same.node(before.id)
        if found is None:
            return self._lost(token, before, place, f"the new version has no {before.element!r}")
        after = self._target.nodes[found]
        if (found if around.node_id == token.node_id else after.scope) != place:
            words = f"{found!r} lies in {after.scope!r} now, and the token of {name} in {place!r}"
            return self._lost(token, before, place, words)
        objection = self._objection(token, before, after)
        if objection is not None:
            return self._lost(token, before, place, objection)
        if token.state is TokenState.EXECUTING and (before.id, _topic(before)) != (after.id, _topic(after)):
            words = f"{name} is being worked on: suspend the instance, or try again when that is done"
            return Judgement(before.id, after.id, Verdict.BUSY, words)
        return Judgement(before.id, after.id)

    def _lost(self, token: Token, before: Node, place: str, words: str) -> Judgement:
        """A mapping may help if there is anything that it could lead to."""
        candidates = sorted(
            node.element
            for node in self._target.nodes.values()
            if node.scope == place and self._objection(token, before, node, flows=False) is None
        )
        if not candidates:
            reason = f"{words}; nothing in {place!r} there could take its place"
            return Judgement(before.id, None, Verdict.IMPOSSIBLE, reason)
        reason = f"{words}: map {before.element!r} to one of {', '.join(candidates[:10])}"
        return Judgement(before.id, None, Verdict.NEEDS_MAPPING, reason)

    def _objection(self, token: Token, before: Node, after: Node, *, flows: bool = True) -> str | None:
        """Why a token that rests in the one cannot rest in the other."""
        if after.kind is Kind.BOUNDARY and before.kind is not Kind.BOUNDARY:
            return f"a token does not begin at the boundary event {after.id!r}"
        if before.is_undo is not after.is_undo:
            return f"{_named(before)} and {_named(after)} are not both handlers of compensation"
        if token.phase is not Phase.INSIDE:
            return None
        if token.waiting_for is Waiting.JOIN:
            return self._join_objection(token, before, after, flows)
        if before.kind is not after.kind:
            return f"{_named(before)} became {_named(after)}, and a token rests inside"
        match before.spec, after.spec:
            case Catch() as old, Catch() as new if _kinds(old.events) != _kinds(new.events):
                waits = _words(old.events), _words(new.events)
                return f"{_named(before)} waits for {waits[0]}, and {after.id!r} for {waits[1]}"
            case Repeat() as old, Repeat() as new if old.mode != new.mode:
                return f"{_named(before)} runs {old.mode}, and {after.id!r} {new.mode}"
            case Repeat() as old, Repeat() as new if self._same.node(old.inner) != new.inner:
                return f"{_named(before)} repeats {old.inner!r}, and {after.id!r} repeats {new.inner!r}"
        if before.kind is Kind.SCOPE:
            kinds = self._source.scopes[before.id].kind, self._target.scopes[after.id].kind
            if kinds[0] != kinds[1]:
                return f"{before.id!r} is a sub-process of another kind: {kinds[0]}, and {kinds[1]} now"
        return None

    def _join_objection(self, token: Token, before: Node, after: Node, flows: bool) -> str | None:
        if before.kind is not after.kind and not {before.kind, after.kind} <= JOINS:
            return f"{_named(before)} became {_named(after)}, and a token waits there for others"
        if not flows:
            return None
        if token.flow_id == RESET:
            return self._reset_objection(token, before, after)
        found = self._same.flow(token.flow_id, after.id)
        if found is None:
            return (
                f"a token came to {_named(before)} by {token.flow_id!r}, and no such flow leads to "
                f"{after.id!r} now: map the flow to one of {', '.join(after.incoming)}"
            )
        self.plan.flows[token.id] = found
        return None

    def _reset_objection(self, token: Token, before: Node, after: Node) -> str | None:
        """A complex gateway that waits for its reset remembers by which flows it was activated."""
        found = [self._same.flow(flow, after.id) for flow in (token.local or {})[CONSUMED]]
        if None in found:
            return f"a flow by which {_named(before)} was activated does not lead to {after.id!r} now"
        self.plan.consumed[token.id] = sorted(flow for flow in found if flow is not None)
        return None

    # -------------------------------------------------------------- waits

    def _waits_of(self, token: Token, before: Node, after: Node) -> None:
        own = [wait for wait in self._marked.waits() if wait.token_id == token.id]
        places = {after.id, *after.boundary, *(getattr(after.spec, "targets", ()))}
        for wait in own:
            self._wait(wait, before, after, places)
        if token.phase is not Phase.INSIDE:
            return
        self._begin_new(token.scope_id, token.id, _watching(before), _watching(after))
        if after.deadline is not None and before.deadline is None:
            self._begin(token.scope_id, token.id, None)

    def _wait(self, wait: Wait, before: Node, after: Node, places: set[str]) -> None:
        if isinstance(wait, Timer) and wait.purpose is not TimerPurpose.EVENT:
            gone = wait.purpose is TimerPurpose.DEADLINE and after.deadline is None
            self._keep(wait, None if gone else after.id)
            return
        found = after.id if wait.node_id == before.id else self._same.node(wait.node_id)
        self._keep(wait, found if found in places and self._is_alike(wait, found) else None)

    def _is_alike(self, wait: Wait, node_id: str) -> bool:
        """The same kind of event at the same place of the node."""
        if wait.event == DATA:
            return True  # what the node needs is looked at anew; it may need nothing now
        old = getattr(self._source.nodes[wait.node_id].spec, "events", ())
        new = getattr(self._target.nodes[node_id].spec, "events", ())
        return wait.event < len(new) and type(old[wait.event]) is type(new[wait.event])

    def _keep(self, wait: Wait, node_id: str | None) -> None:
        self.plan.waits[wait.id] = node_id
        if node_id is None:
            self.plan.notes.append(f"the event {wait.node_id!r} is dropped")

    def _begin_new(
        self, scope_id: str, token_id: str | None, before: Sequence[str], after: Sequence[str]
    ) -> None:
        """What the old version did not wait for at that place; what it did either is kept or has happened."""
        kept = {
            (self.plan.waits.get(wait.id), wait.event)
            for wait in self._marked.waits()
            if (wait.scope_id, wait.token_id) == (scope_id, token_id)
        }
        for node in (self._target.nodes[node_id] for node_id in after):
            had = [self._source.nodes[each] for each in before if self._same.node(each) == node.id]
            for index in awaited_events(node):
                if (node.id, index) not in kept and not any(_awaits(each, node, index) for each in had):
                    self._begin(scope_id, token_id, node.id, index)

    def _begin(self, scope_id: str, token_id: str | None, node_id: str | None, event: int = 0) -> None:
        self.plan.opened.append(Opening(scope_id, token_id, node_id, event))
        what = "a deadline begins" if node_id is None else f"the event {node_id!r} begins"
        self.plan.notes.append(f"{what} to wait")

    # -------------------------------------------------------------- event sub-processes

    def handlers(self) -> None:
        for scope in self._marked.scopes.values():
            place = self.plan.scopes.get(scope.id)
            if scope.state in OPEN and place is not None:
                self._handlers_of(scope, place)

    def _handlers_of(self, scope: Scope, place: str) -> None:
        old = self._starts(scope.node_id, new=False)
        new = self._starts(place, new=True)
        for wait in self._marked.waits():
            if wait.token_id is not None or wait.scope_id != scope.id:
                continue
            if isinstance(wait, Timer) and wait.purpose is TimerPurpose.DEADLINE:
                self._keep(wait, None if self._target.deadline is None else place)
                continue
            found = self._same.node(wait.node_id)
            self._keep(wait, found if found in new and self._is_alike(wait, found) else None)
        if scope.state is not ScopeState.ACTIVE or self._is_interrupted(scope):
            return
        self._begin_new(scope.id, None, old, new)
        is_root = scope.parent_id is None
        if is_root and self._target.deadline is not None and self._source.deadline is None:
            self._begin(scope.id, None, None)

    def _starts(self, scope_id: str, *, new: bool) -> list[str]:
        graph = self._target if new else self._source
        return [start for each in graph.scopes[scope_id].handlers for start in graph.scopes[each].starts]

    def _is_interrupted(self, scope: Scope) -> bool:
        """An interrupting event sub-process runs: no other listens any more."""
        here = (token.node_id for token in self._marked.tokens if token.scope_id == scope.id)
        running = [node_id for node_id in here if _is_event_scope(self._source.scopes.get(node_id))]
        return any(map(self._source.interrupts, running))

    # -------------------------------------------------------------- compensation

    def record(self, record: CompensationRecord) -> None:
        if record.status is CompensationStatus.COMPLETED or not self._matters(record):
            return
        found = self._same.node(record.node_id)
        handler = None if found is None else self._target.nodes[found].undo
        undoes = handler is not None
        if record.handler_id is None and found is not None:
            inner = self._target.scopes.get(found)
            undoes = inner is not None and (inner.compensable or inner.compensation_handler is not None)
            handler = None
        if found is None or not undoes:
            words = f"{record.node_id!r} has completed and can be compensated; the new version cannot undo it"
            judgement = Judgement(record.node_id, None, Verdict.NEEDS_MAPPING, words)
            self.plan.judgements.append(judgement)
        else:
            self.plan.records[record.id] = (found, handler)

    def _matters(self, record: CompensationRecord) -> bool:
        """One that somebody began and gave up is never looked at again."""
        if record.status is CompensationStatus.PENDING:
            return True
        return any(token.id == record.requested_by for token in self._marked.tokens)


# ------------------------------------------------------------------ words


def _named(node: Node) -> str:
    return f"{node.tag} {node.element!r}"


def _topic(node: Node) -> tuple[str, bool] | None:
    return (node.spec.topic, node.spec.external) if isinstance(node.spec, Work) else None


def _kinds(events: Iterable[object]) -> list[type]:
    return [type(event) for event in events]


def _words(events: Iterable[object]) -> str:
    return " and ".join(f"a {type(event).__name__.removesuffix('Event').lower()}" for event in events)


def _watching(node: Node) -> tuple[str, ...]:
    """The nodes whose events wait while a token rests in this one."""
    targets = node.spec.targets if isinstance(node.spec, EventChoice) else ()
    return (*node.boundary, *targets)


def _awaits(before: Node, after: Node, index: int) -> bool:
    """Whether the one, too, waits for an event of that kind there. A timer of another kind is another one: a
    cycle that has come to its end says nothing of a date."""
    if index not in awaited_events(before):
        return False
    old, new = event_of(before, index), event_of(after, index)
    return type(old) is type(new) and getattr(old, "kind", "") == getattr(new, "kind", "")


def _is_event_scope(scope: object) -> bool:
    return getattr(scope, "kind", "") == "event"
