"""Sequence, splits and joins."""

from __future__ import annotations

import pytest
from support.definitions import bpmn, flow, path

from bpm_engine.core.context import Limits
from bpm_engine.core.retry import RetryPolicy

ENDS = '<startEvent id="s"/><endEvent id="e"/>'


def tasks(*names: str) -> str:
    return "".join(f'<serviceTask id="{name}"/>' for name in names)


def gates(kind: str, *names: str, default: str = "") -> str:
    extra = f' default="{default}"' if default else ""
    return "".join(f'<{kind}Gateway id="{name}"{extra}/>' for name in names)


SEQUENCE = bpmn(ENDS + tasks("a", "b") + path("s", "a", "b", "e"))
FORK = bpmn(
    ENDS + tasks("a", "b") + gates("parallel", "f", "j") + path("s", "f", "a", "j", "e") + path("f", "b", "j")
)


def test_a_sequence_runs_task_by_task_and_merges_results(play):
    player = play(SEQUENCE)
    player.start({"x": 1})
    assert player.at == ["a"]
    player.complete("a", {"y": 2})
    player.complete("b")
    assert player.status == "Completed"
    assert player.path == ["s", "a", "b", "e"]
    assert player.variables == {"x": 1, "y": 2}


def test_a_sequence_needs_nothing_but_its_token_scope_and_instance(play):
    player = play(SEQUENCE)
    player.start()
    player.complete("a")
    player.complete("b")
    assert player.rounds == 0


def test_moving_along_keeps_the_token_and_raises_its_activation(play):
    player = play(SEQUENCE)
    player.start()
    before = player.work_at("a")
    player.complete("a")
    after = player.work_at("b")
    assert after.id == before.id
    assert after.activation == before.activation + 1
    assert after.local is None


def test_a_fork_completes_the_parent_and_groups_its_children(play):
    player = play(FORK)
    player.start()
    children = player.tokens()
    assert player.at == ["a", "b"]
    assert len({child.parallel_group_id for child in children}) == 1
    assert children[0].parallel_group_id is not None


@pytest.mark.parametrize("order", ["ab", "ba"])
def test_a_parallel_join_fires_once_when_all_have_arrived(play, order):
    player = play(FORK)
    player.start()
    player.complete(order[0])
    assert player.status == "Running"
    player.complete(order[1])
    assert player.status == "Completed"
    assert player.path.count("j") == 1
    assert player.path.count("e") == 1


def test_a_parallel_join_takes_one_token_per_flow_and_a_surplus_stays(play):
    # Two tokens reach the join by m (a merge without synchronisation), one by c.
    model = bpmn(
        ENDS
        + tasks("a", "b", "c", "after")
        + gates("parallel", "f", "j")
        + gates("exclusive", "m")
        + path("s", "f", "a", "m", "j", "after", "e")
        + path("f", "b", "m")
        + path("f", "c", "j")
    )
    player = play(model)
    player.start()
    player.complete("a")
    player.complete("b")
    assert player.at == ["c", "j", "j"]
    player.complete("c")
    assert player.at == ["after", "j"]
    assert player.path.count("after") == 1


def test_exclusive_takes_the_first_true_flow_in_document_order(play):
    model = bpmn(
        ENDS
        + tasks("a", "b")
        + gates("exclusive", "x", default="xb")
        + path("s", "x")
        + flow("x", "a", "n > 1", "xa")
        + flow("x", "b", identifier="xb")
        + path("a", "e")
        + path("b", "e")
    )
    player = play(model)
    player.start({"n": 5})
    assert player.at == ["a"]
    other = play(model)
    other.start({"n": 0})
    assert other.at == ["b"]


def test_no_true_flow_is_an_incident_that_can_be_retried(play):
    model = bpmn(ENDS + gates("exclusive", "x") + path("s", "x") + flow("x", "e", "n > 1"))
    player = play(model)
    player.start({"n": 0})
    assert player.incidents == ["NO_FLOW_CHOSEN@x"]
    assert player.status == "Failed"
    player.retry(variables={"n": 2})
    assert player.status == "Completed"


