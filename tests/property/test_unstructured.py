"""Random graphs of tasks and gateways: whatever the wiring, tokens move as the specification says.

After each answer the marking must be one that the brute-force oracle reaches by some order of moves; a
deadlock is reported exactly when nothing can move; what the static check proved sound never deadlocks.
"""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.generator.drawing import flag
from support.generator.nets import COMPLEX, INCLUSIVE, INNER, Kind, Net, nets, rich_nets, to_xml
from support.net_game import Game
from support.playing import Board, compiled
from support.token_oracle import TooMany

from bpm_engine.bpmn.graph import Graph
from bpm_engine.bpmn.soundness import Budget, Verdict, verify
from bpm_engine.core.context import Limits

ANY = st.one_of(nets(), rich_nets(), rich_nets(COMPLEX, Kind.COMPLEX), rich_nets(INCLUSIVE, Kind.INCLUSIVE))


def play(net: Net, draw: st.DrawFn, *, reload: bool = False, steps: int = 1_000) -> tuple[Game, Graph]:
    (graph,) = compiled(to_xml(net))
    game = Game(net, draw, Board(graph, reload=reload, limits=Limits(steps=steps)))
    with suppress(TooMany):
        game.play()
    return game, graph


@settings(max_examples=100)
@given(nets(), st.data())
def test_every_marking_is_one_that_the_specification_allows(net: Net, data: st.DataObject) -> None:
    play(net, data.draw)


@settings(max_examples=100)
@given(nets(kinds=INCLUSIVE, hub=Kind.INCLUSIVE), st.data())
def test_an_inclusive_join_fires_when_no_token_can_still_come(net: Net, data: st.DataObject) -> None:
    play(net, data.draw)


@settings(max_examples=100)
@given(nets(kinds=COMPLEX, hub=Kind.COMPLEX), st.data(), st.booleans())
def test_a_complex_gateway_is_activated_and_reset(net: Net, data: st.DataObject, reload: bool) -> None:
    play(net, data.draw, reload=reload)


@settings(max_examples=50)
@given(nets(), st.data())
def test_a_narrow_snapshot_sees_enough(net: Net, data: st.DataObject) -> None:
    play(net, data.draw, reload=True)


@settings(max_examples=75)
@given(ANY, st.data(), st.integers(1, 5), st.booleans())
def test_tokens_that_rest_on_their_way_change_nothing(
    net: Net, data: st.DataObject, steps: int, reload: bool
) -> None:
    play(net.without_links(), data.draw, steps=steps, reload=reload)


@settings(max_examples=150)
@given(
    st.one_of(rich_nets(), rich_nets(COMPLEX, Kind.COMPLEX), rich_nets(INCLUSIVE, Kind.INCLUSIVE)), st.data()
)
def test_quantities_links_boundary_events_terminations_and_resets(net: Net, data: st.DataObject) -> None:
    play(net, data.draw, reload=flag(data.draw))


@settings(max_examples=75)
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


@pytest.mark.slow
@pytest.mark.timeout(3_600)
@settings(max_examples=20_000)
@given(ANY, st.data(), st.integers(1, 5), st.booleans())
def test_tokens_that_rest_on_their_way_at_length(
    net: Net, data: st.DataObject, steps: int, reload: bool
) -> None:
    play(net.without_links(), data.draw, steps=steps, reload=reload)
