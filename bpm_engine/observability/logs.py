"""Log lines that say which instance they are about, as JSON where machines read them.

`log_work(engine)` remembers the work of a handler while it runs, so that every line logged meanwhile, by the
handler or by what it calls, carries its ids. `JsonFormatter` writes one object per line.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, is_dataclass
from datetime import UTC, datetime
from typing import Any, TextIO

from bpm_engine.engine import Engine
from bpm_engine.handlers import Work
from bpm_engine.observability.silent import Silent

current_work: ContextVar[Work | None] = ContextVar("bpm_current_work", default=None)

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
TEXT = "%(asctime)s %(levelname)-7s %(name)s  %(message)s%(work)s"


class WorkLog(Silent):
    """An observer that knows, for each thread and task, what it is working on."""

    @contextmanager
    def running(self, work: Work) -> Iterator[None]:
        before = current_work.set(work)
        try:
            yield
        finally:
            current_work.reset(before)


def log_work(engine: Engine) -> None:
    """From now on log lines written by handlers can be told apart by instance."""
    engine.observe(WorkLog())


def work_fields() -> dict[str, Any]:
    """What is known about the work at hand; {} outside of handlers."""
    work = current_work.get()
    if work is None:
        return {}
    fields = {
        "correlation_id": work.correlation_id,
        "instance_id": work.instance_id,
        "business_key": work.business_key,
        "definition": work.definition_key,
        "node_id": work.node_id,
        "token_id": work.token_id,
        "attempt": work.attempt,
        "tenant": work.tenant_id,
    }
    return {name: value for name, value in fields.items() if value is not None}


class JsonFormatter(logging.Formatter):
    """One JSON object per line: time, level, logger, message, the work at hand, what `extra` names."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat().replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **work_fields(),
            **{name: value for name, value in vars(record).items() if name not in _STANDARD},
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=_plain)


def _plain(value: object) -> Any:
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else str(value)


class TextFormatter(logging.Formatter):
    """For people: the ids of the work at hand at the end of the line."""

    def __init__(self) -> None:
        super().__init__(TEXT)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - its name in the library
        known = work_fields()
        shown = [known[name] for name in ("correlation_id", "instance_id", "node_id") if name in known]
        record.work = f"  [{' '.join(shown)}]" if shown else ""
        return super().formatMessage(record)


def set_up_logging(form: str, level: str, stream: TextIO | None = None) -> None:
    """Send all log lines to a stream, by default stderr; `form` is text or json."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter() if form == "json" else TextFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    logging.getLogger("alembic").setLevel("WARNING")  # says at every start that it has nothing to do
