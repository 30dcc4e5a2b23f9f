"""`bpm run`: real processes that drain, are looked after, and say how they are."""

from __future__ import annotations

import json
import os
import signal
import socket
from pathlib import Path

import pytest
from click.testing import CliRunner
from support.command import Prompt, Shell, fetch, is_alive
from support.definitions import bpmn, path
from support.workers import wait_until

from bpm_engine import Engine
from bpm_engine.cli import bpm

SLOW = bpmn(
    '<startEvent id="start"/><serviceTask id="first" bpm:topic="slow.first"/>'
    '<serviceTask id="second" bpm:topic="quick.second"/><endEvent id="end"/>'
    + path("start", "first", "second", "end")
)
TAKEN = "another process serves there; choose another port with --http"
APP = """
import logging, os, time
from pathlib import Path
from bpm_engine import Config, Engine

engine = Engine(os.environ["BPM_DATABASE_URL"], config=Config.from_environment(poll=0.1, lease=5.0))

@engine.handler("slow.first")
def first(work):
    logging.getLogger("shop").info("at work on it")
    Path("begun").touch()
    while not Path("go-on").exists():
        time.sleep(0.02)
    return {"first": True}

@engine.handler("quick.second")
def second(work):
    return {"second": True}
"""


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    (tmp_path / "shop.py").write_text(APP)
    shell = Shell(tmp_path)
    with Engine(shell.database) as engine:
        engine.deploy(SLOW)
    return shell


def start(shell: Shell, **options: str) -> str:
    with Engine(shell.database) as engine:
        return engine.start("p", **options).id


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def has_ipv6() -> bool:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


def test_on_sigterm_what_runs_is_finished_and_nothing_new_is_begun(shell: Shell) -> None:
    instance = start(shell, correlation_id="c-17")
    port = free_port()
    with shell.running("run", "--app", "shop:engine", "--log-format", "json", "--http", port) as worker:
        wait_until((shell.folder / "begun").exists, "the handler has begun")
        wait_until(lambda: fetch(f"http://127.0.0.1:{port}/ready")[0] == 200, "all services are there")
        worker.send_signal(signal.SIGTERM)
        wait_until(lambda: fetch(f"http://127.0.0.1:{port}/ready")[0] == 503, "it is no longer ready")
        assert fetch(f"http://127.0.0.1:{port}/live")[0] == 200
        (shell.folder / "go-on").touch()
        output, _ = worker.communicate(timeout=30)
    assert worker.returncode == 0, output
    lines = [json.loads(line) for line in output.splitlines()]
    (said,) = [line for line in lines if line["message"] == "at work on it"]
    assert (said["correlation_id"], said["instance_id"], said["node_id"]) == ("c-17", instance, "first")
    with Engine(shell.database) as engine:
        view = engine.instances.get(instance)
        assert view.variables["first"] is True
        assert [(token.node_id, token.state) for token in view.tokens] == [("second", "Ready")]


def test_types_and_only_limit_what_a_worker_does(shell: Shell) -> None:
    (shell.folder / "go-on").touch()
    instance = start(shell)
    with Engine(shell.database) as engine:
        with shell.running("run", "--app", "shop:engine", "--only", "executor", "--types", "slow.") as worker:
            wait_until(lambda: engine.instances.get(instance).variables.get("first"), "its own type is done")
            worker.terminate()
            assert worker.wait(30) == 0
        assert [token.node_id for token in engine.instances.get(instance).tokens] == ["second"]
        with shell.running("run", "--app", "shop:engine", "--types", "quick.,other.") as worker:
            wait_until(lambda: engine.instances.get(instance).status == "Completed", "the other type is done")
            worker.terminate()
            assert worker.wait(30) == 0


def test_a_worker_that_is_killed_is_started_again_and_all_metrics_are_in_one_place(shell: Shell) -> None:
    (shell.folder / "go-on").touch()
    port = free_port()
    at = f"http://127.0.0.1:{port}"
    arguments = ["run", "--app", "shop:engine", "--processes", 2, "--http", port, "--metrics"]
    with shell.running(*arguments) as supervisor, Engine(shell.database) as engine:
        wait_until(lambda: fetch(f"{at}/ready")[0] == 200, "both workers are ready")
        workers = json.loads(fetch(f"{at}/ready")[1])["workers"]
        first, second = (workers[number]["pid"] for number in ("1", "2"))
        os.kill(first, signal.SIGKILL)
        wait_until(lambda: fetch(f"{at}/ready")[0] == 503, "the loss is noticed")
        wait_until(lambda: fetch(f"{at}/ready")[0] == 200, "a new one is there")
        workers = json.loads(fetch(f"{at}/ready")[1])["workers"]
        assert workers["1"]["pid"] not in (first, None)
        assert workers["1"]["crashes"] == 1
        assert workers["2"]["pid"] == second
        instance = engine.start("p")
        wait_until(lambda: engine.instances.get(instance.id).status == "Completed", "work is done")
        ended = 'bpm_instances_ended_total{definition="p",status="Completed"} 1.0'
        wait_until(lambda: ended in fetch(f"{at}/metrics")[1], "what a worker did is counted")
        assert "bpm_database_up 1.0" in fetch(f"{at}/metrics")[1]
        supervisor.terminate()
        output, _ = supervisor.communicate(timeout=30)
    assert supervisor.returncode == 0, output
    assert "ended with SIGKILL" in output


