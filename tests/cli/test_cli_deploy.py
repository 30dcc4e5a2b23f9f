"""`bpm deploy` tells what is wrong with a file in the words of `bpm validate`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.command import Prompt, Shell
from support.definitions import bpmn, path
from support.samples import HUMAN, WORK

from bpm_engine import Engine


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    (tmp_path / "notes.bpmn").write_bytes(WORK.replace(b'isExecutable="true"', b'isExecutable="false"'))
    (tmp_path / "broken.bpmn").write_bytes(WORK.replace(b'targetRef="work"', b'targetRef="nowhere"'))
    return Prompt(tmp_path)


def test_problems_have_their_place_and_their_hint(shell: Shell) -> None:
    validated = shell.finished("validate", "broken.bpmn").stdout.splitlines()[:-1]
    assert shell.run("deploy", "broken.bpmn", code=1).splitlines() == validated
    assert any(line.startswith("    hint: ") for line in validated)


def test_json_holds_the_same_problems(shell: Shell) -> None:
    (validated,) = json.loads(shell.finished("validate", "broken.bpmn", "--json").stdout)["files"]
    (refused,) = json.loads(shell.finished("deploy", "broken.bpmn", "--json").stdout)["refused"]
    assert refused == {"file": "broken.bpmn", "problems": validated["problems"]}


def test_a_file_in_which_nothing_can_run_is_refused_with_line_and_hint(shell: Shell) -> None:
    said = shell.run("deploy", "notes.bpmn", code=1)
    assert "notes.bpmn:2: error NOTHING_EXECUTABLE: no process in this file can be executed (p)" in said
    assert 'hint: Set isExecutable="true" on the process.' in said


CALLS = bpmn(
    '<startEvent id="start"/><callActivity id="pay" calledElement="payout"/><endEvent id="end"/>'
    + path("start", "pay", "end")
)


def test_a_process_that_is_in_two_of_the_files_is_refused_before_anything_is_deployed(shell: Shell) -> None:
    for name, process in {"a": WORK, "b": HUMAN, "c": HUMAN.replace(b'"p"', b'"other"')}.items():
        (shell.folder / f"{name}.bpmn").write_bytes(process)
    said = shell.run("deploy", "c.bpmn", "a.bpmn", "b.bpmn", code=1)
    assert "the process 'p' is in a.bpmn and in b.bpmn; nothing was deployed" in said
    with Engine(shell.database) as engine:
        assert engine.definitions.find().items == ()


def test_deploy_tells_what_is_new_and_what_is_old_content_again(shell: Shell) -> None:
    file = shell.folder / "p.bpmn"
    changes = []
    for process in (WORK, WORK, HUMAN, WORK):
        file.write_bytes(process)
        done = shell.finished("deploy", "p.bpmn", "--json")
        (row,) = json.loads(done.stdout)["deployed"]
        changes.append((row["version"], row["change"], "same content as version 1" in done.stderr))
    assert changes == [(1, "new", False), (1, "unchanged", False), (2, "new", False), (3, "new", True)]


def test_a_called_process_that_is_not_there_is_a_warning(shell: Shell) -> None:
    (shell.folder / "caller.bpmn").write_bytes(CALLS)
    (shell.folder / "payout.bpmn").write_bytes(WORK.replace(b'"p"', b'"payout"'))
    told = "caller.bpmn: warning: 'pay' calls the process 'payout', which is not deployed\n"
    assert told in shell.finished("deploy", "caller.bpmn").stderr
    assert shell.finished("deploy", "caller.bpmn", "payout.bpmn").stderr == ""
    assert shell.finished("deploy", "caller.bpmn").stderr == ""


def test_a_called_process_of_the_file_that_is_not_executable_is_told_once(shell: Shell) -> None:
    called = b'<process id="payout" isExecutable="false"><startEvent id="begin"/></process></definitions>'
    (shell.folder / "both.bpmn").write_bytes(CALLS.replace(b"</definitions>", called))
    told = shell.finished("deploy", "both.bpmn").stderr
    assert "CALLED_NOT_EXECUTABLE" in told
    assert "which is not deployed" not in told
