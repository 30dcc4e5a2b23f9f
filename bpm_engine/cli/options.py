"""Options that many commands have. Nothing heavy is imported here: help must come at once."""

from __future__ import annotations

from datetime import UTC, datetime

import click

MOST = 500  # on one page; `store.pages.MAX_LIMIT`, which is not imported for a help text
URL = "sqlite:///bpm.db"  # what `Engine()` takes as well

DATABASE = click.option(
    "--database",
    "--url",
    "database",
    envvar="BPM_DATABASE_URL",
    default=URL,
    show_default=True,
    show_envvar=True,
    metavar="URL",
    help="The database: sqlite:///FILE or postgresql://…",
)
APP = click.option(
    "--app",
    envvar="BPM_APP",
    show_envvar=True,
    metavar="MODULE:ENGINE",
    help="Use the engine of this application, with its database, settings and handlers.",
)
TENANT = click.option(
    "--tenant",
    envvar="BPM_TENANT",
    default="default",
    show_default=True,
    show_envvar=True,
    metavar="NAME",
    help="Whose processes.",
)
JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
NO_COLOR = click.option("--no-color", is_flag=True, help="Plain text, also on a terminal.")
ACTOR = click.option("--actor", metavar="NAME", help="Who asks for this, for the history.")
SET = click.option(
    "--set", "pairs", multiple=True, metavar="NAME=VALUE", help="A variable; JSON where it reads as such."
)
LIMIT = click.option(
    "--limit", type=click.IntRange(1, MOST), default=20, show_default=True, help="At most so many."
)
CURSOR = click.option("--cursor", help="Go on where a page ended.")


def moment(text: str) -> datetime:
    """A time as people type it and as commands print it; without an offset it is UTC."""
    try:
        typed = datetime.fromisoformat(text)
        return typed.replace(tzinfo=UTC) if typed.tzinfo is None else typed.astimezone(UTC)
    except (ValueError, OverflowError):
        raise click.BadParameter(
            f"{text!r:.80} is no time such as 2030-01-31 or 2030-01-31T12:00:00Z"
        ) from None
