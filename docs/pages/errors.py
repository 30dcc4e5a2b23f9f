"""The page of errors, made from the docstrings of the exception classes."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import bpm_engine
from bpm_engine import EngineError
from bpm_engine.store.failures import SchemaVersionError, UnsafeDurabilityError

INTRODUCTION = """# Errors

Generated from the code. Everything that the engine raises on purpose is an `EngineError`, so one `except`
catches all of it; anything else is a bug or comes from your own code. A call that raises has changed
nothing; only after `UnavailableError` it may be unknown whether a commit arrived, and trying again with the
same key settles it.
"""
UNFIT = (SchemaVersionError, UnsafeDurabilityError)
PARTS = ("When:", "Do:")


def render_errors() -> str:
    public = [(name, getattr(bpm_engine, name)) for name in bpm_engine.__all__]
    errors = [(name, item) for name, item in public if _is_exception(item)]
    raised = [pair for pair in errors if issubclass(pair[1], EngineError)]
    by_handlers = [pair for pair in errors if not issubclass(pair[1], EngineError)]
    return "\n".join(
        [
            INTRODUCTION,
            "## Raised by the engine",
            "",
            *_table(sorted(raised, key=lambda pair: pair[0] != "EngineError")),
            "",
            "## When the database does not fit",
            "",
            "Raised by the first call that needs the database; the message says what to do.",
            "",
            "| error | means |",
            "|---|---|",
            *(f"| `{item.__name__}` | {inspect.getdoc(item)} |" for item in UNFIT),
            "",
            "## Raised by handlers",
            "",
            "A handler may raise these. Anything else it raises is a failed attempt: see",
            "[Retries and errors](../how-to/retries-and-errors.md).",
            "",
            *_table(by_handlers),
            "",
            "Codes of incidents are listed in [Resolve incidents](../how-to/resolve-incidents.md), codes of",
            "problems in a file in [Problems](problems.md).",
            "",
        ]
    )


def _is_exception(item: object) -> bool:
    return isinstance(item, type) and issubclass(item, Exception)


def _table(errors: list[tuple[str, type]]) -> Iterator[str]:
    yield "| error | means | raised when | what to do |"
    yield "|---|---|---|---|"
    for name, item in errors:
        means, when, what = _parts(item)
        yield f"| `{name}` | {means} | {when} | {what} |"


def _parts(item: type) -> tuple[str, str, str]:
    """The first line of the docstring, and what follows its marks."""
    text = " ".join((inspect.getdoc(item) or "").split())
    for mark in PARTS:
        if mark not in text:
            raise ValueError(f"the docstring of {item.__name__} has no {mark!r}")
    means, _, rest = text.partition("When:")
    when, _, what = rest.partition("Do:")
    return means.strip().removeprefix("Raised by a handler: "), when.strip(), what.strip()
