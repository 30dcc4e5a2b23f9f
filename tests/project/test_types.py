"""What a user's type checker says of calls to the engine, sync and async."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from bpm_engine import Engine

PROJECT = Path(__file__).parents[2]
WRAPPER = PROJECT / "bpm_engine" / "api" / "aio.py"
RIGHT = """
from bpm_engine import Engine, InstanceView, Page, TaskView

async def application(engine: Engine) -> str:
    started: InstanceView = await engine.aio.start("p", {"amount": 7}, business_key="A-1")
    found: Page[TaskView] = await engine.aio.tasks.find(instance=started.id, limit=10)
    number: int = await engine.aio.instances.count(status="Running")
    groups: dict[str, int] = await engine.aio.tenant("zeta").instances.count("status", definition="p")
    return f"{[task.name for task in found]} {number} {groups}"
"""
WRONG = """
from bpm_engine import Engine

async def application(engine: Engine) -> None:
    await engine.aio.strat("p")
    await engine.aio.tasks.fnid()
    number: str = await engine.aio.instances.count()
    await engine.aio.instances.count(statsu="Running")
    await engine.aio.instances.cancel("id", "reason")
    engine.aio.handler("topic")
    started = engine.aio.start("p")
    started.id
"""
SETTINGS = """
from dataclasses import replace
from datetime import timedelta
from bpm_engine import Config

config = Config(lease="1m", poll=0.5, retention=timedelta(days=7), tenant_limits={"a": {"backlog": "5m"}})
lease: float = replace(config, lease="PT2M").lease
Config(lease=None)
Config(retention=[7])
text: str = config.lease
"""
Check = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def check(tmp_path_factory: pytest.TempPathFactory) -> Check:
    pytest.importorskip("mypy", reason="mypy is in the extra `check`")
    directory = tmp_path_factory.mktemp("types")

    def run(*given: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", *given]
        environment = {"MYPYPATH": str(PROJECT), "MYPY_CACHE_DIR": str(directory / "cache")}
        return subprocess.run(
            command, cwd=directory, env=environment, capture_output=True, text=True, check=False
        )

    return run


def test_async_calls_have_the_types_of_the_sync_ones(check: Check, tmp_path: Path) -> None:
    (tmp_path / "right.py").write_text(RIGHT)
    (tmp_path / "wrong.py").write_text(WRONG)
    told = check(str(tmp_path / "right.py"), str(tmp_path / "wrong.py")).stdout
    errors = [line for line in told.splitlines() if ": error: " in line]
    assert not [line for line in errors if "wrong.py:" not in line], told
    wrong = {int(line.partition("wrong.py:")[2].partition(":")[0]) for line in errors}
    assert wrong == {5, 6, 7, 8, 9, 10, 12}, told


def test_a_setting_takes_a_duration_and_gives_seconds(check: Check, tmp_path: Path) -> None:
    (tmp_path / "settings.py").write_text(SETTINGS)
    told = check(str(tmp_path / "settings.py")).stdout
    errors = [line for line in told.splitlines() if ": error: " in line]
    assert [int(line.partition("settings.py:")[2].partition(":")[0]) for line in errors] == [8, 9, 10], told


def test_the_wrapper_is_checked_beside_its_types(check: Check) -> None:
    """mypy on the package reads `aio.pyi` in its place."""
    done = check("--follow-imports=skip", "--explicit-package-bases", str(WRAPPER))
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_types_have_every_call_that_is_there() -> None:
    engine = Engine("sqlite://")
    kinds = {
        each.name: _members(each)
        for each in ast.parse(WRAPPER.with_suffix(".pyi").read_text("utf-8")).body
        if isinstance(each, ast.ClassDef)
    }
    assert kinds["Asynchronous"] == set(dir(engine.aio))
    for name in [name for name in dir(engine.aio) if not callable(getattr(engine, name))]:
        assert kinds[f"_{name.title()}"] == set(dir(getattr(engine.aio, name)))


def _members(kind: ast.ClassDef) -> set[str]:
    methods = {each.name for each in kind.body if isinstance(each, ast.AsyncFunctionDef | ast.FunctionDef)}
    subjects = {
        each.target.id
        for each in kind.body
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
    }
    return (methods | subjects) - {"__init__"}
