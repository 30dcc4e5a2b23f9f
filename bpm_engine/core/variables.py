"""Which variables a token sees, and where what it writes goes.

Reading climbs: the token's own, its scope's, then scope by scope outwards to the root of the instance.
Writing climbs as well and stops at the first place that declares the name, else at the root. Two walls
stop the climb earlier: a scope with output mappings keeps what is written inside it, and a repetition
with an output collection hands out nothing but that collection. See docs/explanation/execution-model.md.

Two things are read that nobody wrote: the counters of a multi-instance activity under the names of the
specification, and `execution`, by which files of other engines ask for the instance itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from bpm_engine.bpmn.graph import Graph, Repeat
from bpm_engine.core.draft import Draft, Touched
from bpm_engine.core.state import Json, Scope, Token, Variables

# As BPMN calls the counters of a multi-instance activity (10.3.8, table 10.30).
STANDARD_COUNTERS = {
    "numberOfInstances": "nrOfInstances",
    "numberOfActiveInstances": "nrOfActiveInstances",
    "numberOfCompletedInstances": "nrOfCompletedInstances",
}
# None, whenever it can be asked for: what interrupts a run or throws out of it ends all of them, because
# boundary events belong to the activity as a whole, and an operator cannot withdraw one item of several.
TERMINATED = "numberOfTerminatedInstances"
EXECUTION = "execution"


class View(Mapping[str, Json]):
    """Layers of variables, the innermost first."""

    __slots__ = ("layers", "place")

    def __init__(self, layers: list[Variables], place: tuple[Draft, str] | None = None) -> None:
        self.layers = layers
        self.place = place  # the scope that it is seen from

    def __getitem__(self, name: str) -> Json:
        for layer in self.layers:
            if name in layer:
                return layer[name]
        if name in STANDARD_COUNTERS:
            return self[STANDARD_COUNTERS[name]]
        if name == TERMINATED and "nrOfInstances" in self:
            return 0
        if name == EXECUTION and self.place is not None:
            return _execution(*self.place)
        raise KeyError(name)

    def __contains__(self, name: object) -> bool:
        if any(name in layer for layer in self.layers):
            return True
        if name == EXECUTION:
            return self.place is not None
        if name == TERMINATED:
            return "nrOfInstances" in self
        return name in STANDARD_COUNTERS and STANDARD_COUNTERS[str(name)] in self

    def __iter__(self) -> Iterator[str]:
        return iter(self.flat())

    def __len__(self) -> int:
        return len(self.flat())

    def flat(self) -> Variables:
        merged: Variables = {}
        for layer in reversed(self.layers):
            merged.update(layer)
        return merged


def view(draft: Draft, scope_id: str, local: Variables | None = None) -> View:
    layers = [local] if local else []
    place: str | None = scope_id
    while place is not None:
        scope = draft.scope(place)
        if patch := draft.patches.get(place):
            layers.append(patch)
        layers.append(scope.variables)
        if scope.loop is not None:
            layers.append(scope.loop)
        place = scope.parent_id
    return View(layers, (draft, scope_id))


def _execution(draft: Draft, scope_id: str) -> Variables:
    instance = draft.instance(draft.scope(scope_id).instance_id)
    return {
        "processBusinessKey": instance.business_key,
        "businessKey": instance.business_key,
        "processInstanceId": instance.id,
        "rootProcessInstanceId": instance.root_instance_id,
        "tenantId": instance.tenant_id,
    }


def own_variables(draft: Draft, scope: Scope) -> Variables:
    patch = draft.patches.get(scope.id)
    return {**scope.variables, **patch} if patch else scope.variables


def write(draft: Draft, graph: Graph, scope_id: str, token: Token | None, values: Variables) -> Variables:
    """Write each name where it belongs; returns what stays with the token."""
    if not values:
        return {}
    scope = draft.scope(scope_id)
    kept: Variables = {}
    if scope.parent_id is None and (token is None or not token.local):
        draft.set_variables(scope_id, values)  # nowhere else to go
    else:
        for name, value in values.items():
            places = _places(draft, graph, scope_id, token, name)
            if not places:
                kept[name] = value
            for place in places:
                draft.set_variable(place, name, value)
    if graph.watched and not graph.watched.isdisjoint(values):
        draft.append(draft.touched, Touched(scope.instance_id, tuple(values)))
    return kept


def _places(draft: Draft, graph: Graph, scope_id: str, token: Token | None, name: str) -> list[str]:
    """The ids of the scopes to write to; none: the token's own variables.

    A compensation handler's own variables are a record of the past: it writes past them. Where it is a scope
    they are written as well, so that its later steps see what the earlier ones wrote.
    """
    if token is not None and token.local and name in token.local and token.compensates is None:
        return []
    past: list[str] = []
    inner: str | None = None
    place = scope_id
    while True:
        scope = draft.scope(place)
        if scope.loop is not None and _is_closed_repetition(graph, scope):
            return past if inner is None else [*past, inner]
        patch = draft.patches.get(place)
        if (patch and name in patch) or name in scope.variables:
            if not _is_past(draft, graph, scope, name):
                return [*past, place]
            past.append(place)
        if scope.parent_id is None or graph.scopes[scope.node_id].isolated:
            return [*past, place]
        inner, place = place, scope.parent_id


def _is_past(draft: Draft, graph: Graph, scope: Scope, name: str) -> bool:
    """Whether the scope is a compensation handler's and does not declare the name itself."""
    if scope.token_id is None or draft.token(scope.token_id).compensates is None:
        return False
    declared = (*graph.scopes[scope.node_id].locals, *graph.nodes[scope.node_id].inputs)
    return all(name != target.partition(".")[0] for target, _ in declared)


def _is_closed_repetition(graph: Graph, scope: Scope) -> bool:
    spec = graph.nodes[scope.node_id].spec
    return isinstance(spec, Repeat) and (
        spec.output_collection is not None or graph.scopes[scope.node_id].isolated
    )
