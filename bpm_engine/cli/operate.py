"""`bpm cancel`, `suspend`, `resume`, `retry`: what an operator does to instances."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from bpm_engine.api.views import InstanceView
from bpm_engine.cli.commands import GOOD, REFUSED
from bpm_engine.cli.options import ACTOR, SET
from bpm_engine.cli.session import Session, assignments, on_engine
from bpm_engine.errors import EngineError, NotFoundError

REASON = click.option("--reason", default="", help="Why, for the history.")


@click.command()
@click.argument("instances", nargs=-1, required=True, metavar="INSTANCE…")
@REASON
@ACTOR
@on_engine()
def cancel(session: Session, instances: tuple[str, ...], reason: str, actor: str | None) -> int:
    """End instances now, with all their tokens, timers and waits.

    \b
    Example:
      bpm cancel 0192f0c1-… --reason "ordered by mistake"
    """
    return _each(session, instances, lambda i: session.engine.instances.cancel(i, reason=reason, actor=actor))


@click.command()
@click.argument("instances", nargs=-1, required=True, metavar="INSTANCE…")
@REASON
@ACTOR
@on_engine()
def suspend(session: Session, instances: tuple[str, ...], reason: str, actor: str | None) -> int:
    """Halt instances: nothing of them is run until they are resumed.

    \b
    Example:
      bpm suspend 0192f0c1-… --reason "the bank is down"
    """
    return _each(
        session, instances, lambda i: session.engine.instances.suspend(i, reason=reason, actor=actor)
    )


@click.command()
@click.argument("instances", nargs=-1, required=True, metavar="INSTANCE…")
@ACTOR
@on_engine()
def resume(session: Session, instances: tuple[str, ...], actor: str | None) -> int:
    """Let suspended instances go on.

    \b
    Example:
      bpm resume 0192f0c1-…
    """
    return _each(session, instances, lambda i: session.engine.instances.resume(i, actor=actor))


@click.command()
@click.argument("names", nargs=-1, required=True, metavar="INSTANCE|INCIDENT…")
@SET
@ACTOR
@on_engine()
def retry(session: Session, names: tuple[str, ...], pairs: tuple[str, ...], actor: str | None) -> int:
    """Try again what failed: one incident, or all incidents of an instance.

    With --set variables of the process are set right first.

    \b
    Examples:
      bpm retry 0192f0c1-…
      bpm retry 0192f0c1-… --set address="2 Side Street"
    """
    given = assignments(pairs)
    return _each(session, names, lambda name: _retry(session, name, given, actor))


def _retry(session: Session, name: str, given: dict[str, Any], actor: str | None) -> InstanceView | None:
    engine = session.engine
    try:
        engine.incidents.resolve(name, given, actor=actor)
    except NotFoundError:
        if given:
            engine.instances.set_variables(name, given, actor=actor)
        return engine.instances.retry(name, actor=actor)
    return None


def _each(session: Session, names: tuple[str, ...], operate: Callable[[str], InstanceView | None]) -> int:
    """One after the other; what is refused does not keep the others from being done."""
    results: list[dict[str, str]] = []
    for name in names:
        try:
            instance = operate(name)
        except EngineError as error:
            results.append({"id": name, "error": str(error)})
            session.say(str(error), fg="red", err=True)
        else:
            status = instance.status if instance is not None else "Running"
            results.append({"id": name, "status": status})
            if not session.as_json:
                session.say(f"{name} {status}")
    if session.as_json:
        session.answer({"items": results}, lambda: None)
    return REFUSED if any("error" in result for result in results) else GOOD
