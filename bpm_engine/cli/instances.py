"""`bpm list`: which instances there are."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

import click

from bpm_engine.api.filters import InstanceFilters
from bpm_engine.api.views import InstanceView, Page
from bpm_engine.cli.filters import filtered, taken
from bpm_engine.cli.options import CURSOR, LIMIT
from bpm_engine.cli.session import Session, on_engine
from bpm_engine.cli.tables import Column, print_table

COLUMNS = [
    Column("instance", "id"),
    Column("process"),
    Column("key"),
    Column("status", "status"),
    Column("at"),
    Column("started", "time"),
]


@click.command("list")
@filtered
@click.option("--roots", is_flag=True, help="Only those that no other instance has called.")
@click.option("--order", type=click.Choice(["newest", "oldest"]), default="newest", show_default=True)
@LIMIT
@CURSOR
@click.option("--count", is_flag=True, help="Only how many, per process and status.")
@on_engine()
def list_instances(
    session: Session,
    roots: bool,
    order: Literal["newest", "oldest"],
    limit: int,
    cursor: str | None,
    count: bool,
    **options: Any,
) -> None:
    """List instances, newest first. All that is given must hold.

    \b
    Examples:
      bpm list --status Failed
      bpm list -d order --where customer.country=NL --limit 50
      bpm list --roots --limit 50
      bpm list --count
    """
    wanted = taken(options)
    if roots:
        wanted["called"] = False
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
    places = sorted(
        {token.node_id.partition("#")[0] for token in instance.tokens if token.waiting_for != "scope"}
    )
    process = f"{instance.definition_key} v{instance.definition_version}"
    called = " (called)" if instance.parent_id else ""
    return (
        instance.id,
        f"{process}{called}",
        instance.business_key,
        instance.status,
        ", ".join(places),
        instance.started_at,
    )


def _print_counts(session: Session, wanted: InstanceFilters) -> None:
    count = session.engine.instances.count
    named = wanted.get("definition")
    keys = [named] if named else sorted(count(by="definition", **wanted))
    counted: dict[str, dict[str, int]] = {}
    for key in keys:
        wanted["definition"] = key
        counted[key] = count(by="status", **wanted)
    session.answer(
        counted,
        lambda: print_table(
            session.color,
            [Column("process"), Column("status", "status"), Column("instances", "number")],
            [(key, status, number) for key in keys for status, number in sorted(counted[key].items())],
            empty="no instance matches",
        ),
    )
