"""A closed engine says so, whatever is asked of it, on a file as well as in memory."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable
from pathlib import Path

import pytest
from support.databases import ALL
from support.samples import WORK

from bpm_engine import Config, Engine, EngineError, Work

CALLS: dict[str, Callable[[Engine], object]] = {
    "deploy": lambda engine: engine.deploy(WORK),
    "start": lambda engine: engine.start("p"),
    "send_message": lambda engine: engine.send_message("paid", "A-1"),
    "send_signal": lambda engine: engine.send_signal("closed"),
    "run_until_idle": lambda engine: engine.run_until_idle(),
    "running": lambda engine: engine.running().__enter__(),
    "begin": lambda engine: engine.begin().__enter__(),
    "doctor": lambda engine: engine.doctor(),
    "instances": lambda engine: engine.instances.find(),
    "tasks": lambda engine: engine.tasks.find(),
    "reserve": lambda engine: engine.tasks.reserve("ann", 1),
    "external": lambda engine: engine.external.fetch("work", worker="w", wait="1s"),
    "definitions": lambda engine: engine.definitions.get("p"),
    "another tenant": lambda engine: engine.tenant("acme").instances.find(),
}


@pytest.fixture(params=["memory", "file"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return "sqlite://" if request.param == "memory" else f"sqlite:///{tmp_path}/bpm.db"


@pytest.mark.parametrize("call", CALLS)
def test_a_closed_engine_refuses_every_call(url: str, call: str) -> None:
    with Engine(url) as engine:
        engine.deploy(WORK)
    with pytest.raises(EngineError, match="this engine is closed; make a new one"):
        CALLS[call](engine)


def test_closing_twice_is_fine_and_a_new_engine_goes_on(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/bpm.db"
    with Engine(url) as engine:
        engine.deploy(WORK)
        engine.close()
    engine.close()
    with Engine(url) as another:
        assert another.definitions.get("p").version == 1


def test_a_handler_that_runs_while_the_engine_closes_asks_and_commits(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/bpm.db"
    engine = Engine(url)
    engine.deploy(WORK)
    begun, goes_on = threading.Event(), threading.Event()

    @engine.handler("work")
    def work(work: Work) -> dict[str, object]:
        begun.set()
        assert goes_on.wait(10)
        return {"status": engine.instances.get(work.instance_id).status}

    instance = engine.start("p").id
    with engine.running():
        assert begun.wait(10)
        closing = threading.Thread(target=engine.close)
        closing.start()
        assert engine._runtime._closing.wait(10)
        goes_on.set()
        closing.join()
    with Engine(url) as another:
        ended = another.instances.get(instance)
    assert (ended.status, ended.variables) == ("Completed", {"status": "Running"})


@pytest.mark.parametrize("database", ALL)
@pytest.mark.parametrize("runs", [False, True], ids=["only called", "with services"])
def test_what_was_an_engine_leaves_no_thread_and_no_memory(
    database: str, runs: bool, url_of: Callable[[str], str]
) -> None:
    """An application may open one for each request, and a test suite thousands."""
    before, ran = set(threading.enumerate()), threading.Event()
    engine = Engine(url_of(database), config=Config(auto_migrate=True))
    engine.handler("work")(lambda work: ran.set())
    engine.deploy(WORK)
    engine.start("p")
    engine.send_message("paid", "A-1")
    if runs:
        with engine.running():
            assert ran.wait(60)
    else:
        engine.run_until_idle()
    engine.close()
    for thread in set(threading.enumerate()) - before:
        thread.join(30)  # those of handlers are told to end, not waited for
        assert not thread.is_alive(), thread.name
    runtime = weakref.ref(engine._runtime)
    del engine
    gc.collect()
    assert runtime() is None
