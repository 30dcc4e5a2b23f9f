"""The tutorial is followed word for word: an empty home, a new environment, every block in one shell.

The only things that differ from a reader's machine: pip builds and installs without the network (what the
package depends on is lent from the environment of the tests), and `~` is a temporary folder. Each `text`
block is held against what the block before it printed; `…` stands for anything.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.markdown import Block, blocks

PROJECT = Path(__file__).parents[2]
PAGE = PROJECT / "docs" / "tutorial" / "first-process.md"
LENT = sysconfig.get_paths()["purelib"]
MARK = "=== end of block {} ==="


class Reader:
    """Somebody who types the blocks into one shell."""

    def __init__(self, home: Path) -> None:
        settings = {
            "HOME": str(home),
            "PIP_NO_INDEX": "1",
            "PIP_NO_DEPS": "1",
            "PIP_NO_BUILD_ISOLATION": "false",  # pip reads the value as that of --build-isolation
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "PYTHONPATH": "",
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",  # the same python3
        }
        ours = ("BPM_", "PYTEST_")
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
        self._shell = subprocess.Popen(
            ["bash", "-eu"],
            cwd=PROJECT,
            env=inherited | settings,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def type(self, block: Block) -> str:
        """What the block prints; fails where one of its commands fails, since the shell ends there."""
        assert self._shell.stdin is not None
        assert self._shell.stdout is not None
        mark = MARK.format(block.line)
        self._shell.stdin.write(f"{block.source}\necho '{mark}'\n")
        self._shell.stdin.flush()
        printed = []
        for line in self._shell.stdout:
            if line.rstrip("\n") == mark:
                return "".join(printed)
            printed.append(line)
        pytest.fail(f"{PAGE.name}:{block.line} ended the shell:\n{block.source}\n{''.join(printed)}")

    def close(self) -> None:
        self._shell.kill()
        self._shell.communicate()


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    reader = Reader(tmp_path)
    yield reader
    reader.close()


@pytest.mark.slow  # thirty commands, each of which starts Python anew
@pytest.mark.timeout(900)
def test_the_tutorial_can_be_followed_word_for_word(reader: Reader, tmp_path: Path) -> None:
    printed = ""
    for block in blocks(PAGE):
        if block.language == "sh":
            printed = reader.type(_lending(block))
        elif block.language == "text":
            assert _pattern(block.source).search(printed), f"{PAGE.name}:{block.line}\n{printed}"
    installed = tmp_path / "first-process" / ".venv"
    assert list(installed.glob("lib/python*/site-packages/bpm_engine/engine.py")), (
        "the wheel is installed there"
    )


def _lending(block: Block) -> Block:
    """A new environment borrows what the package depends on."""
    lend = f"echo '{LENT}' > $(echo ~/first-process/.venv/lib/python*/site-packages)/lent.pth"
    made = [line + (f"\n{lend}" if "-m venv" in line else "") for line in block.source.splitlines()]
    return Block(block.language, "\n".join(made), block.line)


def _pattern(shown: str) -> re.Pattern[str]:
    """Lines as they are shown; a line `…` stands for any lines, `…` within a line for any characters."""
    parts = []
    for line in shown.rstrip("\n").split("\n"):
        if line.strip() == "…":
            parts.append(r"(?:.*\n)*?")
        else:
            parts.append(r".*".join(re.escape(part) for part in line.split("…")) + r"[ ]*\n")
    return re.compile(r"^" + "".join(parts), re.MULTILINE)
