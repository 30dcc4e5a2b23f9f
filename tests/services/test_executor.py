"""The executor: places, limits, leases, a database that goes away, stopping and starting again."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from itertools import pairwise
from time import monotonic
from typing import Any

import msgspec
import pytest
import sqlalchemy as sa
from support.fault_models import one_task
from support.postgres.server import Server
from support.workers import wait_until

from bpm_engine.config import Config
from bpm_engine.core.state import Token, TokenState
from bpm_engine.core.stimuli import WorkCompleted
from bpm_engine.engine import Engine
from bpm_engine.handlers import LeaseLostError, Retry, Work
from bpm_engine.services.running import HandedIn
from bpm_engine.store.records import TOKEN
from bpm_engine.store.schema import token
from bpm_engine.store.work import Work as Claimed

SEQUENCE = (
    '<definitions xmlns="http://www.omg.org/spec/BPMN/20100524/MODEL" xmlns:bpm="urn:bpm-engine:1"'
    ' id="file" targetNamespace="urn:test"><process id="sequence" isExecutable="true"><startEvent id="s"/>'
    + "".join(f'<serviceTask id="{name}" bpm:topic="job"/>' for name in "abcde")
    + "".join(f'<sequenceFlow id="{a}-{b}" sourceRef="{a}" targetRef="{b}"/>' for a, b in pairwise("sabcde"))
    + "</process></definitions>"
).encode()
QUICK: dict[str, Any] = {"lease": 1.0, "lease_extension": 0.2, "poll": 0.05}


def _engine(url: str, **settings: Any) -> Engine:
    engine = Engine(url, config=Config(**QUICK | settings))
    engine.deploy(one_task("p", "job"))
    return engine


def _tokens(engine: Engine) -> list[Token]:
    with engine._runtime.store.reading() as tx:
        return TOKEN.read(tx.execute(sa.select(*TOKEN.columns).where(token.c.node_id == "task")))


def _completed(engine: Engine, number: int) -> Callable[[], bool]:
    return lambda: engine.instances.count(status="Completed") == number


class Gate:
    """A handler that waits until it is let through, and counts who is inside."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.inside = 0
        self.most = 0
        self.runs: Counter[str] = Counter()
        self._lock = threading.Lock()

    def __call__(self, work: Work) -> None:
        with self._lock:
            self.runs[work.token_id] += 1
            self.inside += 1
            self.most = max(self.most, self.inside)
        self.open.wait(20)
        with self._lock:
            self.inside -= 1


def test_no_more_handlers_of_a_topic_run_than_its_limit() -> None:
    gate = Gate()
    with _engine("sqlite://") as engine:
        engine.handler("job", limit=2)(gate)
        for _ in range(10):
            engine.start("p")
        with engine.running():
            wait_until(lambda: gate.inside == 2, "both places are taken")
            wait_until(lambda: Counter(t.state for t in _tokens(engine))[TokenState.READY] == 8, "8 wait")
            gate.open.set()
            wait_until(_completed(engine, 10), "all have completed")
    assert gate.most == 2
    assert set(gate.runs.values()) == {1}


def test_a_worker_without_room_asks_again_at_once_instead_of_going_to_sleep() -> None:
    gate = Gate()
    with _engine("sqlite://") as engine:
        engine.handler("job")(gate)
        for _ in range(40):
            engine.start("p")
        with engine.running():
            wait_until(lambda: gate.inside == 16, "every thread is at work")
            assert engine._runtime.executor.run_once() > 0
            gate.open.set()
            wait_until(_completed(engine, 40), "all have completed")


