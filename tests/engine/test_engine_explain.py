"""What an operator is told about an instance: one sentence for every way in which a token can rest."""

from __future__ import annotations

import asyncio

import pytest
from support.definitions import bpmn, flow, path
from support.samples import HOUR, HUMAN, LISTEN, WAIT, WORK

from bpm_engine import Engine, InstanceExplanation, NotFoundError, Retry, TokenExplanation, Work
from bpm_engine.testing import ManualClock, TestEngine

ENDS = '<startEvent id="start"/><endEvent id="end"/>'
TIMER = "<timerEventDefinition><timeDuration>PT1H</timeDuration></timerEventDefinition>"
MESSAGE = '<message id="m" name="paid"/>'
PAID = '<messageEventDefinition messageRef="m" bpm:correlationKey="${order}"/>'


def tasks(*names: str, inside: str = "") -> str:
    return "".join(
        f'<serviceTask id="{n}" name="Do {n}" bpm:topic="{n}">{inside}</serviceTask>' for n in names
    )


def forked(join: str = "parallelGateway", *more: str) -> bytes:
    body = f'<parallelGateway id="fork"/><{join} id="join"/>' + "".join(more)
    return bpmn(
        ENDS
        + tasks("a")
        + '<userTask id="b"/>'
        + body
        + path("start", "fork", "a", "join", "end")
        + path("fork", "b", "join")
    )


def only(found: InstanceExplanation, node: str) -> TokenExplanation:
    return next(token for token in found.tokens if token.node_id == node)


def asked(*files: bytes, run: bool = True, **variables: object) -> tuple[TestEngine, InstanceExplanation]:
    engine = TestEngine(*files, handlers={"a": lambda work: None})
    instance = engine.start("p", variables)
    if run:
        engine.run_until_idle()
    return engine, engine.instances.explain(instance.id)


def test_the_page_reads_like_this(engine: Engine, clock: ManualClock) -> None:
    engine.deploy(WAIT)
    instance = engine.start("p", {"order": "A-1"})
    assert str(engine.instances.explain(instance.id)) == (
        f"p version 1, instance {instance.id}: Running since 2030-01-01 00:00:00+00:00\n"
        "wait: waits for the message 'paid' with the key 'A-1'\n"
        "  since 2030-01-01 00:00:00+00:00\n"
        "  released by the message 'paid' with the key 'A-1'"
    )
    assert engine.instances.explain(instance.id).late == ()


def test_a_timer_that_is_overdue_is_late(engine: Engine, clock: ManualClock) -> None:
    engine.deploy(HOUR)
    instance = engine.start("p")
    (token,) = engine.instances.explain(instance.id).tokens
    assert (token.kind, token.text) == ("timer", "waits until 2030-01-01 01:00:00+00:00")
    clock.advance("2h")
    found = engine.instances.explain(instance.id)
    assert found.late == ("the timer of 'pause', due at 2030-01-01 01:00:00+00:00, is overdue",)


def test_a_signal_and_a_condition(engine: Engine) -> None:
    engine.deploy(LISTEN)
    (token,) = engine.instances.explain(engine.start("p").id).tokens
    assert (token.kind, token.released_by) == ("event", ("the signal 'closed'",))


def test_data_that_is_not_there_and_a_state_that_is_not_reached() -> None:
    data = (
        '<dataObject id="o" name="order"/><dataObjectReference id="r" name="order" dataObjectRef="o">'
        '<dataState id="st" name="paid"/></dataObjectReference>'
    )
    task = (
        '<serviceTask id="ship" bpm:topic="a"><ioSpecification><dataInput id="i" name="i"/>'
        "<inputSet><dataInputRefs>i</dataInputRefs></inputSet><outputSet/></ioSpecification>"
        "<dataInputAssociation><sourceRef>r</sourceRef><targetRef>i</targetRef></dataInputAssociation>"
        "</serviceTask>"
    )
    engine, found = asked(bpmn(ENDS + data + task + path("start", "ship", "end")))
    assert only(found, "ship").text == (
        "waits for the data that it needs to begin: order, order_state = 'paid'"
    )
    instance = engine.instances.get(found.instance_id)
    engine.instances.set_variables(instance.id, {"order": 1, "order_state": "paid"})
    engine.run_until_idle()
    assert engine.instances.get(instance.id).status == "Completed"