def test_a_condition_that_is_not_boolean_is_an_incident(play):
    model = bpmn(ENDS + gates("exclusive", "x") + path("s", "x") + flow("x", "e", "n"))
    player = play(model)
    player.start({"n": 1})
    assert player.incidents == ["NOT_BOOLEAN@x"]


def test_a_fork_that_fails_on_its_second_condition_has_taken_no_flow(play):
    model = bpmn(
        ENDS
        + tasks("a", "b")
        + gates("inclusive", "o")
        + path("s", "o")
        + flow("o", "a", "true")
        + flow("o", "b", "missing > 1")
        + path("a", "e")
        + path("b", "e")
    )
    player = play(model)
    player.start()
    assert player.at == ["o"]
    assert len(player.incidents) == 1
    assert "a" not in player.path


def test_an_activity_with_several_flows_splits_and_respects_conditions(play):
    model = bpmn(
        ENDS
        + tasks("t", "a", "b", "c")
        + path("s", "t", "a", "e")
        + flow("t", "b", "n > 1")
        + flow("t", "c", "n > 9")
        + path("b", "e")
        + path("c", "e")
    )
    player = play(model)
    player.start({"n": 2})
    player.complete("t")
    assert player.at == ["a", "b"]


def test_several_flows_into_an_activity_do_not_synchronise(play):
    model = bpmn(
        ENDS
        + tasks("a", "b", "t")
        + gates("parallel", "f")
        + path("s", "f", "a", "t", "e")
        + path("f", "b", "t")
    )
    player = play(model)
    player.start()
    player.complete("a")
    player.complete("b")
    player.complete("t")
    assert player.status == "Running"
    player.complete("t")
    assert player.status == "Completed"
    assert player.path.count("t") == 2


INCLUSIVE = bpmn(
    ENDS
    + tasks("a", "b", "c")
    + gates("inclusive", "o", "j")
    + path("s", "o")
    + "".join(flow("o", name, f"{name} > 0") + flow(name, "j") for name in "abc")
    + path("j", "e")
)


def test_an_inclusive_join_waits_for_the_chosen_flows_only(play):
    player = play(INCLUSIVE)
    player.start({"a": 1, "b": 1, "c": 0})
    player.complete("a")
    assert player.at == ["b", "j"]
    player.complete("b")
    assert player.status == "Completed"
    assert player.path.count("e") == 1


def test_an_inclusive_join_fires_when_the_last_hope_ends_elsewhere(play):
    """Decision 2: re-evaluated whenever a token of the scope ends, not only on arrival."""
    model = bpmn(
        ENDS
        + '<endEvent id="away"/>'
        + tasks("a", "b")
        + gates("inclusive", "j")
        + gates("parallel", "f")
        + gates("exclusive", "x", default="xj")
        + path("s", "f", "a", "j", "e")
        + path("f", "b", "x")
        + flow("x", "away", "leave")
        + flow("x", "j", identifier="xj")
    )
    player = play(model)
    player.start({"leave": True})
    player.complete("a")
    assert player.at == ["b", "j"]
    player.complete("b")
    assert player.status == "Completed"
    assert "away" in player.path


def test_a_fault_behind_an_inclusive_join_is_an_incident_and_a_retry_fires_it(play):
    model = bpmn(
        ENDS
        + tasks("a", "b", "c")
        + gates("parallel", "f")
        + gates("inclusive", "j")
        + path("s", "f", "a", "j")
        + path("f", "b", "j")
        + flow("j", "c", "go")
        + flow("j", "e", "not go")
        + path("c", "e")
    )
    player = play(model)
    player.start()
    player.complete("a")
    player.complete("b")
    assert len(player.incidents) == 1
    assert player.at == ["j", "j"]
    player.retry(variables={"go": True})
    assert player.at == ["c"]


