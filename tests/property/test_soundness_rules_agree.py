"""The two halves of the soundness check judge each other: whatever the structural rules glue together,
exploring the reduced net and exploring the net itself must come to the same conclusion."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bpm_engine.bpmn.soundness.explore import Budget, Exploration, explore
from bpm_engine.bpmn.soundness.net import Gate, Input, Net, Outcome, Place
from bpm_engine.bpmn.soundness.reduce import reduced

BUDGET = Budget(markings=3_000, tokens=12)


def random_net(seed: int, gates: int, extra: int, inclusive: bool) -> Net:
    """A connected graph of gates of every kind, with back edges: mostly unsound, which is the point."""
    draw = random.Random(seed)
    net = Net(beginnings=[frozenset(["→g0"])])
    names = [f"g{i}" for i in range(gates)]
    edges = [(names[draw.randrange(i)], names[i]) for i in range(1, gates)]
    edges += [(draw.choice(names), draw.choice(names[1:])) for _ in range(extra)]
    net.places["→g0"], net.target["→g0"] = Place("→g0"), "g0"
    for index, (source, target) in enumerate(edges):
        place = f"p{index}"
        net.places[place], net.source[place], net.target[place] = Place(place), source, target
    for name in names:
        inputs = [p for p, target in net.target.items() if target == name]
        outputs = [p for p, source in net.source.items() if source == name]
        joins = [Input.ANY, Input.ALL, Input.COUNT, *([Input.INCLUSIVE] if inclusive else [])]
        mode = draw.choice(joins) if len(inputs) > 1 else Input.ANY
        outcomes = random_outcomes(draw, outputs, inclusive)
        net.gates[name] = Gate(name, mode, inputs, outcomes, quantity=2 if mode is Input.COUNT else 1)
    return net


def random_outcomes(draw: random.Random, outputs: list[str], inclusive: bool) -> list[Outcome]:
    if not outputs:
        return [Outcome(frozenset(), clears=draw.random() < 0.15)]
    kind = draw.choice(["all", "one", "some"] if inclusive else ["all", "one"])
    if kind == "all":
        return [Outcome(frozenset(outputs))]
    singles = [Outcome(frozenset([p])) for p in outputs]
    if kind == "one":
        return singles
    pairs = [Outcome(frozenset([a, b])) for a in outputs for b in outputs if a < b]
    return [*singles, *pairs]


def conclusion(net: Net) -> tuple[bool, bool] | None:
    found = explore(net, BUDGET)
    if found.crowded:
        return None
    return (bool(found.stuck), found.growing is not None) if settled(found) else None


def settled(found: Exploration) -> bool:
    """Complete, or stopped only because tokens grow for ever."""
    return found.complete or found.growing is not None


@settings(max_examples=500, deadline=None)
@given(st.integers(0, 2**32), st.integers(2, 7), st.integers(0, 5), st.booleans())
def test_reduction_neither_hides_nor_invents_a_stuck_marking(
    seed: int, gates: int, extra: int, inclusive: bool
) -> None:
    net = random_net(seed, gates, extra, inclusive)
    full, small = explore(net, BUDGET), explore(reduced(net), BUDGET)
    if small.crowded or not (full.complete and small.complete):
        return
    assert bool(full.stuck) == bool(small.stuck), f"seed {seed}"


@settings(max_examples=500, deadline=None)
@given(st.integers(0, 2**32), st.integers(2, 6), st.integers(0, 4))
def test_reduction_hides_only_growth_that_drains_by_itself(seed: int, gates: int, extra: int) -> None:
    """A loop that sends a token off to an end each round does no harm; one that feeds itself does."""
    net = random_net(seed, gates, extra, inclusive=False)
    full, small = explore(net, BUDGET), explore(reduced(net), BUDGET)
    if not (settled(full) and settled(small)):
        return
    if full.growing is None:
        assert small.growing is None, f"seed {seed}"
    elif small.growing is None:
        left_alone = net.copy()
        left_alone.beginnings = [frozenset(full.growing.surplus)]
        assert not explore(left_alone, BUDGET).stuck, f"seed {seed}"


def test_the_comparison_sees_both_verdicts_often() -> None:
    """A property that compares only one kind of net proves nothing."""
    seen = [conclusion(random_net(seed, 5, 3, inclusive=seed % 2 == 0)) for seed in range(400)]
    decided = [c for c in seen if c is not None]
    assert sum(stuck for stuck, _ in decided) > 40
    assert sum(not stuck for stuck, _ in decided) > 40
    assert sum(growing for _, growing in decided) > 10


def nested(depth: int, draw: random.Random, net: Net, entry: str) -> str:
    """A block of split and matching join; gives the place that leaves it."""
    if depth == 0:
        return entry
    kind = draw.choice([Input.ALL, Input.ANY, Input.INCLUSIVE])
    split, join = f"s{len(net.gates)}", f"j{len(net.gates)}"
    net.gates[split] = Gate(split, Input.ANY, [entry], [])
    net.gates[join] = Gate(join, kind, [], [])
    net.target[entry] = split
    branches = [fresh(net, split) for _ in range(draw.randint(2, 3))]
    outcomes = {
        Input.ALL: [Outcome(frozenset(branches))],
        Input.ANY: [Outcome(frozenset([b])) for b in branches],
        Input.INCLUSIVE: [Outcome(frozenset([b])) for b in branches] + [Outcome(frozenset(branches))],
    }
    net.gates[split].outcomes = outcomes[kind]
    for branch in branches:
        last = nested(depth - 1, draw, net, branch)
        net.target[last] = join
        net.gates[join].inputs.append(last)
    leaving = fresh(net, join)
    net.gates[join].outcomes = [Outcome(frozenset([leaving]))]
    return leaving


def fresh(net: Net, source: str) -> str:
    place = f"p{len(net.places)}"
    net.places[place], net.source[place] = Place(place), source
    return place


@pytest.mark.parametrize("seed", range(60))
def test_block_structured_nets_shrink_to_nothing(seed: int) -> None:
    net = Net(beginnings=[frozenset(["→"])])
    net.places["→"] = Place("→")
    last = nested(3, random.Random(seed), net, "→")
    net.gates["end"] = Gate("end", Input.ANY, [last], [Outcome(frozenset())])
    net.target[last] = "end"
    small = reduced(net)
    (gate,) = small.gates.values()
    assert (gate.inputs, gate.outcomes) == (["→"], [Outcome(frozenset())])
