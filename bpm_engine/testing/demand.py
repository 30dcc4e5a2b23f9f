"""Which variables are needed from a place on, until somebody supplies others.

A handler without output mappings, a person without a form and a message may supply anything; a handler with
mappings supplies what these read, a form its fields. So what is needed behind them must be there before.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

from bpm_engine.bpmn import graph as bpmn
from bpm_engine.bpmn.events import ConditionEvent, MessageEvent, TimerEvent
from bpm_engine.bpmn.expressions import Expression, Script
from bpm_engine.bpmn.graph import Graph, Node
from bpm_engine.testing.shapes import Shapes
from bpm_engine.testing.terrain import Place, Terrain

GIVEN = frozenset(
    {
        "loopCounter",
        "numberOfInstances",
        "numberOfActiveInstances",
        "numberOfCompletedInstances",
        "numberOfTerminatedInstances",
    }
)
NUMBER_TYPES = ("number", "integer", "long", "double", "decimal")


class Demand:
    def __init__(self, terrain: Terrain) -> None:
        self._terrain = terrain
        self.shapes = _learn(terrain)
        self._needed: dict[Place, list[str]] = {}

    def needed(self, place: Place) -> list[str]:
        """Variables read after this place is done and before anybody can supply them anew."""
        if place not in self._needed:
            self._needed[place] = list(dict.fromkeys(self._read_after(place)))
        return self._needed[place]

    def _read_after(self, start: Place) -> Iterator[str]:
        node = self._terrain.node(start)
        if start.node in self._terrain.graphs[start.process].root.starts:
            yield from self._read_by_handlers(start)
        bound = GIVEN | _supplied(node)
        yield from (name for name in _leaving(node) if name not in bound)
        open_ends = [(place, bound) for place in self._terrain.ways[start]]
        seen: set[Place] = set()
        while open_ends:
            place, bound = open_ends.pop()
            if place in seen:
                continue
            seen.add(place)
            node = self._terrain.node(place)
            yield from (name for name in self._entering(place, node) if name not in bound)
            if _supplies_anything(node):
                continue
            bound = bound | _supplied(node)
            yield from (name for name in _leaving(node) if name not in bound)
            open_ends += [(following, bound) for following in self._terrain.ways[place]]

    def _read_by_handlers(self, start: Place) -> Iterator[str]:
        graph = self._terrain.graphs[start.process]
        for handler in graph.root.handlers:
            for node_id in graph.scopes[handler].starts:
                yield from _reads(graph.nodes[node_id].spec)

    def _entering(self, place: Place, node: Node) -> Iterator[str]:
        graph = self._terrain.graphs[place.process]
        local = {name for name, _ in node.inputs}
        for _, expression in node.inputs:
            yield from sorted(expression.reads)
        yield from (name for name in _reads(_asked_on_entry(node)) if name not in local)
        for node_id in node.boundary:
            yield from _reads(graph.nodes[node_id].spec)


def _asked_on_entry(node: Node) -> object:
    """Of a repetition, what it takes from each run is read inside; of a form, the guards when it is done."""
    match node.spec:
        case bpmn.Repeat() as spec:
            return dataclasses.replace(spec, output_element=None)
        case bpmn.Human() as spec:
            own = {field.name for field in spec.fields}
            foreign = tuple(guard for guard in spec.guards if not guard.condition.reads & own)
            return dataclasses.replace(spec, guards=foreign)
        case _:
            return node.spec


def _leaving(node: Node) -> Iterator[str]:
    for flow in node.outgoing:
        if flow.condition is not None and not flow.default:
            yield from sorted(flow.condition.reads)


def _supplies_anything(node: Node) -> bool:
    match node.spec:
        case bpmn.Work():
            return not node.outputs and node.spec.result_variable is None
        case bpmn.Human():
            return not node.spec.fields and not node.outputs
        case bpmn.Catch(events=events) | bpmn.Boundary(events=events) | bpmn.Start(events=events):
            return any(isinstance(event, MessageEvent) and not event.payload_variable for event in events)
        case _:
            return False


def _supplied(node: Node) -> frozenset[str]:
    """Names that have a value once the node is done, or inside it."""
    names = {name for name, _ in (*node.inputs, *node.outputs)}
    match node.spec:
        case bpmn.ScriptSpec(script=script, result_variable=variable):
            names |= script.writes | ({variable} if variable else set())
        case bpmn.Human(fields=fields):
            names |= {field.name for field in fields}
        case bpmn.Repeat() as spec:
            names |= {name for name in (spec.element_variable, spec.output_collection) if name}
        case bpmn.Work(result_variable=str() as variable):
            names.add(variable)
        case bpmn.Catch(events=events) | bpmn.Boundary(events=events) | bpmn.Start(events=events):
            for event in events:
                names |= {
                    name
                    for attribute in ("payload_variable", "code_variable", "message_variable")
                    if (name := getattr(event, attribute, None))
                }
    return frozenset(names)


def expressions_in(spec: object) -> Iterator[Expression | Script]:
    """All expressions of a node's spec, wherever they stand in it."""
    if isinstance(spec, Expression | Script):
        yield spec
    elif isinstance(spec, tuple):
        for part in spec:
            yield from expressions_in(part)
    elif dataclasses.is_dataclass(spec):
        for each in dataclasses.fields(spec):
            yield from expressions_in(getattr(spec, each.name))


