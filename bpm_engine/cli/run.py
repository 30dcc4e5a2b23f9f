"""`bpm run`: the services of an application, until it is told to stop.

One process runs the application's engine itself. With `--processes N` this one only looks after N others
(`supervisor`), each of which is a `bpm run` of its own.
"""

from __future__ import annotations

import logging
import os
import socket
import sys
from contextlib import ExitStack

import click

from bpm_engine.cli import commands
from bpm_engine.cli.commands import GOOD
from bpm_engine.cli.endpoint import Endpoint, Readiness, engine_readiness
from bpm_engine.cli.nursery import Born, Nursery, open_nursery
from bpm_engine.cli.session import load_app
from bpm_engine.cli.stand_in import fork_after_deaths, may_fork, open_files
from bpm_engine.engine import Engine
from bpm_engine.errors import InvalidInputError, UnavailableError
from bpm_engine.observability.logs import set_up_logging
from bpm_engine.observability.work_log import log_work
from bpm_engine.services.roster import Roster

logger = logging.getLogger("bpm_engine.run")
SERVICES = ("executor", "timers", "recovery", "correlation", "outbox", "retention")


def _names(ctx: click.Context, parameter: click.Parameter, value: str | None) -> tuple[str, ...]:
    return tuple(part.strip() for part in (value or "").split(",") if part.strip())


def _services(ctx: click.Context, parameter: click.Parameter, value: str | None) -> tuple[str, ...]:
    names = _names(ctx, parameter, value)
    unknown = [name for name in names if name not in SERVICES]
    if unknown:
        raise click.BadParameter(
            f"there is no service {', '.join(unknown)}; choose from {', '.join(SERVICES)}"
        )
    return names


def _address(ctx: click.Context, parameter: click.Parameter, value: str | None) -> tuple[str, int] | None:
    if value is None:
        return None
    host, _, port = value.rpartition(":")
    if not port.isdecimal() or not port.isascii() or int(port) > 65_535:
        raise click.BadParameter(f"expected PORT or HOST:PORT, not {value!r}")
    if host.startswith("[") and host.endswith("]"):
        return host[1:-1], int(port)
    if ":" in host:
        raise click.BadParameter(f"an address of IPv6 needs brackets, such as [::1]:8080, not {value!r}")
    return host or "127.0.0.1", int(port)


@click.command()
@click.option(
    "--app",
    envvar="BPM_APP",
    show_envvar=True,
    required=True,
    metavar="MODULE:ENGINE",
    help="The engine to run, such as shop.app:engine.",
)
@click.option(
    "--only", callback=_services, metavar="SERVICE,…", help=f"Only these of: {', '.join(SERVICES)}."
)
@click.option(
    "--types", callback=_names, metavar="PREFIX,…", help="Only work whose topic begins with one of these."
)
@click.option(
    "--processes",
    type=click.IntRange(1, 256),
    default=1,
    show_default=True,
    help="So many, looked after by this one: one that crashes is started again.",
)
@click.option(
    "--http",
    callback=_address,
    metavar="[HOST:]PORT",
    help="Serve /live and /ready there; HOST is 127.0.0.1 unless given, of IPv6 in brackets.",
)
@click.option("--metrics", is_flag=True, help="Serve Prometheus metrics at /metrics of --http.")
@click.option(
    "--tracing", is_flag=True, help="Write OpenTelemetry spans with the SDK the application set up."
)
@click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="json: one object per line, with the ids of the instance it is about.",
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    show_default=True,
    help="From which level on.",
)
@click.option("--until-idle", is_flag=True, help="Do what can be done now, then stop.")
@click.option("--reports-to", type=int, hidden=True, help="The socket of the supervisor.")
@click.option("--roster", type=int, hidden=True, help="The file in which what has begun is entered.")
@click.option("--stand-ins", hidden=True, metavar="PATH", help="Where processes come that run what may kill.")
@click.option("--stand-in", hidden=True, metavar="PATH", help="Be one of those for the worker that is there.")
@click.pass_context
def run(
    ctx: click.Context,
    app: str,
    only: tuple[str, ...],
    types: tuple[str, ...],
    processes: int,
    http: tuple[str, int] | None,
    metrics: bool,
    tracing: bool,
    log_format: str,
    log_level: str,
    until_idle: bool,
    reports_to: int | None,
    roster: int | None,
    stand_ins: str | None,
    stand_in: str | None,
) -> None:
    """Run the services of an application until SIGTERM or Ctrl-C.

    On SIGTERM nothing new is begun; what runs may finish, and its results are committed. Work that needs
    longer than the engine's drain_timeout is given back to others.

    \b
    Examples:
      bpm run --app shop.app:engine
      bpm run --app shop.app:engine --processes 4 --http 8080 --metrics --log-format json
      bpm run --app shop.app:engine --only executor --types billing.,mail.
      bpm run --app shop.app:engine --only timers,recovery,outbox,retention
      bpm run --app shop.app:engine --until-idle --only retention
    """
    if metrics and http is None and reports_to is None:
        raise click.UsageError("--metrics needs --http: it says where they are served")
    if until_idle and processes > 1:
        raise click.UsageError(
            "--until-idle is for one process, which sees when nothing is left: leave out --processes"
        )
    nursery = _nursery() if processes > 1 else None
    before = open_files() if stand_in is not None else frozenset()
    set_up_logging(log_format, log_level)  # what is wrong with the settings is said while they are read
    with load_app(app) as engine:
        set_up_logging(log_format, log_level)  # over what the application has set up
        if nursery is not None:
            from bpm_engine.cli.supervisor import supervise

            arguments = _child_arguments(app, only, types, metrics, tracing, log_format, log_level)
            ctx.exit(supervise(engine, nursery, arguments, processes, http, metrics=metrics))
        forks = may_fork(before)
        _observe(engine, metrics=metrics, tracing=tracing, database=reports_to is None)
        if stand_in is not None and reports_to is not None and roster is not None:
            _stand_in(engine, stand_in, reports_to, roster, forks=forks, metrics=metrics)
            return
        if roster is not None:
            engine._runtime.executor.hands.roster = Roster(roster)
        if until_idle:
            steps = engine.run_until_idle(only=only or None, types=types)
            click.echo("1 step" if steps == 1 else f"{steps} steps")
            return
        if stand_ins is not None:
            engine._runtime.executor.use_stand_ins(stand_ins)
        ctx.exit(_serve(engine, only, types, http, metrics, reports_to))


