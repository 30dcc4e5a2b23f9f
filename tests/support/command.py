"""The command line as a user has it: real processes of `python -m bpm_engine.cli`, in one folder."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

from bpm_engine.cli import bpm
from bpm_engine.cli.commands import run

PROJECT = Path(__file__).parents[2]
BPM = [sys.executable, "-m", "bpm_engine.cli"]


@dataclass(frozen=True, slots=True)
class Shell:
    """Runs `bpm` in one folder, on one database."""

    folder: Path
    variables: dict[str, str] = field(default_factory=dict)

    @property
    def database(self) -> str:
        return self.variables.get("BPM_DATABASE_URL", f"sqlite:///{self.folder / 'bpm.db'}")

    def environment(self) -> dict[str, str]:
        """Without a width: pytest's workers say that of their terminal to every process below them."""
        kept = {
            name: v for name, v in os.environ.items() if not name.startswith("BPM_") and name != "COLUMNS"
        }
        own = {"PYTHONPATH": str(PROJECT), "BPM_DATABASE_URL": self.database}
        return kept | own | self.variables

    def run(self, *arguments: object, code: int = 0, stdin: str | None = None) -> str:
        """What it printed; the test fails if it answers another code."""
        done = self.finished(*arguments, stdin=stdin)
        assert done.returncode == code, f"{arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout if code == 0 else done.stderr

    def json(self, *arguments: object) -> Any:
        return json.loads(self.run(*arguments, "--json"))

    def finished(self, *arguments: object, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*BPM, *map(str, arguments)],
            cwd=self.folder,
            env=self.environment(),
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
        )

    @contextmanager
    def running(self, *arguments: object) -> Iterator[subprocess.Popen[str]]:
        """A command that goes on; whatever happens it is gone at the end of the block."""
        process = subprocess.Popen(
            [*BPM, *map(str, arguments)],
            cwd=self.folder,
            env=self.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()
            if process.stdout:
                process.stdout.close()


class Prompt(Shell):
    """The same from the console script's own function, in this process: most commands need no more."""

    def finished(self, *arguments: object, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        output, errors = io.StringIO(), io.StringIO()
        command = [str(argument) for argument in arguments]
        before, paths = sys.stdin, sys.path[:]
        sys.stdin = io.StringIO(stdin or "")
        try:
            with (
                contextlib.chdir(self.folder),
                mock.patch.dict(os.environ, self.environment(), clear=True),
                contextlib.redirect_stdout(output),
                contextlib.redirect_stderr(errors),
            ):
                code = run(bpm, command)
        finally:
            sys.stdin, sys.path[:] = before, paths
            for name in [name for name in sys.modules if name in self.modules()]:
                del sys.modules[name]
        return subprocess.CompletedProcess(command, code, output.getvalue(), errors.getvalue())

    def modules(self) -> set[str]:
        """Applications in the folder: another test may have one of the same name."""
        return {path.stem for path in self.folder.glob("*.py")}


def fetch(url: str) -> tuple[int, str]:
    """Status and text; 0 while nobody answers."""
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, refused.read().decode()
    except OSError:
        return 0, ""


def is_alive(pid: int) -> bool:
    """Also of a process that is no child of ours; one that only waits to be buried is dead."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"
