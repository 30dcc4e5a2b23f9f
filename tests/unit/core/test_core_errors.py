"""Errors on their way outwards, retries, incidents, and what operators do about them."""

from __future__ import annotations

from datetime import timedelta

import pytest
from support.definitions import bpmn, path

from bpm_engine.core import stimuli as s
from bpm_engine.core.changes import Applied, Refused, Stale
from bpm_engine.core.context import Limits
from bpm_engine.core.retry import RetryPolicy
from bpm_engine.core.state import TimerStatus, TokenState

ENDS = '<startEvent id="s"/><endEvent id="e"/>'
ROOTS = '<error id="x" errorCode="X"/><error id="y" errorCode="Y"/><message id="m" name="go"/>'
ONCE = RetryPolicy(attempts=1, jitter=0)


def tasks(*names: str) -> str:
    return "".join(f'<serviceTask id="{name}"/>' for name in names)


def on_error(host: str, reference: str | None, identifier: str) -> str:
    ref = f' errorRef="{reference}"' if reference else ""
    return (
        f'<boundaryEvent id="{identifier}" attachedToRef="{host}">'
        f"<errorEventDefinition{ref}/></boundaryEvent>"
        f'<serviceTask id="{identifier}t"/><endEvent id="{identifier}e"/>'
        + path(identifier, f"{identifier}t", f"{identifier}e")
    )


def error_handler(reference: str, identifier: str = "h", body: str | None = None) -> str:
    inside = body or f'<serviceTask id="{identifier}t"/>' + path(
        f"{identifier}s", f"{identifier}t", f"{identifier}e"
    )
    return (
        f'<subProcess id="{identifier}" triggeredByEvent="true"><startEvent id="{identifier}s">'
        f'<errorEventDefinition errorRef="{reference}"/></startEvent><endEvent id="{identifier}e"/>'
        f"{inside}</subProcess>"
    )


def sub(body: str) -> str:
    return f'<subProcess id="sub"><startEvent id="is"/><endEvent id="ie"/>{body}</subProcess>'


ONE = bpmn(ENDS + tasks("a") + path("s", "a", "e"), roots=ROOTS)
CHILD = bpmn(
    '<startEvent id="cs"/><serviceTask id="ct"/><endEvent id="ce"/>' + path("cs", "ct", "ce")
).replace(b'id="p"', b'id="child"')


def test_a_specific_code_beats_catch_all_on_the_same_activity(play):
    model = bpmn(
        ENDS + tasks("a") + on_error("a", None, "any") + on_error("a", "x", "bx") + path("s", "a", "e"),
        roots=ROOTS,
    )
    player = play(model)
    player.start()
    player.throw_error("a", "X")
    assert player.at == ["bxt"]
    other = play(model)
    other.start()
    other.throw_error("a", "Z")
    assert other.at == ["anyt"]


def test_the_nearest_catcher_outwards_wins(play):
    inside = sub(tasks("a") + path("is", "a", "ie") + error_handler("x"))
    model = bpmn(ENDS + inside + on_error("sub", None, "outer") + path("s", "sub", "e"), roots=ROOTS)
    player = play(model)
    player.start()
    player.throw_error("a", "X", variables={"why": "no"})
    assert player.at == ["h", "ht", "sub"]
    assert player.variables == {"why": "no"}
    other = play(model)
    other.start()
    other.throw_error("a", "Y")
    assert other.at == ["outert"]


def test_an_event_sub_process_does_not_catch_the_error_it_throws(play):
    body = (
        '<endEvent id="again"><errorEventDefinition errorRef="x"/></endEvent><serviceTask id="ht"/>'
        + path("hs", "ht", "again")
    )
    handler = error_handler("x", body=body).replace('<endEvent id="he"/>', "")
    inside = sub(tasks("a") + path("is", "a", "ie") + handler)
    model = bpmn(ENDS + inside + on_error("sub", "x", "outer") + path("s", "sub", "e"), roots=ROOTS)
    player = play(model)
    player.start()
    player.throw_error("a", "X")
    player.complete("ht")
    assert player.at == ["outert"]


def test_an_error_end_event_interrupts_its_siblings(play):
    inside = sub(
        '<parallelGateway id="f"/>'
        + tasks("a", "b")
        + '<endEvent id="bad"><errorEventDefinition errorRef="x"/></endEvent>'
        + path("is", "f", "a", "bad")
        + path("f", "b", "ie")
    )
    model = bpmn(ENDS + inside + on_error("sub", "x", "outer") + path("s", "sub", "e"), roots=ROOTS)
    player = play(model)
    player.start()
    player.complete("a")
    assert player.at == ["outert"]
    kinds = {entry.node_id: entry.kind for entry in player.log}
    assert (kinds["bad"], kinds["b"]) == ("completed", "cancelled")