def test_workers_do_not_outlive_their_supervisor(shell: Shell) -> None:
    port = free_port()
    with shell.running("run", "--app", "shop:engine", "--processes", 2, "--http", port) as supervisor:
        wait_until(lambda: fetch(f"http://127.0.0.1:{port}/ready")[0] == 200, "both workers are ready")
        workers = json.loads(fetch(f"http://127.0.0.1:{port}/ready")[1])["workers"]
        pids = [worker["pid"] for worker in workers.values()]
        supervisor.kill()
        supervisor.wait()
        wait_until(lambda: not any(map(is_alive, pids)), "they have drained")


def test_until_idle_does_what_can_be_done_and_stops(shell: Shell) -> None:
    (shell.folder / "go-on").touch()
    instance = start(shell)
    assert "steps" in shell.run("run", "--app", "shop:engine", "--until-idle")
    with Engine(shell.database) as engine:
        assert engine.instances.get(instance).status == "Completed"


def test_until_idle_heeds_only_and_types(shell: Shell) -> None:
    (shell.folder / "go-on").touch()
    instance = start(shell)
    idle = ("run", "--app", "shop:engine", "--until-idle")
    assert shell.run(*idle, "--only", "timers,retention") == "0 steps\n"
    assert shell.run(*idle, "--types", "quick.") == "0 steps\n"
    assert shell.run(*idle, "--only", "executor", "--types", "slow.") == "1 step\n"
    with Engine(shell.database) as engine:
        assert [token.node_id for token in engine.instances.get(instance).tokens] == ["second"]


@pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6")
def test_health_is_served_at_an_address_of_ipv6(shell: Shell) -> None:
    with shell.running("run", "--app", "shop:engine", "--http", "[::1]:0") as worker:
        assert worker.stdout is not None
        said = next(line for line in worker.stdout if "health is served" in line)
        at = said.split()[-1]
        assert at.startswith("http://[::1]:")
        wait_until(lambda: fetch(f"{at}/live")[0] == 200, "it answers")


@pytest.mark.parametrize("processes", [1, 2])
def test_a_port_that_is_taken_is_named_with_what_to_do(shell: Shell, processes: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        place = f"127.0.0.1:{other.getsockname()[1]}"
        arguments = ["--http", place, "--processes", processes, "--log-level", "error"]
        told = shell.run("run", "--app", "shop:engine", *arguments, code=1)
    assert told == f"{place}: Address already in use: {TAKEN}\n"


def test_an_address_that_is_not_here_is_named_with_what_to_do(shell: Shell) -> None:
    told = shell.run("run", "--app", "shop:engine", "--http", "nowhere.invalid:1", code=1)
    assert "nowhere.invalid:1: " in told
    assert "give --http an address of this machine" in told


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "--app"),
        (["--app", "shop"], "MODULE:ENGINE"),
        (["--app", "nowhere:engine"], "no module 'nowhere'"),
        (["--app", "plain_app:nothing"], "is no Engine"),
        (["--app", "plain_app:engine", "--only", "cooking"], "no service cooking"),
        (["--app", "plain_app:engine", "--http", "here"], "HOST:PORT"),
        (["--app", "plain_app:engine", "--http", "[::1]"], "HOST:PORT"),
        (["--app", "plain_app:engine", "--http", "::1:8080"], "[::1]:8080"),
        (["--app", "plain_app:engine", "--http", "²"], "HOST:PORT"),
        (["--app", "plain_app:engine", "--metrics"], "--http"),
        (["--app", "plain_app:engine", "--until-idle", "--processes", "2"], "leave out --processes"),
    ],
)
def test_wrong_use_is_said_in_a_sentence(
    arguments: list[str], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "plain_app.py").write_text("from bpm_engine import Engine\nengine = Engine()\nnothing = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delenv("BPM_APP", raising=False)
    result = CliRunner().invoke(bpm, ["run", *arguments])
    assert result.exit_code == 2
    assert told in result.output


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("engine = Engine(", "broken_app cannot be imported: SyntaxError: '(' was never closed"),
        ("import nowhere", "broken_app cannot be imported: ModuleNotFoundError: No module named 'nowhere'"),
        ("1 / 0", "broken_app cannot be imported: ZeroDivisionError: division by zero"),
    ],
)
def test_an_application_that_cannot_be_imported_is_named_with_the_reason(
    tmp_path: Path, source: str, told: str
) -> None:
    (tmp_path / "broken_app.py").write_text(source)
    assert told in Prompt(tmp_path).run("run", "--app", "broken_app:engine", code=1)
