"""`run_until_idle` of some services, or of some topics."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path

import pytest
import sqlalchemy as sa
from support.definitions import bpmn, path
from support.samples import HOUR, WORK
from support.workers import wait_until

from bpm_engine import Engine, InvalidInputError, NotFoundError, UnavailableError
from bpm_engine.testing import ManualClock, TestEngine

Opening = Callable[..., Engine]
# start -> billing.charge -> mail.send -> end
TWO = bpmn(
    '<startEvent id="start"/><serviceTask id="charge" bpm:topic="billing.charge"/>'
    '<serviceTask id="send" bpm:topic="mail.send"/><endEvent id="end"/>'
    + path("start", "charge", "send", "end")
)


@pytest.mark.parametrize("missing_handler", ["fail", "leave"])
def test_types_limit_what_is_done_this_time_and_no_longer(opening: Opening, missing_handler: str) -> None:
    engine = opening(missing_handler=missing_handler)
    engine.deploy(TWO)
    for topic in ("billing.charge", "mail.send"):
        engine.handler(topic)(lambda work: {work.node_id: True})
    instance = engine.start("p")
    engine.run_until_idle(types=["mail."])
    assert engine.instances.get(instance.id).variables == {}
    engine.run_until_idle(types=["billing.", "other."])
    assert engine.instances.get(instance.id).variables == {"charge": True}
    engine.run_until_idle()
    assert engine.instances.get(instance.id).status == "Completed"


def test_types_beat_those_that_the_process_works_on_anyway(opening: Opening) -> None:
    engine = opening(worker_types=("mail.",))
    engine.deploy(TWO)
    for topic in ("billing.charge", "mail.send"):
        engine.handler(topic)(lambda work: {work.node_id: True})
    instance = engine.start("p")
    engine.run_until_idle(types=["billing."])
    assert engine.instances.get(instance.id).variables == {"charge": True}


def test_only_the_services_that_are_named_do_something(engine: Engine, clock: ManualClock) -> None:
    engine.deploy(WORK)
    engine.deploy(HOUR)
    engine.handler("work")(lambda work: None)
    work, pause = engine.start("p", version=1), engine.start("p", version=2)
    clock.advance("2h")

    def ended() -> list[bool]:
        return [engine.instances.get(each.id).status == "Completed" for each in (work, pause)]

    assert engine.run_until_idle(only=["recovery", "correlation", "retention"]) == 0
    assert ended() == [False, False]
    engine.run_until_idle(only=["timers"])
    assert ended() == [False, True]
    engine.run_until_idle(only=["executor"])
    assert ended() == [True, True]


def test_retention_deletes_all_that_is_old_and_only_if_it_is_named(
    opening: Opening, clock: ManualClock
) -> None:
    engine = opening(retention_batch=1)
    engine.deploy(WORK)
    engine.handler("work")(lambda work: None)
    old = [engine.start("p", retention="P1D").id for _ in range(3)]
    engine.run_until_idle()
    clock.advance("P2D")
    engine.run_until_idle()
    assert [engine.instances.get(each).status for each in old] == ["Completed"] * 3
    young = engine.start("p")
    assert engine.run_until_idle(only=["retention"]) == 0, "what is deleted is no step"
    for each in old:
        with pytest.raises(NotFoundError):
            engine.instances.get(each)
    assert [token.node_id for token in engine.instances.get(young.id).tokens] == ["work"]


def test_names_of_services_are_checked(engine: Engine) -> None:
    with pytest.raises(InvalidInputError, match="there is no service coffee"):
        engine.run_until_idle(only=["coffee"])
    with pytest.raises(InvalidInputError, match="no publisher"):
        engine.run_until_idle(only=["outbox"])


def test_the_engine_of_a_test_takes_the_same() -> None:
    with TestEngine(TWO, handlers={"billing.charge": lambda work: None}) as engine:
        instance = engine.start("p")
        engine.run_until_idle(only=["executor"], types=["billing."])
        engine.expect(instance).waiting_at("send")


class Interrupting(ManualClock):
    """Interrupts a thread in its second transaction, which is that of somebody who queued up meanwhile."""

    def __init__(self) -> None:
        super().__init__()
        self.thread: int | None = None
        self.begun, self.go_on = threading.Event(), threading.Event()

    def read(self, connection: sa.Connection) -> datetime:
        if threading.get_ident() == self.thread:
            if self.begun.is_set():
                raise KeyboardInterrupt
            self.begun.set()
            self.go_on.wait(20)
        return super().read(connection)


def test_an_interrupted_caller_leaves_nobody_waiting_whose_call_it_was_committing(
    tmp_path: Path,
) -> None:
    clock, url = Interrupting(), f"sqlite:///{tmp_path / 'bpm.db'}"
    with Engine(url, clock=clock) as engine, ThreadPoolExecutor(2) as threads:
        engine.deploy(WORK)
        engine.start("p")
        queue = engine._runtime.committer._queue

        def interrupted() -> None:
            clock.thread = threading.get_ident()
            engine.start("p")

        first = threads.submit(interrupted)
        assert clock.begun.wait(20)
        second = threads.submit(engine.start, "p")
        wait_until(lambda: bool(queue), "the second call has queued up")
        clock.go_on.set()
        with pytest.raises(KeyboardInterrupt):
            first.result(20)
        with pytest.raises(UnavailableError, match="interrupted"):
            second.result(20)
