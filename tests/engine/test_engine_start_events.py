"""What starts a process beside a none start event: conditions, gateways and tasks that make instances."""

from __future__ import annotations

from datetime import timedelta

import pytest
from support.definitions import bpmn, path

from bpm_engine import Engine, InvalidInputError
from bpm_engine.core.stimuli import MessageDelivered
from bpm_engine.services.intake import Incoming
from bpm_engine.services.step import Submission, new_id
from bpm_engine.testing import ManualClock

CONDITION = bpmn(
    '<startEvent id="hot"><conditionalEventDefinition><condition>temperature &gt; 100</condition>'
    '</conditionalEventDefinition></startEvent><userTask id="cool"/><endEvent id="end"/>'
    + path("hot", "cool", "end")
)
GATEWAY = bpmn(
    '<eventBasedGateway id="first" instantiate="true"/>'
    '<intermediateCatchEvent id="ordered"><messageEventDefinition messageRef="m"/></intermediateCatchEvent>'
    '<intermediateCatchEvent id="nightly"><timerEventDefinition><timeCycle>R2/PT1H</timeCycle>'
    '</timerEventDefinition></intermediateCatchEvent><userTask id="look"/><userTask id="check"/>'
    '<endEvent id="end"/>'
    + path("first", "ordered", "look", "end")
    + path("first", "nightly", "check", "end"),
    roots='<message id="m" name="order"/>',
)
TOGETHER = bpmn(
    '<startEvent id="both" parallelMultiple="true"><messageEventDefinition messageRef="m"/>'
    '<signalEventDefinition signalRef="s"/><signalEventDefinition signalRef="t"/></startEvent>'
    '<userTask id="look"/><endEvent id="end"/>' + path("both", "look", "end"),
    roots='<message id="m" name="order"/><signal id="s" name="open"/><signal id="t" name="ready"/>',
)

PAIR = bpmn(
    '<eventBasedGateway id="first" instantiate="true" eventGatewayType="Parallel"/>'
    + "".join(
        f'<intermediateCatchEvent id="{name}"><messageEventDefinition messageRef="m_{name}" '
        'bpm:correlationKey="${number}"/></intermediateCatchEvent>'
        for name in ("order", "payment")
    )
    + '<parallelGateway id="join"/><userTask id="look"/><endEvent id="end"/>'
    + path("first", "order", "join", "look", "end")
    + path("first", "payment", "join"),
    roots='<message id="m_order" name="order"/><message id="m_payment" name="payment"/>',
)


def _resting(engine: Engine) -> list[list[str]]:
    found = engine.instances.find().items
    return sorted(sorted(token.node_id for token in engine.instances.get(each.id).tokens) for each in found)


def test_a_process_starts_where_its_condition_holds(engine: Engine) -> None:
    engine.deploy(CONDITION)
    engine.start("p", {"temperature": 120})
    assert _resting(engine) == [["cool"]]
    with pytest.raises(InvalidInputError, match="condition"):
        engine.start("p", {"temperature": 20})


def test_a_gateway_makes_instances_of_messages_and_of_time(engine: Engine, clock: ManualClock) -> None:
    engine.deploy(GATEWAY)
    assert engine.send_message("order") == "started"
    assert _resting(engine) == [["look"]]
    clock.advance("PT1H")
    engine.run_until_idle()
    assert _resting(engine) == [["check"], ["look"]]
    clock.advance("PT1H")
    engine.run_until_idle()
    assert _resting(engine) == [["check"], ["check"], ["look"]]


def _incoming(name: str) -> Submission:
    message = Incoming(
        id=new_id(),
        tenant_id="default",
        name=name,
        correlation_key="7",
        payload={"number": 7},
        message_id=None,
        ttl=timedelta(hours=1),
        memory=timedelta(hours=1),
    )
    return Submission(stimulus=MessageDelivered(subscription_id=""), root=message.id, incoming=message)


def test_messages_that_come_together_make_one_instance(engine: Engine) -> None:
    engine.deploy(PAIR)
    together = [_incoming("order"), _incoming("payment")]
    engine._runtime.perform(together)
    engine.run_until_idle()
    assert [each.incoming and each.incoming.result for each in together] == ["started", "delivered"]
    assert _resting(engine) == [["look"]]


def test_messages_that_were_there_before_the_process_make_one_instance(engine: Engine) -> None:
    for name in ("order", "payment"):
        assert engine.send_message(name, "7", {"number": 7}) == "buffered"
    engine.deploy(PAIR)
    engine.run_until_idle()
    assert _resting(engine) == [["look"]]


def test_a_start_that_needs_all_strikes_off_the_signal_that_came(engine: Engine) -> None:
    engine.deploy(TOGETHER)
    engine.send_signal("ready")
    engine.run_until_idle()
    assert _resting(engine) == [["both"]]
    assert engine.send_message("order") == "delivered"
    assert _resting(engine) == [["both"]]
    engine.send_signal("open")
    engine.run_until_idle()
    assert ["look"] in _resting(engine)
