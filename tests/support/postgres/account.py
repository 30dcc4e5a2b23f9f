"""Who runs the server.

PostgreSQL refuses to run as root. A root test run (a container, mostly) therefore starts it as an account
without rights, `postgres` where there is one, else `nobody`. Everybody else runs it as themselves.
"""

from __future__ import annotations

import os
import pwd
import stat
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Account:
    uid: int
    gid: int

    def reaches(self, path: Path) -> bool:
        """Whether every directory above `path` lets this account through."""
        return all(self._enters(directory.stat()) for directory in path.resolve().parents)

    def _enters(self, status: os.stat_result) -> bool:
        if status.st_uid == self.uid:
            return bool(status.st_mode & stat.S_IXUSR)
        if status.st_gid == self.gid:
            return bool(status.st_mode & stat.S_IXGRP)
        return bool(status.st_mode & stat.S_IXOTH)


def server_account() -> Account | None:
    """The account to switch to, or None to stay who we are."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(entry.pw_uid, entry.pw_gid)
    raise LookupError("root needs an account named postgres or nobody to run PostgreSQL as")
