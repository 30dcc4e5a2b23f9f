"""The races to force: what is there before, who acts at once, and what must be true whatever the order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from support.definitions import bpmn, flow, path
from support.interleaver import Actor

from bpm_engine import ConflictError, Engine
from bpm_engine.testing import ManualClock

Call = Callable[[Engine], Any]
Prepared = tuple[Sequence[Call], Callable[[Sequence[Actor]], None]]


@dataclass(frozen=True, slots=True)
class Race:
    """`prepare` is given an engine, the clock and a key that no other run uses; it returns the calls and what
    to assert about the actors afterwards."""

    name: str
    model: bytes
    prepare: Callable[[Engine, ManualClock, str], Prepared]
    actors: int


def winners(actors: Sequence[Actor]) -> list[int]:
    """Who was not refused; any error but a refusal is a failure of the race."""
    for actor in actors:
        assert actor.error is None or isinstance(actor.error, ConflictError), repr(actor.error)
    return [actor.number for actor in actors if actor.error is None]


def tasks_of(engine: Engine, instance: str) -> dict[str, str]:
    return {task.node_id: task.id for task in engine.tasks.find(instance=instance).items}


def entered(engine: Engine, instance: str) -> list[str]:
    return [step.node_id for step in engine.history.steps(instance)]


START = '<startEvent id="start"/>'


def _user_tasks(names: Sequence[str]) -> str:
    return "".join(f'<userTask id="{name}"/>' for name in names)


# ---------------------------------------------------------------------- joins


def join_of(branches: int) -> Race:
    names = [f"b{number}" for number in range(branches)]
    model = bpmn(
        f'{START}<parallelGateway id="fork"/>{_user_tasks(names)}<parallelGateway id="join"/>'
        '<userTask id="after"/><endEvent id="end"/>'
        + path("start", "fork")
        + "".join(path("fork", name, "join") for name in names)
        + path("join", "after", "end")
    )

    def prepare(engine: Engine, clock: ManualClock, key: str) -> Prepared:
        instance = engine.start("p").id
        tasks = tasks_of(engine, instance)

        def check(actors: Sequence[Actor]) -> None:
            assert len(winners(actors)) == branches
            assert list(tasks_of(engine, instance)) == ["after"]
            assert entered(engine, instance).count("after") == 1

        def complete(name: str) -> Call:
            return lambda e: e.tasks.complete(tasks[name])

        return [complete(name) for name in names], check

    return Race(f"join of {branches}", model, prepare, branches)


def inclusive(dying: str) -> Race:
    """`a` arrives at the join, `b` and `c` arrive or die: the join fires once, after all three."""
    model = bpmn(
        f'{START}<inclusiveGateway id="fork"/>{_user_tasks("abc")}'
        + "".join(f'<exclusiveGateway id="x_{name}" default="x_{name}_join"/>' for name in "bc")
        + '<inclusiveGateway id="join"/><userTask id="after"/><endEvent id="end"/><endEvent id="dead"/>'
        + path("start", "fork")
        + "".join(flow("fork", name, "${true}") for name in "abc")
        + path("a", "join", "after", "end")
        + "".join(path(name, f"x_{name}", "join") for name in "bc")
        + "".join(flow(f"x_{name}", "dead", f"${{dies_{name}}}") for name in "bc")
    )

    def prepare(engine: Engine, clock: ManualClock, key: str) -> Prepared:
        instance = engine.start("p").id
        tasks = tasks_of(engine, instance)

        def complete(name: str) -> Call:
            return lambda e: e.tasks.complete(tasks[name], {f"dies_{name}": name in dying})

        def check(actors: Sequence[Actor]) -> None:
            assert len(winners(actors)) == 3
            assert list(tasks_of(engine, instance)) == ["after"]
            taken = entered(engine, instance)
            assert (taken.count("after"), taken.count("dead")) == (1, len(dying))

        return [complete(name) for name in "abc"], check

    return Race(f"inclusive, {dying or 'nobody'} dies", model, prepare, 3)


# ---------------------------------------------------------------------- events

CHOICE = bpmn(
    f'{START}<eventBasedGateway id="choice"/>'
    '<intermediateCatchEvent id="paid"><messageEventDefinition messageRef="m" bpm:correlationKey="${order}"/>'
    '</intermediateCatchEvent><intermediateCatchEvent id="late"><timerEventDefinition>'
    "<timeDuration>PT1H</timeDuration></timerEventDefinition></intermediateCatchEvent>"
    '<intermediateCatchEvent id="refused"><messageEventDefinition messageRef="n" '
    'bpm:correlationKey="${order}"/></intermediateCatchEvent>'
    + _user_tasks(["ship", "remind", "return"])
    + '<endEvent id="end"/>'
    + path("start", "choice", "paid", "ship", "end")
    + path("choice", "late", "remind", "end")
    + path("choice", "refused", "return", "end"),
    roots='<message id="m" name="paid"/><message id="n" name="refused"/>',
)


def _event_gateway(engine: Engine, clock: ManualClock, key: str) -> Prepared:
    instance = engine.start("p", {"order": key}).id
    clock.advance("PT1H")

    def check(actors: Sequence[Actor]) -> None:
        assert len(winners(actors)) == 3
        (after,) = tasks_of(engine, instance)
        told = [actors[0].result == "delivered", actors[1].result > 0, actors[2].result == "delivered"]
        assert told == [after == "ship", after == "remind", after == "return"]

    calls: list[Call] = [
        lambda e: e.send_message("paid", key, ttl=0),
        lambda e: e._runtime.timers.run_once(),
        lambda e: e.send_message("refused", key, ttl=0),
    ]
    return calls, check


DEADLINE = bpmn(
    f'{START}<userTask id="decide"/><boundaryEvent id="late" attachedToRef="decide"><timerEventDefinition>'
    "<timeDuration>PT1H</timeDuration></timerEventDefinition></boundaryEvent>"
    '<endEvent id="decided"/><endEvent id="expired"/>'
    + path("start", "decide", "decided")
    + path("late", "expired")
)


def _three_endings(engine: Engine, clock: ManualClock, key: str) -> Prepared:
    instance = engine.start("p").id
    task = tasks_of(engine, instance)["decide"]
    clock.advance("PT1H")

    def check(actors: Sequence[Actor]) -> None:
        winners(actors)
        won = [actors[0].error is None, actors[1].error is None, bool(actors[2].result)]
        assert won.count(True) == 1
        view, taken = engine.instances.get(instance), entered(engine, instance)
        assert won[0] == (view.status == "Cancelled")
        assert won[1] == ("decided" in taken)
        assert won[2] == ("expired" in taken)

    calls: list[Call] = [
        lambda e: e.instances.cancel(instance),
        lambda e: e.tasks.complete(task),
        lambda e: e._runtime.timers.run_once(),
    ]
    return calls, check


SUBSCRIBES = bpmn(
    f'{START}<intermediateCatchEvent id="wait"><messageEventDefinition messageRef="m" '
    'bpm:correlationKey="${order}"/></intermediateCatchEvent><endEvent id="end"/>'
    + path("start", "wait", "end"),
    roots='<message id="m" name="paid"/>',
)


def _message_and_subscription(engine: Engine, clock: ManualClock, key: str) -> Prepared:
    """No sweep follows: whoever commits second must see the other."""

    def check(actors: Sequence[Actor]) -> None:
        assert len(winners(actors)) == 2
        assert actors[1].result in ("delivered", "buffered")
        view = engine.instances.get(actors[0].result.id)
        assert view.status == "Completed"
        assert view.variables == {"order": key, "amount": 7}

    calls: list[Call] = [
        lambda e: e.start("p", {"order": key}),
        lambda e: e.send_message("paid", key, {"amount": 7}),
    ]
    return calls, check


def _one_message_twice(engine: Engine, clock: ManualClock, key: str) -> Prepared:
    first, second = (engine.start("p", {"order": key}).id for _ in range(2))

    def check(actors: Sequence[Actor]) -> None:
        winners(actors)
        assert sorted(actor.result for actor in actors) == ["delivered", "duplicate"]
        states = [engine.instances.get(instance).status for instance in (first, second)]
        assert sorted(states) == ["Completed", "Running"]

    return [lambda e: e.send_message("paid", key, message_id=key)] * 2, check


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


def _pair(engine: Engine, clock: ManualClock, key: str) -> Prepared:
    """BPMN 10.6.6: one instance for both, whichever comes first."""

    def check(actors: Sequence[Actor]) -> None:
        winners(actors)
        assert sorted(actor.result for actor in actors) == ["delivered", "started"]
        (instance,) = engine.instances.find(business_key=key).items
        assert list(tasks_of(engine, instance.id)) == ["look"]

    calls: list[Call] = [
        lambda e: e.send_message("order", key, {"number": key}),
        lambda e: e.send_message("payment", key, {"number": key}),
    ]
    return calls, check


# ---------------------------------------------------------------------- people and workers

DECIDE = bpmn(
    f'{START}<userTask id="decide"/><userTask id="after"/><endEvent id="end"/>'
    + path("start", "decide", "after", "end")
)


def _two_people(engine: Engine, clock: ManualClock, key: str) -> Prepared:
    instance = engine.start("p").id
    task = tasks_of(engine, instance)["decide"]

    def check(actors: Sequence[Actor]) -> None:
        (won,) = winners(actors)
        assert engine.instances.get(instance).variables == {"by": won}
        assert list(tasks_of(engine, instance)) == ["after"]

    def complete(number: int) -> Call:
        return lambda e: e.tasks.complete(task, {"by": number})

    return [complete(number) for number in range(2)], check


REMOTE = bpmn(
    f'{START}<serviceTask id="work" bpm:external="true" bpm:topic="remote"/><endEvent id="end"/>'
    + path("start", "work", "end")
)


def _zombie(engine: Engine, clock: ManualClock, key: str) -> Prepared:
    """The old owner hands in after its lease; another takes the work back, does it and hands in."""
    instance = engine.start("p").id
    (old,) = engine.external.fetch("remote", worker="zombie", lease="60s")
    clock.advance("PT61S")

    def replace(e: Engine) -> int:
        e._runtime.recovery.run_once()
        taken = e.external.fetch("remote", worker="heir", lease="60s")
        for task in taken:
            e.external.complete(task.lock, {"by": "heir"})
        return len(taken)

    def check(actors: Sequence[Actor]) -> None:
        winners(actors)
        zombie, heir = actors[0].error is None, actors[1].error is None and actors[1].result == 1
        assert not (zombie and heir)
        if not zombie and not heir:  # the heir looked while the refused zombie held the token
            assert replace(engine) == 1
        view = engine.instances.get(instance)
        assert view.status == "Completed"
        assert view.variables == {"by": "zombie" if zombie else "heir"}
        assert entered(engine, instance).count("end") == 1

    return [lambda e: e.external.complete(old.lock, {"by": "zombie"}), replace], check


RACES = (
    join_of(2),
    join_of(3),
    join_of(8),
    inclusive("b"),
    inclusive("bc"),
    inclusive(""),
    Race("event gateway", CHOICE, _event_gateway, 3),
    Race("cancel, complete, timer", DEADLINE, _three_endings, 3),
    Race("message and subscription", SUBSCRIBES, _message_and_subscription, 2),
    Race("one message twice", SUBSCRIBES, _one_message_twice, 2),
    Race("two messages, one instance", PAIR, _pair, 2),
    Race("two people, one task", DECIDE, _two_people, 2),
    Race("zombie and heir", REMOTE, _zombie, 2),
)
