"""`bpm demo`: a few hundred orders, a worker that dies, and the proof that nothing was lost."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import click
from rich.console import Console

from bpm_engine import Config, Engine
from bpm_engine.cli.commands import GOOD, REFUSED
from bpm_engine.cli.options import JSON, NO_COLOR
from bpm_engine.cli.session import print_json, read_url
from bpm_engine.demo import ending, screen, story

FILE = "bpm-demo.db"


@click.command()
@click.option(
    "--database",
    metavar="URL",
    help=f"Run there, under a tenant of its own. Without it: a new SQLite file, {FILE}.",
)
@click.option("--orders", default=300, show_default=True, type=click.IntRange(10, 5_000), help="How many.")
@click.option("--workers", default=2, show_default=True, type=click.IntRange(2, 16), help="Worker processes.")
@click.option("--seed", default=7, show_default=True, help="The same seed gives the same orders and fates.")
@click.option(
    "--directory",
    default=".",
    show_default=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Where the files of the demo go.",
)
@JSON
@NO_COLOR
@click.pass_context
def demo(
    ctx: click.Context,
    database: str | None,
    orders: int,
    workers: int,
    seed: int,
    directory: Path,
    as_json: bool,
    no_color: bool,
) -> None:
    """Run a web shop for some seconds and kill one of its workers.

    Orders go through parallel steps, retries, approvals, messages and timers; some fail for good and are
    undone. Half-way a worker process gets SIGKILL; the others take over what it held. At the end the
    database is examined, and an order's life is shown and drawn. Nothing is left running.

    \b
    Examples:
      bpm demo
      bpm demo --orders 1000 --workers 4
      bpm demo --database postgresql://localhost/test
    """
    if database is not None:
        read_url(database)
    settings = story.Settings(
        database=database or _fresh_file(directory),
        tenant="default" if database is None else f"demo-{datetime.now(UTC):%Y%m%d-%H%M%S}",
        orders=orders,
        workers=workers,
        seed=seed,
        picture=directory / "bpm-demo.svg",
        log=directory / "bpm-demo.log",
    )
    directory.mkdir(parents=True, exist_ok=True)
    settings.log.unlink(missing_ok=True)
    console = Console(no_color=no_color or None, highlight=False, stderr=as_json)
    shown = screen.choose(console, silent=as_json)
    shown.greet(settings)
    with Engine(settings.database, config=Config(auto_migrate=True)) as engine, shown.showing():
        told = story.Demo(engine.tenant(settings.tenant), settings, shown).run()
    if as_json:
        print_json(ending.as_data(told, settings))
    else:
        ending.tell(console, told, settings)
    ctx.exit(GOOD if told.sound else REFUSED)


def _fresh_file(directory: Path) -> str:
    """A new database each time, at a path that still means the same from another directory."""
    path = (directory / FILE).resolve()
    for name in (path.name, f"{path.name}-wal", f"{path.name}-shm"):
        path.with_name(name).unlink(missing_ok=True)
    return f"sqlite:///{path}"
