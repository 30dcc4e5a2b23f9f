"""Compensation, last first, and sagas."""

from __future__ import annotations

import pytest
from support.definitions import bpmn, flow, path

from bpm_engine.core.changes import Refused
from bpm_engine.core.retry import RetryPolicy

ENDS = '<startEvent id="s"/><endEvent id="e"/>'
ONCE = RetryPolicy(attempts=1, jitter=0)
THROW = '<intermediateThrowEvent id="undo"><compensateEventDefinition/></intermediateThrowEvent>'


def undoable(*names: str) -> str:
    return "".join(f'<serviceTask id="{name}" bpm:compensate="undo.{name}"/>' for name in names)


def undone(player) -> list[str]:
    return [entry.node_id for entry in player.log if entry.kind == "compensated"]


def sub(body: str, identifier: str = "sub", attributes: str = "") -> str:
    return (
        f'<subProcess id="{identifier}" {attributes}><startEvent id="{identifier}s"/>'
        f'<endEvent id="{identifier}e"/>{body}</subProcess>'
    )


SEQUENCE = bpmn(ENDS + undoable("a", "b", "c") + THROW + path("s", "a", "b", "c", "undo", "e"))


def test_handlers_run_one_after_the_other_in_reverse_order_of_completion(play):
    player = play(SEQUENCE)
    player.start()
    for name in "abc":
        player.complete(name)
    assert player.at == ["c#undo", "undo"]
    player.complete("c#undo")
    assert player.at == ["b#undo", "undo"]
    player.complete("b#undo")
    player.complete("a#undo")
    assert player.status == "Completed"
    assert undone(player) == ["c", "b", "a"]


def test_the_order_is_that_of_completion_not_of_the_drawing(play):
    model = bpmn(
        ENDS
        + '<parallelGateway id="f"/><parallelGateway id="j"/>'
        + undoable("a", "b", "c")
        + THROW
        + path("s", "f", "a", "j", "undo", "e")
        + path("f", "b", "j")
        + path("f", "c", "j")
    )
    player = play(model)
    player.start()
    for name in "bca":
        player.complete(name)
    player.run()
    assert undone(player) == ["a", "c", "b"]


def test_each_handler_sees_the_variables_as_they_were_when_its_activity_completed(play):
    player = play(SEQUENCE)
    player.start({"n": 0})
    for number, name in enumerate("abc", 1):
        player.complete(name, {"n": number})
    seen = []
    for name in "cba":
        seen.append(player.seen_by(player.work_at(f"{name}#undo"))["n"])
        player.complete(f"{name}#undo", {"n": 100 + len(seen)})
    assert seen == [3, 2, 1]
    assert player.variables["n"] == 103


def test_what_has_not_completed_is_not_compensated(play):
    model = bpmn(
        ENDS
        + '<parallelGateway id="f"/>'
        + undoable("a", "b")
        + '<endEvent id="end2"/>'
        + THROW
        + path("s", "f", "a", "undo", "e")
        + path("f", "b", "end2")
    )
    player = play(model)
    player.start()
    player.complete("a")
    player.complete("a#undo")
    assert player.at == ["b"]
    assert undone(player) == ["a"]


def test_each_record_is_used_at_most_once(play):
    model = bpmn(
        ENDS
        + undoable("a")
        + THROW
        + '<intermediateThrowEvent id="again"><compensateEventDefinition/></intermediateThrowEvent>'
        + path("s", "a", "undo", "again", "e")
    )
    player = play(model)
    player.start()
    player.complete("a")
    player.complete("a#undo")
    assert player.status == "Completed"
    assert undone(player) == ["a"]


def test_an_activity_in_a_loop_is_compensated_once_per_completion(play):
    model = bpmn(
        ENDS
        + undoable("a")
        + '<exclusiveGateway id="m"/><exclusiveGateway id="x" default="out"/>'
        + THROW
        + path("s", "m", "a", "x")
        + flow("x", "m", "again")
        + flow("x", "undo", identifier="out")
        + path("undo", "e")
    )
    player = play(model)
    player.start({"again": True})
    player.complete("a", {"n": 1})
    player.complete("a", {"n": 2, "again": False})
    assert player.seen_by(player.work_at("a#undo"))["n"] == 2
    player.complete("a#undo")
    assert player.seen_by(player.work_at("a#undo"))["n"] == 1
    player.complete("a#undo")
    assert player.status == "Completed"


def test_an_activity_reference_limits_what_is_compensated(play):
    throw = THROW.replace("<compensateEventDefinition/>", '<compensateEventDefinition activityRef="a"/>')
    player = play(bpmn(ENDS + undoable("a", "b") + throw + path("s", "a", "b", "undo", "e")))
    player.start()
    player.complete("a")
    player.complete("b")
    player.run()
    assert undone(player) == ["a"]


