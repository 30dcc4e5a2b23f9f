"""Random unstructured nets through whole engines: every marking is one that the oracle allows, and the one
that the core alone comes to, whatever restarts, fails or takes turns; all rows are in order after each.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from support.databases import empty
from support.engine_player import CONFIG, MEMORY, EnginePlayer
from support.faulty import Faults
from support.generator.nets import COMPLEX, INCLUSIVE, Kind, Net, nets, rich_nets, to_xml
from support.net_game import Game
from support.playing import Board, compiled
from support.token_oracle import TooMany

from bpm_engine.core.context import Limits

FEW, MANY = 3, 500
SHARED_FIXTURE = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
NORMAL = settings(
    max_examples=FEW,
    suppress_health_check=SHARED_FIXTURE,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)
LONG = settings(max_examples=MANY, suppress_health_check=SHARED_FIXTURE)
NETS = st.one_of(
    nets(),
    nets(kinds=INCLUSIVE, hub=Kind.INCLUSIVE),
    rich_nets(),
    rich_nets(COMPLEX, Kind.COMPLEX),
    rich_nets(INCLUSIVE, Kind.INCLUSIVE),
)
ALL = 1_000
STEPS = st.sampled_from([1, 2, 5, ALL])  # automatic ones in one transaction: the others go on in the next


@pytest.fixture(params=["postgresql", "sqlite memory"])
def url(request: pytest.FixtureRequest, url_of: Callable[[str], str]) -> str:
    return url_of(request.param)


def play(
    url: str,
    net: Net,
    data: st.DataObject,
    *,
    engines: int = 1,
    restarts: bool = False,
    faults: Faults | None = None,
) -> None:
    """One net on an empty database, beside the core, in step with the oracle."""
    if url != MEMORY:
        empty(url)
    steps = data.draw(STEPS)
    net = net if steps == ALL else net.without_links()
    xml = to_xml(net)
    (graph,) = compiled(xml)
    config = replace(CONFIG, steps=steps, soundness="off")
    player = EnginePlayer(url, xml, graph, engines=engines, restarts=restarts, faults=faults, config=config)
    with closing(player):
        game = Game(net, data.draw, player, beside=Board(graph, limits=Limits(steps=steps)))
        with suppress(TooMany):
            game.play()
        assert player.observer.doctor() == []


@NORMAL
@given(net=NETS, data=st.data())
def test_a_restart_after_every_step_changes_no_marking(url: str, net: Net, data: st.DataObject) -> None:
    play(url, net, data, restarts=True)


@NORMAL
@given(net=NETS, data=st.data())
def test_two_engines_that_take_turns_change_no_marking(url: str, net: Net, data: st.DataObject) -> None:
    play(url, net, data, engines=2)


@NORMAL
@given(net=NETS, data=st.data(), seed=st.integers(0, 2**32))
def test_faults_of_the_database_change_no_marking(url: str, net: Net, data: st.DataObject, seed: int) -> None:
    play(url, net, data, faults=Faults(seed))


@pytest.mark.slow
@pytest.mark.timeout(7_200)
@LONG
@given(net=NETS, data=st.data(), seed=st.integers(0, 2**32))
def test_everything_at_once_changes_no_marking_at_length(
    url: str, net: Net, data: st.DataObject, seed: int
) -> None:
    play(url, net, data, engines=2, restarts=seed % 2 == 0, faults=Faults(seed))
