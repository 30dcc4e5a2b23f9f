"""What all commands share: being loaded late, and answering errors."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from importlib import import_module
from typing import Any, NamedTuple

import click
from click.shell_completion import CompletionItem

GOOD, REFUSED, USAGE = 0, 1, 2


class Place(NamedTuple):
    """Where a command is (`module:name`), its purpose in one line, and the part of the help it stands in."""

    path: str
    purpose: str
    section: str


class LazyGroup(click.Group):
    """A group that knows its commands by name and help, and imports one only to run it."""

    def __init__(self, *args: Any, commands_at: Mapping[str, Place], **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.commands_at = commands_at

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(self.commands_at)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.commands_at:
            return None
        module, _, name = self.commands_at[cmd_name].path.partition(":")
        command = getattr(import_module(module), name)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            meant = get_close_matches(args[0], self.commands_at, n=1)
            if not meant:
                raise
            raise click.UsageError(f"{error.message} Did you mean {meant[0]!r}?", ctx=ctx) from None

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        names = [
            CompletionItem(name, help=place.purpose)
            for name, place in self.commands_at.items()
            if name.startswith(incomplete)
        ]
        return names + click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """By section, in the order in which a newcomer needs them."""
        width = max(map(len, self.commands_at))
        for section in dict.fromkeys(place.section for place in self.commands_at.values()):
            rows = [
                (name.ljust(width), place.purpose)
                for name, place in self.commands_at.items()
                if place.section == section
            ]
            with formatter.section(section):
                formatter.write_dl(rows)


def run(group: click.Group, arguments: Sequence[str]) -> int:
    """Run one command and answer its exit code. Nothing escapes as a traceback, unless asked for."""
    _set_up_logging("--debug" in arguments)
    try:
        answer = group.main(list(arguments), prog_name="bpm", standalone_mode=False)
    except click.ClickException as refused:
        refused.show()
        return refused.exit_code
    except click.Abort:
        click.echo("Stopped.", err=True)
        return REFUSED
    except Exception as error:  # noqa: BLE001 - the last place where a traceback can become a sentence
        return _answer(error, debug="--debug" in arguments)
    return answer if isinstance(answer, int) else GOOD


def _set_up_logging(debug: bool) -> None:
    """What the engine logs is for the logs of services; a command says what it has to say itself."""
    root = logging.getLogger()
    if debug:
        logging.basicConfig(level=logging.INFO)
    elif not root.handlers:
        root.addHandler(Settings(logging.WARNING))


class Settings(logging.Handler):
    """All that a command repeats of the log: settings without effect, which whoever typed them must know."""

    def emit(self, record: logging.LogRecord) -> None:
        if record.name == "bpm_engine.config":
            from bpm_engine.bpmn.draw.text import visible

            click.secho(visible(record.getMessage()), fg="yellow", err=True)


def _answer(error: Exception, *, debug: bool) -> int:
    from bpm_engine.bpmn.draw.text import visible
    from bpm_engine.errors import EngineError

    if debug:
        raise error
    text = str(error) or type(error).__name__
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        text = f"{error.filename}: {error.strerror}"  # without the number, which tells nobody anything
    if not isinstance(error, EngineError | OSError):
        text = f"unexpected {type(error).__name__}: {text} (run `bpm --debug …` for the traceback)"
    for line in text.splitlines():
        click.secho(visible(line), fg="red", err=True)
    return REFUSED
