"""Catch events, boundary events, event gateways, timers, messages, signals, throws."""

from __future__ import annotations

import pytest
from support.definitions import bpmn, path

from bpm_engine.core import stimuli as s
from bpm_engine.core.changes import Stale

ENDS = '<startEvent id="s"/><endEvent id="e"/>'
ROOTS = '<message id="m" name="paid"/><signal id="g" name="closed"/>'


def timer(kind: str, text: str, extra: str = "") -> str:
    tag = {"date": "timeDate", "duration": "timeDuration", "cycle": "timeCycle"}[kind]
    return f"<timerEventDefinition {extra}><{tag}>{text}</{tag}></timerEventDefinition>"


MESSAGE = '<messageEventDefinition messageRef="m"/>'
SIGNAL = '<signalEventDefinition signalRef="g"/>'


def catch(trigger: str, identifier: str = "c", extra: str = "") -> str:
    return f'<intermediateCatchEvent id="{identifier}" {extra}>{trigger}</intermediateCatchEvent>'


def boundary(trigger: str, interrupting: bool = True, host: str = "a", identifier: str = "b") -> str:
    flag = str(interrupting).lower()
    return (
        f'<boundaryEvent id="{identifier}" attachedToRef="{host}" cancelActivity="{flag}">{trigger}'
        f'</boundaryEvent><endEvent id="{identifier}e"/><serviceTask id="{identifier}t"/>'
        + path(identifier, f"{identifier}t", f"{identifier}e")
    )


def with_boundary(trigger: str, interrupting: bool = True, host: str = '<serviceTask id="a"/>') -> bytes:
    return bpmn(ENDS + host + boundary(trigger, interrupting) + path("s", "a", "e"), roots=ROOTS)


@pytest.mark.parametrize(
    ("kind", "text", "wait"),
    [
        ("duration", "PT10M", "PT10M"),
        ("date", "2026-01-01T00:10:00Z", "PT10M"),
        ("cycle", "R3/PT10M", "PT10M"),
    ],
)
def test_an_intermediate_timer_fires_once_and_never_early(play, kind, text, wait):
    player = play(bpmn(ENDS + catch(timer(kind, text)) + path("s", "c", "e")))
    player.start()
    player.tick("PT9M59S")
    assert player.at == ["c"]
    player.tick("PT1S")
    assert player.status == "Completed"
    assert player.open_waits() == []


@pytest.mark.parametrize(("kind", "text"), [("duration", "PT0S"), ("date", "2020-01-01T00:00:00Z")])
def test_a_timer_that_is_due_already_fires_at_once(play, kind, text):
    player = play(bpmn(ENDS + catch(timer(kind, text)) + path("s", "c", "e")))
    player.start()
    assert player.status == "Completed"


def test_a_timer_from_a_bad_value_is_an_incident_and_can_be_retried(play):
    player = play(bpmn(ENDS + catch(timer("duration", "${span}")) + path("s", "c", "e")))
    player.start({"span": "soon"})
    assert player.incidents == ["TIME_FORMAT@c"]
    player.retry(variables={"span": "PT1S"})
    player.tick("PT1S")
    assert player.status == "Completed"


def test_firing_twice_is_harmless(play):
    player = play(with_boundary(timer("cycle", "R3/PT10M"), interrupting=False))
    player.start()
    (timer_id,) = player.world.timers
    player.tick("PT10M")
    assert player.at == ["a", "bt"]
    assert isinstance(player.play(s.TimerFired(timer_id=timer_id))[0], Stale)
    assert player.at == ["a", "bt"]


def test_an_interrupting_boundary_timer_cancels_the_work_and_its_late_result_is_stale(play):
    player = play(with_boundary(timer("duration", "PT1H")))
    player.start()
    claim = player.claim_at("a")
    player.tick("PT1H")
    assert player.at == ["bt"]
    assert isinstance(player.play(s.WorkCompleted(claim=claim))[0], Stale)
    player.complete("bt")
    assert player.status == "Completed"
    assert "e" not in player.path


def test_completing_in_time_closes_the_boundary(play):
    player = play(with_boundary(timer("duration", "PT1H")))
    player.start()
    player.complete("a")
    assert player.status == "Completed"
    assert player.open_waits() == []
    assert player.rounds == 0