def test_a_person_and_what_is_overdue_for_them(engine: Engine, clock: ManualClock) -> None:
    engine.deploy(HUMAN)
    instance = engine.start("p", {"amount": 1})
    (token,) = engine.instances.explain(instance.id).tokens
    (task,) = engine.tasks.find()
    assert (token.kind, token.name) == ("human", "Decide")
    assert token.text == f"waits for somebody of the group clerks, task {task.id}"
    due = bpmn(ENDS + '<userTask id="u" bpm:assignee="ann" bpm:dueDate="PT1H"/>' + path("start", "u", "end"))
    engine.deploy(due)
    instance = engine.start("p")
    clock.advance("2h")
    (token,) = engine.instances.explain(instance.id).tokens
    assert token.text.startswith("waits for ann, task ")
    assert token.late[0].endswith("was due at 2030-01-01 01:00:00+00:00")


def test_work_that_nobody_here_can_do_and_work_that_waits(engine: Engine) -> None:
    engine.deploy(WORK)
    instance = engine.start("p")
    (token,) = engine.instances.explain(instance.id).tokens
    assert (token.kind, token.state) == ("no handler", "Ready")
    assert token.text == "waits for a worker with a handler for 'work'; the engine that was asked has none"
    engine.handler("work")(lambda work: None)
    (token,) = engine.instances.explain(instance.id).tokens
    assert token.text == "waits for a free worker that handles 'work'"


def test_work_that_is_being_done_and_a_lease_that_is_over(engine: Engine, clock: ManualClock) -> None:
    found: list[TokenExplanation] = []

    @engine.handler("work")
    def work(given: Work) -> None:
        found.extend(engine.instances.explain(given.instance_id).tokens)
        clock.advance("1h")
        found.extend(engine.instances.explain(given.instance_id).tokens)

    engine.deploy(WORK)
    engine.start("p")
    engine.run_until_idle()
    assert found[0].kind == "executing"
    assert "work on 'work' is done by" in found[0].text
    assert found[0].late == ()
    assert "is the recovery service running?" in found[1].late[0]


def test_a_retry_that_is_planned_and_an_incident(engine: Engine, clock: ManualClock) -> None:
    @engine.handler("work", retry=Retry(attempts=2, base="10s", jitter=0))
    def work(given: Work) -> None:
        raise ValueError("no good")

    engine.deploy(WORK)
    instance = engine.start("p")
    engine.run_until_idle()
    (token,) = engine.instances.explain(instance.id).tokens
    assert token.kind == "retry"
    assert token.text == (
        "attempt 1 failed: ValueError: no good; it is tried again at 2030-01-01 00:00:10+00:00"
    )
    clock.advance("10s")
    engine.run_until_idle()
    found = engine.instances.explain(instance.id)
    assert found.text.startswith("Failed because of ValueError at 'work'; nothing of it goes on")
    assert found.tokens[0].kind == "incident"
    assert found.tokens[0].text == "an incident: ValueError: no good, after 2 failed attempts"
    assert found.tokens[0].since == clock.now


def test_an_incident_at_a_gateway_is_not_to_be_skipped() -> None:
    ways = flow("gate", "a", "x == 1") + flow("gate", "end", "x == 2")
    body = ENDS + tasks("a") + '<exclusiveGateway id="gate"/>' + path("start", "gate") + path("a", "end")
    _, found = asked(bpmn(body + ways), x=3)
    (token,) = found.tokens
    assert token.released_by == (
        f"a retry, when the cause is repaired: bpm retry {token.token_id}",
        "moving the token elsewhere",
    )


def test_the_failed_step_of_an_undone_saga_can_only_be_moved() -> None:
    body = ENDS + '<serviceTask id="book" bpm:compensate="book_undone"/>' + tasks("pay")
    file = bpmn(body + path("start", "book", "pay", "end"), process='isExecutable="true" bpm:saga="true"')
    engine = TestEngine(file, handlers=dict.fromkeys(("book", "book_undone"), lambda work: None))

    @engine.handler("pay", retry=Retry(attempts=1))
    def pay(work: Work) -> None:
        raise ValueError("no money")

    instance = engine.start("p")
    engine.run_until_idle()
    (token,) = engine.instances.explain(instance.id).tokens
    assert token.text == "an incident: ValueError: no money; undone: book"
    assert token.released_by == ("moving the token to the step with which it shall begin again",)