def test_a_loop_of_automatic_nodes_yields_and_goes_on(play):
    model = bpmn(
        ENDS
        + '<scriptTask id="t"><script>n = n + 1</script></scriptTask>'
        + gates("exclusive", "m")
        + gates("exclusive", "x", default="xe")
        + path("s", "m", "t", "x")
        + flow("x", "m", "n &lt; 30")
        + flow("x", "e", identifier="xe")
    )
    player = play(model, limits=Limits(steps=10, total_steps=1000))
    player.start({"n": 0})
    assert player.status == "Completed"
    assert player.variables == {"n": 30}


def test_an_endless_loop_of_automatic_nodes_becomes_an_incident(play):
    model = bpmn(
        ENDS
        + '<manualTask id="t"/>'
        + gates("exclusive", "m")
        + gates("exclusive", "x", default="xe")
        + path("s", "m", "t", "x")
        + flow("x", "m", "again")
        + flow("x", "e", identifier="xe")
    )
    player = play(model, limits=Limits(steps=10, total_steps=100))
    player.start({"again": True})
    assert [incident.split("@")[0] for incident in player.incidents] == ["ENDLESS_LOOP"]
    player.retry(variables={"again": False})
    assert player.status == "Completed"


def test_an_event_sub_process_that_there_was_no_room_for_begins_when_there_is(play):
    inside = (
        '<subProcess id="h" triggeredByEvent="true"><startEvent id="hs" isInterrupting="false">'
        "<timerEventDefinition><timeDuration>PT1H</timeDuration></timerEventDefinition></startEvent>"
        '<endEvent id="he"/>' + path("hs", "he") + "</subProcess>"
    )
    ways = path("s", "a", "e") + path("s", "b", "e") + path("s", "c", "e")
    player = play(bpmn(ENDS + tasks("a", "b", "c") + ways + inside), limits=Limits(tokens=3))
    player.start()
    player.tick("PT1H")
    assert player.status == "Failed"
    assert player.instance().error["code"] == "TOO_MANY_TOKENS"
    player.move("b", None)
    player.move("c", None)
    player.resume()
    assert player.status == "Running"
    assert [node for node in player.path if node.startswith("h")] == ["h", "hs", "he"]


def test_what_a_run_throws_in_vain_at_the_limit_is_thrown_when_it_is_retried(play):
    roots = '<signal id="sg" name="done"/><signalEventDefinition id="sgd" signalRef="sg"/>'
    model = bpmn(
        ENDS
        + '<serviceTask id="a"><multiInstanceLoopCharacteristics behavior="None" noneBehaviorEventRef="sgd">'
        + "<loopCardinality>2</loopCardinality></multiInstanceLoopCharacteristics></serviceTask>"
        + '<boundaryEvent id="b" attachedToRef="a" cancelActivity="false">'
        + '<signalEventDefinition signalRef="sg"/></boundaryEvent>'
        + tasks("t")
        + path("s", "a", "e")
        + path("b", "t"),
        roots=roots,
    )
    player = play(model)
    player.start()
    usual, player.limits = player.limits, Limits(tokens=2)
    player.complete("a")
    assert player.incidents == ["TOO_MANY_TOKENS@a"]
    assert "b" not in player.path
    player.limits = usual
    player.retry()
    assert player.path[-2:] == ["b", "t"]


def test_a_saga_is_undone_at_the_limit(play):
    model = bpmn(
        ENDS + '<serviceTask id="a" bpm:compensate="undo"/>' + tasks("b") + path("s", "a", "b", "e"),
        process='isExecutable="true" bpm:saga="true" bpm:maxTokens="1"',
    )
    player = play(model, retry=RetryPolicy(attempts=1, jitter=0))
    player.start()
    player.complete("a")
    player.fail("b")
    (undoing,) = [token for token in player.tokens() if token.compensates is not None]
    player.complete(undoing.node_id)
    assert player.incidents == ["BOOM@b"]


