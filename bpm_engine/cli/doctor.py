"""`bpm doctor`: whether the rows of the database agree with each other."""

from __future__ import annotations

import click

from bpm_engine.cli.commands import GOOD, REFUSED
from bpm_engine.cli.session import Session, on_engine


@click.command()
@on_engine()
def doctor(session: Session) -> int:
    """Examine the live database: lost tokens, joins that fired twice, timers of nobody.

    Reads only; workers may go on meanwhile. Exits with 1 if something is wrong.

    \b
    Example:
      bpm doctor --database postgresql://localhost/shop
    """
    findings = session.engine.doctor()
    if session.as_json:
        session.answer({"findings": findings}, lambda: None)
    elif not findings:
        session.say("nothing is wrong", fg="green")
    for finding in [] if session.as_json else findings:
        session.say(str(finding), fg="red")
    return REFUSED if findings else GOOD
