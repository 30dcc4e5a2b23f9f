"""Multi-instance, call activities, scripts, send tasks."""

from __future__ import annotations

import pytest
from support.definitions import bpmn, path

from bpm_engine.core.context import Limits

ENDS = '<startEvent id="s"/><endEvent id="e"/>'


def loop(attributes: str, inside: str = "", sequential: bool = False) -> str:
    flag = f'isSequential="{str(sequential).lower()}"'
    return (
        f"<multiInstanceLoopCharacteristics {flag} {attributes}>{inside}</multiInstanceLoopCharacteristics>"
    )


COLLECTION = (
    'bpm:collection="items" bpm:elementVariable="item" bpm:outputCollection="out" bpm:outputElement="${r}"'
)


def multi(attributes: str = COLLECTION, inside: str = "", sequential: bool = False) -> bytes:
    task = f'<serviceTask id="t">{loop(attributes, inside, sequential)}</serviceTask>'
    return bpmn(ENDS + task + path("s", "t", "e"))


def test_a_parallel_multi_instance_runs_all_items_and_keeps_their_order(play):
    player = play(multi())
    player.start({"items": ["a", "b", "c"]})
    assert player.at == ["t", "t", "t", "t#body"]
    work = [token for token in player.tokens() if token.topic]
    assert [player.seen_by(token)["item"] for token in work] == ["a", "b", "c"]
    assert [player.seen_by(token)["loopCounter"] for token in work] == [0, 1, 2]
    for token in reversed(work):
        player.world.tokens[token.id] = player.world.tokens.pop(token.id)
    player.run({"t": lambda seen: {"r": seen["item"] * 2}})
    assert player.status == "Completed"
    assert player.variables == {"items": ["a", "b", "c"], "out": ["aa", "bb", "cc"]}


def test_a_sequential_multi_instance_runs_one_item_after_the_other(play):
    player = play(multi(sequential=True))
    player.start({"items": [1, 2, 3]})
    seen = []
    while player.status == "Running":
        assert len([t for t in player.tokens() if t.topic]) == 1
        token = player.work_at("t")
        seen.append(player.seen_by(token)["item"])
        player.complete("t", {"r": -seen[-1]})
    assert seen == [1, 2, 3]
    assert player.variables["out"] == [-1, -2, -3]
    assert player.rounds == 0


def test_an_item_of_a_parallel_multi_instance_needs_no_sibling(play):
    player = play(multi())
    player.start({"items": [1, 2, 3]})
    player.run({"t": {"r": 1}})
    assert player.rounds == 0


@pytest.mark.parametrize("sequential", [False, True])
def test_an_empty_collection_is_skipped_and_gives_an_empty_output(play, sequential):
    player = play(multi(sequential=sequential))
    player.start({"items": []})
    assert player.status == "Completed"
    assert player.variables["out"] == []


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (-1, "NEGATIVE_CARDINALITY"),
        (1.5, "NOT_AN_INTEGER"),
        (True, "NOT_AN_INTEGER"),
        ("x", "NOT_AN_INTEGER"),
    ],
)
def test_a_bad_cardinality_is_an_incident(play, value, code):
    player = play(multi("", "<loopCardinality>${n}</loopCardinality>"))
    player.start({"n": value})
    assert player.incidents == [f"{code}@t#body"]
    player.retry(variables={"n": 2})
    player.run()
    assert player.status == "Completed"


def test_a_collection_that_is_no_list_is_an_incident(play):
    player = play(multi())
    player.start({"items": "abc"})
    assert player.incidents == ["NOT_A_COLLECTION@t#body"]


def test_the_completion_condition_stops_the_rest(play):
    inside = "<completionCondition>nrOfCompletedInstances &gt;= 2</completionCondition>"
    player = play(multi(inside=inside))
    player.start({"items": [1, 2, 3, 4]})
    player.complete("t", {"r": 1})
    assert player.status == "Running"
    player.complete("t", {"r": 2})
    assert player.status == "Completed"
    assert player.variables["out"] == [1, 2, None, None]
    assert player.tokens() == []


def test_counters_can_be_read_inside(play):
    player = play(multi())
    player.start({"items": [1, 2, 3]})
    player.complete("t", {"r": 1})
    seen = player.seen_by(player.work_at("t"))
    counters = (seen["nrOfInstances"], seen["nrOfActiveInstances"], seen["nrOfCompletedInstances"])
    assert counters == (3, 2, 1)


@pytest.mark.parametrize("sequential", [False, True])
def test_items_are_created_within_the_step_budget(play, sequential):
    player = play(multi(sequential=sequential), limits=Limits(steps=20))
    player.start({"items": list(range(95))})
    player.run({"t": lambda seen: {"r": seen["item"]}})
    assert player.status == "Completed"
    assert player.variables["out"] == list(range(95))


def test_too_many_items_are_an_incident(play):
    player = play(multi(), limits=Limits(repetitions=3))
    player.start({"items": [1, 2, 3, 4]})
    assert player.incidents == ["TOO_MANY_REPETITIONS@t#body"]


