"""The README and the pages of docs/ do what they say.

The blocks of a page run in order and in one place, an empty folder that sees the sample processes: `python`
blocks share their names, `sh` blocks stop at the first command that fails. `make` only says what it would do
there, since one of its targets is this very test run; the target has to exist nevertheless.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest
from support.markdown import Block, blocks, inline_code, local_links

from bpm_engine.cli import bpm

PROJECT = Path(__file__).parents[2]
PAGES = sorted([*PROJECT.glob("*.md"), *PROJECT.glob("docs/**/*.md")])
TUTORIAL = PROJECT / "docs" / "tutorial" / "first-process.md"  # followed by test_tutorial.py
RUNNABLE = {"python", "sh"}
SHOWN = {
    "",
    "text",
    "ini",
    "json",
    "xml",
    "sql",
    "toml",
    "yaml",
    "mermaid",
}  # nothing that a reader would paste and run


def _name(page: Path) -> str:
    return str(page.relative_to(PROJECT))


@pytest.mark.parametrize(
    "page", [p for p in PAGES if p != TUTORIAL and any(b.language in RUNNABLE for b in blocks(p))], ids=_name
)
def test_every_example_on_the_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for shared in ("Makefile", "pyproject.toml", "processes"):
        (tmp_path / shared).symlink_to(PROJECT / shared)
    (tmp_path / ".venv").symlink_to(sys.prefix)
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "__main__"}
    for block in blocks(page):
        if block.language == "python":
            # Empty lines in front, so that a traceback shows the line of the page.
            exec(compile("\n" * (block.line - 1) + block.source, str(page), "exec"), names)
        elif block.language == "sh":
            _run(page, block)


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_commands_and_options_that_a_sentence_names_exist(page: Path) -> None:
    for line in inline_code(page):
        name, *words = shlex.split(line)
        if name == "bpm" and words and not words[0].startswith("-") and words[0].islower():
            _check_command(line, words)


def _check_command(line: str, words: list[str]) -> None:
    command: click.Command = bpm
    context = click.Context(bpm)
    while isinstance(command, click.Group) and words:
        found = command.get_command(context, words[0])
        assert found is not None, line
        command, words = found, words[1:]
    known = {option for parameter in command.params for option in parameter.opts + parameter.secondary_opts}
    unknown = {word.partition("=")[0] for word in words if word.startswith("-")} - known - {"--help", "-h"}
    assert not unknown, line


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_every_block_on_the_page_names_a_known_language(page: Path) -> None:
    unknown = [block for block in blocks(page) if block.language not in RUNNABLE | SHOWN]
    assert not unknown


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_every_link_on_the_page_leads_somewhere(page: Path) -> None:
    assert not [str(target) for target in local_links(page) if not target.exists()]


@pytest.mark.parametrize("page", [p for p in PAGES if p.is_relative_to(PROJECT / "docs")], ids=_name)
def test_every_page_can_be_reached_from_the_index(page: Path) -> None:
    reached, open_pages = set(), [PROJECT / "docs" / "README.md"]
    while open_pages:
        current = open_pages.pop().resolve()
        if current not in reached and current.suffix == ".md" and current.exists():
            reached.add(current)
            open_pages.extend(local_links(current))
    assert page.resolve() in reached


def _run(page: Path, block: Block) -> None:
    ours = str(Path(sys.executable).parent)
    done = subprocess.run(
        ["sh", "-e", "-c", block.source],
        env={**os.environ, "PATH": f"{ours}{os.pathsep}{os.environ['PATH']}", "MAKEFLAGS": "n"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{page}:{block.line}\n{block.source}\n{done.stdout}"
