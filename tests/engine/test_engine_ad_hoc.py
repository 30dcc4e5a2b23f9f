"""Selecting activities of ad-hoc sub-processes through the engine."""

from __future__ import annotations

import pytest
from support.definitions import bpmn, path

from bpm_engine import ConflictError, Engine, InvalidInputError, NotFoundError

MARKER = (
    "<multiInstanceLoopCharacteristics><loopCardinality>2</loopCardinality>"
    "</multiInstanceLoopCharacteristics>"
)


def ad_hoc(marker: str = "") -> bytes:
    return bpmn(
        f'<startEvent id="s"/><adHocSubProcess id="box">{marker}<userTask id="a"/><userTask id="b"/>'
        f"<completionCondition>done == true</completionCondition></adHocSubProcess>"
        f'<endEvent id="e"/><userTask id="after"/>{path("s", "box", "after", "e")}'
    )


def test_an_activity_begins_when_it_is_selected(engine: Engine) -> None:
    engine.deploy(ad_hoc())
    instance = engine.start("p", {"done": False})
    after = engine.instances.activate(instance.id, "a", {"hint": "x"}, actor="ann")
    assert sorted(token.node_id for token in after.tokens) == ["a", "box", "box#select"]
    (task,) = engine.tasks.find(instance=instance.id)
    engine.tasks.complete(task.id, {"done": True})
    view = engine.instances.get(instance.id)
    assert [token.node_id for token in view.tokens] == ["after"]
    assert view.variables == {"done": True}
    entered = [row for row in engine.history.find(instance.id) if row.node_id == "a"]
    assert entered[0].actor == "ann"


def test_what_cannot_be_selected_is_refused(engine: Engine) -> None:
    engine.deploy(ad_hoc())
    instance = engine.start("p", {"done": True})
    with pytest.raises(InvalidInputError, match="'after' is no activity that can be selected"):
        engine.instances.activate(instance.id, "after")
    with pytest.raises(InvalidInputError, match="'moon' is no activity"):
        engine.instances.activate(instance.id, "moon")
    with pytest.raises(NotFoundError):
        engine.instances.activate("00000000-0000-0000-0000-000000000000", "a")
    engine.instances.activate(instance.id, "a")
    (task,) = engine.tasks.find(instance=instance.id)
    engine.tasks.complete(task.id)
    with pytest.raises(ConflictError, match="is not active"):
        engine.instances.activate(instance.id, "a")


def test_of_several_activations_one_is_named(engine: Engine) -> None:
    engine.deploy(ad_hoc(MARKER))
    instance = engine.start("p", {"done": False})
    with pytest.raises(ConflictError, match="is active 2 times; say which"):
        engine.instances.activate(instance.id, "a")
    scopes = {token.scope_id for token in instance.tokens if token.node_id == "box#select"}
    for scope_id in scopes:
        engine.instances.activate(instance.id, "a", scope_id=scope_id)
    assert len(scopes) == 2
    assert [task.node_id for task in engine.tasks.find(instance=instance.id)] == ["a", "a"]
