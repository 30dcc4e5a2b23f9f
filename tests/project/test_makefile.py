"""`make` as a newcomer meets it."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]


def test_make_alone_explains_every_target() -> None:
    output = _make(PROJECT).stdout
    targets = {line.split()[1] for line in output.splitlines() if line.startswith("  make ")}
    assert targets >= {"demo", "test", "check", "bench", "docs", "clean"}
    assert all(len(line.split()) > 2 for line in output.splitlines() if line.startswith("  make "))


def test_a_machine_without_a_recent_python_is_told_what_to_do(project: Path, tools: Path) -> None:
    _add_tool(tools, "python3", "exit 1")  # too old: the version check fails
    done = _make(project, "demo", PATH=str(tools))
    assert done.returncode != 0
    assert "needs Python 3.11 or newer" in done.stderr


def test_a_newer_python_is_found_beside_an_old_python3(project: Path, tools: Path) -> None:
    _add_tool(tools, "python3", "exit 1")
    _add_tool(tools, "python3.12", 'test "$1" = -c || { echo "python3.12 $*"; exit 1; }')
    assert "python3.12 -m venv .venv" in _make(project, "demo", PATH=str(tools)).stdout


def test_uv_is_used_where_it_is_installed(project: Path, tools: Path) -> None:
    _add_tool(tools, "python3", "exit 0")
    _add_tool(tools, "uv", 'echo "uv $*"; exit 1')
    assert (
        f"uv venv --quiet --seed --python {tools}/python3 .venv"
        in _make(project, "demo", PATH=str(tools)).stdout
    )


def test_the_demo_runs_and_keeps_its_files_together(tmp_path: Path) -> None:
    """Nobody's terminal is here, so what it prints are plain lines."""
    installed = Path(sys.executable).parent
    settings = [f"BIN={installed}", f"DEMO={tmp_path}", "DEMO_ARGS=--orders 20"]
    done = _make(PROJECT, "demo", *settings, "--old-file=.venv/.installed")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "\x1b" not in done.stdout
    assert "20 of 20 orders" in done.stdout
    assert "is killed with SIGKILL" in done.stdout
    assert {path.suffix for path in tmp_path.iterdir()} == {".db", ".log", ".svg"}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A fresh clone, as far as make can see."""
    project = tmp_path / "project"
    project.mkdir()
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(PROJECT / name, project)
    return project


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """A search path with a shell's basic commands and no Python."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("make", "sh", "rm", "touch", "mkdir"):
        found = shutil.which(name)
        assert found
        (tools / name).symlink_to(found)
    return tools


def _add_tool(tools: Path, name: str, script: str) -> None:
    tool = tools / name
    tool.write_text(f"#!/bin/sh\n{script}\n")
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)


def _make(directory: Path, *targets: str, **variables: str) -> subprocess.CompletedProcess[str]:
    inherited = {key: value for key, value in os.environ.items() if key not in ("MAKEFLAGS", "MAKELEVEL")}
    return subprocess.run(
        ["make", "--no-print-directory", *targets],
        cwd=directory,
        env={**inherited, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
