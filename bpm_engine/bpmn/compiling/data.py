"""Data objects, properties and data associations, as far as they mean something for variables.

A data object or property is a variable of its scope, born with it. A data association between it and
a data input or output of an activity (10.4.1) is a mapping. Associations that only draw a line, with no
data input or output at the activity's end, as modellers write them, are documentation.
"""

from __future__ import annotations

import re
from collections import ChainMap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from bpm_engine.bpmn import model
from bpm_engine.bpmn.compiling.draft import Draft, Mappings
from bpm_engine.bpmn.compiling.texts import Texts
from bpm_engine.bpmn.expressions import Expression
from bpm_engine.problems import warning

DATA_ASSOCIATION_IGNORED = warning(
    "DATA_ASSOCIATION_IGNORED",
    "A data association copies a variable, or gives the value of an expression that runs here.",
    "Write the transformation or assignment as an expression, or use <bpm:input> and <bpm:output>.",
)

_PLACEHOLDER = "__targetRef_placeholder"  # written by bpmn.io, means nothing


def variable_name(item: model.DataItem) -> str:
    """The variable that a data item is: its name where that is an identifier, else its id made one."""
    return item.name if item.name.isidentifier() else re.sub(r"\W", "_", item.id)


@dataclass(slots=True)
class DataNames:
    """Which variable each data item of a process is."""

    variables: dict[str, str] = field(default_factory=dict)  # id of an item -> variable
    stores: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, process: model.Process) -> DataNames:
        names = cls()
        items = list(_items(process))
        for item in items:
            names._note(item)
        by_id = {item.id: item for item in items}
        for item in items:
            if item.kind == "object_reference":
                names._share(item, by_id.get(item.refers_to or ""))
        return names

    def _note(self, item: model.DataItem) -> None:
        if item.kind == "store_reference":
            self.stores.add(item.id)
        else:
            self.variables[item.id] = variable_name(item)

    def _share(self, reference: model.DataItem, target: model.DataItem | None) -> None:
        """All references to one object are one variable; modellers often name the reference only."""
        if target is None:
            return
        if not target.name.isidentifier() and self.variables[target.id] == variable_name(target):
            self.variables[target.id] = variable_name(reference if reference.name.isidentifier() else target)
        self.variables[reference.id] = self.variables[target.id]

    def locals(self, items: Iterable[model.DataItem]) -> tuple[tuple[str, Expression | None], ...]:
        born = (item for item in items if item.kind in ("object", "property") and item.name != _PLACEHOLDER)
        return tuple((name, None) for name in dict.fromkeys(self.variables[item.id] for item in born))


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


def association_mappings(
    node: model.Activity | model.Event, names: DataNames, draft: Draft, texts: Texts
) -> tuple[Mappings, Mappings]:
    """The input and output mappings that a node's data associations amount to."""
    inside = {item.id: variable_name(item) for item in _inside(node)}
    inputs: list[tuple[str, Expression]] = []
    outputs: list[tuple[str, Expression]] = []
    for association in node.data_associations:
        if association.direction == "input" and association.target in inside:
            into, away = inputs, association.sources
        elif association.direction == "output" and any(source in inside for source in association.sources):
            into, away = outputs, (association.target or "",)
        else:
            continue
        stores = [end for end in away if end in names.stores]
        if stores:
            draft.data_stores += stores
            continue
        into.extend(_association(association, ChainMap(inside, names.variables), node, draft, texts))
    return tuple(inputs), tuple(outputs)


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
    pairs: list[tuple[str | None, model.Text]] = [
        (_assigned(assignment.target, variables), _named(assignment.source, variables))
        for assignment in association.assignments
    ]
    if association.transformation:
        pairs.append((target, association.transformation))
    elif not association.assignments and association.sources:
        pairs.append((target, _named(model.Text(association.sources[0], line=association.line), variables)))
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


def _named(text: model.Text, variables: Mapping[str, str]) -> model.Text:
    """Tools write the id of a data item where the standard asks for an expression."""
    name = variables.get(text.source.strip())
    return model.Text(name, line=text.line) if name else text


def _assigned(text: model.Text, variables: Mapping[str, str]) -> str | None:
    source = text.source.strip()
    return variables.get(source) or (source if source.isidentifier() else None)
