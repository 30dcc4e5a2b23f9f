"""Which database a command works on: what is typed beats the environment."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.command import Prompt, Shell
from support.samples import HUMAN

from bpm_engine import Engine

APP = "from bpm_engine import Engine\nengine = Engine('sqlite:///of-the-app.db')\n"


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """An application with a database of its own, and another database in which A-1 is."""
    (tmp_path / "shop.py").write_text(APP)
    (tmp_path / "choice.bpmn").write_bytes(HUMAN)
    with Engine(f"sqlite:///{tmp_path / 'typed.db'}") as engine:
        engine.deploy(tmp_path / "choice.bpmn")
        engine.start("p", {"amount": 1}, business_key="A-1")
    return Prompt(tmp_path, {"BPM_APP": "shop:engine"})


def test_a_database_that_is_typed_beats_the_application_of_the_environment(shell: Shell) -> None:
    assert shell.json("list", "--count", "--database", "sqlite:///typed.db") == {"p": {"Running": 1}}
    assert shell.json("list", "--count", "--url", "sqlite:///typed.db") == {"p": {"Running": 1}}
    assert "A-1" in shell.run("show", "A-1", "--database", "sqlite:///typed.db")
    assert shell.json("list", "--count") == {}  # otherwise the application decides


def test_an_application_that_is_typed_beats_the_database_of_the_environment(shell: Shell) -> None:
    environment = {"BPM_DATABASE_URL": f"sqlite:///{shell.folder / 'typed.db'}"}
    assert Prompt(shell.folder, environment).json("list", "--count", "--app", "shop:engine") == {}


def test_both_typed_are_wrong_use(shell: Shell) -> None:
    both = ["--app", "shop:engine", "--database", "sqlite:///typed.db"]
    for command in (["list"], ["show", "A-1"], ["db", "current"]):
        assert "give --app or --database, not both" in shell.run(*command, *both, code=2)


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (["list", "--json"], "BPM_WOKER_THREADS in the environment is no setting"),
        (["run", "--until-idle"], "WARNING bpm_engine.config  BPM_WOKER_THREADS in the environment"),
    ],
)
def test_a_setting_without_effect_is_told_once_on_stderr(shell: Shell, command: list[str], told: str) -> None:
    own = Shell(shell.folder, {**shell.variables, "BPM_WOKER_THREADS": "3"})  # in a process with its own logs
    done = own.finished(*command)
    assert done.returncode == 0
    assert told in done.stderr
    assert done.stderr.count("is BPM_WORKER_THREADS meant?") == 1
    assert "WOKER" not in done.stdout
