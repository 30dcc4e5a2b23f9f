"""`bpm list`: which instances there are."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Literal

import click

from bpm_engine.api.views import InstanceView, Page
from bpm_engine.cli.options import CURSOR, LIMIT
from bpm_engine.cli.session import Session, assignments, on_engine
from bpm_engine.cli.tables import Column, print_table

STATUSES = ["Running", "Suspended", "Completed", "Failed", "Cancelled"]
COLUMNS = [
    Column("instance", "id"),
    Column("process"),
    Column("business key"),
    Column("status", "status"),
    Column("at"),
    Column("started", "dim"),
]


@click.command("list")
@click.option("--status", type=click.Choice(STATUSES, case_sensitive=False), help="Only these.")
@click.option("--definition", "-d", metavar="PROCESS", help="Only instances of this process.")
@click.option("--version", type=int, help="Only of this version.")
@click.option("--business-key", "-k", help="Only with this key.")
@click.option("--subject", help="Only about this subject.")
@click.option("--node", metavar="NODE", help="Only those with a token at this node.")
@click.option("--incidents/--no-incidents", default=None, help="Only with, or only without incidents.")
@click.option("--where", multiple=True, metavar="NAME=VALUE", help="Only with this variable.")
@click.option("--after", type=click.DateTime(), metavar="TIME", help="Only started since (UTC).")
@click.option("--before", type=click.DateTime(), metavar="TIME", help="Only started before (UTC).")
@click.option("--order", type=click.Choice(["newest", "oldest"]), default="newest", show_default=True)
@LIMIT
@CURSOR
@click.option("--count", is_flag=True, help="Only how many, per process and status.")
@on_engine()
def list_instances(
    session: Session,
    status: str | None,
    definition: str | None,
    version: int | None,
    business_key: str | None,
    subject: str | None,
    node: str | None,
    incidents: bool | None,
    where: tuple[str, ...],
    after: datetime | None,
    before: datetime | None,
    order: Literal["newest", "oldest"],
    limit: int,
    cursor: str | None,
    count: bool,
) -> None:
    """List instances, newest first. All that is given must hold.

    \b
    Examples:
      bpm list --status Failed
      bpm list -d order --where customer.country=NL --limit 50
      bpm list --count
    """
    wanted: dict[str, Any] = {
        "status": status,
        "definition": definition,
        "version": version,
        "business_key": business_key,
        "subject": subject,
        "node": node,
        "incidents": incidents,
        "variables": nested(assignments(where)) if where else None,
        "started_after": _utc(after),
        "started_before": _utc(before),
    }
    if count:
        _print_counts(session, wanted)
        return
    page = session.engine.instances.find(**wanted, order=order, limit=limit, cursor=cursor)
    session.answer({"items": page.items, "cursor": page.cursor}, lambda: _print(session, page))


def _print(session: Session, page: Page[InstanceView]) -> None:
    print_table(session.color, COLUMNS, [_row(each) for each in page], empty="no instance matches")
    if page.cursor:
        click.secho(f"more: --cursor {page.cursor}", dim=True, err=True, color=session.color)


def _row(instance: InstanceView) -> tuple[str | datetime | None, ...]:
    places = sorted({token.node_id for token in instance.tokens if token.waiting_for != "scope"})
    process = f"{instance.definition_key} v{instance.definition_version}"
    return (
        instance.id,
        process,
        instance.business_key,
        instance.status,
        ", ".join(places),
        instance.started_at,
    )


def _print_counts(session: Session, wanted: dict[str, Any]) -> None:
    engine = session.engine
    keys = sorted(engine.instances.count(by="definition", **wanted))
    counted = {key: engine.instances.count(by="status", **(wanted | {"definition": key})) for key in keys}
    session.answer(
        counted,
        lambda: print_table(
            session.color,
            [Column("process"), Column("status", "status"), Column("instances", "number")],
            [(key, status, number) for key in keys for status, number in sorted(counted[key].items())],
            empty="no instance matches",
        ),
    )


def nested(flat: dict[str, Any]) -> dict[str, Any]:
    """`{"a.b": 1}` means the part `b` of `a`."""
    result: dict[str, Any] = {}
    for name, value in flat.items():
        *outer, last = name.split(".")
        place = result
        for part in outer:
            place = place.setdefault(part, {})
        place[last] = value
    return result


def _utc(moment: datetime | None) -> datetime | None:
    return None if moment is None else moment.replace(tzinfo=UTC)
