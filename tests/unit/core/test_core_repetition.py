"""Sequential repetitions whose items pass at once: how they are created, and what is loaded for them."""

from __future__ import annotations

import pytest
from support.definitions import bpmn, path

from bpm_engine.core.context import Limits

ENDS = '<startEvent id="s"/><endEvent id="e"/>'
SEQUENTIAL = (
    '<multiInstanceLoopCharacteristics isSequential="true"><loopCardinality>${n}</loopCardinality>'
    "</multiInstanceLoopCharacteristics>"
)
RESTING = (
    f'<subProcess id="sub">{SEQUENTIAL}<startEvent id="in"/><exclusiveGateway id="g" default="passing"/>'
    '<userTask id="u"/><endEvent id="out"/><sequenceFlow id="passing" sourceRef="g" targetRef="out"/>'
    '<sequenceFlow id="resting" sourceRef="g" targetRef="u"><conditionExpression>loopCounter in rests'
    "</conditionExpression></sequenceFlow>" + path("in", "g") + path("u", "out") + "</subProcess>"
)


def test_items_that_pass_at_once_are_loaded_in_few_rounds(play):
    player = play(bpmn(ENDS + RESTING + path("s", "sub", "e")))
    player.start({"n": 200, "rests": [0]})
    player.finish_task("u")
    assert player.status == "Completed"
    assert player.rounds <= 10


def test_no_more_items_are_loaded_than_have_passed_already(play):
    player = play(bpmn(ENDS + RESTING + path("s", "sub", "e")))
    player.start({"n": 300, "rests": [0, 20]})
    player.finish_task("u")
    assert player.path.count("u") == 2
    assert sum(len(needs.items) for needs in player.asked) <= 40


@pytest.mark.parametrize("steps", [1, 2, 5, 20])
@pytest.mark.parametrize("count", [1, 2, 3, 47])
def test_items_that_are_done_sooner_than_the_next_ones_are_made(play, steps, count):
    script = f'<scriptTask id="t">{SEQUENTIAL}<script>done = done + [loopCounter]</script></scriptTask>'
    player = play(bpmn(ENDS + script + path("s", "t", "e")), limits=Limits(steps=steps))
    player.start({"n": count, "done": []})
    assert player.status == "Completed"
    assert player.variables["done"] == list(range(count))