def test_a_cycle_on_a_non_interrupting_boundary_fires_as_often_as_it_says(play):
    player = play(with_boundary(timer("cycle", "R3/PT10M"), interrupting=False))
    player.start()
    player.tick("PT2H")
    assert player.at == ["a", "bt", "bt", "bt"]
    assert player.open_waits() == []


def test_after_downtime_missed_cycles_fire_once_and_keep_their_schedule(play):
    player = play(with_boundary(timer("cycle", "R/PT10M"), interrupting=False))
    player.start()
    player.jump("PT35M")
    assert player.at.count("bt") == 1
    player.tick("PT5M")
    assert player.at.count("bt") == 2


@pytest.mark.parametrize(("policy", "fired"), [("all", 3), ("skip", 0), ("once", 1)])
def test_the_catch_up_policy_decides_about_missed_cycles(play, policy, fired):
    body = ENDS + '<serviceTask id="a"/>' + boundary(timer("cycle", "R/PT10M"), False) + path("s", "a", "e")
    player = play(bpmn(body, process=f'isExecutable="true" bpm:catchUp="{policy}"'))
    player.start()
    player.jump("PT35M")
    assert player.at.count("bt") == fired
    player.tick("PT5M")
    assert player.at.count("bt") == fired + 1


def test_a_message_goes_to_the_wait_with_its_key_and_its_payload_is_merged(play):
    key = 'bpm:correlationKey="${order}"'
    player = play(bpmn(ENDS + catch(MESSAGE, extra=key) + path("s", "c", "e"), roots=ROOTS))
    player.start({"order": "A-1"})
    assert player.message("paid", "A-2") == "buffered"
    assert player.message("paid", "A-1", {"sum": 5}) == "delivered"
    assert player.status == "Completed"
    assert player.variables == {"order": "A-1", "sum": 5}


def test_a_message_that_came_early_waits_for_its_subscription(play):
    model = bpmn(ENDS + '<serviceTask id="a"/>' + catch(MESSAGE) + path("s", "a", "c", "e"), roots=ROOTS)
    player = play(model)
    player.start()
    assert player.message("paid", payload={"sum": 5}) == "buffered"
    player.complete("a")
    assert player.status == "Completed"


def test_a_second_delivery_to_the_same_subscription_changes_nothing(play):
    model = bpmn(ENDS + catch(MESSAGE) + '<serviceTask id="a"/>' + path("s", "c", "a", "e"), roots=ROOTS)
    player = play(model)
    player.start()
    (subscription,) = player.world.subscriptions
    player.message("paid")
    before = len(player.log)
    assert isinstance(player.play(s.MessageDelivered(subscription_id=subscription))[0], Stale)
    assert len(player.log) == before


def test_the_payload_goes_under_its_variable_when_there_is_one(play):
    extra = 'bpm:payloadVariable="payment"'
    player = play(bpmn(ENDS + catch(MESSAGE, extra=extra) + path("s", "c", "e"), roots=ROOTS))
    player.start()
    player.message("paid", payload={"sum": 5})
    assert player.variables == {"payment": {"sum": 5}}


def test_a_signal_reaches_every_wait(play):
    model = bpmn(
        ENDS
        + '<parallelGateway id="f"/><parallelGateway id="j"/>'
        + catch(SIGNAL, "c1")
        + catch(SIGNAL, "c2")
        + path("s", "f", "c1", "j", "e")
        + path("f", "c2", "j"),
        roots=ROOTS,
    )
    player = play(model)
    player.start()
    assert player.signal("closed") == 2
    assert player.status == "Completed"


GATEWAY = bpmn(
    ENDS
    + '<eventBasedGateway id="x"/><receiveTask id="r" messageRef="m"/><endEvent id="e2"/><endEvent id="e3"/>'
    + catch(timer("duration", "PT1H"), "t")
    + catch(SIGNAL, "c")
    + path("s", "x", "r", "e")
    + path("x", "t", "e2")
    + path("x", "c", "e3"),
    roots=ROOTS,
)