def test_a_boundary_on_a_multi_instance_activity_belongs_to_its_body(play):
    model = bpmn(
        ENDS
        + f'<serviceTask id="t">{loop(COLLECTION)}</serviceTask><endEvent id="be"/>'
        + '<boundaryEvent id="b" attachedToRef="t"><timerEventDefinition><timeDuration>PT1H</timeDuration>'
        + "</timerEventDefinition></boundaryEvent>"
        + path("s", "t", "e")
        + path("b", "be")
    )
    player = play(model)
    player.start({"items": [1, 2, 3]})
    assert player.open_waits() == ["b"]
    player.complete("t", {"r": 1})
    player.tick("PT1H")
    assert player.status == "Completed"
    assert "out" not in player.variables
    assert player.path[-2:] == ["b", "be"]


def test_a_multi_instance_sub_process_keeps_each_item_to_itself(play):
    inner = (
        f'<subProcess id="sub">{loop(COLLECTION)}<startEvent id="is"/><serviceTask id="a"/>'
        f'<serviceTask id="b"/><endEvent id="ie"/>{path("is", "a", "b", "ie")}</subProcess>'
    )
    player = play(bpmn(ENDS + inner + path("s", "sub", "e")))
    player.start({"items": [1, 2, 3]})
    player.run({"a": lambda seen: {"r": seen["item"]}, "b": lambda seen: {"r": seen["r"] * 10}})
    assert player.status == "Completed"
    assert player.variables == {"items": [1, 2, 3], "out": [10, 20, 30]}


# ------------------------------------------------------------------ calls

CHILD = bpmn(
    '<startEvent id="cs"/><serviceTask id="ct"/><endEvent id="ce"/>' + path("cs", "ct", "ce")
).replace(b'id="p"', b'id="child"')


def calling(extension: str = "", attributes: str = "") -> bytes:
    inside = f"<extensionElements>{extension}</extensionElements>" if extension else ""
    call = f'<callActivity id="call" calledElement="child" {attributes}>{inside}</callActivity>'
    return bpmn(ENDS + call + path("s", "call", "e"))


def test_a_called_process_is_an_instance_of_its_own_whose_end_resumes_the_caller(play):
    player = play(calling(), CHILD)
    top = player.start({"x": 1})
    child = next(i for i in player.world.instances.values() if i.id != top)
    assert (child.root_instance_id, child.parent_instance_id, child.depth) == (top, top, 1)
    player.complete("ct", {"y": 2})
    assert player.status == "Completed"
    assert player.instance(child.id).status == "Completed"


def test_without_mappings_only_what_the_called_process_wrote_comes_back(play):
    player = play(calling(), CHILD)
    top = player.start({"x": 1, "y": 1})
    player.set({"x": "changed meanwhile"})
    player.complete("ct", {"y": 2})
    assert player.variables == {"x": "changed meanwhile", "y": 2}
    assert player.instance(top).status == "Completed"


def test_mappings_decide_what_goes_in_and_what_comes_back(play):
    mappings = '<bpm:input name="n" value="${x + 1}"/><bpm:output name="result" value="${n * 10}"/>'
    player = play(calling(mappings), CHILD)
    player.start({"x": 1})
    assert player.seen_by(player.work_at("ct")) == {"n": 2}
    player.complete("ct", {"n": 5})
    assert player.variables == {"x": 1, "result": 50}


def test_calling_what_does_not_exist_is_an_incident(play):
    player = play(calling())
    player.start()
    assert player.incidents == ["CALLED_PROCESS_NOT_FOUND@call"]


def test_a_process_that_calls_itself_stops_at_the_depth_limit(play):
    body = ENDS + '<callActivity id="call" calledElement="p"/>' + path("s", "call", "e")
    player = play(bpmn(body), limits=Limits(depth=5))
    player.start()
    assert player.incidents == ["CALL_DEPTH@call"]
    assert len(player.world.instances) == 6


def test_a_deadlock_in_a_called_process_is_found(play):
    child = bpmn(
        '<startEvent id="cs"/><endEvent id="ce"/><exclusiveGateway id="x" default="xj"/>'
        '<parallelGateway id="j"/>'
        '<serviceTask id="a"/><sequenceFlow id="xa" sourceRef="x" targetRef="a"><conditionExpression>false'
        '</conditionExpression></sequenceFlow><sequenceFlow id="xj" sourceRef="x" targetRef="j"/>'
        + path("cs", "x")
        + path("a", "j", "ce")
    ).replace(b'id="p"', b'id="child"')
    player = play(calling(), child)
    player.start()
    assert player.incidents == ["DEADLOCK@j"]
    assert player.status == "Running"


# ------------------------------------------------------------------ scripts and sending


def test_a_script_writes_only_what_it_assigns(play):
    script = '<scriptTask id="t"><script>y = x + 1</script></scriptTask>'
    player = play(bpmn(ENDS + script + path("s", "t", "e")))
    player.start({"x": 1})
    assert player.variables == {"x": 1, "y": 2}


def test_a_failing_script_is_an_incident_with_nothing_written(play):
    script = '<scriptTask id="t"><script>y = 1\nz = missing + 1</script></scriptTask>'
    player = play(bpmn(ENDS + script + path("s", "t", "e")))
    player.start()
    assert len(player.incidents) == 1
    assert player.variables == {}


def test_a_send_task_without_a_handler_sends_its_message_itself(play):
    model = bpmn(
        ENDS + '<sendTask id="t" messageRef="m"/>' + path("s", "t", "e"),
        roots='<message id="m" name="hello"/>',
    )
    player = play(model)
    player.start()
    assert player.status == "Completed"
    assert [message.name for message in player.buffer] == ["hello"]
