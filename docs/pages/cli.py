"""The page of the command line, made from the help texts of the commands themselves."""

from __future__ import annotations

from collections.abc import Iterator

import click

from bpm_engine.cli import bpm

WIDTH = 100
INTRODUCTION = """# Command line

Generated from the commands: `bpm COMMAND --help` prints the same. `bpm completion bash` (or `zsh`, `fish`)
prints what your shell needs to complete commands and options.

Exit codes: 0 good, 1 refused, 2 wrong use. An error is a sentence on stderr; `bpm --debug COMMAND` shows the
traceback. With `--json` stdout is one JSON document and nothing else. Colours follow the terminal;
`--no-color` and the variable `NO_COLOR` turn them off.

Commands on a database take it from `--database` or `BPM_DATABASE_URL`, and the tenant from `--tenant` or
`BPM_TENANT`. With `--app MODULE:ENGINE` or `BPM_APP` they use the application's own engine instead, with its
database, settings and handlers. What is typed beats the environment: `--database` is used although `BPM_APP`
is set; `--app` and `--database` together are refused.
"""


def render_cli() -> str:
    context = click.Context(bpm, info_name="bpm")
    sections = dict.fromkeys(place.section for place in bpm.commands_at.values())
    lines = [INTRODUCTION]
    for section in sections:
        lines += [f"## {section}", ""]
        for name, place in bpm.commands_at.items():
            if place.section == section:
                command = bpm.get_command(context, name)
                assert command is not None
                lines += _command(command, f"bpm {name}")
    return "\n".join(lines).rstrip() + "\n"


def _command(command: click.Command, name: str) -> Iterator[str]:
    """The help of a command, and of those below it."""
    context = click.Context(command, info_name=name, terminal_width=WIDTH, max_content_width=WIDTH)
    text = "\n".join(line.rstrip() for line in command.get_help(context).splitlines())
    yield from (f"### {name}", "", "```text", text, "```", "")
    if isinstance(command, click.Group):
        for below in command.list_commands(context):
            found = command.get_command(context, below)
            assert found is not None
            yield from _command(found, f"{name} {below}")
