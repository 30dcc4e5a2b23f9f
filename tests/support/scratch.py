"""Files of tests in memory: where the system has a file system there with room, and `TMPDIR` names no other.

The private PostgreSQL server and `tmp_path` follow `TMPDIR`. Nothing is switched off for that: servers and
SQLite still ask for every write to be kept, and the kernel, which no test ends, keeps it in memory as well as
on a disk. It answers in microseconds instead of milliseconds, thousands of times.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

MEMORY = Path("/dev/shm")
ROOM = 2 << 30  # bytes; `make test` needs an eighth of that
MEMINFO = Path("/proc/meminfo")


def has_room(place: Path = MEMORY) -> bool:
    try:
        status = os.statvfs(place)
        available = next(
            line for line in MEMINFO.read_text().splitlines() if line.startswith("MemAvailable:")
        )
    except (OSError, StopIteration):
        return False
    free = min(status.f_bavail * status.f_frsize, int(available.split()[1]) << 10)
    runs_programs = not status.f_flag & os.ST_NOEXEC  # tests of the package install it there
    return runs_programs and free >= ROOM and os.access(place, os.W_OK)


if "TMPDIR" not in os.environ and has_room():
    os.environ["TMPDIR"] = tempfile.tempdir = str(MEMORY)
