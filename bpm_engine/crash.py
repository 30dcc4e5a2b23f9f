"""Named crash points: places where a test may kill, stop or break the process. Free when off.

`BPM_CRASH=name:hit:action` arms a point: the `hit`-th time it is reached, `action` happens. A comma separates
several.

kill      SIGKILL of this process
stop      SIGSTOP of this process, until someone sends SIGCONT
raise     `CrashError`, as if the code there had a bug
cut       the connections to the database break, as told by `cut_with`
lose      at `commit` only: the COMMIT is carried out, its answer is lost

What happens is logged before it does. Production code calls `crash_point("name")`; with nothing armed that is
one comparison.
"""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass

logger = logging.getLogger("bpm_engine.crash")

POINTS: dict[str, str] = {}
"""Every point that exists, with what has happened when it is reached."""


class CrashError(Exception):
    """A crash point was told to raise."""


@dataclass(slots=True)
class _Armed:
    name: str
    hit: int
    action: str
    seen: int = 0


def declare(name: str, reached: str) -> str:
    """Name a point once, at import; the test suite fails for a declared point that no run reaches."""
    POINTS[name] = reached
    return name


def _from_environment() -> list[_Armed]:
    texts = os.environ.get("BPM_CRASH", "")
    parts = [text.split(":") for text in texts.split(",") if text]
    return [_Armed(name, int(hit), action) for name, hit, action in parts]


_armed = _from_environment()
_record = os.environ.get("BPM_CRASH_RECORD")  # a file that collects the names of the points reached
_recorded: set[str] = set()
_cutters: list[Callable[[], None]] = []


def arm(name: str, hit: int, action: str) -> None:
    _armed.append(_Armed(name, hit, action))


def cut_with(cutter: Callable[[], None]) -> None:
    """What breaks the connections of this process: a test knows them, the engine does not collect them."""
    _cutters.append(cutter)


def disarm() -> None:
    _armed.clear()


def crash_point(name: str) -> None:
    if not _armed and _record is None:
        return
    if _record is not None and name not in _recorded:
        _note(name)
    for armed in _armed:
        if armed.name == name and armed.action != "lose":
            armed.seen += 1
            if armed.seen == armed.hit:
                logger.warning("crash point %s is told to %s", name, armed.action)
                _act(armed.action, name)


def loses_commit(name: str) -> bool:
    """Whether the answer of the COMMIT about to be sent shall be lost."""
    for armed in _armed:
        if armed.name == name and armed.action == "lose":
            armed.seen += 1
            if armed.seen == armed.hit:
                logger.warning("crash point %s is told to %s", name, armed.action)
                return True
    return False


def _note(name: str) -> None:
    _recorded.add(name)
    assert _record is not None
    with open(_record, "a", encoding="utf-8") as file:  # noqa: PTH123 - a single short append, also after fork
        file.write(name + "\n")


def _act(action: str, name: str) -> None:
    match action:
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "stop":
            os.kill(os.getpid(), signal.SIGSTOP)
        case "raise":
            raise CrashError(f"crash point {name}")
        case "cut":
            for cutter in _cutters:
                cutter()
        case _:
            raise ValueError(f"crash point {name} cannot {action}")