def _nursery() -> Nursery:
    """Before anything is there that a fork would break. The processes that it forks come by here, too."""
    found = open_nursery()
    if isinstance(found, Born):
        from bpm_engine.cli import bpm

        sys.exit(commands.run(bpm, found.arguments))
    return found


def _stand_in(engine: Engine, path: str, reports_to: int, roster: int, *, forks: bool, metrics: bool) -> None:
    from bpm_engine.services.standing_in import stand_in

    bury = _forget_gauges if metrics else lambda pid: None
    executor = engine._runtime.executor
    executor.hands.roster = fork_after_deaths(reports_to, roster, bury) if forks else Roster(roster)
    stand_in(executor, path, roster, engine._runtime.config.worker_threads)


def _forget_gauges(pid: int) -> None:
    """What a dead process was running no longer runs."""
    from prometheus_client.multiprocess import mark_process_dead

    mark_process_dead(pid)  # type: ignore[no-untyped-call]


def _serve(
    engine: Engine,
    only: tuple[str, ...],
    types: tuple[str, ...],
    http: tuple[str, int] | None,
    metrics: bool,
    reports_to: int | None,
) -> int:
    _reach_database(engine)
    with ExitStack() as stack:
        if http is not None:
            endpoint = stack.enter_context(Endpoint(http, lambda: engine_readiness(engine), metrics=metrics))
            logger.info("health is served at http://%s", endpoint.place)
        if reports_to is not None:
            from bpm_engine.cli.report import Report

            heed = engine._runtime.executor.set_apart
            report = Report(socket.socket(fileno=reports_to), lambda: _report(engine), heed)
            stack.enter_context(report)
        logger.info("runs %s (pid %d)", ", ".join(only) or "all services", os.getpid())
        engine.run(only=only or None, types=types)
        logger.info("drained")
    return GOOD


def _report(engine: Engine) -> Readiness:
    """With the name in its leases: when this process is dead, what it held is taken back by it."""
    state = engine_readiness(engine)
    return Readiness(state.ready, {"worker": engine._runtime.worker, **state.details})


def _reach_database(engine: Engine) -> None:
    """A wrong schema cannot mend itself; a database that is away may come back, and the services wait."""
    try:
        engine.definitions.find(limit=1)
    except UnavailableError as error:
        logger.warning("the database does not answer yet: %s", error)


def _observe(engine: Engine, *, metrics: bool, tracing: bool, database: bool) -> None:
    log_work(engine)
    if metrics:
        _observe_metrics(engine, database=database)
    if tracing:
        _observe_spans(engine)


def _observe_metrics(engine: Engine, *, database: bool) -> None:
    try:
        from bpm_engine.observability.metrics import Metrics
    except ImportError:
        raise InvalidInputError("metrics need the extra: pip install 'bpm-engine[metrics]'") from None
    engine.observe(Metrics(database=database))


def _observe_spans(engine: Engine) -> None:
    try:
        from bpm_engine.observability.tracing import Tracing
    except ImportError:
        raise InvalidInputError("tracing needs the extra: pip install 'bpm-engine[tracing]'") from None
    engine.observe(Tracing())


def _child_arguments(
    app: str,
    only: tuple[str, ...],
    types: tuple[str, ...],
    metrics: bool,
    tracing: bool,
    log_format: str,
    log_level: str,
) -> list[str]:
    arguments = ["run", "--app", app, "--log-format", log_format, "--log-level", log_level]
    arguments += ["--only", ",".join(only)] if only else []
    arguments += ["--types", ",".join(types)] if types else []
    arguments += ["--metrics"] if metrics else []
    arguments += ["--tracing"] if tracing else []
    return arguments
