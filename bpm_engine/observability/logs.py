"""Log lines that say which instance they are about, as JSON where machines read them.

While a handler runs, every line logged by it or by what it calls carries the ids of its work; the engine's
own lines about an instance name them as `extra`. `JsonFormatter` writes one object per line, `TextFormatter`
ends the line with them. Who has handlers and formatters of their own adds `WorkFilter` to the handler: it
puts them on the record.
"""

from __future__ import annotations

import json
import logging
import sys
from contextvars import ContextVar
from dataclasses import asdict, is_dataclass
from datetime import UTC, datetime
from typing import Any, TextIO

from bpm_engine.handlers import Work
from bpm_engine.publishers import CloudEvent
from bpm_engine.services.about import NAMES, about_work

current_work: ContextVar[Work | None] = ContextVar("bpm_current_work", default=None)

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "bpm_fields"}
TEXT = "%(asctime)s %(levelname)-7s %(name)s  %(message)s%(bpm_fields)s"
SHOWN = tuple(name for name in NAMES if name != "token_id")  # to people, who look for instances


def note_work(record: logging.LogRecord) -> None:
    """Put what is known about the work at hand on the record; what the line says itself stays."""
    work = current_work.get()
    if work is not None:
        record.__dict__.update(about_work(work) | vars(record))


class WorkFilter(logging.Filter):
    """Lets everything pass. For a handler of the application's own: add it, and name the fields in the format
    or use a formatter that writes all of them. On a `QueueHandler`, so that it sees the right thread."""

    def filter(self, record: logging.LogRecord) -> bool:
        note_work(record)
        return True


class JsonFormatter(logging.Formatter):
    """One JSON object per line: time, level, logger, pid, message, the work at hand, what `extra` names."""

    def format(self, record: logging.LogRecord) -> str:
        note_work(record)
        given = {name: value for name, value in vars(record).items() if name not in _STANDARD}
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat().replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "pid": record.process,
            "message": record.getMessage(),
            **{name: given[name] for name in NAMES if name in given},
            **given,
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return _masked(json.dumps(line, ensure_ascii=False, default=_plain))


def _masked(line: str) -> str:
    """Without the values of secrets that the handler at work has asked for."""
    work = current_work.get()
    return line if work is None else work.masked(line)


def _plain(value: object) -> Any:
    if isinstance(value, CloudEvent):  # without its data: these may be confidential
        return value.attributes()
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else str(value)


class TextFormatter(logging.Formatter):
    """For people: the ids at the end of the line, each with its name."""

    def __init__(self) -> None:
        super().__init__(TEXT)

    def format(self, record: logging.LogRecord) -> str:
        note_work(record)
        given = vars(record)
        shown = [f"{name}={_bare(given[name])}" for name in SHOWN if name in given]
        record.bpm_fields = f"  {' '.join(shown)}" if shown else ""
        line = super().format(record)
        return _masked(f"{line}\n{given['exception']}" if "exception" in given else line)


def _bare(value: object) -> str:
    """Quoted where it would not be read as one word."""
    text = str(value)
    return text if text.isprintable() and not set(text) & set(' "=') else json.dumps(text, ensure_ascii=False)


def set_up_logging(form: str, level: str, stream: TextIO | None = None) -> None:
    """Send all log lines to a stream, by default stderr; `form` is text or json."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter() if form == "json" else TextFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    logging.getLogger("alembic").setLevel("WARNING")  # says at every start that it has nothing to do
    logging.getLogger("httpx2").setLevel("WARNING")  # says the URL of every request, which may hold a token
