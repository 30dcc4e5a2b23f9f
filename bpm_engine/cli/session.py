"""What commands on a database share: their options, the engine they open, and how they print.

`on_engine` adds the options and hands the command a `Session`. The engine is the application's own with
`--app`, which then also decides about the database; otherwise a plain one. What is typed beats the
environment: `--database` is used although BPM_APP names an application.
"""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from importlib import import_module
from pathlib import Path
from typing import IO, Any, TypeVar
from uuid import UUID

import click
from click.core import ParameterSource
from sqlalchemy.engine import URL

from bpm_engine.bpmn.draw.text import visible
from bpm_engine.cli.commands import GOOD
from bpm_engine.cli.options import APP, DATABASE, JSON, NO_COLOR, TENANT
from bpm_engine.engine import Engine
from bpm_engine.errors import ConflictError, EngineError, InvalidInputError, NotFoundError
from bpm_engine.store.address import read_address

F = TypeVar("F", bound=Callable[..., Any])
TOLD = 5  # instances with one key that an error names
READ_LIMIT = 10_000_000  # bytes of a JSON document; ten times what an instance may keep


@dataclass(frozen=True, slots=True)
class Session:
    """One command at work."""

    engine: Engine
    as_json: bool
    color: bool | None

    def say(self, text: str, **style: Any) -> None:
        """For people; with `--json` on stderr, so that stdout stays one document."""
        click.secho(visible(text), color=self.color, **({"err": self.as_json} | style))

    def instance(self, named: str) -> str:
        """The id of an instance that is named by its id or business key.

        Called instances often share the key of their caller: then the one that nobody called is meant.
        """
        found = self.find_instance(named)
        if found is None and not is_id(named):  # of an id that is gone the call itself says so
            raise NotFoundError(f"there is no instance with the id or business key {named!r:.80}")
        return found or named

    def find_instance(self, named: str) -> str | None:
        """The same; None: there is none. A business key may look like an id: ids go first."""
        if is_id(named) and self._has(named):
            return named
        find = functools.partial(self.engine.instances.find, business_key=named)
        found = find(limit=TOLD).items
        if not found:
            return None
        callers = found if len(found) == 1 else find(called=False, limit=2).items
        if len(callers) != 1:
            told = ", ".join(f"{each.id} ({each.definition_key}, {each.status})" for each in found)
            raise ConflictError(
                f"several instances have the key {named!r:.80}: {told}; name one by its id, "
                f"all are in `bpm list --business-key {named}`"
            )
        return callers[0].id

    def _has(self, instance_id: str) -> bool:
        try:
            self.engine.instances.get(instance_id)
        except NotFoundError:
            return False
        return True

    def known_instance(self, named: str | None) -> str | None:
        """The same for a filter: nothing found would otherwise look as if nothing were there to do."""
        return None if named is None else self.engine.instances.get(self.instance(named)).id

    def answer(self, data: Any, table: Callable[[], None]) -> None:
        """The result: one JSON document, or what `table` prints."""
        if self.as_json:
            print_json(data)
        else:
            table()


def is_id(text: str) -> bool:
    try:
        UUID(text)
    except ValueError:
        return False
    return True


def on_engine(*, creates: bool = False) -> Callable[[F], Callable[..., Any]]:
    """Add the common options; the function gets a Session and answers its exit code, None for a good one.

    `creates`: it may make a new SQLite file.
    """

    def decorate(function: F) -> Callable[..., Any]:
        @functools.wraps(function)
        def command(
            *arguments: Any,
            database: str,
            app: str | None,
            tenant: str,
            as_json: bool,
            no_color: bool,
            **options: Any,
        ) -> None:
            color = False if no_color else None
            with open_engine(database, app, creates=creates) as engine:
                engine._runtime.spares_lists = True  # who operates must see what there is
                code = function(Session(engine.tenant(tenant), as_json, color), *arguments, **options)
            click.get_current_context().exit(code or GOOD)

        for option in (NO_COLOR, JSON, TENANT, APP, DATABASE):
            command = option(command)
        return command

    return decorate


def open_engine(database: str, app: str | None, *, creates: bool) -> Engine:
    if (chosen := chosen_app(app)) is not None:
        return load_app(chosen)
    if creates:
        read_url(database)
    else:
        require_database(database)
    return Engine(database)


def chosen_app(app: str | None) -> str | None:
    """None: the database decides, since somebody typed it and the application comes from the environment."""
    source = click.get_current_context().get_parameter_source
    if app is None or source("database") is not ParameterSource.COMMANDLINE:
        return app
    if source("app") is ParameterSource.COMMANDLINE:
        raise click.UsageError(
            "give --app or --database, not both: an application brings its own database, "
            "which may read BPM_DATABASE_URL"
        )
    return None


def read_url(url: str) -> URL:
    return read_address(url, "--database (or BPM_DATABASE_URL)")


