"""`bpm deploy` tells what is wrong with a file in the words of `bpm validate`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.command import Prompt, Shell
from support.samples import WORK


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
