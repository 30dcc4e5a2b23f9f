"""`bpm start`: a new instance of a deployed process."""

from __future__ import annotations

from datetime import UTC, datetime

import click

from bpm_engine.cli.options import ACTOR, SET
from bpm_engine.cli.session import Session, on_engine, variables
from bpm_engine.cli.tables import print_fields


@click.command()
@click.argument("process")
@click.argument("document", required=False, metavar="[JSON]")
@SET
@click.option("--business-key", "-k", help="What the outside world calls it, such as an order number.")
@click.option("--idempotency-key", help="Start once: the same key and input again give the same instance.")
@click.option("--version", type=int, help="A certain version; without it the latest.")
@click.option("--at", "start_event", metavar="NODE", help="The start event, where there are several.")
@click.option("--priority", type=int, default=0, show_default=True, help="Higher goes first.")
@click.option("--start-at", type=click.DateTime(), metavar="TIME", help="Not before this time (UTC).")
@click.option("--correlation-id", help="Found on every log line and span of this instance.")
@ACTOR
@on_engine()
def start(
    session: Session,
    process: str,
    document: str | None,
    pairs: tuple[str, ...],
    business_key: str | None,
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
    """
    instance = session.engine.start(
        process,
        variables(document, pairs),
        business_key=business_key,
        idempotency_key=idempotency_key,
        version=version,
        at=start_event,
        priority=priority,
        start_at=None if start_at is None else start_at.replace(tzinfo=UTC),
        correlation_id=correlation_id,
        actor=actor,
    )
    session.answer(
        instance,
        lambda: print_fields(
            session.color,
            [
                ("instance", instance.id),
                ("process", f"{instance.definition_key} version {instance.definition_version}"),
                ("business key", instance.business_key),
                ("status", instance.status),
            ],
        ),
    )
