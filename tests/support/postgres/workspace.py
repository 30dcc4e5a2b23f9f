"""The directory a private server lives in, and how none is ever left behind.

Each directory holds a lock file that its owner keeps locked while it lives; the kernel releases the lock
with the process, however that ended. A later run that can take the lock knows the directory is an orphan
and deletes it. Process ids are not used for this: they are given out again.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from pathlib import Path

from support.postgres.account import Account

PREFIX = "bpm-postgres-"
LONGEST = 60  # a unix socket path must fit into 103 bytes on every system; this leaves room for its tail


class Workspace:
    """A fresh directory, locked by this process until `remove`."""

    def __init__(self, account: Account | None) -> None:
        base = _base(account)
        remove_orphans(base)
        # Locked first, then given the name that other runs look for: no run can mistake it for an orphan.
        unnamed = Path(tempfile.mkdtemp(prefix=f"new-{PREFIX}", dir=base))
        self._lock = (unnamed / "lock").open("w")
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self.path = unnamed.rename(base / unnamed.name.removeprefix("new-"))
        if account:
            self.path.chmod(0o711)

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        self._lock.close()


def remove_orphans(base: Path) -> None:
    """Delete what killed runs of this user left in `base`."""
    for directory in base.glob(f"{PREFIX}*"):
        if _is_orphan(directory):
            shutil.rmtree(directory, ignore_errors=True)


def _is_orphan(directory: Path) -> bool:
    try:
        lock = os.open(directory / "lock", os.O_RDWR)
    except FileNotFoundError:
        return True  # named directories have a lock from the start: someone's removal was cut short
    except OSError:
        return False  # another user's
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False  # its owner lives
    finally:
        os.close(lock)
    return True


def _base(account: Account | None) -> Path:
    base = Path(tempfile.gettempdir()).resolve()
    if len(str(base)) <= LONGEST and (account is None or account.reaches(base / PREFIX)):
        return base
    return Path("/tmp").resolve()
