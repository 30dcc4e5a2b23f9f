"""`bpm start`: a new instance of a deployed process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from difflib import get_close_matches

import click

from bpm_engine.api.views import InstanceView
from bpm_engine.cli.options import ACTOR, MOST, SET, moment
from bpm_engine.cli.session import Session, on_engine, plain, variables
from bpm_engine.cli.tables import print_fields
from bpm_engine.core.state import TimerPurpose
from bpm_engine.errors import NotFoundError
from bpm_engine.store.inspection import load_live


@click.command()
@click.argument("process")
@click.argument("document", required=False, metavar="[JSON]")
@SET
@click.option("--business-key", "-k", help="What the outside world calls it, such as an order number.")
@click.option("--subject", help="Whom or what it is about, such as a customer; `bpm list` finds it by this.")
@click.option("--idempotency-key", help="Start once: the same key and input again give the same instance.")
@click.option("--version", type=int, help="A certain version; without it the latest.")
@click.option("--at", "start_event", metavar="NODE", help="The start event, where there are several.")
@click.option("--priority", type=int, default=0, show_default=True, help="Higher goes first.")
@click.option("--start-at", type=moment, metavar="TIME", help="Not before this time (UTC).")
@click.option("--correlation-id", help="Found on every log line and span of this instance.")
@ACTOR
@on_engine()
def start(
    session: Session,
    process: str,
    document: str | None,
    pairs: tuple[str, ...],
    business_key: str | None,
    subject: str | None,
    idempotency_key: str | None,
    version: int | None,
    start_event: str | None,
    priority: int,
    start_at: datetime | None,
    correlation_id: str | None,
    actor: str | None,
) -> None:
    """Start an instance of a process.

    Variables are a JSON object, @FILE with one, or - to read it from stdin; --set adds single ones. The
    instance waits for a worker: see `bpm run`.

    \b
    Examples:
      bpm start order '{"total": 120}' --business-key A-17
      bpm start order --set total=120 --set express=true
      bpm start order --start-at 2030-01-31T08:00:00Z
    """
    with _near_names(session, process):
        instance = session.engine.start(
            process,
            variables(document, pairs),
            business_key=business_key,
            subject=subject,
            idempotency_key=idempotency_key,
            version=version,
            at=start_event,
            priority=priority,
            start_at=start_at,
            correlation_id=correlation_id,
            actor=actor,
        )
    planned = _planned(session, instance)
    session.answer(
        plain(instance) | ({} if planned is None else {"start_at": planned}),
        lambda: print_fields(
            session.color,
            [
                ("instance", instance.id),
                ("process", f"{instance.definition_key} version {instance.definition_version}"),
                ("business key", instance.business_key),
                ("subject", instance.subject),
                ("status", instance.status),
                ("starts at", planned),
            ],
        ),
    )


def _planned(session: Session, instance: InstanceView) -> datetime | None:
    """When it begins, if that is later. Read from its timer: what an idempotency key has started before may
    have another time than the one that was typed."""
    if all(token.waiting_for != "start" for token in instance.tokens):
        return None
    with session.engine._caller.reading() as tx:
        timers = load_live(tx, [instance.id])[instance.id].timers
    return next((timer.due_at for timer in timers if timer.purpose is TimerPurpose.START), None)


@contextmanager
def _near_names(session: Session, process: str) -> Iterator[None]:
    """A process that is not there may be one with a name that is nearly the same."""
    try:
        yield
    except NotFoundError as error:
        keys = {each.key for each in session.engine.definitions.find(limit=MOST)}
        meant = get_close_matches(process, keys - {process}, n=1)
        if process in keys or not meant:
            raise
        raise NotFoundError(f"{error}. Did you mean {meant[0]!r}?") from None
