"""Random unstructured processes: tasks and gateways wired at will, soundness not given.

Every cycle passes a task at which tokens rest, so that no run is endless by itself. Choices read variables:
`pick_<gateway>` is the number of the flow to take (the last is the default), `on_<flow>` opens a flow of an
inclusive split. Flow ids are numbered, so that a marking can be named by them.

Tasks may need or give several tokens and have a message boundary event; flows may be drawn as links; ends may
terminate; a complex gateway may have a flow that is taken when it is reset.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from hypothesis import strategies as st
from support.generator.drawing import choose, flag, number
from support.generator.xml import HEAD

PROCESS = "net"


class Kind(StrEnum):
    START = "startEvent"
    END = "endEvent"
    TERMINATE = "endEvent that terminates"
    BOUNDARY = "boundaryEvent"
    TASK = "serviceTask"
    PASS = "manualTask"
    EXCLUSIVE = "exclusiveGateway"
    PARALLEL = "parallelGateway"
    INCLUSIVE = "inclusiveGateway"
    COMPLEX = "complexGateway"


@dataclass(frozen=True, slots=True)
class Flow:
    id: str
    source: str
    target: str


@dataclass(frozen=True, slots=True)
class Boundary:
    """A message `m_<id>` takes a token away from the host, or leaves it there."""

    host: str
    interrupting: bool


@dataclass(frozen=True, slots=True)
class Quantity:
    """Of tokens that a task needs to begin, and gives to each flow that it leaves by."""

    start: int = 1
    completion: int = 1


@dataclass(frozen=True, slots=True)
class Net:
    kinds: Mapping[str, Kind]
    flows: tuple[Flow, ...]
    quantities: Mapping[str, Quantity] = field(default_factory=dict)
    boundaries: Mapping[str, Boundary] = field(default_factory=dict)
    links: frozenset[str] = frozenset()  # flows drawn as a pair of link events
    late: frozenset[str] = frozenset()  # flows that a complex gateway takes when it is reset

    def without_links(self) -> Net:
        """Where tokens may rest between the two events of a link, which to the oracle are one flow."""
        return replace(self, links=frozenset())

    def quantity(self, node: str) -> Quantity:
        return self.quantities.get(node, Quantity())

    def attached(self, host: str) -> list[str]:
        return [event for event, boundary in self.boundaries.items() if boundary.host == host]

    def incoming(self, node: str) -> list[Flow]:
        return [flow for flow in self.flows if flow.target == node]

    def outgoing(self, node: str) -> list[Flow]:
        return [flow for flow in self.flows if flow.source == node]

    def joins(self, kind: Kind) -> list[str]:
        return [node for node, each in self.kinds.items() if each is kind and len(self.incoming(node)) > 1]


INNER = (Kind.TASK, Kind.PASS, Kind.EXCLUSIVE, Kind.PARALLEL, Kind.INCLUSIVE)
INCLUSIVE = (Kind.TASK, Kind.INCLUSIVE, Kind.EXCLUSIVE, Kind.PARALLEL)
COMPLEX = (Kind.TASK, Kind.COMPLEX, Kind.EXCLUSIVE, Kind.PARALLEL, Kind.INCLUSIVE)


@st.composite
def nets(draw: st.DrawFn, most: int = 10, kinds: tuple[Kind, ...] = INNER, hub: Kind | None = None) -> Net:
    """A tree of nodes from the start, then further flows; back only to tasks. Many flows lead to a hub."""
    count = number(draw, 2 if hub is None else 5, most)
    chosen = [Kind.TASK, *(choose(draw, kinds) for _ in range(count - 1))]
    if hub is not None:
        chosen[-1] = hub
    pairs = [(number(draw, 0, index - 1), index) for index in range(1, count)]
    tasks = [index for index, kind in enumerate(chosen) if kind is Kind.TASK]
    for _ in range(number(draw, 0, 6)):
        source = number(draw, 0, count - 1)
        to_hub = hub is not None and source < count - 1 and flag(draw)
        target = count - 1 if to_hub else choose(draw, [*range(source + 1, count), *tasks])
        if (source, target) not in pairs:
            pairs.append((source, target))
    return _named(chosen, pairs)


@st.composite
def rich_nets(draw: st.DrawFn, kinds: tuple[Kind, ...] = INNER, hub: Kind | None = None) -> Net:
    """With everything that may be added to nodes and flows."""
    plain = draw(nets(most=8, kinds=kinds, hub=hub))
    tasks = [node for node, kind in plain.kinds.items() if kind is Kind.TASK]
    quantities = {
        node: Quantity(number(draw, 1, 2), number(draw, 1, 2)) for node in tasks if number(draw, 0, 3) == 0
    }
    boundaries = {f"b_{node}": Boundary(node, flag(draw)) for node in tasks if number(draw, 0, 2) == 0}
    added = []
    for event, boundary in boundaries.items():
        index = int(boundary.host[1:])
        later = [node for node in plain.kinds if node.startswith("n") and int(node[1:]) > index]
        added.append(Flow(f"f_{event}", event, choose(draw, [*later, *tasks])))
    ended = [n for n, kind in plain.kinds.items() if kind is Kind.END and number(draw, 0, 4) == 0]
    changed = {**dict.fromkeys(ended, Kind.TERMINATE), **dict.fromkeys(boundaries, Kind.BOUNDARY)}
    net = Net({**plain.kinds, **changed}, (*plain.flows, *added), quantities, boundaries)
    links = frozenset(flow.id for flow in net.flows if number(draw, 0, 4) == 0)
    resets = [node for node in net.joins(Kind.COMPLEX) if flag(draw)]
    late = [Flow(f"late_{node}", node, choose(draw, tasks)) for node in resets]
    return replace(net, flows=(*net.flows, *late), links=links, late=frozenset(flow.id for flow in late))


def _named(chosen: list[Kind], pairs: list[tuple[int, int]]) -> Net:
    kinds = {"start": Kind.START, **{f"n{index}": kind for index, kind in enumerate(chosen)}}
    wires = [("start", "n0"), *((f"n{source}", f"n{target}") for source, target in pairs)]
    for index in range(len(chosen)):
        if not any(source == index for source, _ in pairs):
            kinds[f"end{index}"] = Kind.END
            wires.append((f"n{index}", f"end{index}"))
    flows = tuple(Flow(f"f{number}", source, target) for number, (source, target) in enumerate(wires))
    return Net(kinds, flows)


def to_xml(net: Net) -> str:
    roots = "".join(f'<message id="m_{event}" name="m_{event}"/>' for event in net.boundaries)
    lines = [_node(net, node, kind) for node, kind in net.kinds.items()]
    for flow in net.flows:
        lines += _linked(net, flow) if flow.id in net.links else [_drawn(flow, condition_of(net, flow))]
    content = "\n".join(f"    {line}" for line in lines)
    process = f'  <process id="{PROCESS}" isExecutable="true">\n{content}\n  </process>'
    return f"{HEAD}\n{roots}\n{process}\n</definitions>"


def _drawn(flow: Flow, condition: str | None) -> str:
    head = f'<sequenceFlow id="{flow.id}" sourceRef="{flow.source}" targetRef="{flow.target}"'
    formal = f'<conditionExpression xsi:type="tFormalExpression">{condition}</conditionExpression>'
    return f"{head}/>" if condition is None else f"{head}>{formal}</sequenceFlow>"


def _linked(net: Net, flow: Flow) -> list[str]:
    """What arrives, arrives by the flow behind the link."""
    link = f'<linkEventDefinition name="{flow.id}"/>'
    return [
        f'<intermediateThrowEvent id="{flow.id}_throw">{link}</intermediateThrowEvent>',
        f'<intermediateCatchEvent id="{flow.id}_catch">{link}</intermediateCatchEvent>',
        _drawn(Flow(f"{flow.id}_in", flow.source, f"{flow.id}_throw"), condition_of(net, flow)),
        _drawn(Flow(flow.id, f"{flow.id}_catch", flow.target), None),
    ]


def _left_by(net: Net, flow: Flow) -> str:
    return f"{flow.id}_in" if flow.id in net.links else flow.id


def _node(net: Net, node: str, kind: Kind) -> str:
    outgoing = net.outgoing(node)
    default = f' default="{_left_by(net, outgoing[-1])}"' if chooses(net, node) else ""
    if kind is Kind.TERMINATE:
        return f'<endEvent id="{node}"><terminateEventDefinition/></endEvent>'
    if kind is Kind.BOUNDARY:
        how = str(net.boundaries[node].interrupting).lower()
        definition = f'<messageEventDefinition messageRef="m_{node}"/>'
        host = net.boundaries[node].host
        return (
            f'<boundaryEvent id="{node}" attachedToRef="{host}" cancelActivity="{how}">{definition}'
            "</boundaryEvent>"
        )
    if node in net.quantities:
        needs = net.quantities[node]
        default += f' startQuantity="{needs.start}" completionQuantity="{needs.completion}"'
    if kind is Kind.COMPLEX and len(net.incoming(node)) > 1:
        condition = f"activationCount &gt;= {needed(net, node)}"
        return (
            f'<{kind.value} id="{node}"><activationCondition>{condition}</activationCondition></{kind.value}>'
        )
    return f'<{kind.value} id="{node}"{default}/>'


def needed(net: Net, node: str) -> int:
    """How many tokens activate a complex gateway: half of its flows, at least one."""
    return max(1, len(net.incoming(node)) // 2)


def chooses(net: Net, node: str) -> bool:
    return net.kinds[node] in (Kind.EXCLUSIVE, Kind.INCLUSIVE) and len(net.outgoing(node)) > 1


def condition_of(net: Net, flow: Flow) -> str | None:
    outgoing = net.outgoing(flow.source)
    if flow.id in net.late:
        return "not waitingForStart"
    if not chooses(net, flow.source) or flow is outgoing[-1]:
        return None
    if net.kinds[flow.source] is Kind.EXCLUSIVE:
        return f"pick_{flow.source} == {outgoing.index(flow)}"
    return f"on_{flow.id}"


def choices(draw: st.DrawFn, net: Net) -> dict[str, object]:
    """A value for every variable that a condition reads."""
    values: dict[str, object] = {}
    for node, kind in net.kinds.items():
        if not chooses(net, node):
            continue
        outgoing = net.outgoing(node)
        if kind is Kind.EXCLUSIVE:
            values[f"pick_{node}"] = number(draw, 0, len(outgoing) - 1)
        else:
            values.update({f"on_{flow.id}": flag(draw) for flow in outgoing[:-1]})
    return values


def taken(net: Net, node: str, values: Mapping[str, object]) -> list[Flow]:
    """The flows by which a token leaves the node, by the rules of the specification."""
    outgoing = [flow for flow in net.outgoing(node) if flow.id not in net.late]
    if not chooses(net, node):
        return outgoing
    if net.kinds[node] is Kind.EXCLUSIVE:
        return [outgoing[int(str(values[f"pick_{node}"]))]]
    return [flow for flow in outgoing[:-1] if values[f"on_{flow.id}"]] or outgoing[-1:]
