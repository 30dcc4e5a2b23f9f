"""Events that could not be published, on the command line: seen, tried again, given up."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.command import Prompt, Shell
from support.samples import HUMAN

from bpm_engine import Engine
from bpm_engine.config import Config
from bpm_engine.publishers import CloudEvent, FunctionPublisher, PublishError


def refuse(event: CloudEvent) -> None:
    raise PublishError("nobody is at home")


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """Two instances, A-1 and A-2; nobody took the event of their start."""
    shell, config = Prompt(tmp_path), Config(outbox_attempts=1)
    with Engine(shell.database, config=config, publisher=FunctionPublisher(refuse)) as engine:
        engine.deploy(HUMAN)
        for key in ("A-1", "A-2"):
            engine.start("p", {"amount": 1}, business_key=key)
        engine.run_until_idle()
    return shell


def ids(shell: Shell, *options: str) -> list[str]:
    return [event["id"] for event in shell.json("outbox", "list", *options)["items"]]


def test_dead_events_are_listed_with_their_error(shell: Shell) -> None:
    listed = shell.run("outbox", "list")
    assert listed.count("nobody is at home") == 2
    assert listed.count("instance.started") == 2
    assert shell.run("outbox", "list", "--status", "pending") == "no pending event\n"


def test_events_are_found_by_instance_and_by_type_with_and_without_the_prefix(shell: Shell) -> None:
    assert len(ids(shell, "--instance", "A-1")) == 1
    assert len(ids(shell, "--type", "instance.started")) == 2
    assert len(ids(shell, "--type", "bpm.instance.started")) == 2
    assert ids(shell, "--type", "instance.completed") == []
    assert shell.json("outbox", "requeue", "--type", "bpm.instance.started") == {"requeued": 2}


def test_dead_events_are_requeued(shell: Shell) -> None:
    first, second = ids(shell)
    assert shell.run("outbox", "requeue", first) == "1 requeued\n"
    assert (ids(shell), ids(shell, "--status", "Pending")) == ([second], [first])
    assert shell.run("outbox", "requeue", "--all") == "1 requeued\n"
    assert ids(shell) == []


def test_an_event_that_is_not_dead_does_not_keep_the_others(shell: Shell) -> None:
    first, second = ids(shell)
    shell.run("outbox", "requeue", first)
    done = shell.finished("outbox", "purge", first, second, "--yes")
    assert (done.returncode, done.stdout) == (1, "1 purged\n")
    assert f"there is no dead event '{first}'" in done.stderr
    assert ids(shell) == []


def test_an_event_is_purged_only_when_somebody_says_yes(shell: Shell) -> None:
    first, second = ids(shell)
    assert shell.finished("outbox", "purge", first, stdin="n\n").returncode == 1
    assert shell.json("outbox", "purge", first, "--yes") == {"purged": [first]}
    assert ids(shell) == [second]


def test_which_events_are_meant_must_be_said(shell: Shell) -> None:
    assert "name events" in shell.run("outbox", "requeue", code=2)
    assert "not both" in shell.run("outbox", "requeue", ids(shell)[0], "--all", code=2)


def test_the_doctor_mentions_them_although_nothing_contradicts(shell: Shell) -> None:
    told = shell.run("doctor")
    assert told == "nothing is wrong\nevents that could not be published: 2; see `bpm outbox list`\n"
    assert shell.json("doctor") == {"findings": [], "dead_events": 2}
