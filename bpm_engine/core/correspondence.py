"""Which node, scope and flow of one version of a process is which in another.

What keeps its id corresponds to itself; a mapping says so for what was renamed. A mapping names elements:
what compilation made of them (`task#body`, `task#undo`) follows. A flow whose id is gone is found again by
its ends, if only one flow joins them.
"""

from __future__ import annotations

from collections.abc import Mapping

from bpm_engine.bpmn.graph import Graph


class Correspondence:
    def __init__(self, source: Graph, target: Graph, given: Mapping[str, str]) -> None:
        self.source = source
        self.target = target
        self._given = given

    def is_given(self, node_id: str) -> bool:
        return node_id in self._given or node_id.partition("#")[0] in self._given

    def node(self, node_id: str) -> str | None:
        element, mark, part = node_id.partition("#")
        found = self._given.get(node_id)
        if found is None:
            found = f"{self._given.get(element, element)}{mark}{part}"
        return found if found in self.target.nodes else None

    def scope(self, scope_id: str) -> str | None:
        if scope_id == self.source.key:
            return self.target.key
        found = self.node(scope_id)
        return found if found in self.target.scopes else None

    def flow(self, flow_id: str | None, into: str) -> str | None:
        """The incoming flow of a node of the target by which a token would have come."""
        if flow_id is None:
            return None
        found = self._given.get(flow_id, flow_id)
        incoming = self.target.nodes[into].incoming
        if found in incoming:
            return found
        before = self.source.flows.get(flow_id)
        start = None if before is None else self.node(before.source)
        same_ends = [each for each in incoming if self.target.flows[each].source == start]
        return same_ends[0] if len(same_ends) == 1 else None


def unknown_targets(target: Graph, given: Mapping[str, str]) -> list[str]:
    """What a mapping leads to although the target does not have it."""
    return sorted({name for name in given.values() if name not in target.nodes and name not in target.flows})
