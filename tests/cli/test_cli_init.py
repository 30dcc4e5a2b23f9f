"""`bpm init`: what it writes works, word for word as its README says."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

from support.command import BPM, Shell
from support.markdown import blocks


def test_the_project_passes_its_tests_and_does_what_its_readme_says(tmp_path: Path) -> None:
    told = Shell(tmp_path).run("init", "expenses")
    folder = tmp_path / "expenses"
    assert f"cd {folder.name}" in told
    tools = tmp_path / "bin"
    tools.mkdir()
    for name, command in (("bpm", BPM), ("python", [sys.executable])):
        (tools / name).write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
        (tools / name).chmod(0o755)
    shell = Shell(folder)
    environment = shell.environment()
    del environment["BPM_DATABASE_URL"]
    environment["PATH"] = f"{tools}:{environment['PATH']}"
    printed = []
    for block in blocks(folder / "README.md"):
        if block.language == "sh":
            done = subprocess.run(
                ["sh", "-eu", "-c", block.source],
                cwd=folder,
                env=environment,
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, done.stdout + done.stderr
            printed.append(done.stdout)
    tests, run = printed
    assert "4 passed" in tests
    assert "E-1" in run
    assert "Approve expense" in run


def test_nothing_is_written_over(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("mine")
    said = Shell(tmp_path).run("init", ".", code=1)
    assert "app.py already" in said
    assert [path.name for path in tmp_path.iterdir()] == ["app.py"]
