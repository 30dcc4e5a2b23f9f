"""`bpm skip`, `bpm move`, `bpm migrate`: when trying again is not enough."""

from __future__ import annotations

import functools

import click

from bpm_engine.api.migrations import MigrationForecast
from bpm_engine.cli.commands import GOOD, REFUSED
from bpm_engine.cli.operate import YES, print_report, with_progress
from bpm_engine.cli.options import ACTOR, SET
from bpm_engine.cli.session import Session, assignments, on_engine


@click.command()
@click.argument("incident")
@SET
@ACTOR
@on_engine()
def skip(session: Session, incident: str, pairs: tuple[str, ...], actor: str | None) -> None:
    """Count a failed node as done, with these variables as its result.

    \b
    Example:
      bpm skip 0192f0c1-… --set receipt=paid-by-hand
    """
    session.engine.incidents.skip(incident, assignments(pairs), actor=actor)
    session.answer({"incident": incident, "skipped": True}, lambda: session.say(f"{incident} is skipped"))


@click.command()
@click.argument("instance")
@click.argument("from_node")
@click.argument("to_node")
@ACTOR
@on_engine()
def move(session: Session, instance: str, from_node: str, to_node: str, actor: str | None) -> None:
    """Cancel what rests at one node of an instance and begin at another.

    \b
    Example:
      bpm move 0192f0c1-… wait_for_carrier book_carrier
    """
    moved = session.engine.instances.move(session.instance(instance), from_node, to_node, actor=actor)
    places = sorted({token.node_id for token in moved.tokens})
    session.answer(moved, lambda: session.say(f"{instance} is at {', '.join(places) or 'its end'}"))


@click.command()
@click.argument("process")
@click.argument("to_version", type=int)
@click.argument("instances", nargs=-1, metavar="[INSTANCE…]")
@click.option("--map", "pairs", multiple=True, metavar="OLD=NEW", help="A node that has another id now.")
@click.option("--from-version", type=int, help="Only instances of this version.")
@click.option("--dry-run", is_flag=True, help="Only say what would happen, marking by marking.")
@YES
@ACTOR
@on_engine()
def migrate(
    session: Session,
    process: str,
    to_version: int,
    instances: tuple[str, ...],
    pairs: tuple[str, ...],
    from_version: int | None,
    dry_run: bool,
    yes: bool,
    actor: str | None,
) -> int:
    """Let running instances go on in another version of their process.

    Without instances: all that run. What is not safe is left as it is and named.

    \b
    Examples:
      bpm migrate order 4 --dry-run
      bpm migrate order 4 --map charge=charge_card --yes
    """
    batches = session.engine.batches
    mapping = {old: str(new) for old, new in assignments(pairs).items()}
    ids = tuple(session.instance(name) for name in instances) or None
    forecast = batches.plan_migration(process, to_version, mapping=mapping, ids=ids, version=from_version)
    if dry_run:
        session.answer(forecast, lambda: _print(session, forecast))
        return GOOD
    if not yes:
        _print(session, forecast, err=True)
        click.confirm("Go on?", abort=True, err=True)
    operation = functools.partial(
        batches.migrate, process, to_version, mapping=mapping, ids=ids, version=from_version, actor=actor
    )
    report = with_progress(operation, {}, forecast.total)
    session.answer(report, lambda: print_report(session, report))
    return REFUSED if report.failed else GOOD


def _print(session: Session, forecast: MigrationForecast, **style: bool) -> None:
    for line in str(forecast).splitlines():
        session.say(line, **style)
