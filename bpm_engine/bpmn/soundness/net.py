"""The control flow of one scope, reduced to what soundness is about: places and gates.

A `Place` holds tokens: a sequence flow, or the virtual beginning of the scope. A `Gate` consumes from
its input places and produces one of its `outcomes`: choices are free, conditions are not looked at.
Activities are gates too: leaving by their flows, or by an interrupting boundary event; a
non-interrupting one may add a token. Reduction (`reduce`) glues places together, so a place
remembers the elements a token passes on it, for the trace.

A completionQuantity of three is three places that flow together into the flow; a startQuantity is a gate
that counts. A complex gateway is followed where its activation condition counts tokens as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import chain, combinations, product

from bpm_engine.bpmn.events import (
    CancelEvent,
    CompensationEvent,
    ErrorEvent,
    EscalationEvent,
    TerminateEvent,
    TimerEvent,
)
from bpm_engine.bpmn.expressions import Expression
from bpm_engine.bpmn.graph import (
    Boundary,
    Catch,
    Complex,
    EventChoice,
    Flow,
    Gather,
    Graph,
    Kind,
    Node,
    Scope,
    Start,
    Throw,
)

MAX_OUTCOMES = 256
MAX_COMPLEX_INPUTS = 5
TIMES = "×"
COUNTS = re.compile(r"(?:[$#]\{|=)?\s*activationCount\s*(>=|>)\s*(\d+)\s*\}?")


class Input(Enum):
    ANY = "any"  # each token on its own
    ALL = "all"  # one token from each input: parallel join
    INCLUSIVE = "inclusive"  # one from each filled input, when no other can still arrive (13.4.3)
    COUNT = "count"  # so many tokens, from whichever inputs: startQuantity
    COMPLEX = "complex"  # one from each filled input when there are so many; then the reset (13.4.5)


@dataclass(frozen=True, slots=True)
class Place:
    id: str
    path: tuple[str, ...] = ()  # elements passed between source and target, for the trace
    single: bool = False  # glued on the assumption that it never holds two tokens


@dataclass(frozen=True, slots=True)
class Outcome:
    places: frozenset[str]
    clears: bool = False  # terminate, error, cancel: every other token of the scope goes


@dataclass(slots=True)
class Gate:
    id: str  # node id
    input: Input
    inputs: list[str]
    outcomes: list[Outcome]
    quantity: int = 1  # of a gate that counts
    resets: dict[str, frozenset[str]] = field(default_factory=dict)  # place: the inputs consumed before it
    late_outcomes: list[Outcome] = field(default_factory=list)  # of a reset that found tokens


@dataclass(slots=True)
class Net:
    places: dict[str, Place] = field(default_factory=dict)
    gates: dict[str, Gate] = field(default_factory=dict)
    source: dict[str, str] = field(default_factory=dict)  # place -> gate that fills it
    target: dict[str, str] = field(default_factory=dict)  # place -> gate that empties it
    beginnings: list[frozenset[str]] = field(default_factory=list)  # one of these markings is the first
    escapes: bool = False  # an event can interrupt the scope from outside: waiting for ever is not stuck
    undecidable: str = ""  # why the abstraction cannot speak of this scope at all
    caution: str = ""  # why finding nothing is no proof: the real scope can do more than the net

    def copy(self) -> Net:
        return Net(
            dict(self.places),
            {g.id: replace(g, inputs=list(g.inputs), outcomes=list(g.outcomes)) for g in self.gates.values()},
            dict(self.source),
            dict(self.target),
            list(self.beginnings),
            self.escapes,
            self.undecidable,
            self.caution,
        )

    @property
    def has_inclusive(self) -> bool:
        return self.has_complex or any(
            g.input is Input.INCLUSIVE and len(g.inputs) > 1 for g in self.gates.values()
        )

    @property
    def has_complex(self) -> bool:
        return any(g.input is Input.COMPLEX for g in self.gates.values())


def net_of(graph: Graph, scope: Scope) -> Net:
    """The net of one scope; inner scopes are single gates, analysed on their own."""
    net = Net(escapes=_can_be_interrupted(graph, scope))
    nodes = [graph.nodes[i] for i in scope.nodes if _takes_part(graph.nodes[_filler(graph.nodes[i])])]
    for flow in chain.from_iterable(node.outgoing for node in nodes):
        net.places[flow.id] = Place(flow.id)
        net.source[flow.id], net.target[flow.id] = _filler(graph.nodes[flow.source]), flow.target
    for node in nodes:
        if node.kind is not Kind.BOUNDARY:
            net.gates[node.id] = _gate(graph, net, node)
    for node in nodes:
        if node.completion_quantity > 1:
            _multiply(net, node)
    net.beginnings = list(_beginnings(graph, scope, net))
    _prune(net)
    if scope.kind == "adhoc" and any(
        (len(g.inputs) > 1 or g.quantity > 1) and g.input is not Input.ANY for g in net.gates.values()
    ):
        net.undecidable = "an ad-hoc sub-process with a join"
    net.caution = _repeating_boundary(net, nodes)
    return net


def _prune(net: Net) -> None:
    """What no outcome ever fills goes, and what only that could reach; a parallel join keeps missing it."""
    pending = list(net.gates)
    while pending:
        gate = net.gates.get(identifier := pending.pop())
        filled = frozenset().union(*(outcome.places for outcome in gate.outcomes)) if gate else frozenset()
        for place in [p for p, source in net.source.items() if source == identifier and p not in filled]:
            del net.source[place]
            target = net.gates.get(net.target[place])
            if target is None or target.input is Input.ALL:
                net.places[place] = Place(place, (identifier,))
                continue
            target.inputs.remove(place)
            del net.places[place], net.target[place]
            if not target.inputs:
                del net.gates[target.id]
                pending.append(target.id)


def _filler(node: Node) -> str:
    """The gate that fills a node's flows: leaving by a boundary event is an outcome of its host."""
    return node.spec.host if isinstance(node.spec, Boundary) else node.id