def test_an_error_goes_through_a_call_activity_and_takes_existing_outputs_along(play):
    call = (
        '<callActivity id="call" calledElement="child"><extensionElements>'
        '<bpm:output name="seen" value="${note}"/><bpm:output name="unseen" value="${missing}"/>'
        "</extensionElements></callActivity>"
    )
    player = play(bpmn(ENDS + call + on_error("call", "x", "b") + path("s", "call", "e"), roots=ROOTS), CHILD)
    player.start({"note": "hello"})
    player.throw_error("ct", "X")
    assert player.at == ["bt"]
    assert player.variables == {"note": "hello", "seen": "hello"}
    assert player.incidents == []


def test_an_uncaught_error_is_an_incident_never_a_silent_end(play):
    player = play(ONE)
    player.start()
    player.throw_error("a", "X", "card declined")
    assert player.incidents == ["X@a"]
    assert player.status == "Failed"
    assert player.instance().error == {"code": "X", "message": "card declined", "node_id": "a"}
    assert [event.type for event in player.outbox][-2:] == ["incident.created", "instance.failed"]


def test_code_and_message_go_into_the_variables_of_the_catcher(play):
    catcher = (
        '<boundaryEvent id="b" attachedToRef="a"><errorEventDefinition errorRef="x" '
        'camunda:errorCodeVariable="code" camunda:errorMessageVariable="text"/></boundaryEvent>'
        '<endEvent id="be"/>' + path("b", "be")
    )
    player = play(bpmn(ENDS + tasks("a") + catcher + path("s", "a", "e"), roots=ROOTS))
    player.start()
    player.throw_error("a", "X", "declined")
    assert player.variables == {"code": "X", "text": "declined"}


# ------------------------------------------------------------------ retries


def test_a_failed_attempt_backs_off_and_is_tried_again_by_the_same_token(play):
    player = play(ONE, retry=RetryPolicy(attempts=3, base=timedelta(seconds=10), jitter=0))
    player.start()
    before = player.work_at("a")
    player.fail("a")
    assert player.at == ["a"]
    assert player.tokens()[0].state == "Waiting"
    player.tick("PT9S")
    assert player.tokens()[0].state == "Waiting"
    player.tick("PT1S")
    again = player.work_at("a")
    assert (again.id, again.activation, again.attempt) == (before.id, before.activation, 1)
    player.fail("a")
    player.tick("PT20S")
    player.fail("a")
    assert player.incidents == ["BOOM@a"]
    player.retry()
    assert player.work_at("a").attempt == 0
    player.complete("a")
    assert player.status == "Completed"


def test_retry_later_is_not_counted_as_a_failed_attempt(play):
    player = play(ONE, retry=ONCE)
    player.start()
    player.fail("a", retry_after=timedelta(minutes=10))
    player.tick("PT10M")
    assert player.work_at("a").attempt == 0


def test_settings_of_the_node_go_before_those_of_the_handler(play):
    task = (
        '<serviceTask id="a"><extensionElements><bpm:retry attempts="2" kind="fixed" base="PT5S" jitter="0"/>'
        "</extensionElements></serviceTask>"
    )
    player = play(bpmn(ENDS + task + path("s", "a", "e")), retry=ONCE)
    player.start()
    player.fail("a", policy=RetryPolicy(attempts=9, base=timedelta(hours=1)))
    player.tick("PT5S")
    player.fail("a", policy=RetryPolicy(attempts=9, base=timedelta(hours=1)))
    assert player.incidents == ["BOOM@a"]


def test_a_final_failure_is_not_tried_again(play):
    player = play(ONE)
    player.start()
    player.fail("a", final=True)
    assert player.incidents == ["BOOM@a"]


def test_a_technical_failure_is_caught_by_its_code_but_never_by_catch_all(play):
    model = bpmn(ENDS + tasks("a") + on_error("a", None, "any") + path("s", "a", "e"), roots=ROOTS)
    player = play(model, retry=ONCE)
    player.start()
    player.fail("a", "X")
    assert player.incidents == ["X@a"]
    named = bpmn(ENDS + tasks("a") + on_error("a", "x", "bx") + path("s", "a", "e"), roots=ROOTS)
    other = play(named, retry=ONCE)
    other.start()
    other.fail("a", "X")
    assert other.at == ["bxt"]


