"""Bounded exploration of the token game: every marking that free choices can reach, breadth first.

Breadth first makes the first stuck marking found a nearest one, so its trace is a shortest one. The
exploration ends complete (every reachable marking seen), or at its budget: then it proves nothing
but what it found.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from bpm_engine.bpmn.soundness.net import Gate, Input, Net, Outcome

Marking = tuple[str, ...]  # places, sorted, one entry per token


@dataclass(frozen=True, slots=True)
class Budget:
    markings: int = 5_000
    tokens: int = 64  # in one marking: beyond, the exploration stops there and is incomplete


@dataclass(frozen=True, slots=True)
class Stuck:
    """A reachable marking in which nothing can move and tokens wait at joins."""

    marking: Marking
    trace: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Growing:
    """A way to come back with more tokens than before: it can be repeated for ever."""

    surplus: Marking  # what each round adds
    trace: tuple[str, ...]


@dataclass(slots=True)
class Exploration:
    complete: bool = True
    markings: int = 0
    stuck: list[Stuck] = field(default_factory=list)
    growing: Growing | None = None
    fired: set[str] = field(default_factory=set)
    crowded: bool = False  # two tokens where reduction assumed one


@dataclass(frozen=True, slots=True)
class _Step:
    before: Marking | None
    gate: str | None
    passed: tuple[str, ...]  # elements passed on the way into the gate
    clears: bool = False


def explore(net: Net, budget: Budget) -> Exploration:
    result = Exploration()
    game = _Game(net)
    steps: dict[Marking, _Step] = {}
    queue: deque[Marking] = deque()
    for beginning in net.beginnings:
        marking = tuple(sorted(beginning))
        if marking not in steps:
            steps[marking] = _Step(None, None, ())
            queue.append(marking)
    stuck_at: set[frozenset[str]] = set()
    while queue:
        marking = queue.popleft()
        result.markings += 1
        if game.is_crowded(marking):
            result.crowded = True
            return result
        moved = False
        for gate, consumed, outcome in game.moves(marking):
            moved = True
            result.fired.add(gate.id)
            after = game.fire(marking, consumed, outcome)
            if after in steps:
                continue
            steps[after] = _Step(marking, gate.id, game.passed(consumed), outcome.clears)
            growing = () if net.has_inclusive else _growth(after, steps)
            if growing:
                result.growing = result.growing or Growing(growing, _trace(after, steps))
                result.complete = False
            elif len(after) > budget.tokens or len(steps) > budget.markings:
                result.complete = False
            else:
                queue.append(after)
        if marking and not moved and not net.escapes:
            waiting = frozenset(net.target[p] for p in marking)
            if waiting not in stuck_at:
                stuck_at.add(waiting)
                result.stuck.append(Stuck(marking, _trace(marking, steps, game.passed(marking))))
    return result


class _Game:
    """The rules of the net, with what can be computed once."""

    def __init__(self, net: Net) -> None:
        self._net = net
        self._single = {p.id for p in net.places.values() if p.single}
        self._reach = {
            gate.id: {place: _upstream(net, place, gate) for place in gate.inputs}
            for gate in net.gates.values()
            if gate.input in (Input.INCLUSIVE, Input.COMPLEX)
        }

    def is_crowded(self, marking: Marking) -> bool:
        return any(a == b and a in self._single for a, b in pairwise(marking))

    def moves(self, marking: Marking) -> Iterator[tuple[Gate, tuple[str, ...], Outcome]]:
        held = dict.fromkeys(marking)
        seen: set[str] = set()
        for place in held:
            gate = self._net.gates[self._net.target[place]]
            if gate.input is Input.ANY:
                yield from ((gate, (place,), outcome) for outcome in gate.outcomes)
            elif gate.id not in seen:
                seen.add(gate.id)
                yield from self._joined(gate, marking, held)

    def _joined(
        self, gate: Gate, marking: Marking, held: dict[str, None]
    ) -> Iterator[tuple[Gate, tuple[str, ...], Outcome]]:
        filled = tuple(p for p in gate.inputs if p in held)
        match gate.input:
            case Input.COUNT:  # whichever it takes: what is left waits for the same
                arrived = tuple(p for p in marking if p in gate.inputs)
                if len(arrived) >= gate.quantity:
                    consumed = arrived[: gate.quantity]
                    yield from ((gate, consumed, outcome) for outcome in gate.outcomes)
            case Input.COMPLEX:
                yield from self._complex(gate, marking, held, filled)
            case _:
                if self._enabled(gate, filled, held):
                    yield from ((gate, filled, outcome) for outcome in gate.outcomes)

    def _complex(
        self, gate: Gate, marking: Marking, held: dict[str, None], filled: tuple[str, ...]
    ) -> Iterator[tuple[Gate, tuple[str, ...], Outcome]]:
        waiting = next((place for place in held if place in gate.resets), None)
        if waiting is None:
            if sum(place in gate.inputs for place in marking) >= gate.quantity:
                reset = next((p for p, some in gate.resets.items() if some == frozenset(filled)), None)
                more = frozenset() if reset is None else frozenset([reset])
                for outcome in gate.outcomes:
                    yield gate, filled, Outcome(outcome.places | more, outcome.clears)
            return
        before = gate.resets[waiting]
        if self._enabled(gate, tuple({*filled, *before}), held):
            late = tuple(place for place in filled if place not in before)
            for outcome in gate.late_outcomes if late else [Outcome(frozenset())]:
                yield gate, (waiting, *late), outcome

    def _enabled(self, gate: Gate, filled: tuple[str, ...], held: dict[str, None]) -> bool:
        if len(filled) == len(gate.inputs):
            return True
        if gate.input is Input.ALL:
            return False
        reach = self._reach[gate.id]
        empty = [p for p in gate.inputs if p not in filled]
        return not any(
            any(token in reach[p] for p in empty) and not any(token in reach[p] for p in filled)
            for token in held
        )

    def fire(self, marking: Marking, consumed: tuple[str, ...], outcome: Outcome) -> Marking:
        if outcome.clears:
            return ()
        left = list(marking)
        for place in consumed:
            left.remove(place)
        return tuple(sorted([*left, *outcome.places]))

    def passed(self, places: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(e for p in dict.fromkeys(places) for e in self._net.places[p].path)


def _upstream(net: Net, place: str, gate: Gate) -> frozenset[str]:
    """The places from which a token can get to `place` without visiting `gate`."""
    found: set[str] = set()
    pending = [place]
    while pending:
        source = net.source.get(pending.pop())
        if source is None or source == gate.id:
            continue
        before = [p for p in net.gates[source].inputs if p not in found]
        found.update(before)
        pending.extend(before)
    return frozenset(found)


def _growth(marking: Marking, steps: dict[Marking, _Step]) -> Marking:
    """What is there beyond an ancestor, when no place holds less than then and nothing was cleared since."""
    now = steps[marking]
    while now.before is not None and not now.clears:
        if len(now.before) < len(marking) and (surplus := _surplus(marking, now.before)):
            return surplus
        now = steps[now.before]
    return ()


def _surplus(larger: Marking, smaller: Marking) -> Marking:
    """What `larger` holds beyond `smaller`; nothing where it lacks something."""
    rest = list(larger)
    for place in smaller:
        if place not in rest:
            return ()
        rest.remove(place)
    return tuple(rest)


def _trace(marking: Marking, steps: dict[Marking, _Step], last: tuple[str, ...] = ()) -> tuple[str, ...]:
    way: list[str] = list(reversed(last))
    step = steps[marking]
    while step.gate is not None and step.before is not None:
        way.append(step.gate)
        way.extend(reversed(step.passed))
        step = steps[step.before]
    return tuple(reversed(way))