def test_a_token_explosion_stops_at_the_limit_with_nothing_half_done(play):
    model = bpmn(
        ENDS
        + tasks("t")
        + gates("exclusive", "m")
        + gates("parallel", "f")
        + path("s", "m", "t", "f", "m")
        + '<sequenceFlow id="again" sourceRef="f" targetRef="m"/>'
        + '<sequenceFlow id="out" sourceRef="f" targetRef="e"/>'
    )
    player = play(model, limits=Limits(tokens=4))
    player.start()
    for _ in range(2):
        player.complete("t")
    assert player.at == ["t", "t", "t"]
    player.complete("t")
    assert player.incidents == ["TOO_MANY_TOKENS@f"]
    assert player.at == ["f", "t", "t"]


DEAD = bpmn(
    ENDS
    + tasks("a")
    + gates("exclusive", "x", default="xb")
    + gates("parallel", "j")
    + path("s", "x")
    + flow("x", "a", "n > 0")
    + path("a", "j", "e")
    + flow("x", "j", identifier="xb")
)


def test_a_join_that_can_never_fire_is_a_deadlock_incident_naming_the_missing_flow(play):
    player = play(DEAD)
    player.start({"n": 1})
    player.complete("a")
    assert player.incidents == ["DEADLOCK@j"]
    assert "xb" in player.failed_at("j").error["message"]
    assert player.status == "Failed"
    player.retry()
    assert player.incidents == ["DEADLOCK@j"]
    player.move(None, "a")
    assert player.status == "Failed"


def test_an_operator_can_skip_a_deadlocked_join(play):
    player = play(DEAD)
    player.start({"n": 1})
    player.complete("a")
    player.skip("j")
    assert player.status == "Completed"


DEAD_INSIDE = (
    '<subProcess id="sub"><startEvent id="is"/><endEvent id="ie"/>'
    + gates("exclusive", "x", default="xj")
    + gates("parallel", "j")
    + tasks("a")
    + path("is", "x")
    + flow("x", "a", "false")
    + flow("x", "j", identifier="xj")
    + path("a", "j", "ie")
    + "</subProcess>"
)


def test_the_join_of_a_scope_is_not_dead_while_its_sibling_outside_can_end_everything(play):
    model = bpmn(
        ENDS
        + DEAD_INSIDE
        + tasks("b")
        + gates("parallel", "f")
        + '<endEvent id="stop"><terminateEventDefinition/></endEvent>'
        + path("s", "f", "sub", "e")
        + path("f", "b", "stop")
    )
    player = play(model)
    player.start()
    assert player.incidents == []
    player.complete("b")
    assert player.status == "Completed"


def test_the_join_of_a_scope_is_dead_when_everything_around_it_is_done(play):
    model = bpmn(
        ENDS
        + DEAD_INSIDE
        + tasks("b")
        + gates("parallel", "f")
        + '<endEvent id="e2"/>'
        + path("s", "f", "sub", "e")
        + path("f", "b", "e2")
    )
    player = play(model)
    player.start()
    assert player.incidents == []
    player.complete("b")
    assert player.incidents == ["DEADLOCK@j"]


def test_asynchronous_continuations_rest_ready_without_a_topic(play):
    model = bpmn(
        ENDS + '<manualTask id="t" bpm:asyncBefore="true" bpm:asyncAfter="true"/>' + path("s", "t", "e")
    )
    player = play(model)
    player.start()
    assert player.status == "Completed"
    assert player.path == ["s", "t", "e"]


def test_emit_writes_the_named_event_to_the_outbox(play):
    model = bpmn(ENDS + '<serviceTask id="a" bpm:emit="order.paid"/>' + path("s", "a", "e"))
    player = play(model)
    player.start({"x": 1})
    player.complete("a", {"y": 2})
    types = [event.type for event in player.outbox]
    assert types == ["instance.started", "activity.completed", "order.paid", "instance.completed"]
    assert player.outbox[2].data["variables"] == {"x": 1, "y": 2}
    assert [event.seq for event in player.outbox] == sorted({event.seq for event in player.outbox})
