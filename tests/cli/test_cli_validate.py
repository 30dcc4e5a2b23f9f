"""`bpm validate`: everything that is wrong, with an exit code that scripts can trust."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from bpm_engine.cli import bpm

FOLDER = Path(__file__).parents[2] / "processes"
ORDER = (FOLDER / "order.bpmn").read_text(encoding="utf-8")
BROKEN = ORDER.replace('targetRef="confirm"', 'targetRef="nowhere"')
ESCAPE = re.compile("\x1b\\[")


def validate(*arguments: object, color: bool = False) -> Result:
    return CliRunner().invoke(bpm, ["validate", *map(str, arguments)], color=color)


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    path = tmp_path / "broken.bpmn"
    path.write_text(BROKEN, encoding="utf-8")
    return path


@pytest.fixture
def sketch(tmp_path: Path) -> Path:
    """Accepted with a warning: an attribute of another engine that has no counterpart here."""
    path = tmp_path / "sketch.bpmn"
    text = ORDER.replace(
        "<bpmn:definitions ", '<bpmn:definitions xmlns:camunda="http://camunda.org/schema/1.0/bpmn" ', 1
    )
    path.write_text(
        text.replace('<bpmn:sendTask id="confirm"', '<bpmn:sendTask id="confirm" camunda:nonsense="1"'),
        encoding="utf-8",
    )
    return path


def test_good_files_are_counted_and_accepted() -> None:
    files = list(FOLDER.glob("*.bpmn"))
    result = validate(*files)
    assert result.exit_code == 0, result.output
    assert result.output == f"{len(files)} files checked, all good: 0 errors, 0 warnings\n"


def test_a_problem_names_file_line_severity_code_and_hint(broken: Path) -> None:
    result = validate(broken)
    assert result.exit_code == 1
    line = BROKEN[: BROKEN.index('targetRef="nowhere"')].count("\n") + 1
    place = f"{re.escape(str(broken))}:{line}"
    assert re.search(rf"^{place}: error [A-Z_]+: .*nowhere", result.output, re.MULTILINE)
    assert re.search(r"^    hint: \S", result.output, re.MULTILINE)
    assert result.output.splitlines()[-1].startswith("1 file checked, 1 refused: ")


def test_a_problem_of_soundness_shows_the_path_that_leads_there(tmp_path: Path) -> None:
    path = tmp_path / "deadlock.bpmn"
    split = '<bpmn:parallelGateway id="fulfil_split">'
    wrong = ORDER.replace(split, split.replace("parallel", "exclusive"))
    wrong = wrong.replace("</bpmn:parallelGateway>", "</bpmn:exclusiveGateway>", 1)
    path.write_text(wrong, encoding="utf-8")
    result = validate("--strict", path)
    assert result.exit_code == 1
    assert result.output.count("fulfil_split → reserve_stock → fulfil_join") == 1, result.output


def test_a_warning_is_accepted_unless_strict(sketch: Path) -> None:
    assert validate(sketch).exit_code == 0
    assert " warning " in validate(sketch).output
    assert "1 file checked, none refused: 0 errors, 1 warning" in validate(sketch).output
    strict = validate("--strict", sketch)
    assert strict.exit_code == 1
    assert "1 refused" in strict.output


def test_a_file_that_could_not_be_deployed_because_nothing_runs_is_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "notes.bpmn"
    path.write_text(ORDER.replace('isExecutable="true"', 'isExecutable="false"'), encoding="utf-8")
    result = validate(path)
    line = ORDER[: ORDER.index("<bpmn:process ")].count("\n") + 1
    assert result.exit_code == 0
    assert f"{path}:{line}: warning NOTHING_EXECUTABLE: no process in this file" in result.output
    assert 'hint: Set isExecutable="true" on the process.' in result.output
    assert "1 file checked, none refused: 0 errors, 1 warning" in result.output
    assert validate("--strict", path).exit_code == 1


def test_a_file_without_any_process_says_what_to_add(tmp_path: Path) -> None:
    path = tmp_path / "words.bpmn"
    path.write_text(
        '<definitions xmlns="http://www.omg.org/spec/BPMN/20100524/MODEL" targetNamespace="urn:x">'
        '<message id="m" name="paid"/></definitions>'
    )
    assert 'hint: Add a process with isExecutable="true".' in validate(path).output


def test_json_holds_every_field_of_every_problem(broken: Path) -> None:
    result = validate("--json", broken, FOLDER / "order.bpmn")
    assert result.exit_code == 1
    answer = json.loads(result.output)
    refused, accepted = answer["files"]
    assert (refused["accepted"], accepted["accepted"]) == (False, True)
    assert accepted["problems"] == []
    assert set(refused["problems"][0]) == {"code", "severity", "message", "element", "line", "hint", "trace"}
    assert answer["summary"]["files"] == 2
    assert answer["summary"]["refused"] == 1


def test_directories_and_patterns_are_searched_and_each_file_counts_once(tmp_path: Path) -> None:
    (tmp_path / "deep" / "er").mkdir(parents=True)
    for name in ("a.bpmn", "deep/b.BPMN", "deep/er/c.bpmn20.xml"):
        (tmp_path / name).write_text(ORDER, encoding="utf-8")
    (tmp_path / "deep" / "notes.txt").write_text("not a process", encoding="utf-8")
    result = validate(tmp_path, tmp_path / "*.bpmn", tmp_path / "a.bpmn")
    assert result.output.startswith("3 files checked, all good"), result.output


@pytest.mark.parametrize("missing", ["gone.bpmn", "gone/*.bpmn", ""])
def test_a_file_that_does_not_exist_is_wrong_use(tmp_path: Path, missing: str) -> None:
    result = validate(tmp_path / missing)
    assert result.exit_code == 2
    assert "there is no BPMN file" in result.output


def test_no_file_at_all_is_wrong_use() -> None:
    assert validate().exit_code == 2


def test_what_is_not_bpmn_is_refused_with_a_reason(tmp_path: Path) -> None:
    for name, content in {
        "empty.bpmn": b"",
        "binary.bpmn": bytes(range(256)),
        "other.bpmn": b"<html/>",
        "doctype.bpmn": b'<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>',
    }.items():
        (tmp_path / name).write_bytes(content)
    result = validate(tmp_path)
    assert result.exit_code == 1
    assert "4 files checked, 4 refused" in result.output
    assert all(name in result.output for name in ("empty", "binary", "other", "doctype"))


def test_an_unreadable_file_gets_a_line_and_the_others_go_on(broken: Path) -> None:
    unreadable = Path("/proc/self/mem")  # exists on Linux, and reading its start fails for everybody
    if not unreadable.exists():
        pytest.skip("needs /proc")
    result = validate(unreadable, broken, FOLDER / "order.bpmn")
    assert result.exit_code == 1
    assert result.output.splitlines()[0] == "/proc/self/mem: cannot be read: Input/output error"
    assert "3 files checked, 2 refused" in result.output
    assert "1 unreadable" in result.output
    answer = json.loads(validate("--json", unreadable).output)
    assert answer["files"][0]["unreadable"] == "Input/output error"


def test_a_folder_is_searched_for_files_only(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.bpmn")
    loop = tmp_path / "loop.bpmn"
    loop.symlink_to(loop)
    folder = tmp_path / "really-a-folder.bpmn"
    folder.mkdir()
    (folder / "x.bpmn").write_text(ORDER, encoding="utf-8")
    assert validate(tmp_path).output.startswith("1 file checked, all good")


def test_a_file_without_permission_is_reported_and_counted(tmp_path: Path, broken: Path) -> None:
    secret = tmp_path / "a-secret.bpmn"
    secret.write_text(ORDER, encoding="utf-8")
    secret.chmod(0)
    if os.access(secret, os.R_OK):
        pytest.skip("this user may read everything")
    result = validate(tmp_path)
    assert result.exit_code == 1
    assert f"{secret}: cannot be read: Permission denied" in result.output
    assert "2 files checked, 2 refused" in result.output
    assert "1 unreadable" in result.output


def test_colours_only_on_a_terminal_and_never_with_no_color(broken: Path) -> None:
    assert ESCAPE.search(validate(broken, color=True).output)
    assert not ESCAPE.search(validate(broken).output)
    assert not ESCAPE.search(validate("--no-color", broken, color=True).output)


def test_names_cannot_send_control_characters_to_the_terminal(tmp_path: Path) -> None:
    path = tmp_path / "host\u202eile\x1b.bpmn"
    path.write_text(BROKEN.replace("nowhere", "no\u202ewhere"), encoding="utf-8")
    output = validate(path).output
    assert "\u202e" not in output
    assert "\x1b" not in output
    assert "host⟨U+202E⟩ile⟨U+001B⟩.bpmn:" in output


def test_the_installed_command_answers_with_the_exit_code(broken: Path) -> None:
    command = [sys.executable, "-c", "from bpm_engine.cli import main; main()"]
    done = subprocess.run(
        [*command, "validate", str(broken), str(FOLDER / "order.bpmn")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr == ""
    assert "2 files checked, 1 refused" in done.stdout
