"""What is given to deploy: a path or content. Whoever mistypes a path learns what is there."""

from __future__ import annotations

import os
from difflib import get_close_matches
from pathlib import Path

from bpm_engine.errors import InvalidInputError

SUFFIXES = (".bpmn", ".bpmn2", ".bpmn20.xml")
NAMED = 10  # files in one refusal
LONGEST = 255  # characters of a file's name: anything longer is no name


def read_source(source: str | bytes | os.PathLike[str]) -> tuple[str | bytes, str]:
    """The content, and the name of the file it was read from. Text that begins like XML is content."""
    _check(source)
    if isinstance(source, bytes) or (isinstance(source, str) and _is_content(source)):
        return source, ""
    try:
        return Path(source).read_bytes(), str(source)
    except (OSError, ValueError) as problem:
        raise InvalidInputError(f"cannot read {str(source)[:200]!r}: {problem}") from None


def _check(source: object) -> None:
    """A path of a file, or content; InvalidInputError says what it is instead."""
    if isinstance(source, bytes):
        return
    if not isinstance(source, str | os.PathLike):
        advice = "; give what its read() returns" if hasattr(source, "read") else ""
        raise InvalidInputError(
            f"deploy takes the path of a file, or its text or bytes, not {type(source).__name__}{advice}"
        )
    if isinstance(source, str) and _is_content(source):
        return
    if not os.fspath(source).strip():
        raise InvalidInputError("deploy got an empty text; give the path of a file, or its text or bytes")
    _check_path(Path(source))


def _is_content(text: str) -> bool:
    return text.lstrip("\ufeff \t\r\n").startswith("<")


def _check_path(path: Path) -> None:
    """What cannot be looked at is left to the reading of the file, which says why."""
    if any(len(part) > LONGEST for part in path.parts):
        raise InvalidInputError(
            f"cannot read {str(path)[:200]!r}: it is too long for a path, and no XML, which begins with <"
        )
    try:
        if path.is_dir():
            raise InvalidInputError(
                f"{str(path)!r} is a directory with {_listed(_models(path))}; deploy each file of it"
            )
        if not path.exists():
            raise InvalidInputError(f"cannot read {str(path)[:200]!r}: there is no such file{_near(path)}")
    except (OSError, ValueError):
        return


def _near(path: Path) -> str:
    folder = path.parent
    if not folder.is_dir():
        return f", nor a directory {str(folder.absolute())[:200]!r}"
    there = _models(folder)
    named = {name.partition(".")[0]: name for name in there}
    for near in get_close_matches(path.name.partition(".")[0], named, n=1):
        return f"; is {str(folder / named[near])!r} meant?"
    return f"; in {str(folder.absolute())!r} there is {_listed(there)}"


def _models(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir() if each.name.endswith(SUFFIXES) and each.is_file())


def _listed(names: list[str]) -> str:
    if not names:
        return "no .bpmn file"
    rest = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + rest
