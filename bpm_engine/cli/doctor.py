"""`bpm doctor`: whether the rows of the database agree with each other."""

from __future__ import annotations

import click

from bpm_engine.cli.commands import GOOD, REFUSED
from bpm_engine.cli.options import MOST
from bpm_engine.cli.session import Session, on_engine


@click.command()
@on_engine()
def doctor(session: Session) -> int:
    """Examine the live database: lost tokens, joins that fired twice, timers of nobody.

    Reads only; workers may go on meanwhile. Exits with 1 if something is wrong. Events that could not be
    published contradict nothing; they are mentioned.

    \b
    Example:
      bpm doctor --database postgresql://localhost/shop
    """
    findings = session.engine.doctor()
    dead = session.engine.outbox.find(limit=MOST)

    def show() -> None:
        for finding in findings:
            session.say(str(finding), fg="red")
        if not findings:
            session.say("nothing is wrong", fg="green")
        if dead:
            number = f"{len(dead)} or more" if dead.cursor else str(len(dead))
            session.say(f"events that could not be published: {number}; see `bpm outbox list`", fg="yellow")

    session.answer({"findings": findings, "dead_events": len(dead)}, show)
    return REFUSED if findings else GOOD