def test_a_token_that_kills_its_workers_is_quarantined(play):
    player = play(ONE, limits=Limits(recoveries=2))
    player.start()
    player.expire("a")
    player.expire("a")
    player.tick("PT1S")
    assert player.work_at("a").attempt == 0
    player.expire("a")
    assert player.incidents == ["worker_lost@a"]


def test_what_loses_its_workers_again_and_again_comes_back_ever_later(play):
    """The first loss may be anybody's; from the second on what kills slows down itself, not the others."""
    player = play(ONE)
    player.start()
    waited = []
    for _ in range(10):
        player.expire("a")
        (token,) = player.tokens()
        if token.state is TokenState.WAITING:
            assert token.error["code"] == "worker_lost"
        timers = player.world.timers.values()
        (due,) = [t.due_at for t in timers if t.status is TimerStatus.SCHEDULED] or [player.now]
        waited.append((due - player.now).total_seconds())
        player.tick(f"PT{waited[-1]:.0f}S")
    assert waited == [0, 1, 4, 16, 60, 60, 60, 60, 60, 60]
    player.expire("a")
    assert player.incidents == ["worker_lost@a"]


@pytest.mark.parametrize(("was_alone", "seconds"), [(False, 0), (True, 4)])
def test_what_is_known_to_have_killed_waits_from_its_first_loss_on(play, was_alone, seconds):
    player = play(ONE)
    player.start()
    player.play(s.WorkerLost(claim=player.claim_at("a"), was_alone=was_alone))
    (token,) = player.tokens()
    assert token.recoveries == 1
    assert token.state is (TokenState.WAITING if was_alone else TokenState.READY)
    player.tick(f"PT{seconds}S")
    lost = player.claim_at("a")
    player.play(s.WorkCompleted(claim=lost))
    assert player.status == "Completed"
    assert isinstance(player.play(s.WorkerLost(claim=lost, was_alone=True))[0], Stale)


def test_what_waits_after_a_loss_is_done_as_any_other_work(play):
    player = play(ONE)
    player.start()
    player.expire("a")
    player.expire("a")
    player.tick("PT0.9S")
    assert player.at == ["a"]
    assert player.tokens()[0].state is TokenState.WAITING
    player.tick("PT0.1S")
    player.complete("a")
    assert player.status == "Completed"


def test_work_of_external_workers_does_not_wait_after_a_loss(play):
    """Nothing else is lost with them."""
    task = '<serviceTask id="a" bpm:topic="out" bpm:external="true"/>'
    player = play(bpmn(ENDS + task + path("s", "a", "e")))
    player.start()
    for _ in range(5):
        player.expire("a")
        assert player.tokens()[0].state is TokenState.READY


def test_the_result_of_a_worker_that_lost_its_lease_changes_nothing(play):
    player = play(ONE)
    player.start()
    lost = player.claim_at("a")
    player.play(s.LeaseExpired(token_id=lost.token_id, version=lost.version))
    second = player.claim_at("a")
    before = len(player.log)
    assert isinstance(player.play(s.WorkCompleted(claim=lost, variables={"x": 1}))[0], Stale)
    assert isinstance(player.play(s.LeaseExpired(token_id=lost.token_id, version=lost.version))[0], Stale)
    assert len(player.log) == before
    assert isinstance(player.play(s.WorkCompleted(claim=second))[0], Applied)
    assert isinstance(player.play(s.WorkCompleted(claim=second))[0], Stale)
    assert player.variables == {}


# ------------------------------------------------------------------ halting

TWO = bpmn(
    ENDS
    + '<parallelGateway id="f"/><parallelGateway id="j"/>'
    + tasks("a", "b", "c")
    + path("s", "f", "a", "c", "j", "e")
    + path("f", "b", "j")
)


@pytest.mark.parametrize(("policy", "status"), [("fail", "Failed"), ("suspend", "Suspended")])
def test_an_incident_holds_what_runs_beside_it(play, policy, status):
    player = play(TWO, retry=ONCE, on_failure=policy)
    player.start()
    player.fail("b")
    assert player.status == status
    held = {token.node_id: token.held for token in player.tokens()}
    assert held == {"a": True, "b": False}
    player.retry()
    assert player.status == "Running"
    assert player.work_at("a")
    assert player.work_at("b")


