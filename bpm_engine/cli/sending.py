"""`bpm message` and `bpm signal`: telling processes something."""

from __future__ import annotations

from xml.sax.saxutils import unescape

import click

from bpm_engine.bpmn.expressions import ExpressionError, parse_duration
from bpm_engine.cli.options import ACTOR, MOST, SET
from bpm_engine.cli.session import Session, on_engine, variables

MEANINGS = {
    "delivered": "delivered",
    "started": "started an instance",
    "buffered": "buffered: nobody waits for it yet",
    "dropped": "dropped: nobody waits for it",
    "duplicate": "duplicate: it has come before",
}


def _duration(ctx: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """As it was typed, if it can be read; how long it may be the engine says."""
    if value is None or value == "0":
        return value
    try:
        parse_duration(value)
    except ExpressionError as error:
        raise click.BadParameter(error.message) from None
    return value


@click.command()
@click.argument("name")
@click.argument("correlation_key", required=False)
@click.option("--payload", metavar="JSON", help="Variables to hand over: JSON, @FILE or - for stdin.")
@SET
@click.option("--id", "message_id", help="Take effect once, however often it is sent.")
@click.option(
    "--ttl",
    callback=_duration,
    metavar="DURATION",
    help="How long it waits for a taker, such as 1h; 0: not at all.",
)
@ACTOR
@on_engine()
def message(
    session: Session,
    name: str,
    correlation_key: str | None,
    payload: str | None,
    pairs: tuple[str, ...],
    message_id: str | None,
    ttl: str | None,
    actor: str | None,
) -> None:
    """Send a message to the one instance that waits for it, or start one.

    \b
    Examples:
      bpm message payment-received A-17 --set amount=120
      bpm message parcel-collected A-17 --id scan-991 --ttl 1h
    """
    result = session.engine.send_message(
        name,
        correlation_key,
        variables(payload, pairs),
        message_id=message_id,
        ttl=0 if ttl == "0" else ttl,
        actor=actor,
    )
    told = MEANINGS.get(str(result), str(result))
    if str(result) in ("buffered", "dropped") and not _is_named(session, name):
        told += f", and the latest version of no deployed process names {name!r:.80}"
    session.answer({"result": str(result)}, lambda: session.say(told))


def _is_named(session: Session, message: str) -> bool:
    """Whether the file of a process has the name anywhere: a misspelt one would wait for nobody."""
    definitions = session.engine.definitions
    cursor: str | None = None
    seen: set[str] = set()
    while True:
        page = definitions.find(limit=MOST, cursor=cursor)
        for key in dict.fromkeys(each.key for each in page if each.key not in seen):
            seen.add(key)
            if message in unescape(definitions.xml(key), {"&quot;": '"', "&apos;": "'"}):
                return True
        cursor = page.cursor
        if cursor is None:
            return False


@click.command()
@click.argument("name")
@click.option("--payload", metavar="JSON", help="Variables to hand over: JSON, @FILE or - for stdin.")
@SET
@ACTOR
@on_engine()
def signal(
    session: Session, name: str, payload: str | None, pairs: tuple[str, ...], actor: str | None
) -> None:
    """Send a signal to everyone who listens.

    \b
    Example:
      bpm signal shop-closed --set until=monday
    """
    count = session.engine.send_signal(name, variables(payload, pairs), actor=actor)
    told = "1 delivery" if count == 1 else f"{count} deliveries"
    session.answer({"deliveries": count}, lambda: session.say(told))
