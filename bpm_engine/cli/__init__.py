"""The `bpm` command. One module per command; each is imported only when its command runs.

Exit codes: 0 good, 1 refused, 2 wrong use. Errors are one line; `--debug` shows where they came from.
"""

from __future__ import annotations

import sys

import click

from bpm_engine.cli.commands import LazyGroup, run


@click.group(
    cls=LazyGroup,
    commands_at={
        "db": ("bpm_engine.cli.db:db", "Bring the schema of a database up or down."),
        "show": ("bpm_engine.cli.show:show", "Show a process as text, or draw it as SVG."),
        "validate": ("bpm_engine.cli.validate:validate", "Report everything that is wrong with BPMN files."),
    },
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="bpm-engine", message="%(version)s")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def bpm(debug: bool) -> None:
    """An embeddable BPMN 2.0 engine: check, show and run processes."""


def main(arguments: list[str] | None = None) -> None:
    """The console script."""
    sys.exit(run(bpm, sys.argv[1:] if arguments is None else arguments))


__all__ = ["bpm", "main"]
