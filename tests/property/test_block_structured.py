"""Generated block-structured processes: the engine tells the same story as the oracle, in whatever way it is driven."""

from __future__ import annotations

from hypothesis import given, settings
from support.generator.blocks import Block
from support.generator.trees import trees
from support.oracle import tell
from support.playing import Board, Performance, graphs_of


@settings(max_examples=400)
@given(trees())
def test_the_engine_and_the_oracle_tell_the_same_story(tree: Block) -> None:
    told = tell(tree)
    performance = Performance(tree, Board(*graphs_of(tree)))
    performance.run()
    assert performance.player.status == "Completed", performance.player.incidents
    story = performance.story()
    assert story.completed == told.completed
    assert story.answered == told.answered
    assert story.compensated == told.compensated
    assert story.variables == told.variables
