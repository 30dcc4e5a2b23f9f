"""`bpm incidents`: where tokens cannot go on."""

from __future__ import annotations

import click

from bpm_engine.cli.options import CURSOR, LIMIT
from bpm_engine.cli.session import Session, on_engine
from bpm_engine.cli.tables import Column, print_table

COLUMNS = [
    Column("incident", "id"),
    Column("since", "dim"),
    Column("node"),
    Column("code"),
    Column("message"),
    Column("attempts", "number"),
]


@click.command()
@click.option("--instance", "-i", help="Only of this instance.")
@click.option("--definition", "-d", metavar="PROCESS", help="Only of this process.")
@LIMIT
@CURSOR
@click.option("--traceback", is_flag=True, help="Print where each error came from as well.")
@on_engine()
def incidents(
    session: Session,
    instance: str | None,
    definition: str | None,
    limit: int,
    cursor: str | None,
    traceback: bool,
) -> None:
    """List what failed and waits for an operator, oldest first.

    Repair the cause, then `bpm retry INCIDENT`; with --set where a variable was wrong.

    \b
    Examples:
      bpm incidents
      bpm incidents -d order --traceback
    """
    page = session.engine.incidents.find(instance=instance, definition=definition, limit=limit, cursor=cursor)

    def show() -> None:
        print_table(
            session.color,
            COLUMNS,
            [(i.id, i.since, i.node_id, i.code, i.message, i.attempts) for i in page],
            empty="no incident",
        )
        for each in page if traceback else ():
            session.say(f"\n{each.id}", bold=True)
            click.echo(each.traceback)
        if page.cursor:
            click.secho(f"more: --cursor {page.cursor}", dim=True, err=True, color=session.color)

    session.answer({"items": page.items, "cursor": page.cursor}, show)
