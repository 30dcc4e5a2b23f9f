"""Cuts a network into chains: paths that a reader sees as one straight line.

The first chain is the main path, from the first start to an end that is no failure, as long as can be.
Every other chain branches off an earlier one with its `entry` link and may return with its `closing`
link. A link between two nodes that both have their place is a chain without nodes: a wire.
Lanes cut chains: all nodes of a chain stand in one lane.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from bpm_engine.bpmn.draw.layout.network import Link, Network, Satellite


@dataclass(slots=True, eq=False)
class Chain:
    nodes: list[str]
    entry: Link | None = None
    closing: Link | None = None
    backward: bool = False  # a wire that runs against the flow
    satellite: Satellite | None = None
    children: list[Chain] = field(default_factory=list)


@dataclass(slots=True)
class _Cutting:
    network: Network
    lane_of: Mapping[str, int]
    worth: Mapping[str, tuple[bool, int]]
    satellites: Mapping[str, list[Satellite]]
    claimed: set[str] = field(default_factory=set)

    def walk(self, node: str, entry: Link | None) -> Chain:
        """The chain from an unclaimed node on: always to the most promising unclaimed neighbour."""
        chain = Chain([node], entry)
        self.claimed.add(node)
        while True:
            here = chain.nodes[-1]
            free = [
                link
                for link in self.network.forward(here)
                if not link.boundary
                and link.target not in self.claimed
                and self.lane_of[link.target] == self.lane_of[here]
            ]
            if not free:
                break
            following = self._straight_on(free)
            self.claimed.add(following)
            chain.nodes.append(following)
        chain.closing = next(self._returns(chain.nodes[-1]), None)
        return chain

    def _straight_on(self, links: list[Link]) -> str:
        """The neighbour written first, unless another leads to a better end or is longer by far."""
        best = links[0].target
        for link in links[1:]:
            (good, length), (best_good, best_length) = self.worth[link.target], self.worth[best]
            if (good and not best_good) or (good == best_good and length > best_length + 1):
                best = link.target
        return best

    def _returns(self, node: str) -> Iterator[Link]:
        links = self.network.forward(node)
        return (link for link in links if not link.boundary and link.target in self.claimed)

    def branches(self, chain: Chain) -> Iterator[Chain]:
        """What leaves a chain. Exceptional paths come last: a shared node belongs to the normal flow."""
        exceptional: list[Link] = []
        for position, node in enumerate(chain.nodes):
            for satellite in self.satellites.get(node, ()):
                yield Chain([satellite.id], satellite=satellite)
            following = chain.nodes[position + 1] if position + 1 < len(chain.nodes) else None
            for link in self.network.outgoing[node]:
                if link.boundary:
                    exceptional.append(link)
                elif link is chain.closing:
                    continue
                elif link.target == following and link.id not in self.network.backward:
                    following = None  # a second link to the same node is a wire
                else:
                    yield self._branch(link)
        for link in exceptional:
            yield self._branch(link)

    def _branch(self, link: Link) -> Chain:
        if link.id in self.network.backward:
            return Chain([], link, backward=True)
        if link.target in self.claimed:
            return Chain([], link)
        return self.walk(link.target, link)


def cut_into_chains(
    network: Network,
    lane_of: Mapping[str, int],
    is_failure: Callable[[str], bool],
    satellites: Iterable[Satellite],
) -> list[Chain]:
    """The root chains, each with its branches below it."""
    beside: dict[str, list[Satellite]] = {}
    for satellite in satellites:
        beside.setdefault(satellite.owner, []).append(satellite)
    cutting = _Cutting(network, lane_of, _worth(network, is_failure), beside)
    roots: list[Chain] = []
    for source in network.sources():
        root = cutting.walk(source, None)
        roots.append(root)
        pending = deque([root])
        while pending:
            chain = pending.popleft()
            chain.children.extend(cutting.branches(chain))
            pending.extend(child for child in chain.children if child.nodes and not child.satellite)
    return roots


def _worth(network: Network, is_failure: Callable[[str], bool]) -> dict[str, tuple[bool, int]]:
    """How good a node is for the main path: does it lead to a good end, over how many nodes?"""
    worth: dict[str, tuple[bool, int]] = {}
    for node in sorted(network.nodes, key=lambda node: -network.columns[node]):
        following = [worth[link.target] for link in network.forward(node) if not link.boundary]
        good, length = max(following, default=(not is_failure(node), 0))
        worth[node] = good, length + 1
    return worth
