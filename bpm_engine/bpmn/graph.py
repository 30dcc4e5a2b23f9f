"""The compiled process: an immutable graph that the token game, the checks and the tools read.

Some thirty BPMN elements have become a handful of node kinds; what sets two nodes of one kind apart
is their `spec`. Sugar is gone: links are flows, a multi-instance or loop marker is a REPEAT node
around its activity, `startQuantity` a GATHER before it, implicit starts and ends are explicit,
`bpm:compensate` is a handler node, default flows come last. Everything is plain frozen data: comparable,
picklable, printable. Lines of the file are not compared: the same process in other white space is the
same graph.

`Graph.network` is the same process as a frozen networkx MultiDiGraph for analysis: nodes carry their
`Node` as `node`, sequence flows their `Flow` as `flow` (edge key: flow id); a host is joined to its
boundary events by edges of key `boundary`, a scope node to its starts by edges of key `inside`.
`Graph.nodes` is the frozen adjacency that the executor walks.

Ids. A node has the id of its element. Nodes made by compilation derive theirs: `task#body` is the
REPEAT around `task`, `task#gather` the GATHER before it, `scope#start` and `scope#end` are implicit
events, `task#undo` is the handler of `bpm:compensate`, `throw#compensation` is what a throw does not wait
for. `Node.element` is always an id of the file. Flows made by compilation (links, implicit starts and
ends) are called `source>target`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

import networkx as nx

from bpm_engine.bpmn.events import EventSpec, MessageEvent
from bpm_engine.bpmn.expressions import Expression, Script
from bpm_engine.bpmn.frozen import FrozenDict
from bpm_engine.bpmn.settings import FormField


class Kind(StrEnum):
    __hash__ = str.__hash__  # StrEnum's own is a Python function, and kinds are keys in the hot path

    START = "start"  # begins a scope; spec Start
    PASS = "pass"  # noqa: S105 - nothing to do: abstract and manual task, none intermediate event
    CHOICE = "choice"  # exclusive gateway
    PARALLEL = "parallel"  # parallel gateway
    INCLUSIVE = "inclusive"  # inclusive gateway; spec Inclusive
    COMPLEX = "complex"  # complex gateway; spec Complex
    GATHER = "gather"  # waits for so many tokens before an activity begins; spec Gather
    SELECT = "select"  # begins an ad-hoc sub-process, and waits for selections; spec Selection
    TURN = "turn"  # before an activity of an ad-hoc sub-process that may have to wait
    DONE = "done"  # behind one: is the sub-process complete? spec Completion
    EVENT_CHOICE = "event_choice"  # event-based gateway; spec EventChoice
    WORK = "work"  # a handler does it; spec Work
    SCRIPT = "script"  # the engine evaluates it; spec ScriptSpec
    HUMAN = "human"  # a person does it; spec Human
    CATCH = "catch"  # waits for an event; spec Catch
    THROW = "throw"  # throws events and goes on; spec Throw
    SCOPE = "scope"  # sub-process of any kind; spec Scope
    REPEAT = "repeat"  # loop or multi-instance around one node; spec Repeat
    CALL = "call"  # call activity; spec Call
    BOUNDARY = "boundary"  # catches on behalf of its host; spec Boundary
    END = "end"  # consumes the token, after throwing its events; spec Throw


WAITING_KINDS = frozenset({Kind.CATCH, Kind.EVENT_CHOICE, Kind.HUMAN})  # that open waits of their own
GATEWAYS = frozenset(
    {Kind.CHOICE, Kind.PARALLEL, Kind.INCLUSIVE, Kind.COMPLEX, Kind.GATHER, Kind.EVENT_CHOICE}
)


# ------------------------------------------------------------------ what sets nodes of one kind apart


@dataclass(frozen=True, slots=True)
class Start:
    """`events` empty: a none start. In an event sub-process `interrupting` says what its trigger does."""

    events: tuple[EventSpec, ...] = ()
    interrupting: bool = True
    parallel: bool = False  # parallel multiple: all events are needed


@dataclass(frozen=True, slots=True)
class Inclusive:
    """For each incoming flow, the nodes of the scope from which it can be reached without visiting the
    gateway (13.4.3). A token resting at one of these nodes may still arrive by that flow.

    Nodes that reach every incoming flow are left out of all sets: whichever flows hold a token, one of
    them can be reached, so such a node never holds the gateway back. This keeps the sets as small as the
    stretch between split and join. Empty for a gateway with fewer than two incoming flows."""

    reach: Mapping[str, frozenset[str]] = field(default_factory=FrozenDict)


@dataclass(frozen=True, slots=True)
class Complex:
    activation: Expression | None = None
    reach: Mapping[str, frozenset[str]] = field(default_factory=FrozenDict)


@dataclass(frozen=True, slots=True)
class Gather:
    """`startQuantity` of the activity behind it (10.3.1)."""

    quantity: int


Activated = Literal["all", "none"] | Expression  # an expression gives the ids of activities


@dataclass(frozen=True, slots=True)
class Selection:
    """`enabled`: for each activity without an incoming flow its element, and where a token begins."""

    enabled: tuple[tuple[str, str], ...]
    activate: Activated  # what begins by itself
    waits: bool  # more may be selected: the sub-process goes on when nothing is left in it


@dataclass(frozen=True, slots=True)
class Completion:
    """`cancels`: when the completion condition holds, what still runs is withdrawn."""

    condition: Expression
    cancels: bool


@dataclass(frozen=True, slots=True)
class EventChoice:
    """`targets`: the catch nodes (intermediate catch events, receive tasks) one of which wins."""

    targets: tuple[str, ...]
    instantiate: bool = False
    parallel: bool = False  # instantiating only: all are needed


@dataclass(frozen=True, slots=True)
class Retry:
    """None: the handler's or the engine's default applies."""

    attempts: int | None = None
    kind: Literal["fixed", "linear", "exponential"] | None = None
    base: str | None = None
    max: str | None = None
    jitter: float | None = None


@dataclass(frozen=True, slots=True)
class Work:
    topic: str
    retry: Retry = Retry()
    lease: str | None = None
    priority: Expression | None = None
    external: bool = False
    on_failure: Literal["fail", "suspend"] | None = None
    properties: Mapping[str, str] = field(default_factory=FrozenDict)
    result_variable: str | None = None
    sends: MessageEvent | None = None  # send task: thrown as a message when no handler takes the topic

    @property
    def is_fixed(self) -> bool:
        """Whether the model alone decides what is offered to whom."""
        return self.sends is None and self.priority is None and not self.external


@dataclass(frozen=True, slots=True)
class ScriptSpec:
    script: Script
    result_variable: str | None = None


@dataclass(frozen=True, slots=True)
class Guard:
    condition: Expression
    message: str = ""


@dataclass(frozen=True, slots=True)
class Human:
    assignee: Expression | None = None
    candidate_users: Expression | None = None
    candidate_groups: Expression | None = None
    due: Expression | None = None
    follow_up: Expression | None = None
    priority: Expression | None = None
    form_key: str | None = None
    fields: tuple[FormField, ...] = ()
    guards: tuple[Guard, ...] = ()
    lane: str | None = None  # name of the innermost lane: default candidate group


@dataclass(frozen=True, slots=True)
class Catch:
    events: tuple[EventSpec, ...]
    parallel: bool = False
    instantiate: bool = False  # receive task


@dataclass(frozen=True, slots=True)
class Throw:
    """Empty on an END: a plain end event."""

    events: tuple[EventSpec, ...] = ()


@dataclass(frozen=True, slots=True)
class Boundary:
    host: str  # node id; the REPEAT when the activity has one
    events: tuple[EventSpec, ...]
    interrupting: bool = True
    parallel: bool = False


@dataclass(frozen=True, slots=True)
class Scope:
    """A place where tokens live: the process itself, a sub-process, the inside of a REPEAT."""

    id: str
    parent: str | None
    kind: Literal["process", "embedded", "transaction", "adhoc", "event", "repeat"]
    nodes: tuple[str, ...]
    # where tokens begin: none starts; of an event sub-process its triggered starts; of a repeat the one
    # inner node; of an ad-hoc sub-process its SELECT
    starts: tuple[str, ...]
    handlers: tuple[str, ...] = ()  # event sub-processes waiting while the scope lives (node ids)
    compensation_handler: str | None = None  # compensation event sub-process (node id)
    saga: bool = False
    isolated: bool = False  # has output mappings: what is written inside stays inside
    locals: tuple[tuple[str, Expression | None], ...] = ()  # data objects and properties born with it
    ordering: Literal["Parallel", "Sequential"] = "Parallel"  # ad-hoc
    inclusives: tuple[str, ...] = ()  # inclusive (and complex) joins directly inside
    compensable: bool = False  # something inside can be compensated: keep records


@dataclass(frozen=True, slots=True)
class Repeat:
    """A loop or multi-instance marker. Its scope, of the same id, holds the one node `inner`."""

    inner: str
    mode: Literal["parallel", "sequential", "loop"]
    cardinality: Expression | None = None
    collection: Expression | None = None
    element_variable: str | None = None
    output_collection: str | None = None
    output_element: Expression | None = None
    completion: Expression | None = None  # multi-instance: stop when true
    condition: Expression | None = None  # loop: go on while true
    test_before: bool = False
    maximum: int | None = None
    counter_base: int = 0
    behavior: Literal["None", "One", "All", "Complex"] = "All"
    one_event: EventSpec | None = None
    none_event: EventSpec | None = None
    complex_events: tuple[tuple[Expression, EventSpec | None], ...] = ()


@dataclass(frozen=True, slots=True)
class Call:
    called: Expression  # process id
    version: Literal["latest", "deployment"] | int = "latest"
    version_tag: str | None = None
    pass_all_inputs: bool = True
    pass_all_outputs: bool = True
    business_key: Expression | None = None
    inherit_business_key: bool = False

    @property
    def constant(self) -> str | None:
        """What it calls; None: only a run can tell."""
        return str(self.called.evaluate({})) if self.called.is_constant else None


Spec = (
    Start
    | Inclusive
    | Complex
    | Gather
    | Selection
    | Completion
    | EventChoice
    | Work
    | ScriptSpec
    | Human
    | Catch
    | Throw
    | Boundary
    | Scope
    | Repeat
    | Call
)


# ------------------------------------------------------------------ nodes, flows, the graph


@dataclass(frozen=True, slots=True)
class Flow:
    id: str
    source: str
    target: str
    condition: Expression | None = None
    default: bool = False
    name: str = ""
    line: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class DataSet:
    """An input or output set (10.4.2), as positions in the node's inputs or outputs."""

    required: tuple[int, ...]
    optional: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class DataNeeds:
    """What must be there before an activity begins, and when it has ended."""

    input_sets: tuple[DataSet, ...] = ()  # the first that is available counts
    output_sets: tuple[DataSet, ...] = ()
    states: tuple[
        tuple[str, str], ...
    ] = ()  # variable with the state of a data object -> state it must be in


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    id: str
    kind: Kind
    scope: str
    element: str
    tag: str
    name: str = ""
    line: int = field(default=0, compare=False)
    spec: Spec | None = None
    incoming: tuple[str, ...] = ()  # flow ids
    outgoing: tuple[Flow, ...] = ()  # document order, the default flow last
    boundary: tuple[str, ...] = ()  # node ids of attached events, document order, without compensation
    inputs: tuple[tuple[str, Expression], ...] = ()
    outputs: tuple[tuple[str, Expression], ...] = ()
    data: DataNeeds | None = None
    undo: str | None = None  # node id of the compensation handler
    is_undo: bool = False  # runs in compensation only; has no flows
    emit: str | None = None
    async_before: bool = False
    async_after: bool = False
    deadline: Expression | None = None
    completion_quantity: int = 1  # tokens on each flow that is taken
    is_activity: bool = False  # task, sub-process, call: what history reports and compensation undoes

    # Derived, since each step asks:
    way: Flow | None = field(init=False, compare=False, repr=False)  # the only one, taken without a question
    has_waits: bool = field(
        init=False, compare=False, repr=False
    )  # tokens that rest here may have open waits
    result_is_variables: bool = field(init=False, compare=False, repr=False)  # of the work that is done here
    offers: str | None = field(
        init=False, compare=False, repr=False
    )  # to enter it is to offer work: the topic
    ends: bool = field(init=False, compare=False, repr=False)  # to enter it is to end, and nothing else

    def __post_init__(self) -> None:
        alone = len(self.outgoing) == 1 and self.completion_quantity == 1
        sole = self.outgoing[0] if alone and self.outgoing[0].condition is None else None
        object.__setattr__(self, "way", sole)
        waits = bool(self.boundary) or self.deadline is not None or self.kind in WAITING_KINDS
        object.__setattr__(self, "has_waits", waits)
        plain_result = isinstance(self.spec, Work) and self.spec.result_variable is None
        object.__setattr__(self, "result_is_variables", plain_result)
        plain = not (waits or self.async_before or self.inputs) and self.data is None
        work = self.spec if plain and isinstance(self.spec, Work) else None
        topic = work.topic if work is not None and work.is_fixed else None
        object.__setattr__(self, "offers", topic)
        is_end = self.kind is Kind.END and self.spec in (None, Throw())
        silent = is_end and self.emit is None and not self.outputs
        object.__setattr__(self, "ends", plain and silent and not self.outgoing)

    @property
    def data_reads(self) -> frozenset[str]:
        """The variables that decide whether the data is there with which the activity can begin."""
        if self.data is None or not (self.data.input_sets or self.data.states):
            return frozenset()
        states = (variable for variable, _ in self.data.states)
        return frozenset(states).union(*(expression.reads for _, expression in self.inputs))


