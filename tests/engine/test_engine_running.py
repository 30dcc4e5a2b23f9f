"""The services in the background and until a signal; events on their way to a publisher."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from support.databases import SHARED
from support.samples import WORK
from support.workers import wait_until

from bpm_engine import Config, ConflictError, Engine, InvalidInputError, Work
from bpm_engine.publishers import CloudEvent, FunctionPublisher

PROGRAM = """
import sys
from bpm_engine import Engine

engine = Engine(sys.argv[1])

@engine.handler("work")
def work(given):
    print(given.instance_id, flush=True)

engine.run()
print("drained", flush=True)
"""


OTHER_THREAD = PROGRAM.replace("import sys\n", "import signal, sys, threading\n").replace(
    "flush=True)\n\nengine",
    "flush=True)\n    signal.pthread_kill(threading.get_ident(), signal.SIGTERM)\n\nengine",
)


def test_services_run_in_the_background_while_the_block_lasts(engine: Engine) -> None:
    engine.deploy(WORK)
    done = threading.Event()

    @engine.handler("work")
    def work(given: Work) -> dict[str, object]:
        done.set()
        return {"done": True}

    with engine.running() as running:
        assert running is engine
        with pytest.raises(ConflictError, match="running already"), engine.running():
            pass
        instance = engine.start("p")
        assert done.wait(30)
    assert engine.instances.get(instance.id).variables == {"done": True}


def test_an_unknown_service_is_refused_and_nothing_has_begun(engine: Engine) -> None:
    before, threshold = set(threading.enumerate()), gc.get_threshold()
    with (
        pytest.raises(InvalidInputError, match="there is no service coffee"),
        engine.running(only=["executor", "coffee"]),
    ):
        pass
    assert (set(threading.enumerate()), gc.get_threshold()) == (before, threshold)
    assert engine._runtime.committer.handoff is None


@pytest.mark.parametrize("given", [{"only": "executor"}, {"types": "billing."}])
def test_a_text_is_no_list_of_texts(engine: Engine, given: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError, match="must be a list of texts, such as"), engine.running(**given):
        pass
    with pytest.raises(InvalidInputError, match="must be a list of texts, such as"):
        engine.run_until_idle(**given)


def test_types_hold_for_one_block(engine: Engine) -> None:
    engine.deploy(WORK)
    done = threading.Event()
    engine.handler("work")(lambda work: done.set())
    with engine.running(types=["billing."]):
        engine.start("p")
    assert not done.is_set()
    with engine.running():
        assert done.wait(30)


def test_a_sweep_that_fails_is_seen_in_its_health(tmp_path: Path) -> None:
    """Such as by a right that was taken away."""
    with Engine(f"sqlite:///{tmp_path}/bpm.db", config=Config(poll=0.05)) as engine:
        engine.deploy(WORK)
        with engine.begin() as connection:
            connection.exec_driver_sql("ALTER TABLE token RENAME COLUMN lease_until TO leased")
        with engine.running(only=["recovery"]):
            wait_until(lambda: any(health.failures for health in engine.health()), "it is seen")
            assert "lease_until" in str(engine.health()[0].error)


@pytest.mark.parametrize("kind", SHARED)
def test_run_ends_with_a_signal_when_its_work_is_done(url_of: Callable[[str], str], kind: str) -> None:
    url = url_of(kind)
    with Engine(url) as engine:
        engine.deploy(WORK)
        process = subprocess.Popen([sys.executable, "-c", PROGRAM, url], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        try:
            instance = engine.start("p")
            assert process.stdout.readline().strip() == instance.id
            process.send_signal(signal.SIGTERM)
            assert process.communicate(timeout=60)[0] == "drained\n"
        finally:
            process.kill()
            process.wait()
        assert process.returncode == 0
        assert engine.instances.get(instance.id).status == "Completed"
        assert engine.doctor() == []


def test_run_ends_also_when_another_thread_gets_the_signal(tmp_path: Path) -> None:
    """As happens when it comes right after SIGCONT: the main thread sleeps on and is not woken by it."""
    url = f"sqlite:///{tmp_path}/bpm.db"
    with Engine(url) as engine:
        engine.deploy(WORK)
        instance = engine.start("p")
        process = subprocess.Popen(
            [sys.executable, "-c", OTHER_THREAD, url], stdout=subprocess.PIPE, text=True
        )
        try:
            assert process.communicate(timeout=60)[0] == f"{instance.id}\ndrained\n"
        finally:
            process.kill()
            process.wait()
        assert engine.instances.get(instance.id).status == "Completed"


def test_events_reach_the_publisher_in_their_order(tmp_path: Path) -> None:
    events: list[CloudEvent] = []
    with Engine(f"sqlite:///{tmp_path}/bpm.db", publisher=FunctionPublisher(events.append)) as engine:
        engine.deploy(WORK)
        engine.handler("work")(lambda work: None)
        engine.start("p", business_key="A-1")
        engine.run_until_idle()
        assert [event.type for event in events] == [
            "bpm.instance.started",
            "bpm.activity.completed",
            "bpm.instance.completed",
        ]
        assert len(engine.outbox.find(status="Published")) == 3


def test_an_engine_without_a_publisher_leaves_events_to_one_that_has_it(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/bpm.db"
    events: list[CloudEvent] = []
    with Engine(url) as silent:
        silent.deploy(WORK)
        silent.handler("work")(lambda given: None)
        with silent.running():
            instance = silent.start("p")
        with pytest.raises(InvalidInputError, match="no publisher"), silent.running(only=["outbox"]):
            pass
        with silent.running(only=["recovery", "outbox"]):
            pass
    with Engine(url, publisher=FunctionPublisher(events.append)) as telling:
        telling.run_until_idle()
    assert next(event.type for event in events if event.subject == instance.id) == "bpm.instance.started"


def test_a_closed_engine_closes_its_publisher() -> None:
    closed = threading.Event()

    class Closing(FunctionPublisher):
        def close(self) -> None:
            closed.set()

    Engine("sqlite://", publisher=Closing(print)).close()
    assert closed.is_set()


def test_an_engine_made_before_a_fork_works_after_it(tmp_path: Path) -> None:
    engine = Engine(f"sqlite:///{tmp_path}/bpm.db")
    child = os.fork()
    if child == 0:
        engine.deploy(WORK)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert engine.definitions.get("p").version == 1
    engine.close()


def test_events_go_out_once_though_several_threads_run_what_is_to_be_done(tmp_path: Path) -> None:
    """As long as nothing fails: at least once is promised, and nobody likes a second time."""
    published: Counter[str] = Counter()

    def publish(event: CloudEvent) -> None:
        published.update([event.id])
        threading.Event().wait(0.002)  # a receiver takes its time

    publisher = FunctionPublisher(publish)
    with Engine(f"sqlite:///{tmp_path}/bpm.db", publisher=publisher) as engine:
        engine.deploy(WORK)
        engine.handler("work")(lambda work: {})
        for _ in range(150):
            engine.start("p")
        with ThreadPoolExecutor(4) as threads:
            list(threads.map(lambda _: engine.run_until_idle(), range(4)))
        with engine.begin() as connection:
            marked = connection.exec_driver_sql("SELECT DISTINCT status FROM event_outbox").scalars().all()
    assert marked == ["Published"], "what is not marked goes out again when its lease is over"
    assert set(published.values()) == {1}