def test_a_handler_that_was_running_commits_its_node_and_its_token_rests(play):
    player = play(TWO, retry=ONCE)
    player.start()
    claim = player.claim_at("a")
    player.fail("b")
    assert isinstance(player.play(s.WorkCompleted(claim=claim, variables={"x": 1}))[0], Applied)
    assert player.variables == {"x": 1}
    assert player.at == ["a", "b"]
    player.retry()
    assert player.at == ["b", "c"]


def test_a_suspended_instance_takes_no_timer_no_message_and_no_human_answer(play):
    model = bpmn(
        ENDS
        + '<parallelGateway id="f"/><parallelGateway id="j"/><userTask id="u"/>'
        + '<intermediateCatchEvent id="c"><messageEventDefinition messageRef="m"/></intermediateCatchEvent>'
        + '<intermediateCatchEvent id="t"><timerEventDefinition><timeDuration>PT1H</timeDuration>'
        + "</timerEventDefinition></intermediateCatchEvent>"
        + path("s", "f", "u", "j", "e")
        + path("f", "c", "j")
        + path("f", "t", "j"),
        roots=ROOTS,
    )
    player = play(model)
    player.start()
    player.suspend()
    assert isinstance(player.finish_task("u"), Refused)
    assert player.message("go") == "buffered"
    player.tick("PT2H")
    assert player.at == ["c", "t", "u"]
    player.resume()
    assert player.at == ["j", "j", "u"]
    player.finish_task("u")
    assert player.status == "Completed"


def test_suspending_reaches_the_called_instances(play):
    player = play(
        bpmn(ENDS + '<callActivity id="call" calledElement="child"/>' + path("s", "call", "e")), CHILD
    )
    player.start()
    player.suspend()
    assert {i.status for i in player.world.instances.values()} == {"Suspended"}
    player.resume()
    player.complete("ct")
    assert player.status == "Completed"


def test_skipping_counts_the_node_as_done(play):
    player = play(ONE, retry=ONCE)
    player.start()
    player.fail("a")
    player.skip("a", {"by": "hand"})
    assert player.status == "Completed"
    assert player.variables == {"by": "hand"}


MAPPED = (
    '<extensionElements><bpm:output name="why" value="${reason + code}"/></extensionElements>'
    '<errorEventDefinition errorRef="x" bpm:errorCodeVariable="code"/>'
)


@pytest.mark.parametrize(
    "catching",
    [
        f'<boundaryEvent id="b" attachedToRef="a">{MAPPED}</boundaryEvent><endEvent id="be"/>'
        + path("b", "be"),
        f'<subProcess id="h" triggeredByEvent="true"><startEvent id="b">{MAPPED}</startEvent>'
        '<endEvent id="be"/>' + path("b", "be") + "</subProcess>",
    ],
)
def test_what_an_error_brings_is_seen_by_the_output_mappings_of_its_catcher_alone(play, catching):
    player = play(bpmn(ENDS + tasks("a") + path("s", "a", "e") + catching, roots=ROOTS))
    player.start()
    player.throw_error("a", "X", variables={"reason": "no "})
    assert player.status == "Completed"
    assert player.variables == {"why": "no X"}


HALF = (
    ENDS
    + '<serviceTask id="a"><extensionElements><bpm:output name="half" value="${whole / parts}"/>'
    + '</extensionElements></serviceTask><boundaryEvent id="b" attachedToRef="a" cancelActivity="false">'
    + "<timerEventDefinition><timeDuration>PT1H</timeDuration></timerEventDefinition></boundaryEvent>"
    + path("s", "a", "e")
    + '<endEvent id="be"/>'
    + path("b", "be")
)


def test_what_was_given_by_hand_is_kept_when_the_output_mapping_fails(play):
    player = play(bpmn(HALF), retry=ONCE)
    player.start()
    player.fail("a")
    player.skip("a", {"whole": 10})
    assert player.incidents == ["UNKNOWN_VARIABLE@a"]
    assert player.open_waits() == []
    player.retry(variables={"parts": 2})
    assert player.status == "Completed"
    assert player.variables == {"parts": 2, "half": 5}


