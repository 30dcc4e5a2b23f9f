"""Where a SQLite database may be: checked before SQLite opens it, whose own answers say little.

The log beside the file is shared by mapped memory, which works between the processes of one machine only:
on a network file system two machines would each believe to be alone, and spoil the file.
"""

from __future__ import annotations

import os
from pathlib import Path

from bpm_engine.errors import InvalidInputError, UnavailableError

HEADER = b"SQLite format 3\x00"
MOUNTS = Path("/proc/self/mounts")  # of Linux; elsewhere nobody tells
NETWORK = frozenset({"nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "fuse.sshfs", "fuse.glusterfs"})


def check_file(name: str, *, allow_unsafe: bool = False) -> None:
    """Raise InvalidInputError, with advice, where no database can be; UnavailableError where one may be
    later, when a volume is mounted or a right given.
    """
    path = Path(name).absolute()
    if not path.parent.is_dir():
        raise UnavailableError(f"there is no folder {path.parent} for the database; make it first")
    if path.is_dir():
        raise InvalidInputError(f"{path} is a folder; name a file in it, such as {path / 'bpm.db'}")
    if path.exists() and not _is_database(path):
        raise InvalidInputError(f"{path} is not a SQLite database; name another file")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise UnavailableError(
            f"{path} cannot be written by this user; the engine writes the file and others beside it"
        )
    kind = file_system(path.resolve())
    if kind in NETWORK and not allow_unsafe:
        raise InvalidInputError(
            f"{path} is on a network file system ({kind}), where SQLite may lose or spoil data; "
            "take a local disk, or PostgreSQL"
        )


def file_system(path: Path) -> str | None:
    """The kind of file system that holds the path; None where the system does not tell."""
    try:
        table = MOUNTS.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    best, found = -1, None
    for line in table.splitlines():
        _, point, kind, *_ = [*line.split(), "", "", ""]
        place = Path(point.replace("\\040", " "))
        if path.is_relative_to(place) and len(place.parts) >= best:  # a later mount covers an earlier one
            best, found = len(place.parts), kind
    return found


def _is_database(path: Path) -> bool:
    """A new file is empty until the first commit. What cannot be read is told when it is opened."""
    try:
        with path.open("rb") as file:
            begin = file.read(len(HEADER))
    except OSError:
        return True
    return not begin or begin == HEADER
