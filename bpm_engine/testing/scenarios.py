"""Generated tests for a process of yours: runs that together take every sequence flow.

    covered = cover("processes/order.bpmn")

    @pytest.mark.parametrize("scenario", covered.scenarios, ids=str)
    def test_every_flow(scenario): scenario.play()

Runs are searched in the core alone and then played on a real engine; only what that engine has really done
counts. What could not be covered is reported with the reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import networkx as nx

from bpm_engine.api.sources import read_source
from bpm_engine.bpmn import load
from bpm_engine.bpmn.graph import Flow, Graph, Work
from bpm_engine.core.state import Variables
from bpm_engine.errors import EngineError
from bpm_engine.testing.board import Board, Library
from bpm_engine.testing.coverage import Coverage
from bpm_engine.testing.demand import Demand
from bpm_engine.testing.engine import TestEngine
from bpm_engine.testing.flows import modelled
from bpm_engine.testing.playing import perform
from bpm_engine.testing.robots import Answers, Robots
from bpm_engine.testing.search import Found, Search, Target, flows_of, nodes_of
from bpm_engine.testing.stepping import Stepper
from bpm_engine.testing.steps import Step
from bpm_engine.testing.terrain import Place, Terrain

FlowOf = tuple[str, str]  # process, flow


@dataclass(frozen=True, slots=True)
class Scenario:
    """One run of a process: what comes from outside, in order, and the flows it takes."""

    name: str
    sources: tuple[str | bytes, ...] = field(repr=False)
    steps: tuple[Step, ...]
    flows: frozenset[FlowOf] = field(repr=False)
    ends: bool = True  # False: it leaves the process waiting, or failed

    def __str__(self) -> str:
        return self.name

    def play(self, engine: TestEngine | None = None) -> TestEngine:
        """Play it on an engine, by default a new one with stubs for all topics; AssertionError where the run
        goes another way. The engine, for more assertions."""
        __tracebackhide__ = True
        engine = engine or TestEngine(*self.sources)
        for topic in topics([graph for each in self.sources for graph in load(each, soundness=False).graphs]):
            if topic not in engine._runtime.handlers:
                engine.stub(topic)
        stepper = Stepper(engine)
        for step in self.steps:
            perform(stepper, step)
        missing = self.flows - Coverage.of(engine).taken()
        if missing:
            flows = ", ".join(sorted(flow for _, flow in missing))
            raise AssertionError(f"{self.name}: the run did not take {flows}\n{self.text()}")
        return engine

    def text(self) -> str:
        """The steps, one per line."""
        return "\n".join(f"  {number}. {step}" for number, step in enumerate(self.steps, 1))


@dataclass(frozen=True, slots=True)
class Uncovered:
    """A flow that no generated run takes, and why."""

    process: str
    flow: str
    source: str
    target: str
    reason: str

    def __str__(self) -> str:
        return f"{self.process}: {self.flow} ({self.source} -> {self.target}): {self.reason}"


@dataclass(frozen=True, slots=True)
class Cover:
    """The scenarios for a file, what they cover, and what nothing covers."""

    scenarios: tuple[Scenario, ...]
    uncovered: tuple[Uncovered, ...]
    coverage: Coverage

    @property
    def is_complete(self) -> bool:
        return not self.uncovered

    def text(self) -> str:
        """For people: each scenario with its steps, then what is left."""
        parts = [f"{scenario.name}\n{scenario.text()}" for scenario in self.scenarios]
        parts += [f"not covered: {each}" for each in self.uncovered]
        return "\n\n".join([self.coverage.text(), *parts])


def cover(
    *files: str | bytes | Path, answers: Answers | None = None, variables: Variables | None = None
) -> Cover:
    """Scenarios that together take every sequence flow of the files, as far as they can be found. Processes
    that call each other belong together.

    `answers`: by topic or node id, what handlers and people may answer instead of generated values, each a
    mapping or a `BpmnError`. `variables` are given to every start.
    """
    sources = tuple(read_source(file)[0] for file in files)
    found = [graph for each in sources for graph in load(each, soundness=False).require().graphs]
    graphs = [graph for graph in found if graph.executable]
    planned, uncovered = _Planner(graphs, answers or {}, variables or {}).plan()
    coverage = Coverage.of(TestEngine(*sources))
    scenarios: list[Scenario] = []
    refused: dict[FlowOf, str] = {}
    for each in planned:
        scenario = Scenario(each.name, sources, each.steps, each.flows, each.ends)
        try:
            with scenario.play() as engine:
                coverage.add(engine)
            scenarios.append(scenario)
        except (AssertionError, EngineError) as error:
            refused |= dict.fromkeys(each.flows, str(error).partition("\n")[0])
    uncovered += _refused(
        graphs, {flow: why for flow, why in refused.items() if flow not in coverage.taken()}
    )
    return Cover(tuple(scenarios), tuple(uncovered), coverage)


def _refused(graphs: Sequence[Graph], refused: Mapping[FlowOf, str]) -> list[Uncovered]:
    flows = {(graph.key, flow.id): flow for graph in graphs for flow in graph.flows.values()}
    return [
        Uncovered(process, flow_id, flow.source, flow.target, f"the engine did not follow the run: {why}")
        for (process, flow_id), why in sorted(refused.items())
        for flow in [flows[process, flow_id]]
    ]


def topics(graphs: Sequence[Graph]) -> list[str]:
    """What handlers are needed for."""
    found = {
        node.spec.topic
        for graph in graphs
        for node in graph.nodes.values()
        if isinstance(node.spec, Work) and not node.spec.external
    }
    return sorted(found)


@dataclass(frozen=True, slots=True)
class _Planned:
    name: str
    steps: tuple[Step, ...]
    flows: frozenset[FlowOf]
    nodes: frozenset[Place]
    ends: bool

    @property
    def parts(self) -> frozenset[tuple[str, str]]:
        return self.flows | self.nodes


class _Planner:
    """Goes from the last flow of the file to the first: who gets there has passed most of the others."""

    def __init__(self, graphs: Sequence[Graph], answers: Answers, variables: Variables) -> None:
        self._terrain = Terrain(graphs)
        robots = Robots(
            Board(Library(graphs)), self._terrain, Demand(self._terrain), answers, dict(variables)
        )
        self._search = Search(robots, self._terrain)
        self._flows = {(graph.key, flow.id): flow for graph in graphs for flow in modelled(graph).values()}
        self._nodes = [place for place, node in self._terrain.places() if "#" not in node.id]
        self._found: list[_Planned] = []

    def plan(self) -> tuple[list[_Planned], list[Uncovered]]:
        uncovered: list[Uncovered] = []
        for (process, flow_id), flow in reversed(self._flows.items()):
            target = Target(Place(process, flow.source), flow)
            if not any((process, flow_id) in each.flows for each in self._found):
                result = self._run(target, f"{process}-{flow_id}")
                if result.position is None:
                    uncovered.append(
                        Uncovered(
                            process, flow_id, flow.source, flow.target, self._reason(process, flow, result)
                        )
                    )
        for place in self._nodes:  # what no flow leads to: handlers of compensation
            if not any(place in each.nodes for each in self._found):
                self._run(Target(place), f"{place.process}-{place.node}")
        return _needed(self._found), uncovered[::-1]

    def _run(self, target: Target, name: str) -> Found:
        found = self._search.find(target)
        if found.position is not None:
            whole = self._search.end(found.position)
            flows = frozenset(flows_of(self._terrain, whole) & set(self._flows))
            nodes = frozenset(nodes_of(whole) & set(self._nodes))
            self._found.append(_Planned(name, whole.steps, flows, nodes, whole.is_over))
        return found

    def _leads(self, place: Place, flow: Flow) -> bool:
        network = self._terrain.graphs[place.process].network
        return bool(nx.has_path(network, place.node, flow.source))

    def _reason(self, process: str, flow: Flow, found: Found) -> str:
        reached = [token.node_id for token in found.nearest.tokens] if found.nearest else []
        for place, key in self._terrain.absent():
            if place.process == process and (place.node in reached or self._leads(place, flow)):
                return f"the called process {key!r} is not among the files"
        if found.nearest is None:
            return "no start event leads there"
        waiting = ", ".join(dict.fromkeys(reached))
        wanted = (
            f"nothing found that makes `{flow.condition.source}` true" if flow.condition else "no way found"
        )
        errors = [token.error["message"] for token in found.nearest.tokens if token.error]
        because = f": {errors[0]}" if errors else ""
        return f"{wanted} in {found.moves} moves; the nearest run came to {waiting}{because}"


def _needed(found: Sequence[_Planned]) -> list[_Planned]:
    """Without the runs that do only what others do as well."""
    kept = list(found)
    for each in sorted(found, key=lambda planned: len(planned.parts)):
        others = frozenset[tuple[str, str]]().union(*(other.parts for other in kept if other is not each))
        if each.parts <= others:
            kept.remove(each)
    return kept
