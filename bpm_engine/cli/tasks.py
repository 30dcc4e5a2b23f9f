"""`bpm tasks` and `bpm complete`: what people have to do."""

from __future__ import annotations

from datetime import UTC, datetime

import click

from bpm_engine.api.views import TaskView
from bpm_engine.cli.options import ACTOR, CURSOR, LIMIT, SET
from bpm_engine.cli.session import Session, on_engine, variables
from bpm_engine.cli.tables import Column, print_fields, print_table

COLUMNS = [
    Column("task", "id"),
    Column("name"),
    Column("for"),
    Column("due", "dim"),
    Column("status", "status"),
    Column("instance", "id"),
]


@click.command()
@click.option("--assignee", help="Only those of this person.")
@click.option("--user", help="Only those this person may take.")
@click.option("--group", "groups", multiple=True, help="Only those of this group; may be given again.")
@click.option("--instance", "-i", help="Only of this instance.")
@click.option("--node", help="Only of this node.")
@click.option("--due-before", type=click.DateTime(), metavar="TIME", help="Only those due by then (UTC).")
@click.option("--status", default="Open", show_default=True, help="Open, Completed or Cancelled.")
@LIMIT
@CURSOR
@on_engine()
def tasks(
    session: Session,
    assignee: str | None,
    user: str | None,
    groups: tuple[str, ...],
    instance: str | None,
    node: str | None,
    due_before: datetime | None,
    status: str,
    limit: int,
    cursor: str | None,
) -> None:
    """List what people have to do, oldest first.

    \b
    Examples:
      bpm tasks --group managers
      bpm tasks --user eve --due-before 2030-01-31
    """
    page = session.engine.tasks.find(
        assignee=assignee,
        candidate_user=user,
        candidate_group=groups or None,
        instance=instance,
        node=node,
        due_before=None if due_before is None else due_before.replace(tzinfo=UTC),
        status=status,
        limit=limit,
        cursor=cursor,
    )

    def show() -> None:
        rows = [
            (t.id, t.name or t.node_id, t.assignee or _candidates(t), t.due_at, t.status, t.instance_id)
            for t in page
        ]
        print_table(session.color, COLUMNS, rows, empty="no task")
        if page.cursor:
            click.secho(f"more: --cursor {page.cursor}", dim=True, err=True, color=session.color)

    session.answer({"items": page.items, "cursor": page.cursor}, show)


def _candidates(task: TaskView) -> str:
    return ", ".join([*task.candidate_users, *task.candidate_groups]) or "anybody"


@click.command()
@click.argument("task")
@click.argument("document", required=False, metavar="[JSON]")
@SET
@click.option("--user", help="Who completes it; must be allowed to.")
@click.option("--group", "groups", multiple=True, help="A group of this user; may be given again.")
@ACTOR
@on_engine()
def complete(
    session: Session,
    task: str,
    document: str | None,
    pairs: tuple[str, ...],
    user: str | None,
    groups: tuple[str, ...],
    actor: str | None,
) -> None:
    """Complete a task of a person, with the answers of its form.

    \b
    Examples:
      bpm complete 0192f0c1-… --set approved=true
      bpm complete 0192f0c1-… '{"approved": false}' --user eve --group managers
    """
    done = session.engine.tasks.complete(
        task, variables(document, pairs), user=user, groups=groups, actor=actor
    )
    session.answer(
        done,
        lambda: print_fields(
            session.color,
            [("task", done.id), ("name", done.name), ("status", done.status), ("instance", done.instance_id)],
        ),
    )
