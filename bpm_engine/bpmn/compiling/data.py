"""Data objects, properties and data associations, as far as they mean something for variables.

A data object, property or data store reference is a variable of its scope, born with it. A data association
between it and a data input or output of an activity (10.4.1) is a mapping. Written through a reference with
a state, an object is in that state, which the variable `order_state` tells; read through one, it must be.
Of a multi-instance activity, what fills its collection and what takes its results along are mappings of the
activity as a whole; the other associations are made in each run, where the items are its variables (10.3.8).
Associations that only draw a line, with no data input or output at the activity's end, as modellers write
them, are documentation.
"""

from __future__ import annotations

import re
from collections import ChainMap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from bpm_engine.bpmn import graph, model
from bpm_engine.bpmn.compiling.draft import Draft, Mappings, StoreUse
from bpm_engine.bpmn.compiling.texts import Texts
from bpm_engine.bpmn.expressions import Expression
from bpm_engine.bpmn.stores import Operation
from bpm_engine.bpmn.text import TEMPLATE, Text
from bpm_engine.problems import warning

DATA_ASSOCIATION_IGNORED = warning(
    "DATA_ASSOCIATION_IGNORED",
    "A data association copies a variable, or gives the value of an expression that runs here.",
    "Write the transformation or assignment as an expression, or use <bpm:input> and <bpm:output>.",
)

_PLACEHOLDER = "__targetRef_placeholder"  # written by bpmn.io, means nothing


_BORN = ("object", "property", "store_reference")


def _store_name(reference: model.DataItem, definitions: model.Definitions) -> str:
    """All references to one store are one store; without one, the reference stands for it."""
    store = definitions.data_stores.get(reference.refers_to or "")
    return (store.name or store.id) if store else (reference.name or reference.id)


def variable_name(item: model.DataItem) -> str:
    """The variable that a data item is: its name where that is an identifier, else its id made one."""
    return item.name if item.name.isidentifier() else re.sub(r"\W", "_", item.id)


def identifier(name: str | None) -> str | None:
    return None if name is None else name if name.isidentifier() else re.sub(r"\W", "_", name)


@dataclass(slots=True)
class DataNames:
    """Which variable each data item of a process is."""

    variables: dict[str, str] = field(default_factory=dict)  # id of an item -> variable
    stores: dict[str, str] = field(default_factory=dict)  # id of a store reference -> name of the store
    states: dict[str, tuple[str, str]] = field(default_factory=dict)  # id -> variable of the state, state

    @classmethod
    def of(cls, process: model.Process, definitions: model.Definitions) -> DataNames:
        names = cls()
        items = list(_items(process))
        for item in items:
            names.variables[item.id] = variable_name(item)
            if item.kind == "store_reference":
                names.stores[item.id] = _store_name(item, definitions)
        by_id = {item.id: item for item in items}
        for item in items:
            if item.kind == "object_reference":
                names._share(item, by_id.get(item.refers_to or ""))
        for item in items:
            if item.state and item.kind in ("object", "object_reference"):
                names.states[item.id] = (f"{names.variables[item.id]}_state", item.state)
        return names

    def _share(self, reference: model.DataItem, target: model.DataItem | None) -> None:
        """All references to one object are one variable; modellers often name the reference only."""
        if target is None:
            return
        if not target.name.isidentifier() and self.variables[target.id] == variable_name(target):
            self.variables[target.id] = variable_name(reference if reference.name.isidentifier() else target)
        self.variables[reference.id] = self.variables[target.id]

    def locals(
        self, items: Iterable[model.DataItem], texts: Texts
    ) -> tuple[tuple[str, Expression | None], ...]:
        """What is born with a scope; where states are told, also the state of an object."""
        with_state = {variable for variable, _ in self.states.values()}
        born: dict[str, Expression | None] = {}
        for item in items:
            if item.kind not in _BORN or item.name == _PLACEHOLDER:
                continue
            born.setdefault(self.variables[item.id], texts.optional(item.initial, item))
            if (variable := f"{self.variables[item.id]}_state") in with_state:
                born[variable] = texts.template(item.state, item) if item.state else None
        return tuple(born.items())


def _items(process: model.Process) -> Iterator[model.DataItem]:
    yield from process.properties
    yield from process.content.data
    if process.io:
        yield from process.io.inputs
        yield from process.io.outputs
    for node, _ in model.walk(process.content):
        match node:
            case model.Activity():
                yield from node.properties
                if isinstance(node, model.SubProcess):
                    yield from node.content.data
            case model.Event():
                yield from node.properties


@dataclass(slots=True)
class Associated:
    """What the data associations of a node amount to: mappings, and what they belong to."""

    inputs: list[tuple[str, Expression]] = field(default_factory=list)
    outputs: list[tuple[str, Expression]] = field(default_factory=list)
    places: dict[str, list[int]] = field(default_factory=dict)  # id of a data input or output -> positions
    states: list[tuple[str, str]] = field(default_factory=list)

    def add(
        self, item: str, into: list[tuple[str, Expression]], pairs: Iterable[tuple[str, Expression]]
    ) -> None:
        for pair in pairs:
            self.places.setdefault(item, []).append(len(into))
            into.append(pair)

    def needs(self, io: model.IoSpecification | None) -> graph.DataNeeds | None:
        found = graph.DataNeeds(
            self._sets(io.input_sets) if io else (),
            self._sets(io.output_sets) if io else (),
            tuple(dict.fromkeys(self.states)),
        )
        return found if found != graph.DataNeeds() else None

    def _sets(self, sets: tuple[model.DataSet, ...]) -> tuple[graph.DataSet, ...]:
        placed = tuple(graph.DataSet(self._placed(s.required), self._placed(s.optional)) for s in sets)
        return placed if any(s.required or s.optional for s in placed) else ()

    def _placed(self, items: tuple[str, ...]) -> tuple[int, ...]:
        return tuple(place for item in items for place in self.places.get(item, ()))


