"""Generated processes through whole engines: the oracle's story, whatever restarts, fails or takes turns."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from support.databases import empty
from support.engine_player import EnginePlayer
from support.faulty import Faults
from support.generator.blocks import Block, Guarded, Position, Task, TaskKind, Trigger
from support.generator.trees import Shape, trees
from support.generator.xml import to_xml
from support.oracle import tell
from support.playing import Performance, compiled

from bpm_engine.store.invariants import LIVENESS

SMALL = Shape(depth=2, blocks=3)
FEW, MANY = 4, 300
IDLE = {invariant.name for invariant in LIVENESS}
SHARED_FIXTURE = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
NORMAL = settings(
    max_examples=FEW,
    suppress_health_check=SHARED_FIXTURE,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)
LONG = settings(max_examples=MANY, suppress_health_check=SHARED_FIXTURE)


@pytest.fixture(params=["postgresql", "sqlite file"])
def url(request: pytest.FixtureRequest, url_of: Callable[[str], str]) -> str:
    return url_of(request.param)


def compare(
    url: str, tree: Block, *, engines: int = 1, restarts: bool = False, faults: Faults | None = None
) -> None:
    """One process on an empty database, against the oracle, with all rows in order afterwards."""
    empty(url)
    xml = to_xml(tree)
    player = EnginePlayer(url, xml, *compiled(xml), engines=engines, restarts=restarts, faults=faults)
    with closing(player):
        performance = Performance(tree, player)
        performance.run()
        assert player.status == "Completed", player.incidents
        assert player.open_waits() == []
        assert performance.story() == tell(tree)
        assert [finding for finding in player.observer.doctor() if finding.name not in IDLE] == []


@NORMAL
@given(tree=trees(SMALL))
def test_a_restart_after_every_step_changes_nothing(url: str, tree: Block) -> None:
    compare(url, tree, restarts=True)


@NORMAL
@given(tree=trees(SMALL), seed=st.integers(0, 2**32))
def test_faults_of_the_database_change_nothing(url: str, tree: Block, seed: int) -> None:
    compare(url, tree, faults=Faults(seed))


@NORMAL
@given(tree=trees(SMALL))
def test_two_engines_that_take_turns_change_nothing(url: str, tree: Block) -> None:
    compare(url, tree, engines=2)


@pytest.mark.parametrize("position", Position)
def test_a_condition_that_ends_the_process_is_not_taken_back(url: str, position: Position) -> None:
    """Who plays looks at the rows that the step has left, not at those before it."""
    handler = Task("t2", TaskKind.SCRIPT)
    compare(url, Guarded("g1", Task("t1"), handler, Trigger.CONDITION, position, interrupting=True, count=1))


@pytest.mark.slow
@pytest.mark.timeout(7_200)
@LONG
@given(tree=trees(), seed=st.integers(0, 2**32))
def test_everything_at_once_at_length(url: str, tree: Block, seed: int) -> None:
    compare(url, tree, engines=2, restarts=seed % 2 == 0, faults=Faults(seed))
