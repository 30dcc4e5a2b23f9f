"""Named crash points: places where a test may kill, stop or break the process. Free when off.

`BPM_CRASH=name:hit:action` arms one point: the `hit`-th time it is reached, `action` happens.

kill      SIGKILL of this process
stop      SIGSTOP of this process, until someone sends SIGCONT
raise     `CrashError`, as if the code there had a bug
lose      at `commit` only: the COMMIT is carried out, its answer is lost

Production code calls `crash_point("name")`; with nothing armed that is one comparison.
"""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass

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


def _from_environment() -> _Armed | None:
    text = os.environ.get("BPM_CRASH")
    if not text:
        return None
    name, hit, action = text.split(":")
    return _Armed(name, int(hit), action)


_armed = _from_environment()
_record = os.environ.get("BPM_CRASH_RECORD")  # a file that collects the names of the points reached
_recorded: set[str] = set()


def arm(name: str, hit: int, action: str) -> None:
    global _armed
    _armed = _Armed(name, hit, action)


def disarm() -> None:
    global _armed
    _armed = None


def crash_point(name: str) -> None:
    if _armed is None and _record is None:
        return
    if _record is not None and name not in _recorded:
        _note(name)
    if _armed is not None and _armed.name == name and _armed.action != "lose":
        _armed.seen += 1
        if _armed.seen == _armed.hit:
            _act(_armed.action, name)


def loses_commit(name: str) -> bool:
    """Whether the answer of the COMMIT about to be sent shall be lost."""
    if _armed is None or _armed.name != name or _armed.action != "lose":
        return False
    _armed.seen += 1
    return _armed.seen == _armed.hit


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
        case _:
            raise ValueError(f"crash point {name} cannot {action}")
