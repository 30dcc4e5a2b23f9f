"""Structural rules: glue together what cannot matter, until little or nothing is left to explore.

Each rule keeps every stuck and every unbounded behaviour: the reduced net is sound exactly when the
net is. A block-structured process shrinks to nothing, which is its proof. One rule (inclusive
blocks) assumes that at most one token is in the block; it marks the place `single`, and exploration
falls back to the full net when it ever meets two tokens there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from bpm_engine.bpmn.soundness.net import Gate, Input, Net, Outcome, Place

MAX_GLUED_OUTCOMES = 64


def reduced(net: Net) -> Net:
    net = net.copy()
    pending = list(net.gates)
    while pending:
        gate = net.gates.get(pending.pop())
        if gate is None:
            continue
        touched = next((t for rule in RULES if (t := rule(net, gate))), None)
        if touched:
            pending.extend(touched)
    return net


def _drop_ends(net: Net, gate: Gate) -> list[str] | None:
    """A token on its way to a plain end is as good as gone."""
    if gate.input is not Input.ANY or gate.outcomes != [Outcome(frozenset())]:
        return None
    removable = [p for p in gate.inputs if p in net.source]
    if not removable:
        return None
    touched = [net.source[p] for p in removable]
    for place in removable:
        source = net.gates[net.source[place]]
        _set_outcomes(source, [replace(o, places=o.places - {place}) for o in source.outcomes])
        _forget(net, place)
    if not gate.inputs:
        del net.gates[gate.id]
    return [*touched, gate.id]


def _pass_through(net: Net, gate: Gate) -> list[str] | None:
    """A gate that hands each token on to one place: its input places grow into that place's target."""
    if gate.input is not Input.ANY or len(gate.outcomes) != 1 or gate.outcomes[0].clears:
        return None
    if len(gate.outcomes[0].places) != 1:
        return None
    (after,) = gate.outcomes[0].places
    target = net.gates[net.target[after]]
    if target is gate or (len(gate.inputs) != 1 and target.input is not Input.ANY) or not gate.inputs:
        return None
    follow = net.places[after]
    for place in gate.inputs:
        before = net.places[place]
        path = (*before.path, gate.id, *follow.path)
        net.places[place] = Place(place, path, before.single or follow.single)
        net.target[place] = target.id
    position = target.inputs.index(after)
    target.inputs[position : position + 1] = gate.inputs
    sources = [net.source[p] for p in gate.inputs if p in net.source]
    gate.inputs = []
    _remove_place(net, after)
    del net.gates[gate.id]
    return [target.id, *sources]


def _glue_parallel(net: Net, gate: Gate) -> list[str] | None:
    """Two places always filled together and always emptied together are one."""
    for one, other in _pairs_to_same_target(net, gate):
        if net.gates[net.target[one]].input is not Input.ALL:
            continue
        if all((one in o.places) == (other in o.places) for o in gate.outcomes):
            return _glue(net, gate, one, other)
    return None


def _glue_choice(net: Net, gate: Gate) -> list[str] | None:
    """Two ways to the same merge, never both, are one."""
    for one, other in _pairs_to_same_target(net, gate):
        if net.gates[net.target[one]].input is not Input.ANY:
            continue
        if not any(one in o.places and other in o.places for o in gate.outcomes):
            return _glue(net, gate, one, other)
    return None


def _glue_inclusive(net: Net, gate: Gate) -> list[str] | None:
    """Any of two places straight into one inclusive join: it takes what is there."""
    for one, other in _pairs_to_same_target(net, gate):
        if net.gates[net.target[one]].input is Input.INCLUSIVE:
            return _glue(net, gate, one, other, single=True)
    return None


def _drop_loop(net: Net, gate: Gate) -> list[str] | None:
    """Going round and coming back to the same choice changes nothing, when there is another way out."""
    if gate.input is not Input.ANY:
        return None
    back = [p for o in gate.outcomes if len(o.places) == 1 for p in o.places if net.target[p] == gate.id]
    others = [o for o in gate.outcomes if not (o.places & set(back))]
    if not back or not others or any(o.places & set(back) and len(o.places) > 1 for o in gate.outcomes):
        return None
    round_is_single = any(net.places[p].single for p in back)
    _set_outcomes(gate, others)
    for place in back:
        _forget(net, place)
    if round_is_single:
        for place in gate.inputs:
            net.places[place] = replace(net.places[place], single=True)
    return [gate.id]


def _merge_choices(net: Net, gate: Gate) -> list[str] | None:
    """A gate with one input, fed by another, decides at once with it. Not where an inclusive join listens:
    there the moment between the two decisions can be seen."""
    if gate.input is not Input.ANY or len(gate.inputs) != 1 or net.has_inclusive:
        return None
    (before,) = gate.inputs
    source = net.gates.get(net.source.get(before, ""))
    if source is None or source is gate or any(o.clears for o in gate.outcomes):
        return None
    feeding = sum(before in o.places for o in source.outcomes)
    overlap = any(o.places & p.places for o in source.outcomes for p in gate.outcomes if before in o.places)
    if overlap or len(source.outcomes) + feeding * len(gate.outcomes) > MAX_GLUED_OUTCOMES:
        return None
    glued = net.places[before]
    merged = [
        new
        for o in source.outcomes
        for new in (
            [Outcome((o.places - {before}) | p.places) for p in gate.outcomes] if before in o.places else [o]
        )
    ]
    for place in {p for o in gate.outcomes for p in o.places}:
        follow = net.places[place]
        path = (*glued.path, gate.id, *follow.path)
        net.places[place] = Place(place, path, glued.single or follow.single)
        net.source[place] = source.id
    _set_outcomes(source, merged)
    gate.inputs = []
    del net.places[before], net.target[before], net.source[before]
    del net.gates[gate.id]
    return [source.id]


RULES: tuple[Callable[[Net, Gate], list[str] | None], ...] = (
    _drop_ends,
    _pass_through,
    _glue_parallel,
    _glue_choice,
    _glue_inclusive,
    _drop_loop,
    _merge_choices,
)


def _pairs_to_same_target(net: Net, gate: Gate) -> Iterator[tuple[str, str]]:
    first: dict[str, str] = {}
    for place in dict.fromkeys(p for o in gate.outcomes for p in sorted(o.places)):
        target = net.target[place]
        if target in first:
            yield first[target], place
        else:
            first[target] = place


def _glue(net: Net, gate: Gate, kept: str, gone: str, *, single: bool = False) -> list[str]:
    target = net.gates[net.target[kept]]
    both = net.places[kept], net.places[gone]
    net.places[kept] = replace(both[0], single=single or both[0].single or both[1].single)
    _set_outcomes(
        gate,
        [replace(o, places=(o.places - {gone}) | {kept}) if gone in o.places else o for o in gate.outcomes],
    )
    _forget(net, gone)
    if len(target.inputs) == 1:
        target.input = Input.ANY
    return [gate.id, target.id]


def _set_outcomes(gate: Gate, outcomes: list[Outcome]) -> None:
    gate.outcomes = list(dict.fromkeys(outcomes))


def _forget(net: Net, place: str) -> None:
    net.gates[net.target[place]].inputs.remove(place)
    _remove_place(net, place)


def _remove_place(net: Net, place: str) -> None:
    del net.places[place], net.target[place]
    net.source.pop(place, None)
