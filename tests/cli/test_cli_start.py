"""The command itself: help, version, errors, and a quick start."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from bpm_engine.cli import bpm
from bpm_engine.cli.commands import run

FOLDER = Path(__file__).parents[2] / "processes"


def test_help_lists_every_command_with_its_purpose() -> None:
    output = CliRunner().invoke(bpm, ["--help"]).output
    for name, place in bpm.commands_at.items():
        assert re.search(rf"^  {name} +{re.escape(place.purpose)}$", output, re.MULTILINE)
        assert f"{place.section}:" in output


def test_every_listed_command_exists_and_has_help() -> None:
    context = click.Context(bpm)
    for name in bpm.list_commands(context):
        result = CliRunner().invoke(bpm, [name, "--help"])
        assert result.exit_code == 0, result.output


def test_the_version_is_the_one_of_the_package() -> None:
    assert CliRunner().invoke(bpm, ["--version"]).output == f"{version('bpm-engine')}\n"


def test_an_unknown_command_is_wrong_use() -> None:
    assert CliRunner().invoke(bpm, ["fly"]).exit_code == 2


def test_a_command_that_is_nearly_right_is_corrected() -> None:
    assert "No such command 'lst'. Did you mean 'list'?" in CliRunner().invoke(bpm, ["lst"]).output


def test_help_loads_neither_the_parser_nor_the_store() -> None:
    program = (
        "import sys; from bpm_engine.cli import bpm; bpm.main(['--help'], standalone_mode=False);"
        "heavy = {'lxml', 'networkx', 'sqlalchemy', 'rich'} & set(sys.modules);"
        "sys.exit(str(heavy) if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def _failing(error: Exception) -> click.Group:
    @click.group()
    @click.option("--debug", is_flag=True)
    def group(debug: bool) -> None: ...

    @group.command()
    def work() -> None:
        raise error

    return group


def test_an_unexpected_error_is_a_sentence_and_not_a_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(_failing(ZeroDivisionError("by\x1b[31m zero")), ["work"]) == 1
    said = capsys.readouterr().err
    assert "unexpected ZeroDivisionError: by⟨U+001B⟩" in said
    assert "Traceback" not in said


def test_debug_shows_where_an_error_came_from() -> None:
    with pytest.raises(ZeroDivisionError):
        run(_failing(ZeroDivisionError()), ["--debug", "work"])


def test_refused_input_answers_one_and_wrong_use_two(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "text.bpmn").write_text("hello", encoding="utf-8")
    assert run(bpm, ["show", str(tmp_path / "text.bpmn")]) == 1
    assert "text.bpmn" in capsys.readouterr().err
    assert run(bpm, ["validate", str(tmp_path / "text.bpmn")]) == 1
    assert run(bpm, ["validate", str(tmp_path / "gone.bpmn")]) == 2
    assert run(bpm, ["validate", str(FOLDER)]) == 0


def test_a_reader_that_goes_away_is_no_error() -> None:
    command = "from bpm_engine.cli import main; main()"
    shown = subprocess.Popen(
        [sys.executable, "-c", command, "show", str(FOLDER / "order.bpmn")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert shown.stdout
    assert shown.stderr
    shown.stdout.close()
    with shown.stderr:
        assert b"Traceback" not in shown.stderr.read()
    shown.wait(timeout=60)