def require_database(url: str) -> None:
    """Looking at a SQLite file that is not there would make an empty one and find nothing in it."""
    parsed = read_url(url)
    if parsed.get_backend_name() != "sqlite" or not parsed.database or parsed.database.startswith(":"):
        return
    if not Path(parsed.database).exists() and not parsed.query:
        raise NotFoundError(
            f"there is no database at {parsed.database}; name one with --database or BPM_DATABASE_URL, "
            "or make one with `bpm deploy FILE`"
        )


def load_app(name: str) -> Engine:
    """The engine that an application made: `package.module:name`, looked up from the working directory."""
    module_name, _, attribute = name.partition(":")
    if not module_name or not attribute:
        raise click.UsageError(f"--app is MODULE:ENGINE, such as shop.app:engine, not {name!r}")
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        module = import_module(module_name)
    except Exception as error:
        if _is_missing(module_name, error):
            raise click.UsageError(
                f"there is no module {module_name!r} here; run from the folder it is in, or set PYTHONPATH"
            ) from None
        if isinstance(error, EngineError):  # such as a setting that cannot work: it says itself what to do
            raise
        raise InvalidInputError(
            f"{module_name} cannot be imported: {type(error).__name__}: {error} "
            "(run `bpm --debug …` for the traceback)"
        ) from error
    engine: object = module
    for part in attribute.split("."):
        if not hasattr(engine, part):
            raise click.UsageError(f"there is no {attribute!r} in {module_name}")
        engine = getattr(engine, part)
    if not isinstance(engine, Engine):
        raise click.UsageError(f"{attribute!r} of {module_name} is no Engine but {type(engine).__name__}")
    return engine


def _is_missing(module_name: str, error: Exception) -> bool:
    """Whether the module itself is missing, and not one that it imports."""
    missing = error.name if isinstance(error, ModuleNotFoundError) else None
    return missing is not None and f"{module_name}.".startswith(f"{missing}.")


# ------------------------------------------------------------------ values


def assignments(pairs: Sequence[str]) -> dict[str, Any]:
    """`name=value` pairs; a value that reads as JSON is that, else it is a text."""
    found: dict[str, Any] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name:
            raise click.UsageError(f"expected NAME=VALUE, not {pair!r:.80}")
        try:
            found[name] = parse(text, name)
        except json.JSONDecodeError:
            found[name] = text
    return found


def variables(document: str | None, pairs: Sequence[str]) -> dict[str, Any]:
    """A JSON object (or @FILE with one, or - for stdin), and single variables on top of it."""
    return read_object(document) | assignments(pairs)


def read_object(document: str | None) -> dict[str, Any]:
    if document is None:
        return {}
    text = document
    if document == "-":
        text = _text(sys.stdin.buffer if hasattr(sys.stdin, "buffer") else sys.stdin, "standard input")
    elif document.startswith("@"):
        with Path(document[1:]).open("rb") as file:
            text = _text(file, document[1:])
    try:
        value = parse(text, "the variables")
    except json.JSONDecodeError as error:
        raise click.UsageError(f"the variables are no JSON: {error}") from None
    if not isinstance(value, dict):
        raise click.UsageError(f"the variables must be a JSON object, not {type(value).__name__}")
    return value


def parse(text: str, what: str) -> Any:
    """A JSON value. JSONDecodeError if it is none; what can be read but not kept as it is, is refused."""
    try:
        return json.loads(text, object_pairs_hook=_members)
    except json.JSONDecodeError:
        raise
    except RecursionError:
        raise InvalidInputError(f"{what}: nested too deeply") from None
    except ValueError as error:  # a name twice, or more digits than Python reads
        raise InvalidInputError(f"{what}: {error}") from None


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Of two members with one name JSON readers keep one or the other: refused, not guessed."""
    members: dict[str, Any] = {}
    for name, value in pairs:
        if name in members:
            raise ValueError(f"the name {name!r:.80} is there twice in one object")
        members[name] = value
    return members


def _text(file: IO[Any], name: str) -> str:
    """No more is read than could be kept."""
    data = file.read(READ_LIMIT + 1)
    if len(data) > READ_LIMIT:
        raise InvalidInputError(f"{name} is longer than {READ_LIMIT} bytes; variables cannot be that large")
    try:
        return data if isinstance(data, str) else str(data, "utf-8")
    except UnicodeDecodeError as error:
        raise InvalidInputError(f"{name} is not UTF-8: {error.reason} at byte {error.start}") from None


# ------------------------------------------------------------------ printing


def print_json(data: Any) -> None:
    click.echo(json.dumps(data, ensure_ascii=False, indent=2, default=plain))


def plain(value: object) -> Any:
    """What JSON has no type for: views, times, durations."""
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, timedelta):
        return value.total_seconds()
    if hasattr(value, "__dataclass_fields__"):
        return {name: getattr(value, name) for name in value.__dataclass_fields__}
    if isinstance(value, Mapping):
        return dict(value)
    return str(value)