def test_who_comes_last_waits_for_the_next_claim_not_for_all_of_a_long_queue() -> None:
    with _engine("sqlite://") as engine:

        @engine.handler("job")
        async def job(work: Work) -> None:
            await asyncio.Event().wait()

        queue = [engine.start("p").id for _ in range(300)]
        claimed = engine._runtime.executor.run_once()
        last = engine.start("p").id
        claimed += engine._runtime.executor.run_once()
        state = {token.instance_id: token.state for token in _tokens(engine)}
        engine._runtime.executor.drain(0)
    assert state[last] is TokenState.EXECUTING
    assert claimed < 200
    assert all(state[each] is TokenState.EXECUTING for each in queue[: claimed // 2])
    assert state[queue[200]] is TokenState.READY


def _lost(engine: Engine, instances: Sequence[str], losses: int) -> None:
    """As if so many workers had died with them."""
    with engine._runtime.store.transaction() as tx:
        tx.execute(token.update().where(token.c.instance_id.in_(instances)).values(recoveries=losses))


def test_while_what_may_kill_its_worker_runs_nothing_else_that_may_is_held() -> None:
    """Held beside it, it would be lost with it, and come to the same end."""
    gate = Gate()
    with _engine("sqlite://", recoveries=10) as engine:
        engine.handler("job")(gate)
        suspects = [engine.start("p").id for _ in range(3)]
        _lost(engine, suspects, 2)
        with engine.running():
            wait_until(lambda: gate.inside == 1, "one of them runs")
            before = {each.id: each.version for each in _tokens(engine)}
            fresh = [engine.start("p").id for _ in range(5)]
            wait_until(lambda: gate.inside == 6, "others run beside it")
            for _ in range(3):
                engine._runtime.executor.run_once()
            after = [each for each in _tokens(engine) if each.instance_id in suspects]
            gate.open.set()
            wait_until(_completed(engine, 8), "all have completed")
    assert {each.id: each.version for each in after} == before, "none was claimed, not even for a moment"
    assert sorted(each.state for each in after) == [TokenState.EXECUTING, *2 * [TokenState.READY]]
    assert len(gate.runs) == len(suspects + fresh)


def test_in_the_foreground_what_may_kill_its_worker_is_held_alone() -> None:
    held: dict[str, int] = {}
    with _engine("sqlite://", recoveries=10) as engine:

        @engine.handler("job")
        def job(work: Work) -> None:
            held[work.instance_id] = sum(each.state is TokenState.EXECUTING for each in _tokens(engine))

        started = [engine.start("p").id for _ in range(5)]
        _lost(engine, started[2:4], 2)
        engine.run_until_idle()
        assert engine.instances.count(status="Completed") == 5
    assert [held[each] for each in started] == [2, 2, 1, 1, 1]


def test_a_full_topic_does_not_keep_others_waiting() -> None:
    gate = Gate()
    with _engine("sqlite://") as engine:
        engine.deploy(one_task("q", "other"))
        engine.handler("job", limit=1)(gate)
        engine.handler("other")(lambda work: {})
        for _ in range(50):
            engine.start("p", priority=5)
        engine.start("q")
        with engine.running():
            wait_until(_completed(engine, 1), "the other one has completed")
            gate.open.set()
            wait_until(_completed(engine, 51), "all have completed")


def test_many_sleeping_async_handlers_leave_the_threads_to_sync_ones() -> None:
    with _engine("sqlite://") as engine:
        engine.deploy(one_task("q", "other"))
        go = threading.Event()

        @engine.handler("job")
        async def job(work: Work) -> None:
            await asyncio.to_thread(go.wait, 20) if work.get("first") else await asyncio.sleep(0)

        engine.handler("other")(lambda work: {})
        engine.start("p", {"first": True})
        for _ in range(100):
            engine.start("p")
            engine.start("q")
        with engine.running():
            wait_until(_completed(engine, 200), "all but the first have completed")
            go.set()
            wait_until(_completed(engine, 201), "the first has completed")


@pytest.mark.parametrize(
    "error", [SystemExit(1), KeyboardInterrupt()], ids=lambda error: type(error).__name__
)
def test_a_task_of_an_async_handler_that_wants_to_end_the_process_ends_no_other_handler(
    error: BaseException,
) -> None:
    with _engine("sqlite://") as engine:
        engine.deploy(one_task("q", "other"))

        async def give_up() -> None:
            raise error

        @engine.handler("job", retry=Retry(attempts=1))
        async def job(work: Work) -> None:
            await asyncio.create_task(give_up())

        @engine.handler("other")
        async def other(work: Work) -> None:
            await asyncio.sleep(0)

        engine.start("p")
        with engine.running():
            wait_until(lambda: bool(engine.incidents.find().items), "the handler has failed")
            engine.start("q")
            wait_until(_completed(engine, 1), "the other handler has run")


def test_the_time_of_a_handler_does_not_begin_while_it_waits_for_a_thread() -> None:
    gate, runs = Gate(), []
    with _engine("sqlite://", worker_threads=1) as engine:
        engine.deploy(one_task("q", "other"))
        engine.handler("job")(lambda work: gate(work) if work.get("slow") else None)
        engine.handler("other", timeout="50ms")(lambda work: runs.append(work.attempt))
        for _ in range(100):  # so that more is claimed at once than one thread can do
            engine.start("p")
        with engine.running():
            wait_until(_completed(engine, 100), "the quick ones have completed")
            engine.start("p", {"slow": True}, priority=1)
            wait_until(lambda: gate.inside == 1, "the thread is at work")
            engine.start("q")
            hands = engine._runtime.executor.hands
            wait_until(lambda: hands.busy == 2, "the other one waits for it")
            looked = monotonic() + 1
            wait_until(lambda: monotonic() > looked, "its time would be over")
            gate.open.set()
            wait_until(_completed(engine, 102), "all have completed")
    assert runs == [1]


def test_work_that_is_cancelled_while_it_waits_for_a_thread_is_not_begun() -> None:
    gate, runs = Gate(), []
    with _engine("sqlite://", worker_threads=1) as engine:
        engine.deploy(one_task("q", "other"))
        engine.handler("job")(lambda work: gate(work) if work.get("slow") else None)
        engine.handler("other")(lambda work: runs.append(work.instance_id))
        for _ in range(100):  # so that more is claimed at once than one thread can do
            engine.start("p")
        with engine.running():
            wait_until(_completed(engine, 100), "the quick ones have completed")
            engine.start("p", {"slow": True}, priority=1)
            wait_until(lambda: gate.inside == 1, "the thread is at work")
            cancelled, kept = engine.start("q").id, engine.start("q").id
            hands = engine._runtime.executor.hands
            wait_until(lambda: hands.busy == 3, "the others wait for it")
            engine.instances.cancel(cancelled)
            hands.extend_leases()
            gate.open.set()
            wait_until(_completed(engine, 102), "all others have completed")
            wait_until(lambda: not hands.busy, "nothing waits any more")
    assert runs == [kept]


def test_an_async_handler_that_does_not_heed_its_time_limit_is_given_up() -> None:
    ends = threading.Event()
    with _engine("sqlite://", drain_timeout=0.1) as engine:

        @engine.handler("job", timeout="50ms", retry=Retry(attempts=1))
        async def job(work: Work) -> None:
            while not ends.is_set():
                with suppress(asyncio.CancelledError):
                    await asyncio.sleep(0.01)

        engine.start("p")
        with engine.running():
            wait_until(lambda: bool(engine.incidents.find().items), "it counts as failed")
            ends.set()
        assert [each.code for each in engine.incidents.find().items] == ["timeout"]


@pytest.mark.parametrize(("own", "shortest"), [("2m", 100.0), ("300ms", 0.1)])
def test_each_handler_keeps_its_own_lease(own: str, shortest: float) -> None:
    gate = Gate()
    with _engine("sqlite://") as engine:
        engine.handler("job", lease=own)(gate)
        engine.start("p")
        with engine.running():
            wait_until(lambda: gate.inside == 1, "the handler runs")
            seen = {t.lease_until for t in _tokens(engine)}

            def extended() -> bool:
                seen.update(t.lease_until for t in _tokens(engine))
                return len(seen) > 5

            wait_until(extended, "the lease was extended several times")
            (running,) = _tokens(engine)
            with engine._runtime.store.reading() as tx:
                left = (running.lease_until or tx.now()) - tx.now()
            gate.open.set()
            wait_until(_completed(engine, 1), "it has completed")
    assert left > timedelta(seconds=shortest)
    assert running.recoveries == 0
    assert set(gate.runs.values()) == {1}


def test_an_engine_works_again_after_it_was_stopped() -> None:
    with _engine("sqlite://") as engine:
        engine.handler("job")(lambda work: {})
        for number in (1, 2):
            engine.start("p")
            with engine.running():
                wait_until(_completed(engine, number), "it has completed")


def test_work_without_a_handler_here_is_left_to_others(tmp_path: Any) -> None:
    url = f"sqlite:///{tmp_path / 'bpm.db'}"
    with _engine(url, missing_handler="leave") as one, _engine(url) as other:
        one.handler("unrelated")(lambda work: {})
        other.handler("job")(lambda work: {})
        one.start("p")
        one.run_until_idle()
        assert [t.state for t in _tokens(one)] == [TokenState.READY]
        other.run_until_idle()
        assert _completed(one, 1)()


def test_a_handler_that_comes_back_after_its_time_disturbs_nobody() -> None:
    """Its time is up long before its lease would be extended."""
    gate = Gate()
    with _engine("sqlite://", lease=7_200.0, lease_extension=3_600.0) as engine:

        @engine.handler("job", timeout="200ms", retry=Retry(attempts=2, base="0s"))
        def job(work: Work) -> dict[str, int]:
            if work.attempt == 1:
                gate(work)
            return {"attempt": work.attempt}

        instance = engine.start("p")
        with engine.running():
            wait_until(_completed(engine, 1), "the second attempt has completed")
            gate.open.set()
            wait_until(lambda: engine._runtime.executor.busy == 0, "the first has come back")
        assert engine.instances.get(instance.id).variables == {"attempt": 2}


def test_a_result_that_comes_too_late_is_logged_with_the_ids_of_its_instance(
    caplog: pytest.LogCaptureFixture,
) -> None:
    gate = Gate()
    with _engine("sqlite://") as engine:
        engine.handler("job")(gate)
        instance = engine.start("p", business_key="A-17", correlation_id="web-991")
        with engine.running():
            wait_until(lambda: gate.inside == 1, "the handler runs")
            engine.instances.cancel(instance.id)
            gate.open.set()
            wait_until(lambda: "is stale and dropped" in caplog.text, "its result has come")
    (late,) = [vars(record) for record in caplog.records if "is stale" in record.getMessage()]
    assert (late["correlation_id"], late["instance_id"], late["business_key"]) == (
        "web-991",
        instance.id,
        "A-17",
    )
    assert (late["definition"], late["node_id"], late["tenant"]) == ("p", "task", "default")


def test_a_result_waits_for_a_database_that_is_away(postgresql_server: Server) -> None:
    gate = Gate()
    settings = {"lease": 30.0, "connect_timeout": 2, "commit_attempts": 1, "auto_migrate": True}
    with _engine(postgresql_server.url, **settings) as engine:
        engine.handler("job")(gate)
        engine.start("p")
        with engine.running():
            wait_until(lambda: gate.inside == 1, "the handler runs")
            postgresql_server.stop()
            gate.open.set()
            wait_until(lambda: gate.inside == 0, "the handler has returned")
            postgresql_server.start()
            wait_until(_completed(engine, 1), "its result is committed")
    assert set(gate.runs.values()) == {1}


def test_a_token_that_goes_from_task_to_task_is_claimed_once() -> None:
    """Also when every place is taken: the token has one already."""
    claimed: Counter[str] = Counter()
    with Engine("sqlite://", config=Config(**QUICK | {"batch": 10})) as engine:
        engine.deploy(SEQUENCE)
        executor = engine._runtime.executor
        begin = executor._begin

        def counting(admitted: Sequence[Claimed]) -> None:
            claimed.update(each.token.id for each in admitted)
            begin(admitted)

        executor._begin = counting  # type: ignore[method-assign]
        engine.handler("job")(lambda work: None)
        for _ in range(200):
            engine.start("sequence")
        with engine.running():
            wait_until(_completed(engine, 200), "all have completed")
    assert len(claimed) == 200
    assert claimed.total() < 1.2 * len(claimed), "five tasks each, one claim"


TOLD = (
    '<definitions xmlns="http://www.omg.org/spec/BPMN/20100524/MODEL" xmlns:bpm="urn:bpm-engine:1"'
    ' id="file" targetNamespace="urn:test"><process id="told" isExecutable="true"><startEvent id="s"/>'
    '<serviceTask id="task" bpm:topic="job" bpm:resultVariable="answer"><extensionElements>'
    '<bpm:property name="template" value="welcome"/></extensionElements></serviceTask>'
    '<sequenceFlow id="f" sourceRef="s" targetRef="task"/></process></definitions>'
)


@pytest.mark.parametrize("in_foreground", [False, True])
def test_a_worker_that_has_just_begun_knows_what_the_model_tells_the_handler(
    tmp_path: Any, in_foreground: bool
) -> None:
    url = f"sqlite:///{tmp_path / 'bpm.db'}"
    with _engine(url) as engine:
        engine.deploy(TOLD)
        engine.start("told")
    with Engine(url, config=Config(**QUICK)) as fresh:
        fresh.handler("job")(lambda work: work.properties["template"])
        if in_foreground:
            fresh.run_until_idle()
        else:
            with fresh.running():
                wait_until(lambda: not fresh.instances.count(status="Running"), "it has ended")
        (instance,) = fresh.instances.find()
    assert (instance.status, instance.variables) == ("Completed", {"answer": "welcome"})


def test_work_of_a_process_that_cannot_be_read_stands_in_nobodys_way(tmp_path: Any) -> None:
    """Its file was damaged by foreign hands, past the trigger that guards it."""
    url = f"sqlite:///{tmp_path / 'bpm.db'}"
    with _engine(url) as engine:
        engine.deploy(TOLD)
        engine.start("told")
        engine.start("p")
        with engine.begin() as connection:
            guards = (
                "SELECT name FROM sqlite_schema WHERE (type, tbl_name) = ('trigger', 'process_definition')"
            )
            for guard in connection.exec_driver_sql(guards).scalars().all():
                connection.exec_driver_sql(f"DROP TRIGGER {guard}")
            connection.exec_driver_sql("UPDATE process_definition SET xml = '<x/>' WHERE key = 'told'")
    runs = []
    with Engine(url, config=Config(**QUICK)) as fresh:
        fresh.handler("job")(lambda work: runs.append(work.definition_key))
        with fresh.running():
            wait_until(_completed(fresh, 1), "the other one has completed")
    assert runs == ["p"]


def test_work_is_not_cancelled_because_the_result_before_it_is_still_on_its_way() -> None:
    """Both are held for a moment, by claims of one token; the first is not held any more by the database."""
    with _engine("sqlite://") as engine:
        engine.deploy(SEQUENCE)
        cancelled, seen = [], threading.Event()

        @engine.handler("job", lease="2s")
        def job(work: Work) -> None:
            hands = engine._runtime.executor.hands
            if work.node_id == "b" and not seen.is_set():
                seen.set()
                (running,) = hands._running.values()
                before = msgspec.structs.replace(running.claim, version=running.claim.version - 1)
                handed_in = HandedIn(running.claimed, timedelta(seconds=3), WorkCompleted(claim=before))
                hands._handed_in[before] = handed_in  # as between the commit and its end
                hands.extend_leases()
                del hands._handed_in[before]
            cancelled.append(work.cancelled)

        engine.start("sequence")
        with engine.running():
            wait_until(_completed(engine, 1), "it has completed")
    assert seen.is_set()
    assert not any(cancelled)


def test_a_run_whose_time_was_over_learns_that_the_lease_is_another_ones() -> None:
    second, told = threading.Event(), []
    with _engine("sqlite://", lease=7_200.0, lease_extension=3_600.0) as engine:

        @engine.handler("job", timeout="200ms", retry=Retry(attempts=2, base="0s"))
        def job(work: Work) -> None:
            if work.attempt == 2:
                second.set()
                wait_until(lambda: bool(told), "the first has asked")
                return
            second.wait(30)
            try:
                work.heartbeat()
                told.append("held")
            except LeaseLostError:
                told.append("lost")

        engine.start("p")
        with engine.running():
            wait_until(lambda: bool(told), "the first has asked")
    assert told == ["lost"]
