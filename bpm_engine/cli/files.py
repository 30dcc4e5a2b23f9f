"""BPMN files named on the command line: files, directories, patterns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from glob import glob, has_magic
from pathlib import Path

import click

SUFFIXES = (".bpmn", ".bpmn2", ".bpmn20.xml")
MOST_BYTES = 10_000_001  # one more than a file may have: enough to see that it is too large


def bpmn_files(names: Iterable[str]) -> list[Path]:
    """Every file meant, each once, in the order given. A name that means nothing is wrong use."""
    found: dict[Path, None] = {}
    for name in names:
        matches = list(_matches(name))
        if not matches:
            raise click.UsageError(f"there is no BPMN file at {click.format_filename(name)!r}")
        found.update(dict.fromkeys(matches))
    return list(found)


def _matches(name: str) -> Iterator[Path]:
    path = Path(name)
    if path.is_dir():
        yield from sorted(file for file in path.rglob("*") if _is_bpmn(file))
    elif path.exists():
        yield path
    elif has_magic(name):
        for match in sorted(glob(name, recursive=True)):  # noqa: PTH207 - a pattern may be absolute
            yield from _matches(match)


def _is_bpmn(path: Path) -> bool:
    return path.name.lower().endswith(SUFFIXES) and path.is_file()


def read_bytes(path: Path) -> bytes:
    """The content; of a file that is too large only as much as shows it."""
    with path.open("rb") as file:
        return file.read(MOST_BYTES)
