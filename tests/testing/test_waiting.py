"""Where the tokens of an instance rest, as tests see it."""

from __future__ import annotations

from bpm_engine.testing import TestEngine

ONE_AFTER_THE_OTHER = b"""
<definitions xmlns="http://www.omg.org/spec/BPMN/20100524/MODEL" targetNamespace="urn:test">
  <process id="p" isExecutable="true">
    <startEvent id="start"/>
    <userTask id="sign"><multiInstanceLoopCharacteristics isSequential="true">
      <loopCardinality>3</loopCardinality></multiInstanceLoopCharacteristics></userTask>
    <endEvent id="end"/>
    <sequenceFlow id="f1" sourceRef="start" targetRef="sign"/>
    <sequenceFlow id="f2" sourceRef="sign" targetRef="end"/>
  </process>
</definitions>"""


def test_items_whose_turn_has_not_come_wait_nowhere() -> None:
    with TestEngine(ONE_AFTER_THE_OTHER) as engine:
        instance = engine.start("p")
        for _ in range(3):
            engine.run_until_idle()
            assert engine.waiting_at(instance) == ["sign"]
            (task,) = engine.tasks.find(instance=instance.id).items
            engine.tasks.complete(task.id)
        engine.run_until_idle()
        assert engine.waiting_at(instance) == []
