"""A tenant with too much that has not ended begins nothing more; what is there goes on, and so do others."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from support.definitions import bpmn, path
from support.samples import END, HUMAN, START, STARTED_BY_MESSAGE, WAIT, WORK

from bpm_engine import Engine, UnavailableError
from bpm_engine.testing import ManualClock

ASK = f'{START}<userTask id="ask"/>{END}' + path("start", "ask", "end")
FIRST, SECOND = (bpmn(ASK).replace(b'id="p"', b'id="%s"' % key) for key in (b"first", b"second"))


def test_a_tenant_with_too_many_unfinished_instances_starts_no_process(
    opening: Callable[..., Engine],
) -> None:
    engine = opening(tenant_instances=2)
    other = engine.tenant("quiet")
    for each in (engine, other):
        each.deploy(FIRST)
        each.deploy(SECOND)
    engine.start("first")
    again = engine.start("second", idempotency_key="once")
    for key in ("first", "second"):
        with pytest.raises(UnavailableError, match="2 instances of tenant 'default' have not ended yet"):
            engine.start(key)
    assert engine.instances.count() == 2
    assert engine.start("second", idempotency_key="once").id == again.id  # nothing new
    assert other.start("first").status == "Running"
    engine.tasks.complete(engine.tasks.find(instance=again.id).items[0].id)  # what is there goes on
    assert engine.start("first").status == "Running"


def test_the_callers_own_transaction_counts(opening: Callable[..., Engine]) -> None:
    engine = opening(tenant_instances=1)
    engine.deploy(FIRST)
    with engine.begin() as connection:
        engine.start("first", connection=connection)
        with pytest.raises(UnavailableError, match="1 instances of tenant"):
            engine.start("first", connection=connection)
    assert engine.instances.count() == 1


@pytest.mark.parametrize("setting", ["instances", "tenant_instances"])
def test_a_message_starts_no_process_of_a_crowded_tenant(
    opening: Callable[..., Engine], setting: str
) -> None:
    engine = opening(**{setting: 1})
    other = engine.tenant("quiet")
    for each in (engine, other):
        each.deploy(STARTED_BY_MESSAGE)
    assert engine.send_message("paid", "A-1", message_id="m-1") == "started"
    with pytest.raises(UnavailableError, match=f"1 instances of .* `{setting}`"):
        engine.send_message("paid", "A-2", message_id="m-2")
    assert engine.instances.count() == 1
    assert engine.send_message("paid", "A-1", message_id="m-1") == "duplicate"
    assert engine.send_message("unknown") == "buffered"
    assert other.send_message("paid", "A-1") == "started"
    engine.tasks.complete(engine.tasks.find().items[0].id)
    assert engine.send_message("paid", "A-2", message_id="m-2") == "started"  # the refused one left nothing


def test_while_workers_do_not_keep_up_nothing_new_begins_and_all_that_is_there_goes_on(
    opening: Callable[..., Engine], clock: ManualClock
) -> None:
    engine = opening(backlog=60.0)
    for file in (HUMAN, WAIT, WORK):
        engine.deploy(file)
    person = engine.start("p", {"amount": 1}, version=1)
    waiting = engine.start("p", {"order": "A-1"}, version=2)
    behind = engine.start("p")
    (task,) = engine.tasks.find().items
    clock.advance("121s")
    with pytest.raises(UnavailableError, match="work has waited for 121 s"):
        engine.start("p")
    with pytest.raises(UnavailableError, match="setting `backlog`"):
        engine.send_message("paid", "nobody")
    assert engine.send_message("paid", "A-1") == "delivered"
    assert engine.send_signal("closed") == 0
    assert engine.instances.get(waiting.id).status == "Completed"
    engine.tasks.complete(task.id, {"approved": True})
    assert engine.instances.get(person.id).status == "Completed"
    engine.handler("work")(lambda work: None)
    engine.run_until_idle()  # the worker has caught up
    assert engine.instances.get(behind.id).status == "Completed"
    assert engine.instances.count() == 3
    assert engine.start("p").status == "Running"


LISTS: dict[str, Callable[[Engine], object]] = {
    "instances": lambda engine: engine.instances.find(),
    "number of instances": lambda engine: engine.instances.count(),
    "tasks": lambda engine: engine.tasks.find(),
    "number of tasks": lambda engine: engine.tasks.count(),
    "incidents": lambda engine: engine.incidents.find(),
    "number of incidents": lambda engine: engine.incidents.count(),
    "history": lambda engine: engine.history.count(),
    "events": lambda engine: engine.outbox.find(),
}
CALLS: dict[str, Callable[[Engine], object]] = {
    **LISTS,
    "deployment": lambda engine: engine.deploy(FIRST),
    "start": lambda engine: engine.start("p"),
    "message": lambda engine: engine.send_message("nobody waits for it"),
}


@pytest.mark.parametrize(
    ("waited", "refused"),
    [
        ("30s", []),
        ("31s", [*LISTS]),
        ("60s", [*LISTS]),
        ("61s", [*LISTS, "start"]),
        ("120s", [*LISTS, "start"]),
        ("121s", [*LISTS, "start", "message"]),
    ],
)
def test_the_older_the_work_that_waits_the_more_is_refused_and_what_is_cheapest_to_lose_first(
    opening: Callable[..., Engine], clock: ManualClock, waited: str, refused: list[str]
) -> None:
    engine = opening(backlog=60.0)
    engine.deploy(WORK)
    instance = engine.start("p")
    clock.advance(waited)
    found = []
    for name, call in CALLS.items():
        try:
            call(engine)
        except UnavailableError:
            found.append(name)
    assert found == refused
    assert engine.instances.get(instance.id).status == "Running"
    assert engine.instances.explain(instance.id).tokens
    engine.instances.cancel(instance.id)


def test_a_message_that_an_instance_waits_for_is_never_refused(opening: Callable[..., Engine]) -> None:
    engine = opening(tenant_instances=1, tenant_messages=1)
    engine.deploy(WAIT.replace(b'id="p"', b'id="waiting"'))
    instance = engine.start("waiting", {"order": "A-1"})
    engine.deploy(STARTED_BY_MESSAGE)
    assert engine.send_message("filler") == "buffered"
    assert engine.send_message("paid", "A-1") == "delivered"
    assert engine.instances.get(instance.id).status == "Completed"


def test_a_tenant_with_too_many_waiting_messages_leaves_no_more(opening: Callable[..., Engine]) -> None:
    engine = opening(tenant_messages=2)
    other = engine.tenant("quiet")
    for name in ("one", "two"):
        assert engine.send_message(name, message_id="m") == "buffered"
    with pytest.raises(UnavailableError, match="2 messages of tenant 'default' wait already"):
        engine.send_message("three")
    assert engine.send_message("one", message_id="m") == "duplicate"
    assert engine.send_message("three", ttl=0) == "dropped"
    assert other.send_message("three") == "buffered"
    engine.deploy(STARTED_BY_MESSAGE)
    assert engine.send_message("paid") == "started"  # it does not stay
