"""`bpm tasks` and `bpm complete`: what people have to do."""

from __future__ import annotations

from datetime import datetime

import click

from bpm_engine.api.views import TaskView
from bpm_engine.cli.options import ACTOR, CURSOR, LIMIT, SET, moment
from bpm_engine.cli.session import Session, on_engine, variables
from bpm_engine.cli.tables import Column, print_fields, print_table

COLUMNS = [
    Column("task", "id"),
    Column("name"),
    Column("of"),
    Column("for"),
    Column("due", "time"),
    Column("status", "status"),
]


@click.command()
@click.option("--assignee", help="Only those of this person.")
@click.option("--user", help="Only those this person may take.")
@click.option("--group", "groups", multiple=True, help="Only those of this group; may be given again.")
@click.option("--instance", "-i", help="Only of this instance: its id or business key.")
@click.option("--node", help="Only of this node.")
@click.option("--due-before", type=moment, metavar="TIME", help="Only those due by then (UTC).")
@click.option(
    "--status",
    type=click.Choice(["Open", "Completed", "Cancelled"], case_sensitive=False),
    default="Open",
    show_default=True,
    help="Only these.",
)
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
      bpm tasks --instance A-17             by its business key
    """
    page = session.engine.tasks.find(
        assignee=assignee,
        candidate_user=user,
        candidate_group=groups or None,
        instance=session.known_instance(instance),
        node=node,
        due_before=due_before,
        status=status,
        limit=limit,
        cursor=cursor,
    )

    def show() -> None:
        rows = [
            (t.id, t.name or t.node_id, _of(t), t.assignee or _candidates(t), t.due_at, t.status)
            for t in page
        ]
        print_table(session.color, COLUMNS, rows, empty="no task")
        if page.cursor:
            click.secho(f"more: --cursor {page.cursor}", dim=True, err=True, color=session.color)

    session.answer({"items": page.items, "cursor": page.cursor}, show)


def _of(task: TaskView) -> str:
    return f"{task.definition_key} {task.business_key or ''}".rstrip()


def _candidates(task: TaskView) -> str:
    return ", ".join([*task.candidate_users, *task.candidate_groups]) or "anybody"


@click.command()
@click.argument("task")
@click.option("--user", required=True, help="Who takes it.")
@click.option("--group", "groups", multiple=True, help="A group of this user; may be given again.")
@click.option("--back", is_flag=True, help="Give it back instead.")
@ACTOR
@on_engine()
def claim(
    session: Session, task: str, user: str, groups: tuple[str, ...], back: bool, actor: str | None
) -> None:
    """Take a task, so that nobody else does it, or give it back.

    \b
    Examples:
      bpm claim 0192f0c1-… --user eve --group managers
      bpm claim 0192f0c1-… --user eve --back
    """
    tasks_of = session.engine.tasks
    if back:
        taken = tasks_of.unclaim(task, user=user, actor=actor)
    else:
        taken = tasks_of.claim(task, user, groups=groups, actor=actor)
    session.answer(
        taken,
        lambda: print_fields(
            session.color,
            [("task", taken.id), ("name", taken.name), ("for", taken.assignee or _candidates(taken))],
        ),
    )


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
