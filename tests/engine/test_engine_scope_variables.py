"""Variables that belong to a sub-process are kept like any others."""

from __future__ import annotations

from support.definitions import bpmn, flow, path

from bpm_engine import Engine

# Inside, `attempts` is counted up by a script; between two rounds the token rests, nothing else changes.
ROUNDS = bpmn(
    '<startEvent id="start"/><subProcess id="sub"><extensionElements>'
    '<bpm:input name="attempts" value="${0}"/></extensionElements>'
    '<startEvent id="begin"/><exclusiveGateway id="again"/><scriptTask id="count" scriptFormat="bpm">'
    '<script>attempts = attempts + 1</script></scriptTask><userTask id="try"/>'
    '<exclusiveGateway id="enough" default="more"/><endEvent id="done"/>'
    + path("begin", "again", "count", "try", "enough")
    + flow("enough", "done", condition="attempts &gt;= 3")
    + '<sequenceFlow id="more" sourceRef="enough" targetRef="again"/></subProcess><endEvent id="end"/>'
    + path("start", "sub", "end")
)


def test_what_a_script_writes_in_a_sub_process_is_still_there_after_a_rest(engine: Engine) -> None:
    engine.deploy(ROUNDS)
    instance = engine.start("p")
    for _ in range(3):
        (task,) = engine.tasks.find(instance=instance.id)
        engine.tasks.complete(task.id)
    assert engine.instances.get(instance.id).status == "Completed"
