"""The page of the Python interface, made from the signatures and docstrings of the code."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Iterator
from enum import Enum

import bpm_engine
from bpm_engine import Engine, testing
from bpm_engine.api.border import PRIORITY
from bpm_engine.store.pages import MAX_LIMIT

INTRODUCTION = f"""# Python interface

Generated from the code. Everything is synchronous and thread-safe; `engine.aio` has the same calls for
async callers, with the same types. Every call marked with * changes something and also takes `actor=` (who,
for the history) and `connection=` (an open SQLAlchemy connection of yours on the same database, so that both
commit together).

Durations are ISO 8601 (`"PT2M"`), short (`"2m"`) or `timedelta`. Times are aware datetimes in UTC. Ids are
UUID texts. A list answers with a `Page`: iterate over it, and hand its `cursor` to the next call until it is
`None`; `limit` is at most {MAX_LIMIT}. Names and keys have 1 to 255 characters; priorities go from
-{PRIORITY} to {PRIORITY}.

What is raised, when, and what to do about it: [Errors](errors.md). Settings:
[Configuration](configuration.md).
"""
UNDERSTOOD = ("self", "actor", "connection")
STARS = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
WIDTH = 100
SUBJECTS = (
    "instances",
    "batches",
    "tasks",
    "external",
    "incidents",
    "history",
    "definitions",
    "schedules",
    "outbox",
)


def render_api() -> str:
    engine = Engine("sqlite://")
    return "\n".join(
        [
            INTRODUCTION,
            "## Engine",
            "",
            *_call("Engine", Engine, "Opens nothing; see [Configuration](configuration.md)."),
            *_calls("engine", engine),
            *(line for name in SUBJECTS for line in _subject(name, getattr(engine, name))),
            "## What you get back",
            "",
            *(line for name in bpm_engine.__all__ for line in _view(name)),
            "## For your tests",
            "",
            "From `bpm_engine.testing`; pytest finds the fixture `bpm_engine` and the option "
            "`--bpm-coverage=DIR` by itself. See [test a process](../how-to/test-a-process.md).",
            "",
            *_testing(),
        ]
    )


def _testing() -> Iterator[str]:
    kit = testing.TestEngine
    for name, call in (
        ("TestEngine", kit),
        *(
            (f"engine.{method.__name__}", method)
            for method in (kit.stub, kit.expect, kit.waiting_at, kit.path)
        ),
        ("engine.clock.advance", testing.ManualClock.advance),
        ("cover", testing.cover),
        ("permute", testing.permute),
    ):
        yield from _call(name, call, inspect.getdoc(call) or "")
    for name, method in inspect.getmembers(testing.Expectation, inspect.isfunction):
        if not name.startswith("_"):
            yield from _call(f"engine.expect(…).{name}", method, inspect.getdoc(method) or "")


def _subject(name: str, subject: object) -> Iterator[str]:
    yield f"## engine.{name}"
    yield ""
    yield from _calls(f"engine.{name}", subject)


def _calls(prefix: str, subject: object) -> Iterator[str]:
    for name, method in inspect.getmembers(subject, inspect.ismethod):
        if not name.startswith("_"):
            yield from _call(f"{prefix}.{name}", method, inspect.getdoc(method) or "")


def _call(name: str, function: object, text: str) -> Iterator[str]:
    signature = inspect.signature(function)  # type: ignore[arg-type]
    parameters = [p for p in signature.parameters.values() if p.name not in UNDERSTOOD]
    yield "```text"
    yield from _wrapped(name, signature.replace(parameters=parameters), "actor" in signature.parameters)
    yield "```"
    yield ""
    if text:
        yield text
        yield ""


def _wrapped(name: str, signature: inspect.Signature, changes: bool) -> Iterator[str]:
    """On one line, or a parameter per line."""
    parameters = list(_parameters(signature))
    answer = _annotation(signature.return_annotation)
    end = (f") -> {answer}" if answer not in ("", "None") else ")") + (" *" if changes else "")
    whole = f"{name}({', '.join(parameters)}{end}"
    if len(whole) <= WIDTH:
        yield whole
        return
    yield f"{name}("
    yield from (f"    {parameter}," for parameter in parameters)
    yield end


def _parameters(signature: inspect.Signature) -> Iterator[str]:
    """As Python has them: whatever follows `*files` needs no other star."""
    starred = slashed = False
    for parameter in signature.parameters.values():
        if slashed and parameter.kind is not inspect.Parameter.POSITIONAL_ONLY:
            yield "/"
        slashed = parameter.kind is inspect.Parameter.POSITIONAL_ONLY
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and not starred:
            yield "*"
        starred = starred or parameter.kind in (parameter.KEYWORD_ONLY, parameter.VAR_POSITIONAL)
        annotation = _annotation(parameter.annotation)
        default = "" if parameter.default is parameter.empty else f" = {_default(parameter.default)}"
        yield f"{STARS.get(parameter.kind, '')}{parameter.name}{annotation and f': {annotation}'}{default}"


def _annotation(given: object) -> str:
    """As it stands in the code, without the modules."""
    if given is inspect.Parameter.empty:
        return ""
    text = given if isinstance(given, str) else inspect.formatannotation(given)
    return re.sub(r"(sa|bpm_engine\.\w+(\.\w+)*)\.(?=[A-Z])", "", text)


def _default(value: object) -> str:
    return repr(value.value if isinstance(value, Enum) else value)


def _view(name: str) -> Iterator[str]:
    view = getattr(bpm_engine, name)
    if not dataclasses.is_dataclass(view) or name in ("Config", "Retry", "Work"):
        return
    fields = ", ".join(f"`{field.name}`" for field in dataclasses.fields(view))
    text = "" if (inspect.getdoc(view) or "").startswith(f"{name}(") else f" {_first(view)}"
    yield f"**{name}**.{text} {fields}"
    yield ""


def _first(item: object) -> str:
    return (inspect.getdoc(item) or "").partition("\n\n")[0].replace("\n", " ")