def _repeating_boundary(net: Net, nodes: list[Node]) -> str:
    """A non-interrupting event may fire many times; the net lets it fire once. That is the same thing
    unless its tokens can meet others at a join."""
    often = [node for node in nodes if _fires_often(node)]
    if often:
        leading_to_joins = _upstream_of_joins(net)
        for node in often:
            if any(net.target[flow.id] in leading_to_joins for flow in node.outgoing):
                return f"the event {node.id} can fire many times into a join"
    return ""


def _fires_often(node: Node) -> bool:
    spec = node.spec
    return isinstance(spec, Boundary) and not spec.interrupting and any(map(_repeats, spec.events))


def _repeats(event: object) -> bool:
    return not isinstance(event, TimerEvent) or event.kind == "cycle"


def _upstream_of_joins(net: Net) -> set[str]:
    """The joins, and every gate from which one of them can be reached."""
    found: set[str] = set()
    pending = [gate.id for gate in net.gates.values() if gate.input is not Input.ANY]
    while pending:
        gate = pending.pop()
        if gate not in found:
            found.add(gate)
            pending.extend(net.source[place] for place in net.gates[gate].inputs if place in net.source)
    return found


def _takes_part(node: Node) -> bool:
    return not node.is_undo and not (node.kind is Kind.SCOPE and _is_handler(node))


def _is_handler(node: Node) -> bool:
    return isinstance(node.spec, Scope) and node.spec.kind == "event"


def _beginnings(graph: Graph, scope: Scope, net: Net) -> Iterator[frozenset[str]]:
    """A virtual place before each node at which a token can begin; the process picks one of its starts."""
    candidates = [graph.nodes[i] for i in scope.nodes if _begins(graph.nodes[i], scope)]
    for node in candidates:
        place = f"→{node.id}"
        net.places[place], net.target[place] = Place(place), node.id
        net.gates[node.id].inputs.append(place)
        yield frozenset([place])


def _begins(node: Node, scope: Scope) -> bool:
    if node.id in scope.starts or node.kind is Kind.START:
        return True
    if scope.kind == "adhoc" and not node.incoming:
        return node.kind is not Kind.BOUNDARY and _takes_part(node)
    instantiates = isinstance(node.spec, Catch | EventChoice) and node.spec.instantiate
    return instantiates and not node.incoming


def _gate(graph: Graph, net: Net, node: Node) -> Gate:
    inputs = list(node.incoming)
    joins = {Kind.PARALLEL: Input.ALL, Kind.INCLUSIVE: Input.INCLUSIVE}
    mode = joins.get(node.kind, Input.ANY) if len(inputs) > 1 else Input.ANY
    outcomes = _outcomes(graph, node)
    if len(outcomes) > MAX_OUTCOMES:
        net.undecidable = f"more than {MAX_OUTCOMES} ways to leave {node.id}"
        outcomes = outcomes[:MAX_OUTCOMES]
    match node.spec:
        case Gather(quantity=quantity):
            return Gate(node.id, Input.COUNT, inputs, outcomes, quantity)
        case Complex() as spec if spec.activation is not None or len(inputs) > 1:
            return _complex(net, node, spec, Gate(node.id, Input.COMPLEX, inputs, outcomes))
        case _:
            return Gate(node.id, mode, inputs, outcomes)


