"""What a user installs: the wheel holds all that the package needs, and nothing else."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from email.parser import HeaderParser
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
PACKAGE = PROJECT / "bpm_engine"
MIGRATIONS = PROJECT / "alembic"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.Path:
    target = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(target)]
    subprocess.run(command, cwd=PROJECT, check=True, capture_output=True)
    (built,) = target.glob("*.whl")
    return zipfile.Path(built)


def _files(directory: Path) -> set[str]:
    found = {path for path in directory.rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    return {path.relative_to(directory).as_posix() for path in found}


def test_the_wheel_holds_every_file_of_the_package(wheel: zipfile.Path) -> None:
    names = set(wheel.root.namelist())
    assert "bpm_engine/py.typed" in names
    assert {f"bpm_engine/{name}" for name in _files(PACKAGE)} <= names


def test_the_wheel_holds_the_migrations(wheel: zipfile.Path) -> None:
    """So that an installed package can migrate its database without the repository."""
    if not (MIGRATIONS / "env.py").exists():
        pytest.skip("there are no migrations yet")
    expected = {f"bpm_engine/migrations/{name}" for name in _files(MIGRATIONS)}
    assert expected <= set(wheel.root.namelist())


def test_the_wheel_brings_nothing_but_the_package(wheel: zipfile.Path) -> None:
    tops = {name.partition("/")[0] for name in wheel.root.namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"bpm_engine"}


def test_a_plain_install_needs_no_development_tool(wheel: zipfile.Path) -> None:
    metadata = next(path for path in wheel.iterdir() if path.name.endswith(".dist-info")) / "METADATA"
    required = HeaderParser().parsestr(metadata.read_text()).get_all("Requires-Dist") or []
    plain = {line.split(";")[0] for line in required if "extra ==" not in line}
    assert plain
    assert not [line for line in plain if line.startswith(("pytest", "mypy", "ruff", "embedded", "testcont"))]