def _reads(spec: object) -> list[str]:
    return sorted({name for expression in expressions_in(spec) for name in expression.reads})


# ------------------------------------------------------------------ shapes


def _learn(terrain: Terrain) -> Shapes:
    shapes = Shapes()
    for graph in terrain.graphs.values():
        for node in graph.nodes.values():
            _learn_node(shapes, graph, node)
        for flow in graph.flows.values():
            shapes.learn(flow.condition, condition=True)
    return shapes


def _learn_node(shapes: Shapes, graph: Graph, node: Node) -> None:
    for name, expression in (*node.inputs, *node.outputs):
        shapes.learn(expression)
        source = shapes.reference(expression)
        if source is not None:
            shapes.of(name).unite(source)
    for variable, state in node.data.states if node.data is not None else ():
        shapes.of(variable).propose(state)
    for each in _single_expressions(node.spec):
        shapes.learn(each)
    priority = shapes.reference(getattr(node.spec, "priority", None))
    if priority is not None:
        priority.is_number = True
    match node.spec:
        case bpmn.Repeat() as spec:
            _learn_repetition(shapes, spec)
        case bpmn.Human() as spec:
            _learn_form(shapes, spec)
    for event in getattr(node.spec, "events", ()):
        if isinstance(event, ConditionEvent):
            shapes.learn(event.condition, condition=True)
        elif isinstance(event, TimerEvent):
            shape = shapes.reference(event.expression) if event.expression.reads else None
            if shape is not None:
                shape.is_date = event.kind == "date"
                shape.propose(*({"duration": ["PT1H"], "cycle": ["R3/PT1H"]}.get(event.kind, ())))


def _single_expressions(spec: object) -> Iterable[Expression]:
    for found in expressions_in(spec):
        if isinstance(found, Expression):
            yield found
        else:
            yield from (assignment.expression for assignment in found.assignments)
            if found.result is not None:
                yield found.result


def _learn_repetition(shapes: Shapes, spec: bpmn.Repeat) -> None:
    collection = shapes.reference(spec.collection)
    if collection is not None:
        item = collection.item()
        if spec.element_variable:
            item.unite(shapes.of(spec.element_variable))
    count = shapes.reference(spec.cardinality)
    if count is not None:
        count.propose(1, 2, 0)
    for condition in (spec.completion, spec.condition):
        shapes.learn(condition, condition=True)
    result = shapes.reference(spec.output_element)
    if spec.output_collection and result is not None:
        shapes.of(spec.output_collection).item().unite(result)


def _learn_form(shapes: Shapes, spec: bpmn.Human) -> None:
    for guard in spec.guards:
        shapes.learn(guard.condition, condition=True)
    for field in spec.fields:
        shape = shapes.of(field.name)
        match field.type:
            case "boolean":
                shape.propose(True, False)
            case "enum":
                shape.propose(*field.values)
            case "date":
                shape.is_date = True
            case kind if kind in NUMBER_TYPES:
                shape.is_number = True