def test_compensation_descends_into_completed_sub_processes_through_all_levels(play):
    inner = sub(undoable("b", "c") + path("inners", "b", "c", "innere"), "inner")
    outer = sub(undoable("a", "y") + inner + path("subs", "a", "inner", "y", "sube"))
    model = bpmn(ENDS + outer + undoable("z") + THROW + path("s", "sub", "z", "undo", "e"))
    player = play(model)
    player.start()
    for name in "abcyz":
        player.complete(name)
    player.run()
    assert player.status == "Completed"
    assert undone(player) == ["z", "y", "c", "b", "a"]


def test_sub_processes_that_one_token_went_through_are_undone_each_once_and_last_first(play):
    first = sub(undoable("a") + path("firsts", "a", "firste"), "first")
    second = sub(undoable("b") + path("seconds", "b", "seconde"), "second")
    player = play(bpmn(ENDS + first + second + THROW + path("s", "first", "second", "undo", "e")))
    player.start()
    player.complete("a")
    player.complete("b")
    player.run()
    assert undone(player) == ["b", "a"]
    assert len(player.world.compensations) == 4


def test_a_sub_process_that_was_interrupted_is_not_descended_into(play):
    inner = sub(undoable("a") + '<serviceTask id="b"/>' + path("subs", "a", "b", "sube"))
    boundary = (
        '<boundaryEvent id="bt" attachedToRef="sub"><timerEventDefinition><timeDuration>PT1H</timeDuration>'
        "</timerEventDefinition></boundaryEvent>"
    )
    model = bpmn(ENDS + inner + boundary + THROW + path("s", "sub", "e") + path("bt", "undo", "e"))
    player = play(model)
    player.start()
    player.complete("a")
    player.tick("PT1H")
    assert player.status == "Completed"
    assert undone(player) == []


def test_a_compensation_event_sub_process_replaces_the_default_of_its_scope(play):
    handler = (
        '<subProcess id="h" triggeredByEvent="true">'
        '<startEvent id="hs"><compensateEventDefinition/></startEvent>'
        f'<serviceTask id="ht"/><endEvent id="he"/>{path("hs", "ht", "he")}</subProcess>'
    )
    inner = sub('<serviceTask id="a"/>' + handler + path("subs", "a", "sube"))
    player = play(bpmn(ENDS + inner + undoable("z") + THROW + path("s", "sub", "z", "undo", "e")))
    player.start()
    player.complete("a")
    player.complete("z")
    player.complete("z#undo")
    assert player.at == ["h", "ht", "undo"]
    player.complete("ht")
    assert player.status == "Completed"
    assert undone(player) == ["z", "sub"]


def test_a_throw_in_an_event_sub_process_compensates_the_enclosing_scope(play):
    handler = (
        '<subProcess id="h" triggeredByEvent="true"><startEvent id="hs"><errorEventDefinition errorRef="x"/>'
        f'</startEvent>{THROW}<endEvent id="he"/>{path("hs", "undo", "he")}</subProcess>'
    )
    model = bpmn(
        ENDS + undoable("a") + '<serviceTask id="b"/>' + handler + path("s", "a", "b", "e"),
        roots='<error id="x" errorCode="X"/>',
    )
    player = play(model)
    player.start()
    player.complete("a")
    player.throw_error("b", "X")
    assert player.at == ["a#undo", "h", "undo"]
    player.complete("a#undo")
    assert player.status == "Completed"


def test_a_failing_handler_is_an_incident_that_holds_the_order(play):
    player = play(SEQUENCE, retry=ONCE)
    player.start()
    for name in "abc":
        player.complete(name)
    player.complete("c#undo")
    player.fail("b#undo")
    assert player.incidents == ["BOOM@b#undo"]
    assert player.at == ["b#undo", "undo"]
    statuses = {record.node_id: record.status for record in player.world.compensations.values()}
    assert statuses == {"a": "Pending", "b": "Failed", "c": "Completed"}
    player.retry()
    player.complete("b#undo")
    player.complete("a#undo")
    assert player.status == "Completed"
    assert undone(player) == ["c", "b", "a"]


def test_cancelling_reaches_a_handler_that_runs_in_a_completed_sub_process(play):
    inner = sub(undoable("a") + path("subs", "a", "sube"))
    player = play(bpmn(ENDS + inner + '<serviceTask id="z"/>' + THROW + path("s", "sub", "z", "undo", "e")))
    player.start()
    player.complete("a")
    player.complete("z")
    assert player.at == ["a#undo", "undo"]
    player.cancel()
    assert player.tokens() == []


def test_a_compensation_end_event_compensates_before_it_ends(play):
    end = '<endEvent id="back"><compensateEventDefinition/></endEvent>'
    player = play(bpmn('<startEvent id="s"/>' + end + undoable("a") + path("s", "a", "back")))
    player.start()
    player.complete("a")
    assert player.at == ["a#undo", "back"]
    player.complete("a#undo")
    assert player.status == "Completed"


