"""Random unstructured processes: tasks and gateways wired at will, soundness not given.

Every cycle passes a task at which tokens rest, so that no run is endless by itself. Choices read variables:
`pick_<gateway>` is the number of the flow to take (the last is the default), `on_<flow>` opens a flow of an
inclusive split. Flow ids are numbered, so that a marking can be named by them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from hypothesis import strategies as st
from support.generator.drawing import choose, flag, number
from support.generator.xml import HEAD

PROCESS = "net"


class Kind(StrEnum):
    START = "startEvent"
    END = "endEvent"
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
class Net:
    kinds: Mapping[str, Kind]
    flows: tuple[Flow, ...]

    def incoming(self, node: str) -> list[Flow]:
        return [flow for flow in self.flows if flow.target == node]

    def outgoing(self, node: str) -> list[Flow]:
        return [flow for flow in self.flows if flow.source == node]

    def joins(self, kind: Kind) -> list[str]:
        return [node for node, each in self.kinds.items() if each is kind and len(self.incoming(node)) > 1]


INNER = (Kind.TASK, Kind.PASS, Kind.EXCLUSIVE, Kind.PARALLEL, Kind.INCLUSIVE)


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
    lines = [_node(net, node, kind) for node, kind in net.kinds.items()]
    for flow in net.flows:
        condition = condition_of(net, flow)
        head = f'<sequenceFlow id="{flow.id}" sourceRef="{flow.source}" targetRef="{flow.target}"'
        formal = f'<conditionExpression xsi:type="tFormalExpression">{condition}</conditionExpression>'
        lines.append(f"{head}/>" if condition is None else f"{head}>{formal}</sequenceFlow>")
    content = "\n".join(f"    {line}" for line in lines)
    return f'{HEAD}\n  <process id="{PROCESS}" isExecutable="true">\n{content}\n  </process>\n</definitions>'


def _node(net: Net, node: str, kind: Kind) -> str:
    outgoing = net.outgoing(node)
    default = f' default="{outgoing[-1].id}"' if chooses(net, node) else ""
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
    outgoing = net.outgoing(node)
    if not chooses(net, node):
        return outgoing
    if net.kinds[node] is Kind.EXCLUSIVE:
        return [outgoing[int(str(values[f"pick_{node}"]))]]
    return [flow for flow in outgoing[:-1] if values[f"on_{flow.id}"]] or outgoing[-1:]
