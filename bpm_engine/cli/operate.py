"""`bpm cancel`, `suspend`, `resume`, `retry`: what an operator does to instances, one or many.

Instances are named by their ids or business keys, or found by the filters of `bpm list`; then it is asked
first how many that are, and progress is shown.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any, cast

import click

from bpm_engine.api.batches import Batches
from bpm_engine.api.filters import InstanceFilters
from bpm_engine.api.walks import BatchProgress, BatchReport, Progress, walk
from bpm_engine.cli.commands import GOOD, REFUSED
from bpm_engine.cli.filters import filtered, taken
from bpm_engine.cli.options import ACTOR, SET
from bpm_engine.cli.session import Session, assignments, is_id, on_engine, plain

REASON = click.option("--reason", default="", help="Why, for the history.")
YES = click.option("--yes", "-y", is_flag=True, help="Do not ask before changing what the filters find.")
EITHER = "name instances, or give filters such as --definition; not both"
Operation = Callable[..., BatchReport]


def _on_instances(function: Callable[..., Any]) -> Callable[..., Any]:
    """The instances, as arguments or by filters; the function answers which operation to run on them."""

    @click.argument("instances", nargs=-1, metavar="[INSTANCE…]")
    @filtered
    @YES
    @ACTOR
    @on_engine()
    @functools.wraps(function)
    def command(
        session: Session, instances: tuple[str, ...], yes: bool, actor: str | None, **options: Any
    ) -> int:
        wanted = taken(options)
        operation = functools.partial(function(session.engine.batches, **options), actor=actor)
        return _operate(session, operation, instances, wanted, yes)

    return command


@click.command()
@_on_instances
@REASON
def cancel(batches: Batches, reason: str) -> Operation:
    """End instances now, with all their tokens, timers and waits.

    \b
    Examples:
      bpm cancel 0192f0c1-… --reason "ordered by mistake"
      bpm cancel A-17                       by its business key
      bpm cancel --definition order --version 3 --status Running
    """
    return functools.partial(batches.cancel, reason=reason)


@click.command()
@_on_instances
@REASON
def suspend(batches: Batches, reason: str) -> Operation:
    """Halt instances: nothing of them is run until they are resumed.

    \b
    Examples:
      bpm suspend 0192f0c1-… --reason "the bank is down"
      bpm suspend --definition order --node charge_card --yes
    """
    return functools.partial(batches.suspend, reason=reason)


@click.command()
@_on_instances
def resume(batches: Batches) -> Operation:
    """Let suspended instances go on.

    \b
    Examples:
      bpm resume 0192f0c1-…
      bpm resume --definition order --status Suspended
    """
    return batches.resume


@click.command()
@click.argument("names", nargs=-1, metavar="[INSTANCE|INCIDENT…]")
@SET
@filtered
@YES
@ACTOR
@on_engine()
def retry(
    session: Session,
    names: tuple[str, ...],
    pairs: tuple[str, ...],
    yes: bool,
    actor: str | None,
    **options: Any,
) -> int:
    """Try again what failed: one incident, or all incidents of instances.

    With --set variables of the process are set right first; where nothing has failed, they stay as they are.
    What failed in a called instance is tried again there.

    \b
    Examples:
      bpm retry 0192f0c1-…
      bpm retry 0192f0c1-… --set address="2 Side Street"
      bpm retry --definition order --node charge_card --yes
    """
    wanted, given = taken(options), assignments(pairs)
    if bool(names) == bool(wanted):
        raise click.UsageError(EITHER)
    incidents = tuple(name for name in names if _is_incident(session, name))
    ids = tuple(session.instance(name) for name in names if name not in incidents)
    for incident in incidents:  # all are known before one is tried again
        session.engine.incidents.get(incident)
    for incident in incidents:
        session.engine.incidents.resolve(incident, given, actor=actor)
    report = None
    if ids or wanted:
        report = _run(session, _retrying(session, given, actor), ids, wanted, yes)
    session.answer(_retried(incidents, report), lambda: _print_retried(session, incidents, report))
    return REFUSED if report is not None and report.failed else GOOD


def _is_incident(session: Session, name: str) -> bool:
    """An id that names no instance: also that of an incident which is no longer there, to be told so."""
    return is_id(name) and session.find_instance(name) is None


def _retrying(session: Session, given: dict[str, Any], actor: str | None) -> Operation:
    """Both in one walk: one report, and a filter by a variable that is set finds its instances once."""
    engine = session.engine
    if not given:
        return functools.partial(engine.batches.retry, actor=actor)
    values = engine._caller.border.variables(given, "values")

    def repair(instance_id: str) -> None:
        engine.instances.retry(instance_id, values, actor=actor)

    def run(
        ids: tuple[str, ...] | None = None, progress: Progress | None = None, **wanted: Any
    ) -> BatchReport:
        return walk(engine._caller, repair, ids, cast(InstanceFilters, wanted), progress, None)

    return run


def _retried(incidents: tuple[str, ...], report: BatchReport | None) -> dict[str, Any]:
    if report is not None:
        return {**plain(report), **({"incidents": incidents} if incidents else {})}
    return {"incident": incidents[0], "retried": True} if len(incidents) == 1 else {"incidents": incidents}


def _print_retried(session: Session, incidents: tuple[str, ...], report: BatchReport | None) -> None:
    for name in incidents:
        session.say(f"{name} is tried again")
    if report is not None:
        print_report(session, report)


def _operate(
    session: Session, operation: Operation, ids: tuple[str, ...], wanted: InstanceFilters, yes: bool
) -> int:
    if bool(ids) == bool(wanted):
        raise click.UsageError(EITHER)
    report = _run(session, operation, ids, wanted, yes)
    session.answer(report, lambda: print_report(session, report))
    return REFUSED if report.failed else GOOD


def _run(
    session: Session, operation: Operation, ids: tuple[str, ...], wanted: InstanceFilters, yes: bool
) -> BatchReport:
    if ids:
        return operation(ids=tuple(session.instance(name) for name in ids))
    number = session.engine.instances.count(**wanted)
    if number and not yes:
        click.confirm(f"{number} instances. Go on?", abort=True, err=True)
    return with_progress(operation, wanted, number)


def with_progress(operation: Operation, wanted: InstanceFilters, number: int) -> BatchReport:
    if not sys.stderr.isatty():
        return operation(**wanted)
    with click.progressbar(length=number, label="instances", file=sys.stderr) as bar:

        def tell(progress: BatchProgress) -> None:
            bar.update(len(progress.outcomes))

        return operation(**wanted, progress=tell)


def print_report(session: Session, report: BatchReport) -> None:
    for failure in report.failures:
        told = str(failure.error)
        if failure.instance_id not in told:
            told = f"{failure.instance_id}: {told}"
        session.say(told, fg="red", err=True)
    counts = {"done": report.done, "unchanged": report.unchanged, "failed": report.failed}
    session.say(", ".join(f"{number} {name}" for name, number in counts.items() if number) or "nothing to do")