@pytest.mark.parametrize(
    ("happen", "end"),
    [
        (lambda p: p.message("paid", payload={"v": 1}), "e"),
        (lambda p: p.tick("PT1H"), "e2"),
        (lambda p: p.signal("closed"), "e3"),
    ],
)
def test_an_event_gateway_has_exactly_one_winner(play, happen, end):
    player = play(GATEWAY)
    player.start()
    assert player.open_waits() == ["c", "r", "t"]
    happen(player)
    assert player.status == "Completed"
    assert player.path[-1] == end
    assert player.open_waits() == []
    assert player.message("paid") == "buffered"


def test_an_interrupting_message_boundary_on_a_sub_process_takes_the_whole_subtree(play):
    host = (
        '<subProcess id="a"><startEvent id="is"/><parallelGateway id="f"/>'
        '<userTask id="u"/><endEvent id="ie"/>'
        + catch(timer("duration", "PT5M"))
        + '<callActivity id="call" calledElement="child"/>'
        + path("is", "f", "u", "ie")
        + path("f", "c", "ie")
        + path("f", "call", "ie")
        + "</subProcess>"
    )
    child = bpmn(
        '<startEvent id="cs"/><serviceTask id="ct"/><endEvent id="ce"/>' + path("cs", "ct", "ce")
    ).replace(b'id="p"', b'id="child"')
    player = play(with_boundary(MESSAGE, host=host), child)
    player.start()
    assert player.at == ["a", "c", "call", "ct", "u"]
    player.message("paid")
    assert player.at == ["bt"]
    assert player.open_waits() == []
    assert [i.status for i in player.world.instances.values()] == ["Running", "Cancelled"]
    player.complete("bt")
    assert player.status == "Completed"


def test_a_message_throw_reaches_a_waiting_instance_and_the_outbox(play):
    thrower = (
        '<intermediateThrowEvent id="t"><extensionElements><bpm:input name="sum" value="${2 + 3}"/>'
        f"</extensionElements>{MESSAGE}</intermediateThrowEvent>"
    )
    model = bpmn(
        ENDS
        + '<parallelGateway id="f"/><parallelGateway id="j"/>'
        + catch(MESSAGE)
        + thrower
        + path("s", "f", "c", "j", "e")
        + path("f", "t", "j"),
        roots=ROOTS,
    )
    player = play(model)
    player.start()
    assert player.status == "Completed"
    assert player.variables == {"sum": 5}
    assert "message.thrown" in [event.type for event in player.outbox]


def test_an_activity_deadline_is_caught_by_its_code_or_becomes_an_incident(play):
    task = '<serviceTask id="a" bpm:deadline="PT4H"/>'
    error = '<errorEventDefinition errorRef="late"/>'
    roots = '<error id="late" errorCode="DEADLINE"/>'
    caught = play(bpmn(ENDS + task + boundary(error) + path("s", "a", "e"), roots=roots))
    caught.start()
    caught.tick("PT4H")
    assert caught.at == ["bt"]
    uncaught = play(bpmn(ENDS + task + path("s", "a", "e")))
    uncaught.start()
    uncaught.tick("PT4H")
    assert uncaught.incidents == ["DEADLINE@a"]
    uncaught.retry()
    uncaught.complete("a")
    assert uncaught.status == "Completed"


def test_the_deadline_of_an_instance_fails_it(play):
    model = bpmn(
        ENDS + '<serviceTask id="a"/>' + path("s", "a", "e"), process='isExecutable="true" bpm:deadline="P7D"'
    )
    player = play(model)
    player.start()
    player.tick("P7D")
    assert player.status == "Failed"
    assert player.instance().error["code"] == "DEADLINE"
    player.resume()
    player.complete("a")
    assert player.status == "Completed"
    assert player.open_waits() == []


def test_a_signal_does_not_reach_a_wait_that_begins_after_the_throw(play):
    thrower = f'<intermediateThrowEvent id="t">{SIGNAL}</intermediateThrowEvent>'
    player = play(bpmn(ENDS + thrower + catch(SIGNAL) + path("s", "t", "c", "e"), roots=ROOTS))
    player.start()
    assert player.at == ["c"]
    player.signal("closed")
    assert player.status == "Completed"
