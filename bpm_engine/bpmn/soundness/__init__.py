"""Soundness: can the process get stuck, leave a token behind, or multiply its tokens without end?

Structural reduction first: a block-structured process shrinks to nothing and is thereby proved. What
is left is explored, choices free, within a budget. The verdict is proved, refuted with a shortest
trace, or undecided with the budget used: never a false "ok", never a false alarm.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from bpm_engine.bpmn.graph import Graph, Node, Scope
from bpm_engine.bpmn.soundness.explore import Budget, Exploration, Stuck, explore
from bpm_engine.bpmn.soundness.net import TIMES, Input, Net, net_of
from bpm_engine.bpmn.soundness.reduce import reduced
from bpm_engine.problems import Problem, warning

__all__ = ["Budget", "ScopeVerdict", "Verdict", "check_soundness", "verify"]

CAN_DEADLOCK = warning(
    "CAN_DEADLOCK",
    "A join can be reached in a way that leaves it waiting for ever for a token that cannot come.",
    "Make the split and the join match: an exclusive choice is merged by an exclusive gateway, "
    "a parallel split by a parallel one, an inclusive split by an inclusive one.",
)
TOKEN_LEFT_BEHIND = warning(
    "TOKEN_LEFT_BEHIND",
    "A token can stay behind at a join that has fired already, so that the process never ends.",
    "Make sure that each round brings exactly one token to each incoming flow of the join.",
)
UNBOUNDED_TOKENS = warning(
    "UNBOUNDED_TOKENS",
    "A loop can come round with more tokens than it began with, again and again.",
    "Join the branches before the flow goes back, or leave the loop before it splits.",
)
DEAD_NODE = warning(
    "DEAD_NODE",
    "A node can never be executed, although flows lead to it.",
    "Look at the join before it: it never gets a token on each of its incoming flows.",
)
SOUNDNESS_UNDECIDED = warning(
    "SOUNDNESS_UNDECIDED",
    "The check for stuck tokens ended without a verdict.",
    "Split the process into sub-processes, or make its splits and joins match in pairs.",
)


class Verdict(StrEnum):
    PROVED = "proved"
    REFUTED = "refuted"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class ScopeVerdict:
    scope: str
    verdict: Verdict
    problems: tuple[Problem, ...] = ()
    markings: int = 0  # explored


def check_soundness(graph: Graph, budget: Budget | None = None) -> list[Problem]:
    return [problem for verdict in verify(graph, budget) for problem in verdict.problems]


def verify(graph: Graph, budget: Budget | None = None) -> list[ScopeVerdict]:
    """One verdict per scope, outermost first."""
    inspected = (scope for scope in graph.scopes.values() if scope.kind != "repeat")
    return [_verify_scope(graph, scope, budget or Budget()) for scope in inspected]


def _verify_scope(graph: Graph, scope: Scope, budget: Budget) -> ScopeVerdict:
    net = net_of(graph, scope)
    if net.undecidable:
        problem = _undecided(graph, scope, f"{net.undecidable} is beyond this check")
        return ScopeVerdict(scope.id, Verdict.UNDECIDED, (problem,))
    small = net if net.has_complex else reduced(net)  # the rules do not know what a reset remembers
    found = explore(small, budget)
    if found.crowded:  # the assumption of an inclusive block does not hold: play the game unreduced
        small, found = net, explore(net, budget)
    problems = (*_stuck(graph, small, found), *_growing(graph, found), *_dead(graph, small, found))
    if problems:
        return ScopeVerdict(scope.id, Verdict.REFUTED, problems, found.markings)
    if net.caution or not found.complete:
        reason = net.caution or f"no verdict after {found.markings:,} markings"
        return ScopeVerdict(scope.id, Verdict.UNDECIDED, (_undecided(graph, scope, reason),), found.markings)
    return ScopeVerdict(scope.id, Verdict.PROVED, (), found.markings)


def _stuck(graph: Graph, net: Net, found: Exploration) -> Iterator[Problem]:
    reported: set[str] = set()
    for stuck in found.stuck:
        join = net.target[stuck.marking[0]]
        if join not in reported:
            reported.add(join)
            yield _stuck_at(graph, net, join, stuck)


def _stuck_at(graph: Graph, net: Net, join: str, stuck: Stuck) -> Problem:
    node = graph.nodes[join]
    trace = _elements(graph, (*stuck.trace, join))
    rule = TOKEN_LEFT_BEHIND if join in stuck.trace else CAN_DEADLOCK
    return rule.at(
        f"{_waits(graph, net, node, stuck)}: {' → '.join(trace)}",
        element_id=node.element,
        line=node.line,
        trace=trace,
    )


def _waits(graph: Graph, net: Net, join: Node, stuck: Stuck) -> str:
    gate = net.gates[join.id]
    if gate.quantity > 1:
        arrived = sum(place in gate.inputs for place in stuck.marking)
        return f"{join.element} can wait for ever with {arrived} of {gate.quantity} tokens"
    missing = [place for place in gate.inputs if place not in stuck.marking]
    sources = ", ".join(dict.fromkeys(_elements(graph, tuple(_last_before(net, p) for p in missing))))
    return f"the join {join.element} can wait for ever for a token from {sources}"


def _last_before(net: Net, place: str) -> str:
    path = net.places[place].path
    return path[-1] if path else net.source[place]


def _growing(graph: Graph, found: Exploration) -> Iterator[Problem]:
    if found.growing is not None:
        trace = _elements(graph, found.growing.trace)
        node = graph.nodes[_node_of(graph, found.growing.trace[-1])]
        yield UNBOUNDED_TOKENS.at(
            f"each round adds a token: {' → '.join(trace)}",
            element_id=node.element,
            line=node.line,
            trace=trace,
        )


def _dead(graph: Graph, net: Net, found: Exploration) -> Iterator[Problem]:
    """Joins that never fire, when every marking was seen and the join is not reported as stuck already."""
    if not found.complete:
        return
    stuck = {net.target[p] for s in found.stuck for p in s.marking}
    for gate in net.gates.values():
        if gate.input is Input.ALL and gate.id not in found.fired and gate.id not in stuck:
            node = graph.nodes[gate.id]
            yield DEAD_NODE.at(
                f"the join {node.element} never gets a token on each of its flows",
                element_id=node.element,
                line=node.line,
            )


def _undecided(graph: Graph, scope: Scope, reason: str) -> Problem:
    node = graph.nodes.get(scope.id)
    return SOUNDNESS_UNDECIDED.at(
        f"not decided whether tokens can get stuck: {reason}",
        element_id=node.element if node else graph.key,
        line=node.line if node else graph.line,
    )


def _elements(graph: Graph, nodes: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(graph.nodes[_node_of(graph, each)].element for each in nodes if not each.endswith(TIMES))


def _node_of(graph: Graph, gate: str) -> str:
    """Where the tokens of a completionQuantity flow together is still the activity that gave them."""
    return graph.flows[gate.removesuffix(TIMES)].source if gate.endswith(TIMES) else gate