def _complex(net: Net, node: Node, spec: Complex, gate: Gate) -> Gate:
    """When it was activated a token waits for the reset; its place says which inputs were consumed."""
    quantity = _counted(spec.activation)
    if quantity is None or len(gate.inputs) > MAX_COMPLEX_INPUTS:
        net.undecidable = f"the complex gateway {node.id}"
        return gate
    gate.quantity = quantity
    for some in _subsets(gate.inputs):
        if 0 < len(some) < len(gate.inputs):
            place = f"{node.id}!{','.join(some)}"
            net.places[place], net.target[place] = Place(place), node.id
            gate.resets[place] = frozenset(some)
    conditional = [flow.id for flow in node.outgoing if flow.condition is not None and not flow.default]
    gate.late_outcomes = [Outcome(frozenset(some)) for some in _subsets(conditional)]
    return gate


def _counted(activation: Expression | None) -> int | None:
    """How many tokens the condition asks for, where that is all it says."""
    if activation is None:
        return 1
    found = COUNTS.fullmatch(activation.source.strip())
    return int(found[2]) + (found[1] == ">") if found else None


def _multiply(net: Net, node: Node) -> None:
    """Each flow that is taken gets so many tokens (10.3.1)."""
    gate = net.gates[node.id]
    for flow in node.outgoing:
        merge = f"{flow.id}{TIMES}"
        copies = [f"{merge}{number}" for number in range(node.completion_quantity)]
        for copy in copies:
            net.places[copy], net.source[copy], net.target[copy] = Place(copy), node.id, merge
        net.gates[merge] = Gate(merge, Input.ANY, copies, [Outcome(frozenset([flow.id]))])
        net.source[flow.id] = merge
        gate.outcomes = [
            Outcome((each.places - {flow.id}) | frozenset(copies), each.clears)
            if flow.id in each.places
            else each
            for each in gate.outcomes
        ]


def _outcomes(graph: Graph, node: Node) -> list[Outcome]:
    leaving = _own_outcomes(graph, node)
    added: list[frozenset[str]] = [frozenset()]
    for boundary in (graph.nodes[i] for i in node.boundary):
        spec = boundary.spec
        assert isinstance(spec, Boundary)
        ways = _splits(boundary)
        if spec.interrupting:
            leaving = [*leaving, *(Outcome(way) for way in ways)]
        else:
            added = [*added, *(a | way for a, way in product(added, ways))]
            added = added[: MAX_OUTCOMES + 1]
    if not leaving:  # only ever left by an error that nothing here catches: it ends this scope as well
        leaving = [Outcome(frozenset(), clears=True)]
    return _distinct(Outcome(o.places | a, o.clears) for o, a in product(leaving, added))[: MAX_OUTCOMES + 1]


def _own_outcomes(graph: Graph, node: Node) -> list[Outcome]:
    if _is_interrupted(graph, node):
        return [Outcome(frozenset(), clears=True)]
    if node.kind is Kind.END:
        return [Outcome(frozenset(), clears=_clears(node))]
    if isinstance(node.spec, Scope) and not _can_complete(graph, node.spec):
        return []
    return [Outcome(way) for way in _splits(node)]


def _is_interrupted(graph: Graph, node: Node) -> bool:
    """What throws an escalation never goes on where the nearest catcher in the process interrupts. Who
    catches a computed code is not known: it may go on."""
    events = node.spec.events if isinstance(node.spec, Throw) else ()
    codes = [e.code for e in events if isinstance(e, EscalationEvent) and e.computed is None]
    return any(_interrupts(graph, node, code) for code in codes)


def _interrupts(graph: Graph, node: Node, code: str | None) -> bool:
    thrower, scope = node.id, graph.scopes[node.scope]
    while True:
        handlers = [graph.scopes[i] for i in scope.handlers if i != thrower]
        places = [[graph.nodes[i] for handler in handlers for i in handler.starts]]
        if scope.parent is not None:
            places.append([graph.nodes[i] for i in graph.nodes[scope.id].boundary])
        for nodes in places:
            if (catcher := _escalation_catcher(nodes, code)) is not None:
                return catcher.interrupting and not _needs_all(catcher)
        if scope.parent is None:
            return False
        thrower, scope = scope.id, graph.scopes[scope.parent]


