"""The observer behind the log lines about instances.

It knows what each thread and task is working on, and tells what was committed: failed attempts and work taken
over from lost workers as warnings, incidents as errors, what operators did as information, and at level
debug every step. Handlers that only succeed cost it nothing but setting a variable.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from contextvars import Token
from logging import DEBUG, ERROR, INFO, WARNING

from bpm_engine.core.changes import Changes
from bpm_engine.core.state import Instance, LogEntry, LogKind
from bpm_engine.engine import Engine
from bpm_engine.handlers import Work
from bpm_engine.observability.logs import current_work
from bpm_engine.observability.silent import Silent
from bpm_engine.services.about import about_entry

logger = logging.getLogger("bpm_engine.instances")

LEVELS = {
    LogKind.INCIDENT: ERROR,
    LogKind.FAILED: WARNING,
    LogKind.RECOVERED: WARNING,
    LogKind.SUSPENDED: INFO,
    LogKind.RESUMED: INFO,
    LogKind.MIGRATED: INFO,
    LogKind.MOVED: INFO,
    LogKind.RESOLVED: INFO,
}


def log_work(engine: Engine) -> None:
    """From now on log lines say which instance they are about, and failures are logged."""
    engine.observe(WorkLog())


class WorkLog(Silent):
    """An observer; see `log_work`."""

    def running(self, work: Work) -> AbstractContextManager[None]:
        return _AtWork(work)

    def committed(self, changes: Sequence[Changes], instances: Mapping[str, Instance]) -> None:
        everything = logger.isEnabledFor(DEBUG)
        for made in changes:
            for entry in made.log:
                if everything or entry.kind in LEVELS:
                    _tell(entry, instances.get(entry.instance_id))


class _AtWork(AbstractContextManager[None]):
    __slots__ = ("_before", "_work")

    def __init__(self, work: Work) -> None:
        self._work = work

    def __enter__(self) -> None:
        self._before: Token[Work | None] = current_work.set(self._work)

    def __exit__(self, *raised: object) -> None:
        current_work.reset(self._before)


def _tell(entry: LogEntry, instance: Instance | None) -> None:
    level = LEVELS.get(entry.kind, DEBUG)
    if entry.kind is LogKind.FAILED and entry.token_id is None:  # of the instance: its incident says so
        level = DEBUG
    if not logger.isEnabledFor(level):
        return
    data = entry.data or {}
    extra = about_entry(entry, instance)
    if data.get("traceback"):
        extra["exception"] = str(data["traceback"]).rstrip()
    if entry.actor is not None:
        extra["actor"] = entry.actor
    logger.log(level, "%s", _sentence(entry, data), extra=extra)


def _sentence(entry: LogEntry, data: Mapping[str, object]) -> str:
    trouble = f"{data.get('code')}: {data.get('message')}"
    match entry.kind:
        case LogKind.INCIDENT:
            return f"incident: {trouble}"
        case LogKind.FAILED if "attempt" in data:
            return f"attempt {data['attempt']} failed: {trouble}"
        case LogKind.FAILED:
            return f"failed: {trouble}"
        case LogKind.RECOVERED:
            return f"taken over from {data.get('owner')}, which was lost"
        case _:
            return f"{entry.kind} by {entry.actor}" if entry.actor else str(entry.kind)