def test_a_multi_instance_activity_is_compensated_once_per_run_last_first(play):
    task = (
        '<serviceTask id="a" bpm:compensate="undo.a">'
        '<multiInstanceLoopCharacteristics bpm:collection="items" '
        'bpm:elementVariable="item" isSequential="true"/></serviceTask>'
    )
    player = play(bpmn(ENDS + task + THROW + path("s", "a", "undo", "e")))
    player.start({"items": [1, 2, 3]})
    seen = []
    player.run({"undo.a": lambda variables: seen.append(variables["item"])})
    assert player.status == "Completed"
    assert seen == [3, 2, 1]


# ------------------------------------------------------------------ sagas

SAGA = 'isExecutable="true" bpm:saga="true"'


def test_a_saga_undoes_its_steps_and_then_fails_with_the_original_error(play):
    body = ENDS + undoable("a", "b") + '<serviceTask id="c"/>' + path("s", "a", "b", "c", "e")
    player = play(bpmn(body, process=SAGA), retry=ONCE)
    player.start()
    player.complete("a")
    player.complete("b")
    player.fail("c", "NO_STOCK", "nothing left")
    assert player.status == "Running"
    assert player.at == ["b#undo", "c"]
    player.complete("b#undo")
    player.complete("a#undo")
    assert undone(player) == ["b", "a"]
    assert player.incidents == ["NO_STOCK@c"]
    assert player.status == "Failed"
    assert player.instance().error["message"] == "nothing left"


@pytest.mark.parametrize("operation", ["retry", "skip"])
def test_a_step_is_not_tried_again_alone_when_those_before_it_were_undone(play, operation):
    """The process would go on as if they were there."""
    body = ENDS + undoable("a") + '<serviceTask id="c"/>' + path("s", "a", "c", "e")
    player = play(bpmn(body, process=SAGA), retry=ONCE)
    player.start()
    player.complete("a")
    player.fail("c", "NO_STOCK")
    player.complete("a#undo")
    outcome = player.retry("c", {"x": 1}) if operation == "retry" else player.skip("c")
    assert isinstance(outcome, Refused)
    assert (outcome.code, "('a'): move the token" in outcome.message) == ("UNDONE", True)
    assert player.incidents == ["NO_STOCK@c"]
    assert player.variables == {}
    player.move("c", "a")
    player.complete("a")
    player.complete("c")
    assert player.status == "Completed"


def test_a_saga_stops_what_runs_beside_the_failed_step(play):
    body = (
        ENDS
        + '<parallelGateway id="f"/><parallelGateway id="j"/><serviceTask id="c"/><userTask id="u"/>'
        + undoable("a")
        + path("s", "a", "f", "c", "j", "e")
        + path("f", "u", "j")
    )
    player = play(bpmn(body, process=SAGA), retry=ONCE)
    player.start()
    player.complete("a")
    player.fail("c")
    assert player.at == ["a#undo", "c"]
    player.complete("a#undo")
    assert player.incidents == ["BOOM@c"]


def test_what_is_caught_inside_a_saga_does_not_undo_it(play):
    boundary = (
        '<boundaryEvent id="x" attachedToRef="c"><errorEventDefinition errorRef="err"/></boundaryEvent>'
        '<endEvent id="xe"/>' + path("x", "xe")
    )
    body = ENDS + undoable("a") + '<serviceTask id="c"/>' + boundary + path("s", "a", "c", "e")
    player = play(bpmn(body, process=SAGA, roots='<error id="err" errorCode="X"/>'))
    player.start()
    player.complete("a")
    player.throw_error("c", "X")
    assert player.status == "Completed"
    assert undone(player) == []


def test_a_saga_sub_process_is_undone_before_its_boundary_catches_the_error(play):
    inner = sub(
        undoable("a") + '<serviceTask id="c"/>' + path("subs", "a", "c", "sube"), attributes='bpm:saga="true"'
    )
    boundary = (
        '<boundaryEvent id="x" attachedToRef="sub"><errorEventDefinition errorRef="err"/></boundaryEvent>'
        '<endEvent id="xe"/>' + path("x", "xe")
    )
    model = bpmn(ENDS + inner + boundary + path("s", "sub", "e"), roots='<error id="err" errorCode="X"/>')
    player = play(model)
    player.start()
    player.complete("a")
    player.throw_error("c", "X")
    assert player.at == ["a#undo", "c", "sub"]
    player.complete("a#undo")
    assert player.status == "Completed"
    assert player.path[-2:] == ["x", "xe"]


def test_a_saga_without_anything_to_undo_fails_at_once(play):
    body = ENDS + '<serviceTask id="c"/>' + path("s", "c", "e")
    player = play(bpmn(body, process=SAGA), retry=ONCE)
    player.start()
    player.fail("c")
    assert player.incidents == ["BOOM@c"]
    player.retry()
    assert [token.attempt for token in player.tokens()] == [0], "they are counted from the beginning"
    player.complete("c")
    assert player.status == "Completed"
