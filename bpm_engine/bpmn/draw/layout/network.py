"""The graph that is laid out: one connected part of a container, boundary events folded into their hosts.

Columns follow the longest path from the starts. Links that close a cycle (found by depth-first search
from the starts, so that they are the ones a reader calls "back") are set aside first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Link:
    """A line between two placed nodes. `boundary` is the boundary event it leaves from, if any."""

    id: str
    source: str
    target: str
    boundary: str | None = None
    label: str = ""


@dataclass(frozen=True, slots=True)
class Satellite:
    """A node that belongs beside another and takes no part in the flow: handler, annotation, data."""

    id: str
    owner: str
    above: bool


@dataclass(frozen=True, slots=True)
class Network:
    nodes: tuple[str, ...]  # in document order, without satellites
    links: tuple[Link, ...]
    outgoing: Mapping[str, Sequence[Link]]
    backward: frozenset[str]  # link ids
    columns: Mapping[str, int]

    @classmethod
    def of(cls, nodes: Iterable[str], links: Iterable[Link]) -> Network:
        nodes, links = tuple(nodes), tuple(links)
        outgoing: dict[str, list[Link]] = {node: [] for node in nodes}
        for link in links:
            outgoing[link.source].append(link)
        backward = frozenset(_closing_links(nodes, links, outgoing))
        columns = _longest_paths(nodes, outgoing, backward)
        return cls(nodes, links, outgoing, backward, columns)

    def forward(self, node: str) -> Iterator[Link]:
        return (link for link in self.outgoing[node] if link.id not in self.backward)

    def sources(self) -> list[str]:
        targets = {link.target for link in self.links if link.id not in self.backward}
        return [node for node in self.nodes if node not in targets]


def _closing_links(
    nodes: Sequence[str], links: Sequence[Link], outgoing: Mapping[str, Sequence[Link]]
) -> Iterator[str]:
    """Links to a node that is still open in a depth-first search."""
    targets = {link.target for link in links}
    waiting = [*(node for node in nodes if node not in targets), *nodes]
    open_nodes: set[str] = set()
    done: set[str] = set()
    for root in waiting:
        if root in done:
            continue
        stack = [(root, iter(outgoing[root]))]
        open_nodes.add(root)
        while stack:
            node, remaining = stack[-1]
            link = next(remaining, None)
            if link is None:
                stack.pop()
                open_nodes.discard(node)
                done.add(node)
            elif link.target in open_nodes:
                yield link.id
            elif link.target not in done:
                open_nodes.add(link.target)
                stack.append((link.target, iter(outgoing[link.target])))


def _longest_paths(
    nodes: Sequence[str], outgoing: Mapping[str, Sequence[Link]], backward: frozenset[str]
) -> dict[str, int]:
    pending = dict.fromkeys(nodes, 0)
    for node in nodes:
        for link in outgoing[node]:
            if link.id not in backward:
                pending[link.target] += 1
    columns = dict.fromkeys(nodes, 0)
    ready = [node for node in nodes if not pending[node]]
    while ready:
        node = ready.pop()
        for link in outgoing[node]:
            if link.id in backward:
                continue
            columns[link.target] = max(columns[link.target], columns[node] + 1)
            pending[link.target] -= 1
            if not pending[link.target]:
                ready.append(link.target)
    return columns


@dataclass(slots=True)
class Parts:
    """Union-find over node ids: which nodes hang together."""

    parent: dict[str, str] = field(default_factory=dict)

    def find(self, node: str) -> str:
        self.parent.setdefault(node, node)
        root = node
        while self.parent[root] != root:
            root = self.parent[root]
        while self.parent[node] != root:
            self.parent[node], node = root, self.parent[node]
        return root

    def join(self, first: str, second: str) -> None:
        self.parent[self.find(second)] = self.find(first)
