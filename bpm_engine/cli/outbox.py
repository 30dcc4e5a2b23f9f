"""`bpm outbox`: events on their way out, above all those that could not be published."""

from __future__ import annotations

from collections.abc import Callable

import click

from bpm_engine.api.views import EventView
from bpm_engine.cli.commands import GOOD, REFUSED
from bpm_engine.cli.options import ACTOR, CURSOR, LIMIT
from bpm_engine.cli.session import Session, on_engine
from bpm_engine.cli.tables import Column, print_table
from bpm_engine.errors import NotFoundError

COLUMNS = [
    Column("event", "id"),
    Column("at", "time"),
    Column("type"),
    Column("status", "status"),
    Column("attempts", "number"),
]
STATUSES = ["Dead", "Pending", "Published"]
TYPE = click.option("--type", "kind", metavar="TYPE", help="Only of this type, such as instance.completed.")
INSTANCE = click.option("--instance", "-i", help="Only of this instance: its id or business key.")


@click.group()
def outbox() -> None:
    """Events on their way out: list, requeue, purge.

    An event that could not be published after all its attempts is dead: it waits for an operator.
    """


@outbox.command("list")
@click.option(
    "--status",
    type=click.Choice(STATUSES, case_sensitive=False),
    default="Dead",
    show_default=True,
    help="Only these.",
)
@TYPE
@INSTANCE
@LIMIT
@CURSOR
@on_engine()
def list_events(
    session: Session,
    status: str,
    kind: str | None,
    instance: str | None,
    limit: int,
    cursor: str | None,
) -> None:
    """List events, oldest first: those that could not be published, unless told otherwise.

    \b
    Examples:
      bpm outbox list
      bpm outbox list --status Pending --type instance.completed
    """
    page = session.engine.outbox.find(
        status=status, type=kind, instance=session.known_instance(instance), limit=limit, cursor=cursor
    )

    def show() -> None:
        rows = [(each.id, each.at, each.type, each.status, each.attempts) for each in page]
        empty = f"no {status.lower()} event"
        print_table(session.color, COLUMNS, rows, empty=empty, details=[_detail(each) for each in page])
        if page.cursor:
            click.secho(f"more: --cursor {page.cursor}", dim=True, err=True, color=session.color)

    session.answer({"items": page.items, "cursor": page.cursor}, show)


@outbox.command()
@click.argument("events", nargs=-1, metavar="[EVENT…]")
@TYPE
@INSTANCE
@click.option("--all", "everything", is_flag=True, help="All dead events.")
@ACTOR
@on_engine()
def requeue(
    session: Session,
    events: tuple[str, ...],
    kind: str | None,
    instance: str | None,
    everything: bool,
    actor: str | None,
) -> int:
    """Give dead events all their attempts again.

    \b
    Examples:
      bpm outbox requeue 0192f0c1-…
      bpm outbox requeue --type instance.completed
      bpm outbox requeue --all
    """
    if bool(events) == bool(everything or kind or instance):
        raise click.UsageError("name events, or give --type, --instance or --all; not both")
    found = session.engine.outbox
    if events:
        return _each(session, "requeued", events, lambda event: found.requeue(event, actor=actor))
    number = found.requeue_all(type=kind, instance=session.known_instance(instance), actor=actor)
    session.answer({"requeued": number}, lambda: session.say(f"{number} requeued"))
    return GOOD


@outbox.command()
@click.argument("events", nargs=-1, required=True, metavar="EVENT…")
@click.confirmation_option("--yes", "-y", prompt="Nobody will get these events. Go on?")
@ACTOR
@on_engine()
def purge(session: Session, events: tuple[str, ...], actor: str | None) -> int:
    """Remove dead events for good: nobody will get them.

    \b
    Example:
      bpm outbox purge 0192f0c1-… --yes
    """
    return _each(session, "purged", events, lambda event: session.engine.outbox.purge(event, actor=actor))


def _each(session: Session, what: str, events: tuple[str, ...], operation: Callable[[str], None]) -> int:
    """One that is not there, or no longer dead, does not keep the others."""
    done: list[str] = []
    for event in events:
        try:
            operation(event)
        except NotFoundError as error:
            session.say(str(error), fg="red", err=True)
        else:
            done.append(event)
    session.answer({what: done}, lambda: session.say(f"{len(done)} {what}"))
    return GOOD if len(done) == len(events) else REFUSED


def _detail(event: EventView) -> str:
    return f"instance {event.instance_id}: {event.error}" if event.error else f"instance {event.instance_id}"