def test_a_join_that_is_skipped_in_vain_stays_a_join(play):
    fork = '<parallelGateway id="f"/><inclusiveGateway id="j"/><serviceTask id="c"/>' + tasks("a", "b")
    ways = path("s", "f", "a", "j") + path("f", "b", "j") + path("c", "e")
    out = "".join(
        f'<sequenceFlow id="j{target}" sourceRef="j" targetRef="{target}">'
        f"<conditionExpression>{condition}</conditionExpression></sequenceFlow>"
        for target, condition in (("c", "x == 1"), ("e", "x == 2"))
    )
    player = play(bpmn(ENDS + fork + ways + out), retry=ONCE)
    player.start({"x": 0})
    player.complete("a")
    player.complete("b")
    assert player.incidents == ["NO_FLOW_CHOSEN@j"]
    player.skip("j", {})
    assert player.incidents == ["NO_FLOW_CHOSEN@j"]
    player.retry(variables={"x": 1})
    player.complete("c")
    assert player.status == "Completed"


def test_a_failed_instance_can_go_on_with_its_incident_left_alone(play):
    player = play(TWO, retry=ONCE)
    player.start()
    player.fail("b")
    player.resume()
    player.complete("a")
    player.complete("c")
    assert player.status == "Running"
    assert player.incidents == ["BOOM@b"]
    player.retry()
    player.complete("b")
    assert player.status == "Completed"


def test_cancelling_takes_the_whole_tree_at_once_and_only_once(play):
    player = play(
        bpmn(ENDS + '<callActivity id="call" calledElement="child"/>' + path("s", "call", "e")), CHILD
    )
    player.start()
    claim = player.claim_at("ct")
    assert isinstance(player.cancel(), Applied)
    assert {i.status for i in player.world.instances.values()} == {"Cancelled"}
    assert player.tokens() == []
    assert isinstance(player.cancel(), Refused)
    assert isinstance(player.play(s.WorkCompleted(claim=claim))[0], Stale)


def test_cancelling_a_called_instance_is_an_incident_of_its_caller_which_calls_again_on_retry(play):
    player = play(
        bpmn(ENDS + '<callActivity id="call" calledElement="child"/>' + path("s", "call", "e")), CHILD
    )
    top = player.start()
    child = next(i.id for i in player.world.instances.values() if i.id != top)
    player.cancel(child)
    assert player.incidents == ["CALLED_INSTANCE_CANCELLED@call"]
    player.retry()
    player.complete("ct")
    assert player.status == "Completed"


def test_tokens_can_be_moved(play):
    player = play(TWO)
    player.start()
    player.move("a", "c")
    assert player.at == ["b", "c"]
    assert isinstance(player.move("a", "c"), Refused)
    player.complete("c")
    player.complete("b")
    assert player.status == "Completed"


def test_guards_and_fields_are_checked_when_a_task_is_completed(play):
    task = (
        '<userTask id="u"><extensionElements><bpm:field name="ok" type="boolean" required="true"/>'
        '<bpm:guard condition="ok or reason != \'\'" message="say why"/></extensionElements></userTask>'
    )
    player = play(bpmn(ENDS + task + path("s", "u", "e")))
    player.start({"reason": ""})
    assert player.finish_task("u", {}).code == "FIELD_INVALID"
    assert player.finish_task("u", {"ok": "yes"}).code == "FIELD_INVALID"
    assert player.finish_task("u", {"ok": False}).message == "say why"
    assert isinstance(player.finish_task("u", {"ok": False, "reason": "late"}), Applied)
    assert player.status == "Completed"


def test_a_task_can_be_completed_only_once(play):
    player = play(bpmn(ENDS + '<userTask id="u"/><userTask id="v"/>' + path("s", "u", "v", "e")))
    player.start()
    (task,) = player.world.tasks
    player.finish_task("u")
    assert player.play(s.TaskCompleted(task_id=task))[0].code == "TASK_NOT_OPEN"
    assert player.at == ["v"]


def test_several_none_starts_need_a_choice(play):
    model = bpmn(
        '<startEvent id="s1"/><startEvent id="s2"/><endEvent id="e"/>' + path("s1", "e") + path("s2", "e")
    )
    player = play(model)
    outcome = player.play(s.Started(instance_id="i", tenant_id="t", definition_id="p:1"))[0]
    assert outcome.code == "AMBIGUOUS_START"
    assert player.world.instances == {}
    player.start(at="s2")
    assert player.path == ["s2", "e"]


def test_a_delayed_start_waits_for_its_time(play):
    player = play(ONE)
    player.start(start_at=player.now + timedelta(hours=1))
    assert player.at == ["s"]
    player.tick("PT1H")
    assert player.at == ["a"]
