"""Random graphs of tasks and gateways: whatever the wiring, tokens move as the specification says.

After each answer the marking must be one that the brute-force oracle reaches by some order of moves; a
deadlock is reported exactly when nothing can move; what the static check proved sound never deadlocks.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.generator.drawing import choose, flag
from support.generator.nets import INNER, PROCESS, Kind, Net, choices, nets, rich_nets, to_xml
from support.player import Player
from support.playing import Board, compiled
from support.token_oracle import Marking, TokenOracle, TooMany, frozen, reset_place

from bpm_engine.bpmn.graph import Graph
from bpm_engine.bpmn.soundness import Budget, Verdict, verify
from bpm_engine.core.state import TokenState, Waiting

MOST_ANSWERS = 12
MOST_TOKENS = 10
INCLUSIVE = (Kind.TASK, Kind.INCLUSIVE, Kind.EXCLUSIVE, Kind.PARALLEL)
COMPLEX = (Kind.TASK, Kind.COMPLEX, Kind.EXCLUSIVE, Kind.PARALLEL, Kind.INCLUSIVE)


def marking_of(player: Player) -> Marking:
    """Where tokens are, in the oracle's words: on the flow at whose join they wait, or at a task."""
    places: Counter[str] = Counter()
    for token in player.tokens():
        if token.waiting_for is Waiting.JOIN:
            assert token.flow_id is not None
            consumed = (token.local or {}).get("consumed")
            places[token.flow_id if consumed is None else reset_place(token.node_id, consumed)] += 1
        else:
            assert token.state is TokenState.READY or token.held, token
            places[token.node_id] += 1
    return frozen(places)


@dataclass(slots=True)
class Game:
    """One run, in step with the oracle."""

    net: Net
    graph: Graph
    draw: st.DrawFn
    reload: bool = False
    player: Player = field(init=False)
    deadlocks: int = 0

    def play(self) -> None:
        self.player = Board(self.graph, reload=self.reload)
        values = choices(self.draw, self.net)
        begun = frozen(Counter(flow.id for flow in self.net.outgoing("start")))
        self.player.start(dict(values), key=PROCESS)
        self.compare(TokenOracle(self.net, values), begun)
        for _ in range(MOST_ANSWERS):
            work = {token.node_id for token in self.player.tokens() if self.is_work(token.node_id)}
            if not work or len(self.player.tokens()) > MOST_TOKENS or self.player.status != "Running":
                return
            events = [event for node in work for event in self.net.attached(node)]
            self.answer(choose(self.draw, sorted([*work, *events])))

    def answer(self, node: str) -> None:
        """A task is done, or the message of its boundary event comes."""
        values = choices(self.draw, self.net)
        oracle, marking = TokenOracle(self.net, values), marking_of(self.player)
        if self.is_work(node):
            self.player.complete(node, dict(values))
            self.compare(oracle, oracle.left(marking, node))
        else:
            self.player.message(f"m_{node}", payload=dict(values))
            self.compare(oracle, oracle.interrupted(marking, node))

    def is_work(self, node: str) -> bool:
        return self.net.kinds.get(node) is Kind.TASK

    def compare(self, oracle: TokenOracle, begun: Marking) -> None:
        found = marking_of(self.player)
        assert found in oracle.rests(begun), (
            f"{sorted(found)} is none of {[sorted(m) for m in oracle.rests(begun)]}"
        )
        stuck = bool(found) and not any(self.is_work(place) for place, _ in found if place in self.net.kinds)
        incidents = [code.split("@")[0] for code in self.player.incidents]
        assert bool(incidents) == stuck, (incidents, sorted(found))
        assert set(incidents) <= {"DEADLOCK"}
        self.deadlocks += stuck
        expected = "Failed" if stuck else "Running" if found else "Completed"
        assert self.player.status == expected


def play(net: Net, draw: st.DrawFn, *, reload: bool = False) -> tuple[Game, Graph]:
    (graph,) = compiled(to_xml(net))
    game = Game(net, graph, draw, reload)
    with suppress(TooMany):
        game.play()
    return game, graph


@settings(max_examples=200)
@given(nets(), st.data())
def test_every_marking_is_one_that_the_specification_allows(net: Net, data: st.DataObject) -> None:
    play(net, data.draw)


@settings(max_examples=200)
@given(nets(kinds=INCLUSIVE, hub=Kind.INCLUSIVE), st.data())
def test_an_inclusive_join_fires_when_no_token_can_still_come(net: Net, data: st.DataObject) -> None:
    play(net, data.draw)


@settings(max_examples=200)
@given(nets(kinds=COMPLEX, hub=Kind.COMPLEX), st.data(), st.booleans())
def test_a_complex_gateway_is_activated_and_reset(net: Net, data: st.DataObject, reload: bool) -> None:
    play(net, data.draw, reload=reload)


@settings(max_examples=200)
@given(nets(), st.data())
def test_a_narrow_snapshot_sees_enough(net: Net, data: st.DataObject) -> None:
    play(net, data.draw, reload=True)


@settings(max_examples=300)
@given(
    st.one_of(rich_nets(), rich_nets(COMPLEX, Kind.COMPLEX), rich_nets(INCLUSIVE, Kind.INCLUSIVE)), st.data()
)
def test_quantities_links_boundary_events_terminations_and_resets(net: Net, data: st.DataObject) -> None:
    play(net, data.draw, reload=flag(data.draw))


@settings(max_examples=300)
@given(st.one_of(nets(), rich_nets(), rich_nets(COMPLEX, Kind.COMPLEX)), st.data())
def test_what_was_proved_sound_never_deadlocks(net: Net, data: st.DataObject) -> None:
    game, graph = play(net, data.draw)
    (verdict,) = verify(graph, Budget(markings=2_000))
    if game.deadlocks:
        assert verdict.verdict is not Verdict.PROVED


@pytest.mark.slow
@pytest.mark.timeout(3_600)
@settings(max_examples=20_000)
@given(nets(most=12, kinds=INCLUSIVE, hub=Kind.INCLUSIVE), st.data())
def test_inclusive_joins_at_length(net: Net, data: st.DataObject) -> None:
    play(net, data.draw)


@pytest.mark.slow
@pytest.mark.timeout(3_600)
@settings(max_examples=10_000)
@given(nets(most=12, kinds=INNER), st.data())
def test_markings_at_length(net: Net, data: st.DataObject) -> None:
    play(net, data.draw)


@pytest.mark.slow
@pytest.mark.timeout(3_600)
@settings(max_examples=10_000)
@given(st.one_of(rich_nets(), rich_nets(COMPLEX, Kind.COMPLEX)), st.data(), st.booleans())
def test_rich_markings_at_length(net: Net, data: st.DataObject, reload: bool) -> None:
    play(net, data.draw, reload=reload)