def test_what_fails_an_instance_as_a_whole_is_told_and_nothing_can_be_skipped(
    engine: Engine, clock: ManualClock
) -> None:
    engine.deploy(HUMAN.replace(b"isExecutable", b'bpm:deadline="PT1H" isExecutable'))
    instance = engine.start("p", {"amount": 7})
    clock.advance("1h")
    engine.run_until_idle()
    why = {"code": "DEADLINE", "message": "the deadline of 'p' has passed", "node_id": "p"}
    assert engine.instances.get(instance.id).error == why
    (*_, failed) = engine.history.find(instance.id)
    assert (failed.kind, failed.data) == ("failed", why)
    assert engine.incidents.find().items == ()
    (found,) = engine.instances.find(status="Failed", incidents=False)
    assert found.id == instance.id
    assert engine.instances.explain(instance.id).text == (
        "Failed because of DEADLINE: the deadline of 'p' has passed; no token has an incident; nothing of it "
        f"goes on until somebody resumes it (bpm resume {instance.id})"
    )
    engine.instances.resume(instance.id)
    (task,) = engine.tasks.find()
    engine.tasks.complete(task.id, {"approved": True})
    clock.advance("1h")
    engine.run_until_idle()
    assert engine.instances.get(instance.id).status == "Completed"


def test_a_suspended_instance_waits_for_its_resume_alone(engine: Engine) -> None:
    engine.deploy(HOUR)
    instance = engine.start("p")
    engine.instances.suspend(instance.id)
    assert engine.instances.explain(instance.id).text == (
        f"Suspended; nothing of it goes on until somebody resumes it (bpm resume {instance.id})"
    )


def test_a_suspended_instance_must_go_on_first(engine: Engine) -> None:
    engine.deploy(HOUR)
    engine.deploy(WORK)
    for version in (1, 2):
        instance = engine.start("p", version=version)
        engine.instances.suspend(instance.id)
        (token,) = engine.instances.explain(instance.id).tokens
        assert token.released_by[0] == "a resume or retry of the instance, which is Suspended"
    assert token.kind == "held"


def test_a_join_says_who_may_still_come() -> None:
    _, found = asked(forked())
    token = only(found, "join")
    assert token.kind == "join"
    assert token.text == (
        "waits at the join: arrived by 'a_join' (from 'a'); may still come by 'b_join' (from 'b'), from 'b'"
    )
    assert token.released_by == ("a token by 'b_join'",)
    _, found = asked(forked("inclusiveGateway"))
    assert only(found, "join").released_by == ("the token at 'b', when it arrives or can no longer arrive",)


def test_a_join_that_can_never_fire_names_the_missing_flow() -> None:
    body = (
        '<exclusiveGateway id="either" default="either_a"/><parallelGateway id="join"/>'
        + tasks("a", "b")
        + flow("start", "either")
        + path("either", "a", "join", "end")
        + flow("either", "b", "${false}")
        + flow("b", "join")
    )
    _, found = asked(bpmn(ENDS + body))
    (token,) = found.tokens
    assert (token.kind, token.missing_flows) == ("incident", ("b_join",))
    assert "no token can arrive any more by 'b_join' (from 'b')" in token.text


def test_a_join_that_waits_in_vain_beside_others_is_a_deadlock() -> None:
    """The instance still waits for something, so no incident was raised."""
    body = (
        '<exclusiveGateway id="either" default="either_a"/><parallelGateway id="join"/>'
        '<parallelGateway id="fork"/><userTask id="u"/>'
        + tasks("a", "b")
        + path("start", "fork", "either")
        + path("either", "a", "join", "end")
        + flow("either", "b", "${false}")
        + flow("b", "join")
        + path("fork", "u", "end")
    )
    _, found = asked(bpmn(ENDS + body))
    token = only(found, "join")
    assert (token.kind, token.missing_flows) == ("deadlock", ("b_join",))


def test_an_event_gateway_names_all_its_events() -> None:
    catches = "".join(
        f'<intermediateCatchEvent id="{name}">{event}</intermediateCatchEvent>'
        for name, event in (("x", PAID), ("y", TIMER))
    )
    body = (
        '<eventBasedGateway id="g"/>'
        + catches
        + flow("start", "g")
        + path("g", "x", "end")
        + path("g", "y", "end")
    )
    _, found = asked(bpmn(ENDS + body, roots=MESSAGE), order="A-1")
    (token,) = found.tokens
    assert token.kind == "event gateway"
    assert token.text == (
        "waits for the first of: the message 'paid' with the key 'A-1'; "
        "the time 2030-01-01 01:00:00+00:00 of 'y'"
    )


@pytest.mark.parametrize(("parallel", "word"), [("true", "and"), ("false", "or")])
def test_several_events_are_all_needed_or_any_is_enough(parallel: str, word: str) -> None:
    catch = (
        f'<intermediateCatchEvent id="x" parallelMultiple="{parallel}">{PAID}{TIMER}</intermediateCatchEvent>'
    )
    _, found = asked(bpmn(ENDS + catch + path("start", "x", "end"), roots=MESSAGE), order="A-1")
    (token,) = found.tokens
    paid, time = "the message 'paid' with the key 'A-1'", "the time 2030-01-01 01:00:00+00:00"
    assert token.text == f"waits for {paid} {word} {time}"


