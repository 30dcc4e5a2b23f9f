"""How much of your processes your tests have run: nodes entered and sequence flows taken, counted.

Collected from the histories of test engines; added up over a whole pytest session by `--bpm-coverage=DIR`.
Shown as text, and as a picture of each file with what ran in green and what never did in red.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple, Self

from bpm_engine.api.pictures import DONE, FAILED
from bpm_engine.api.views import HistoryEntry
from bpm_engine.bpmn import load
from bpm_engine.bpmn.draw import Style, draw_svg
from bpm_engine.bpmn.graph import Graph
from bpm_engine.bpmn.load import Loaded
from bpm_engine.engine import Engine
from bpm_engine.testing.flows import modelled, taken, visited

PAGE = 500
REPORT, FIGURES = "coverage.txt", "coverage.json"


class Part(NamedTuple):
    """A node or a flow of a process."""

    process: str
    id: str


@dataclass(slots=True)
class FileCoverage:
    """What has run of one file."""

    xml: str
    nodes: Counter[Part] = field(default_factory=Counter)
    flows: Counter[Part] = field(default_factory=Counter)
    instances: Counter[str] = field(default_factory=Counter)

    @property
    def loaded(self) -> Loaded:
        return _loaded(self.xml)

    @property
    def graphs(self) -> list[Graph]:
        return [graph for graph in self.loaded.graphs if graph.executable]

    @property
    def name(self) -> str:
        return self.graphs[0].key if self.graphs else "empty"

    def count(self, graph: Graph, entries: list[HistoryEntry]) -> None:
        self.instances[graph.key] += 1
        self.nodes.update(
            Part(graph.key, graph.nodes[node].element) for node in visited(entries) if node in graph.nodes
        )
        self.flows.update(Part(graph.key, flow) for flow in taken(graph, entries) & set(modelled(graph)))

    def all_nodes(self, graph: Graph) -> list[str]:
        """The elements that tokens come to. A compensation event is never entered: its handler is."""
        return list(dict.fromkeys(node.element for node in graph.nodes.values() if "#" not in node.id))

    def missing_nodes(self, graph: Graph) -> list[str]:
        return [node for node in self.all_nodes(graph) if not self.nodes[Part(graph.key, node)]]

    def missing_flows(self, graph: Graph) -> list[str]:
        return [flow for flow in modelled(graph) if not self.flows[Part(graph.key, flow)]]

    def lines(self) -> Iterator[str]:
        for graph in self.graphs:
            flows, nodes = modelled(graph), self.all_nodes(graph)
            lacking, unseen = self.missing_flows(graph), self.missing_nodes(graph)
            yield (
                f"{graph.key}: {_share(len(flows) - len(lacking), len(flows))} flows, "
                f"{_share(len(nodes) - len(unseen), len(nodes))} nodes, {self.instances[graph.key]} instances"
            )
            yield from (f"  not taken: {f} ({flows[f].source} -> {flows[f].target})" for f in lacking)
            yield from (f"  not entered: {node}" for node in unseen)

    def svg(self) -> str:
        assert self.loaded.definitions is not None
        styles: dict[str, Style] = {}
        for graph in self.graphs:
            for node in self.all_nodes(graph):
                styles[node] = _style(self.nodes[Part(graph.key, node)])
            for flow in modelled(graph):
                styles[flow] = _style(self.flows[Part(graph.key, flow)])
        return draw_svg(self.loaded.definitions, highlight=styles)


class Coverage:
    """Of any number of files; two versions of a process are two files."""

    def __init__(self) -> None:
        self.files: dict[str, FileCoverage] = {}

    @classmethod
    def of(cls, engine: Engine) -> Self:
        coverage = cls()
        coverage.add(engine)
        return coverage

    def add(self, engine: Engine) -> None:
        """Count what the instances of an engine have done so far."""
        for definition in engine.definitions.find(limit=PAGE):
            file = self._file(engine.definitions.xml(definition.key, definition.version))
            graph = next(graph for graph in file.loaded.graphs if graph.key == definition.key)
            for instance_id in _instances(engine, definition.key, definition.version):
                file.count(graph, _history(engine, instance_id))

    def merge(self, other: Coverage) -> None:
        for file in other.files.values():
            own = self._file(file.xml)
            own.nodes += file.nodes
            own.flows += file.flows
            own.instances += file.instances

    def taken(self) -> set[tuple[str, str]]:
        """The flows that were taken, each with its process."""
        return {(part.process, part.id) for file in self.files.values() for part in file.flows}

    @property
    def is_complete(self) -> bool:
        return not any(file.missing_flows(graph) for file in self.files.values() for graph in file.graphs)

    def text(self) -> str:
        return "\n".join(line for file in self.files.values() for line in file.lines())

    def svg(self, process: str) -> str:
        """The picture of the file that a process is in."""
        for file in self.files.values():
            if any(graph.key == process for graph in file.graphs):
                return file.svg()
        raise KeyError(process)

    def write(self, directory: Path) -> list[Path]:
        """The text, the figures as JSON and a picture per file."""
        directory.mkdir(parents=True, exist_ok=True)
        names = Counter(file.name for file in self.files.values())
        written = [directory / REPORT, directory / FIGURES]
        written[0].write_text(self.text() + "\n", encoding="utf-8")
        written[1].write_text(json.dumps(self.figures(), indent=1) + "\n", encoding="utf-8")
        for digest, file in self.files.items():
            suffix = f"-{digest[:8]}" if names[file.name] > 1 else ""
            written.append(directory / f"{file.name}{suffix}.svg")
            written[-1].write_text(file.svg(), encoding="utf-8")
        return written

    # -------------------------------------------------------------- as data, between processes

    def figures(self) -> list[dict[str, Any]]:
        return [
            {
                "xml": file.xml,
                "nodes": [[*part, number] for part, number in file.nodes.items()],
                "flows": [[*part, number] for part, number in file.flows.items()],
                "instances": dict(file.instances),
            }
            for file in self.files.values()
        ]

    @classmethod
    def from_figures(cls, figures: list[dict[str, Any]]) -> Self:
        coverage = cls()
        for each in figures:
            file = coverage._file(each["xml"])
            file.nodes.update({Part(process, node): number for process, node, number in each["nodes"]})
            file.flows.update({Part(process, flow): number for process, flow, number in each["flows"]})
            file.instances.update(each["instances"])
        return coverage

    def _file(self, xml: str) -> FileCoverage:
        return self.files.setdefault(sha256(xml.encode()).hexdigest(), FileCoverage(xml))


@lru_cache(maxsize=64)
def _loaded(xml: str) -> Loaded:
    return load(xml, soundness=False)


def _style(count: int) -> Style:
    known = DONE if count else FAILED
    return Style(fill=known.fill, stroke=known.stroke, badge=f"{count}×" if count > 1 else "")


def _share(part: int, whole: int) -> str:
    return f"{part} of {whole}"


def _instances(engine: Engine, key: str, version: int) -> Iterator[str]:
    cursor: str | None = None
    while True:
        page = engine.instances.find(definition=key, version=version, limit=PAGE, cursor=cursor)
        yield from (instance.id for instance in page)
        cursor = page.cursor
        if cursor is None:
            return


def _history(engine: Engine, instance_id: str) -> list[HistoryEntry]:
    entries: list[HistoryEntry] = []
    cursor: str | None = None
    while True:
        page = engine.history.find(instance_id, limit=PAGE, cursor=cursor)
        entries += page.items
        cursor = page.cursor
        if cursor is None:
            return entries
