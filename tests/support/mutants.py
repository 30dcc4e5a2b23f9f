"""`make mutants`: proves that the tests find known bugs.

Each bug of tests/mutants/mutants.toml is put into a copy of the project, and the tests it names run there:
they must fail. Right before, the same tests must pass in the copy without the bug: a test that is red anyway
finds nothing. Ends with 1 if a bug was missed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

PROJECT = Path(__file__).parents[2]
FILE = PROJECT / "tests" / "mutants" / "mutants.toml"
COPIED = ("bpm_engine", "alembic", "processes", "tests", "docs", "pyproject.toml", "Makefile")
PATIENCE = 300  # seconds for the tests of one bug
GREEN, FAILED = 0, 1  # what pytest ends with when tests ran and passed, or failed


@dataclass(frozen=True, slots=True)
class Mutant:
    name: str
    why: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


def mutants() -> list[Mutant]:
    entries = tomllib.loads(FILE.read_text(encoding="utf-8"))
    return [Mutant(name, **(entry | {"tests": tuple(entry["tests"])})) for name, entry in entries.items()]


@contextmanager
def _copy() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        for name in COPIED:
            source, target = PROJECT / name, Path(folder) / name
            if source.is_dir():
                shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(source, target)
        yield Path(folder)


@contextmanager
def _applied(mutant: Mutant, copy: Path) -> Iterator[None]:
    path = copy / mutant.file
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")
    try:
        yield
    finally:
        path.write_text(text, encoding="utf-8")


def _run(copy: Path, tests: tuple[str, ...]) -> int:
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
    environment = os.environ | {"PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(
            command, cwd=copy, env=environment, capture_output=True, timeout=PATIENCE, check=False
        )
    except subprocess.TimeoutExpired:
        return FAILED  # it never came to its end: that is seen, too
    return done.returncode


def _verdict(mutant: Mutant, copy: Path) -> str:
    if mutant.old not in (copy / mutant.file).read_text(encoding="utf-8"):
        return "NOT THERE"  # the code has changed: say anew where the bug would be
    if _run(copy, mutant.tests) != GREEN:
        return "RED BEFORE"
    with _applied(mutant, copy):
        return "caught" if _run(copy, mutant.tests) == FAILED else "MISSED"


def main(names: list[str]) -> int:
    chosen = [mutant for mutant in mutants() if not names or mutant.name in names]
    caught = 0
    with _copy() as copy:
        for mutant in chosen:
            begun = time.monotonic()
            verdict = _verdict(mutant, copy)
            caught += verdict == "caught"
            seconds = time.monotonic() - begun
            print(f"{verdict:10}  {mutant.name:40} {seconds:5.0f} s  {mutant.why}", flush=True)
    print(f"{caught} of {len(chosen)} caught by tests that are green without them")
    return 0 if caught == len(chosen) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