def test_sub_processes_and_repetitions_say_how_far_they_are() -> None:
    many = (
        '<multiInstanceLoopCharacteristics isSequential="true"><loopCardinality>3</loopCardinality>'
        "</multiInstanceLoopCharacteristics>"
    )
    sub = (
        '<subProcess id="box"><startEvent id="bs"/><userTask id="u"/><endEvent id="be"/>'
        + path("bs", "u", "be")
        + "</subProcess>"
    )
    _, found = asked(bpmn(ENDS + sub + path("start", "box", "end")))
    assert only(found, "box").text == "waits for 1 tokens inside"
    assert only(found, "box").released_by == ("the end of what rests at 'u'",)
    _, found = asked(bpmn(ENDS + f'<userTask id="u">{many}</userTask>' + path("start", "u", "end")))
    assert only(found, "u#body").text == "0 of 3 items are done, 1 run"
    assert {token.kind for token in found.tokens} == {"scope", "human", "turn"}


def test_a_call_leads_to_the_called_instance() -> None:
    caller = bpmn(ENDS + '<callActivity id="call" calledElement="q"/>' + path("start", "call", "end"))
    called = WORK.replace(b'process id="p"', b'process id="q"')
    engine, found = asked(called, caller)
    (child,) = engine.instances.find(definition="q")
    (token,) = found.tokens
    assert token.text == f"waits for the called 'q', instance {child.id}, which is Failed"
    assert token.released_by[0] == f"a repair of instance {child.id}: explain that one"


def test_boundary_events_are_named() -> None:
    late = f'<boundaryEvent id="late" attachedToRef="b">{TIMER}</boundaryEvent>'
    body = ENDS + '<userTask id="b"/>' + late + path("start", "b", "end") + flow("late", "end")
    _, found = asked(bpmn(body))
    (token,) = found.tokens
    assert token.watched == ("the time 2030-01-01 01:00:00+00:00 of 'late' at 'b'",)


def test_a_boundary_event_that_needs_an_escalation_as_well_names_it() -> None:
    escalation = '<escalation id="late" escalationCode="LATE"/>'
    body = (
        '<userTask id="b"/><boundaryEvent id="both" attachedToRef="b" parallelMultiple="true">'
        f'{PAID}<escalationEventDefinition escalationRef="late"/></boundaryEvent>'
        + path("start", "b", "end")
        + path("both", "end")
    )
    _, found = asked(bpmn(ENDS + body, roots=MESSAGE + escalation), order="A-1")
    watched = ("the message 'paid' with the key 'A-1' at 'b'", "the escalation 'LATE' at 'b'")
    assert only(found, "b").watched == watched


def test_a_saga_says_what_is_undone_and_why() -> None:
    body = (
        '<serviceTask id="a" bpm:topic="a" bpm:compensate="undo"/>'
        + tasks("b")
        + path("start", "a", "b", "end")
    )
    saga = bpmn(ENDS + body, process='isExecutable="true" bpm:saga="true"')
    engine = TestEngine(saga, handlers={"a": lambda work: None})
    seen: list[InstanceExplanation] = []

    @engine.handler("b", retry=Retry(attempts=1))
    def b(given: Work) -> None:
        raise ValueError("no good")

    @engine.handler("undo")
    def undo(given: Work) -> None:
        seen.append(engine.instances.explain(given.instance_id))

    engine.start("p")
    engine.run_until_idle()
    token = only(seen[0], "b")
    assert token.kind == "compensation"
    assert token.text == "waits for compensation: 'a' is being undone, because ValueError: no good"


def test_a_delayed_start_and_an_external_task() -> None:
    external = bpmn(
        ENDS + '<serviceTask id="x" bpm:topic="pack" bpm:external="true"/>' + path("start", "x", "end")
    )
    engine, found = asked(external)
    assert found.tokens[0].text == "waits for an external worker to fetch the topic 'pack'"
    later = engine.clock.now.replace(year=2031)
    instance = engine.start("p", start_at=later)
    (token,) = engine.instances.explain(instance.id).tokens
    assert token.text == "is to start at 2031-01-01 00:00:00+00:00"


def test_an_ended_instance_has_nothing_to_explain(engine: Engine) -> None:
    engine.deploy(HOUR)
    instance = engine.start("p")
    engine.instances.cancel(instance.id)
    found = engine.instances.explain(instance.id)
    assert (found.text, found.tokens) == ("Cancelled at 2030-01-01 00:00:00+00:00", ())
    with pytest.raises(NotFoundError, match="there is no instance"):
        engine.tenant("other").instances.explain(instance.id)
    assert asyncio.run(engine.aio.instances.explain(instance.id)) == found