@dataclass(frozen=True, slots=True)
class Ahead:
    """What a token leaving this node may run into before it rests again: lets the loader fetch it at once.

    The way leads into sub-processes and, from their ends, out behind them; `joins` lie in any of these
    scopes. `siblings` speaks of the node's own scope only: the last run of a large multi-instance may
    well meet an inclusive join outside, but the other runs need not be looked at for that."""

    joins: frozenset[str] = frozenset()  # parallel, inclusive and complex gateways with several incoming
    siblings: bool = False  # inclusive join, terminate, error or cancel end: the scope's other tokens matter


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    key: str  # process id
    name: str = ""
    line: int = field(default=0, compare=False)
    documentation: str = ""
    version_tag: str | None = None
    executable: bool = True
    retention: str | None = None
    deadline: Expression | None = None
    max_tokens: int | None = None
    nodes: Mapping[str, Node]
    scopes: Mapping[str, Scope]  # the root scope has the id of the process
    flows: Mapping[str, Flow]
    ahead: Mapping[str, Ahead]
    watched: frozenset[str] = (
        frozenset()
    )  # variables that a conditional event or a wait for data inside reads
    content_hash: str = ""  # sha256 of the canonical form: equal content, equal hash

    network: nx.MultiDiGraph[str] = field(compare=False, repr=False)  # frozen; see the module docstring

    # Derived, since each start asks:
    root: Scope = field(init=False, compare=False, repr=False)
    none_starts: tuple[Node, ...] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        root = self.scopes[self.key]
        starts = (self.nodes[node_id] for node_id in root.starts)
        none_starts = tuple(node for node in starts if isinstance(node.spec, Start) and not node.spec.events)
        object.__setattr__(self, "root", root)
        object.__setattr__(self, "none_starts", none_starts)

    def handlers_beside(self, scope_id: str, thrower: str) -> tuple[str, ...]:
        """The event sub-processes of a scope that what is thrown at this node of it can start: not the one
        that throws, and none beside one that has interrupted the scope (13.5.4)."""
        handlers = self.scopes[scope_id].handlers
        if thrower not in handlers:
            return handlers
        if self.interrupts(thrower):
            return ()
        return tuple(handler for handler in handlers if handler != thrower)

    def interrupts(self, handler: str) -> bool:
        """Whether an event sub-process ends what else runs in its scope."""
        starts = (self.nodes[node_id].spec for node_id in self.scopes[handler].starts)
        return any(isinstance(start, Start) and start.interrupting for start in starts)

    def start_events(self) -> Iterator[tuple[Node, int, EventSpec]]:
        """The events that start the process: the node that each triggers, and which of its events it is."""
        for node in (self.nodes[node_id] for node_id in self.root.nodes):
            match node.spec:
                case Start(events=events) | Catch(events=events, instantiate=True):
                    yield from ((node, index, event) for index, event in enumerate(events))
                case EventChoice(instantiate=True):
                    for target in (self.nodes[node_id] for node_id in node.spec.targets):
                        assert isinstance(target.spec, Catch)
                        yield from ((target, index, event) for index, event in enumerate(target.spec.events))