def associated(
    node: model.Activity | model.Event,
    names: DataNames,
    draft: Draft,
    texts: Texts,
    first: tuple[Mappings, Mappings] = ((), ()),
    *,
    as_a_whole: bool = False,
) -> Associated:
    """The mappings of a node: those that are there first, then what its data associations amount to.

    Of a multi-instance activity these are the mappings of each run or, `as_a_whole`, those around all runs.
    """
    inside = {item.id: variable_name(item) for item in _inside(node)}
    found = Associated(list(first[0]), list(first[1]))
    variables = ChainMap(inside, _items_of_runs(node), names.variables)
    for association in node.data_associations:
        if not _counts(association, inside) or _is_around_runs(association, node) is not as_a_whole:
            continue
        pairs = list(_association(association, variables, node, draft, texts))
        if not pairs:
            continue
        if association.direction == "input":
            found.add(association.target or "", found.inputs, pairs)
            found.states += [names.states[end] for end in association.sources if end in names.states]
            draft.store_uses += _uses(node, association.sources, names, "read")
        else:
            stated = names.states.get(association.target or "")
            if stated is not None:
                pairs.append((stated[0], texts.template(stated[1], node)))
            source = next(source for source in association.sources if source in inside)
            found.add(source, found.outputs, pairs)
            draft.store_uses += _uses(node, (association.target or "",), names, "write")
    return found


def _counts(association: model.DataAssociation, inside: Mapping[str, str]) -> bool:
    """A line that ends at no data input or output of the activity is documentation."""
    if association.direction == "input":
        return association.target in inside
    return any(source in inside for source in association.sources)


def _is_around_runs(association: model.DataAssociation, node: model.Activity | model.Event) -> bool:
    """Whether it fills the collection that a multi-instance activity goes through, or takes along the one it
    makes. Where a setting says what the results are collected in, the data output is each run's own."""
    loop = _multi_instance(node)
    if loop is None:
        return False
    if association.direction == "input":
        return loop.input_data is not None and association.target == loop.input_data
    return loop.output_data in association.sources and not loop.settings.output_collection


def _items_of_runs(node: model.Activity | model.Event) -> dict[str, str]:
    """The items that a run is given and makes: the one is a source, the other a target (10.3.8)."""
    loop = _multi_instance(node)
    if loop is None:
        return {}
    items = ((loop.input_item_id, input_variable(loop)), (loop.output_item_id, output_variable(loop)))
    return {item: variable for item, variable in items if item and variable}


def _multi_instance(node: model.Activity | model.Event) -> model.MultiInstance | None:
    loop = node.loop if isinstance(node, model.Activity) else None
    return loop if isinstance(loop, model.MultiInstance) else None


def input_variable(loop: model.MultiInstance) -> str | None:
    """The variable in which a run finds its item."""
    return loop.settings.element_variable or identifier(loop.input_item)


def output_variable(loop: model.MultiInstance) -> str | None:
    return identifier(loop.output_item)


def _uses(
    node: model.FlowNode, ends: Iterable[str], names: DataNames, operation: Operation
) -> list[StoreUse]:
    return [StoreUse(node.id, end, operation) for end in ends if end in names.stores]


def _inside(node: model.Activity | model.Event) -> Iterator[model.DataItem]:
    if isinstance(node, model.Event):
        yield from node.data_items
    elif node.io:
        yield from node.io.inputs
        yield from node.io.outputs


def _association(
    association: model.DataAssociation,
    variables: Mapping[str, str],
    node: model.FlowNode,
    draft: Draft,
    texts: Texts,
) -> Iterator[tuple[str, Expression]]:
    target = variables.get(association.target or "")
    pairs: list[tuple[str | None, Text]] = [
        (_assigned(assignment.target, variables, target), _named(assignment.source, variables))
        for assignment in association.assignments
    ]
    if association.transformation:
        pairs.append((target, association.transformation))
    elif not association.assignments and association.sources:
        pairs.append((target, _named(Text(association.sources[0], line=association.line), variables)))
    for name, text in pairs:
        compiled = texts.attempt_expression(text)
        if name and compiled:
            yield name, compiled
        else:
            draft.findings.add(
                DATA_ASSOCIATION_IGNORED.at(
                    f"the data association {text.source.strip()[:80]!r} is not understood and does nothing",
                    element_id=node.id,
                    line=association.line or node.line,
                )
            )


def _named(text: Text, variables: Mapping[str, str]) -> Text:
    """Tools write the id of a data item where the standard asks for an expression."""
    name = None if text.language == TEMPLATE else variables.get(text.source.strip())
    return Text(name, line=text.line) if name else text


def _assigned(text: Text, variables: Mapping[str, str], whole: str | None) -> str | None:
    """The variable that an assignment writes; `.` is XPath for all of the association's target."""
    source = text.source.strip()
    return whole if source == "." else variables.get(source) or (source if source.isidentifier() else None)
