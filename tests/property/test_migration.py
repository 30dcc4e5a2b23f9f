"""Generated processes that go over to a version with other names and back, wherever they rest.

Every marking of a run is migrated there and back; what the run tells in the end is what the oracle tells.
"""

from __future__ import annotations

from hypothesis import assume, given, settings
from support.generator.blocks import Block, Guarded, Trigger, walk
from support.generator.renaming import renamed
from support.generator.trees import trees
from support.generator.xml import to_xml
from support.oracle import tell
from support.playing import Board, Performance, compiled, first

from bpm_engine.core.changes import Applied
from bpm_engine.core.lifecycle import TERMINAL_INSTANCES


def there_and_back(player: Board, mapping: dict[str, str]) -> None:
    """All instances that run, the called ones as well. The new version is the first of each process."""
    for instance in list(player.world.instances.values()):
        if instance.status in TERMINAL_INSTANCES:
            continue
        key, before = instance.definition_key, player.at
        graph = player.definitions.graphs[f"{key}:1"]
        there = {old: new for old, new in mapping.items() if new in graph.nodes or new in graph.flows}
        back = {new: old for old, new in there.items()}
        assert player.migrate(f"{key}:1", there, instance.id) == Applied()
        assert all(t.node_id.startswith("new_") for t in player.tokens() if t.instance_id == instance.id)
        assert player.migrate(f"{key}:2", back, instance.id) == Applied()
        assert player.at == before


def is_told_by_the_clock_alone(block: Block) -> bool:
    """A cycle whose firings the player would miss when it moves the clock for the timer beside it."""
    if not isinstance(block, Guarded):
        return False
    return block.trigger is Trigger.TIMER and not block.interrupting and block.count > 1


def play(tree: Block, *, reload: bool) -> None:
    assume(not any(is_told_by_the_clock_alone(block) for block in walk(tree)))
    xml = to_xml(tree)
    other, mapping = renamed(xml)
    player = Board(*compiled(other), *compiled(xml), reload=reload)
    performance = Performance(tree, player)
    performance.begin()
    while pending := performance.pending():
        there_and_back(player, mapping)
        performance.answer(first(pending=performance.pending() or pending))
    assert player.status == "Completed", player.incidents
    assert player.open_waits() == []
    found, expected = performance.story(), tell(tree)
    assert found.completed == expected.completed
    assert found.answered == expected.answered
    assert found.compensated == expected.compensated
    assert found.variables == expected.variables


@settings(max_examples=100)
@given(trees())
def test_a_migration_there_and_back_at_every_rest_changes_nothing(tree: Block) -> None:
    play(tree, reload=False)


@settings(max_examples=50)
@given(trees())
def test_nor_does_it_with_no_more_rows_than_a_database_would_load(tree: Block) -> None:
    play(tree, reload=True)
