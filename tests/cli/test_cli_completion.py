"""Shells can complete commands and options."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from support.command import BPM, PROJECT

from bpm_engine.cli import bpm


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_each_shell_calls_bpm(shell: str) -> None:
    result = CliRunner().invoke(bpm, ["completion", shell])
    assert result.exit_code == 0, result.output
    assert "_BPM_COMPLETE" in result.output


@pytest.mark.parametrize(
    ("typed", "offered"), [("bpm de", {"demo", "deploy"}), ("bpm list --bus", {"--business-key"})]
)
def test_bash_is_offered_what_fits(typed: str, offered: set[str], tmp_path: Path) -> None:
    done = subprocess.run(
        BPM,
        env={
            "PYTHONPATH": str(PROJECT),
            "_BPM_COMPLETE": "bash_complete",
            "COMP_WORDS": typed,
            "COMP_CWORD": str(len(typed.split()) - 1),
        },
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert {line.partition(",")[2] for line in done.stdout.splitlines()} == offered, done.stderr


def test_completing_a_command_imports_none_of_them() -> None:
    program = (
        "import sys, click; from bpm_engine.cli import bpm;"
        "found = bpm.shell_complete(click.Context(bpm), 'd');"
        "assert [item.value for item in found] == ['demo', 'deploy', 'doctor', 'db'], found;"
        "heavy = {'lxml', 'sqlalchemy', 'rich'} & set(sys.modules); sys.exit(str(heavy) if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
