"""What is shipped works on its own: installed into an empty environment, away from the source tree."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NEEDED = {
    "bpm_engine/api/aio.pyi",
    "bpm_engine/migrations/env.py",
    "bpm_engine/bpmn/extension/bpm.xsd",
    "bpm_engine/bpmn/extension/bpm.json",
    "bpm_engine/demo/processes/web-order.bpmn",
    "bpm_engine/demo/samples/order.bpmn",
    "bpm_engine/cli/template/README.md",
    "bpm_engine/cli/template/processes/expense.bpmn",
    "bpm_engine/py.typed",
}


def build(source: Path, target: Path, kind: str) -> Path:
    command = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(target)]
    done = subprocess.run(command, cwd=source, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (made,) = [path for path in target.iterdir() if path.suffix == (".whl" if kind == "wheel" else ".gz")]
    return made


def names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(ROOT, tmp_path_factory.mktemp("dist"), "wheel")


def test_the_wheel_has_all_that_is_no_code(wheel: Path) -> None:
    assert names(wheel) >= NEEDED
    samples = {path.name for path in (ROOT / "processes").glob("*.bpmn")}
    assert {f"bpm_engine/demo/samples/{name}" for name in samples} <= names(wheel)
    assert not [name for name in names(wheel) if name.startswith(("tests/", "docs/"))]


def test_the_source_distribution_builds_the_same_wheel(wheel: Path, tmp_path: Path) -> None:
    packed = build(ROOT, tmp_path, "sdist")
    with tarfile.open(packed) as archive:
        archive.extractall(tmp_path / "source", filter="data")
    (source,) = (tmp_path / "source").iterdir()
    assert names(build(source, tmp_path / "again", "wheel")) == names(wheel)


def test_the_demo_runs_from_an_installed_wheel(wheel: Path, tmp_path: Path) -> None:
    """The packages that it needs are borrowed from here, so that no network is needed; it is not itself."""
    place = tmp_path / "environment"
    venv.create(place, with_pip=True)
    python = place / "bin" / "python"
    install = [str(python), "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", str(wheel)]
    subprocess.run(install, check=True, capture_output=True)
    (site,) = place.glob("lib/python*/site-packages")
    (site / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    command = [str(place / "bin" / "bpm"), "demo", "--orders", "20"]
    done = subprocess.run(command, cwd=tmp_path, env=kept, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "finds nothing wrong" in done.stdout
    where = [str(python), "-c", "import bpm_engine; print(bpm_engine.__file__)"]
    found = subprocess.run(where, cwd=tmp_path, env=kept, capture_output=True, text=True, check=True)
    assert found.stdout.startswith(str(site))