def _needs_all(catcher: Boundary | Start) -> bool:
    """It may have to wait for others, and then the thrower goes on."""
    return catcher.parallel and len(catcher.events) > 1


def _escalation_catcher(nodes: list[Node], code: str | None) -> Boundary | Start | None:
    """A specific code beats one that catches all."""
    for wanted in (code, None):
        for spec in (node.spec for node in nodes):
            if isinstance(spec, Boundary | Start) and any(
                isinstance(event, EscalationEvent) and event.code == wanted for event in spec.events
            ):
                return spec
    return None


def _clears(node: Node) -> bool:
    events = node.spec.events if isinstance(node.spec, Throw) else ()
    return any(isinstance(e, TerminateEvent | ErrorEvent | CancelEvent) for e in events)


def _can_complete(graph: Graph, scope: Scope) -> bool:
    """False when every end of the scope is an error or cancel end: then it is only left by a boundary.

    An event sub-process may catch the error inside, and then the scope ends with it."""
    if scope.handlers:
        return True
    ends = [n for n in (graph.nodes[i] for i in scope.nodes) if n.kind is Kind.END]
    abnormal = [n for n in ends if _leaves_abnormally(graph, n)]
    return not ends or len(abnormal) < len(ends)


def _leaves_abnormally(graph: Graph, end: Node) -> bool:
    events = end.spec.events if isinstance(end.spec, Throw) else ()
    return any(isinstance(e, ErrorEvent | CancelEvent) for e in events) or _is_interrupted(graph, end)


def _splits(node: Node) -> list[frozenset[str]]:
    """The sets of outgoing flows that can be taken together."""
    flows = node.outgoing
    if node.kind in (Kind.CHOICE, Kind.EVENT_CHOICE):
        everything = isinstance(node.spec, EventChoice) and node.spec.parallel
        if not everything:
            return [frozenset([f.id]) for f in flows] or [frozenset()]
    if node.kind is Kind.PARALLEL or not any(_is_conditional(f) for f in flows):
        return [frozenset(f.id for f in flows)]
    always = frozenset(f.id for f in flows if not _is_conditional(f))
    conditional = [f.id for f in flows if f.condition is not None and not f.default]
    taken = [always | frozenset(some) for some in _subsets(conditional)]
    default = frozenset(f.id for f in flows if f.default)
    ways = [way for way in taken if way] if not default else [way for way in taken if way != always]
    return [*ways, always | default] if default else ways


def _is_conditional(flow: Flow) -> bool:
    return flow.default or flow.condition is not None


def _subsets(items: list[str]) -> Iterable[tuple[str, ...]]:
    if 2 ** len(items) > MAX_OUTCOMES:  # reported as undecidable by the length of the outcome list
        items = items[: MAX_OUTCOMES.bit_length()]
    return chain.from_iterable(combinations(items, n) for n in range(len(items) + 1))


def _distinct(outcomes: Iterable[Outcome]) -> list[Outcome]:
    return list(dict.fromkeys(outcomes))


def _can_be_interrupted(graph: Graph, scope: Scope) -> bool:
    """Whether an event from outside (time, message, signal, condition) can end a wait in this scope."""
    for handler in (graph.nodes[i] for i in scope.handlers):
        assert isinstance(handler.spec, Scope)
        starts = (graph.nodes[i] for i in handler.spec.nodes if graph.nodes[i].kind is Kind.START)
        if any(isinstance(s.spec, Start) and s.spec.interrupting and _from_outside(s.spec) for s in starts):
            return True
    owner = graph.nodes.get(scope.id)
    while owner is not None:
        if any(_interrupts_from_outside(graph.nodes[i]) for i in owner.boundary):
            return True
        owner = graph.nodes.get(owner.scope)
    return False


def _interrupts_from_outside(boundary: Node) -> bool:
    spec = boundary.spec
    return isinstance(spec, Boundary) and spec.interrupting and _from_outside(spec)


def _from_outside(catcher: Boundary | Start) -> bool:
    inside = ErrorEvent | EscalationEvent | CompensationEvent | CancelEvent
    outside = [not isinstance(event, inside) for event in catcher.events]
    return all(outside) if _needs_all(catcher) else any(outside)
