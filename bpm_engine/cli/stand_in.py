"""A stand-in's process: it imports the application once, and is forked anew after every death.

That is much less than a start. It is done only where the import has left nothing that a fork would break: one
thread, and no file, pipe or connection that was not there before. Otherwise the process is the stand-in
itself, and its supervisor starts the next one.
"""

from __future__ import annotations

import gc
import json
import logging
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import sleep

from bpm_engine.services.roster import Roster, has_done, read_roster

logger = logging.getLogger("bpm_engine.supervisor")

PAUSE = 1.0  # seconds after a second one in a row that got nothing done: nobody waits for the next
TASKS, FILES = Path("/proc/self/task"), Path("/proc/self/fd")


def open_files() -> frozenset[str]:
    """What this process has open; empty: it cannot be told."""
    if sys.platform != "linux":
        return frozenset()
    return frozenset(f"{each.name} {each.readlink()}" for each in FILES.iterdir() if each.is_symlink())


def may_fork(before: frozenset[str]) -> bool:
    """Whether nothing has come since that only one process may have."""
    return bool(before) and len(list(TASKS.iterdir())) == 1 and open_files() == before


def fork_after_deaths(reports_to: int, roster: int, bury: Callable[[int], None]) -> Roster:
    """Returns in every process that is forked. The first one ends with the last of them.

    Each death is told, and its process is buried. Whoever dies with nothing begun would do so again, and the
    supervisor sees to that.
    """
    gc.freeze()  # nobody looks at these again, so their memory stays shared
    deaths = barren = 0
    while True:
        os.ftruncate(roster, 0)
        pid = os.fork()
        if pid == 0:
            return Roster(roster)
        _, status = os.waitpid(pid, 0)
        code = os.waitstatus_to_exitcode(status)
        bury(pid)
        if code >= 0 or not read_roster(roster):
            os._exit(0 if code == -signal.SIGTERM else abs(code))
        deaths += 1
        logger.warning("stand-in (pid %d) ended with %s", pid, signal.Signals(-code).name)
        with suppress(OSError):  # the supervisor is gone, and the worker that drains still needs somebody
            os.write(reports_to, json.dumps({"deaths": deaths}).encode() + b"\n")
        barren = 0 if has_done(roster) else barren + 1
        if barren > 1:
            sleep(PAUSE)
