"""Generated processes: wherever they rest, the replay of their history gives their tokens."""

from __future__ import annotations

from hypothesis import given, settings
from support.generator.blocks import Block
from support.generator.trees import trees
from support.playing import Board, Performance, first, graphs_of

from bpm_engine.core.replay import verify
from bpm_engine.core.state import Instance


def findings(player: Board, instance: Instance) -> list[str]:
    world, graphs = player.world, {1: player.definitions.graphs[instance.definition_id]}
    log = (entry for entry in player.log if entry.instance_id == instance.id)
    tokens = [token for token in world.tokens.values() if token.instance_id == instance.id]
    scopes = {scope.id: scope for scope in world.scopes.values() if scope.instance_id == instance.id}
    return verify(instance, graphs, log, tokens, scopes)


@settings(max_examples=100)
@given(trees())
def test_history_gives_the_live_tokens_at_every_rest(tree: Block) -> None:
    player = Board(*graphs_of(tree))
    performance = Performance(tree, player)
    performance.begin()
    for _ in range(30):
        for instance in player.world.instances.values():
            assert findings(player, instance) == []
        if not (pending := performance.pending()):
            return
        performance.answer(first(pending))


@settings(max_examples=100)
@given(trees())
def test_a_token_that_is_taken_away_is_missed(tree: Block) -> None:
    """One that rests inside a node, so that its history knows of it."""
    player = Board(*graphs_of(tree))
    performance = Performance(tree, player)
    performance.begin()
    for pending in performance.pending():
        token = pending.token
        del player.world.tokens[token.id]
        instance = player.world.instances[token.instance_id]
        assert f"token {token.id}, last seen at {token.node_id!r}, is not there" in findings(player, instance)
        player.world.tokens[token.id] = token
