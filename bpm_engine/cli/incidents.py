"""`bpm incidents`: where tokens cannot go on."""

from __future__ import annotations

import click

from bpm_engine.api.filters import IncidentFilters
from bpm_engine.api.views import IncidentView
from bpm_engine.cli.options import CURSOR, LIMIT
from bpm_engine.cli.session import Session, on_engine
from bpm_engine.cli.tables import Column, element, item_words, print_table

COLUMNS = [
    Column("incident", "id"),
    Column("since", "time"),
    Column("of"),
    Column("node"),
    Column("attempts", "number"),
]


@click.command()
@click.option("--instance", "-i", help="Only of this instance: its id or business key.")
@click.option("--definition", "-d", metavar="PROCESS", help="Only of this process.")
@click.option("--node", help="Only at this node.")
@click.option("--code", help="Only with this cause.")
@click.option("--count", is_flag=True, help="Only how many, per cause.")
@LIMIT
@CURSOR
@click.option("--traceback", is_flag=True, help="Print where each error came from as well.")
@on_engine()
def incidents(
    session: Session,
    instance: str | None,
    definition: str | None,
    node: str | None,
    code: str | None,
    count: bool,
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
    of_instance = session.known_instance(instance)
    wanted = IncidentFilters(instance=of_instance, definition=definition, node=node, code=code)
    if count:
        counted = session.engine.incidents.count(by="code", **wanted)
        columns = [Column("code"), Column("incidents", "number")]
        rows = sorted(counted.items())
        session.answer(counted, lambda: print_table(session.color, columns, rows, empty="no incident"))
        _mention_failed(session, wanted)
        return
    page = session.engine.incidents.find(**wanted, limit=limit, cursor=cursor)

    def show() -> None:
        print_table(
            session.color,
            COLUMNS,
            [(i.id, i.since, _of(i), element(i.node_id), i.attempts) for i in page],
            empty="no incident",
            details=[_why(i) for i in page],
        )
        for each in page if traceback else ():
            session.say(f"\n{each.id}", bold=True)
            for line in each.traceback.split("\n"):
                session.say(line)
        if page.cursor:
            click.secho(f"more: --cursor {page.cursor}", dim=True, err=True, color=session.color)

    session.answer({"items": page.items, "cursor": page.cursor}, show)
    _mention_failed(session, wanted)


def _mention_failed(session: Session, wanted: IncidentFilters) -> None:
    """Who looks for what failed is not to miss what failed at no token, as by the deadline of a process."""
    if wanted["node"] is not None or wanted["code"] is not None:
        return
    instances, named = session.engine.instances, wanted["instance"]
    if named is None:
        number = instances.count(status="Failed", incidents=False, definition=wanted["definition"])
    else:
        instance = instances.get(named)
        number = int(instance.status == "Failed" and all(each.state != "Failed" for each in instance.tokens))
    if number:
        words = "1 instance failed" if number == 1 else f"{number} instances failed"
        advice = "bpm list --status Failed, bpm explain INSTANCE"
        session.say(f"{words} as a whole, not at a token: {advice}", fg="yellow", err=True)


def _of(incident: IncidentView) -> str:
    return f"{incident.definition_key} {incident.business_key or ''}".rstrip()


def _why(incident: IncidentView) -> str:
    error = f"{incident.code}: {incident.message}"
    return f"{error}, at {words}" if (words := item_words(incident.item)) else error
