"""`bpm run`: the services of an application, until it is told to stop."""

from __future__ import annotations

import click

from bpm_engine.cli.session import load_app


@click.command()
@click.option("--app", envvar="BPM_APP", required=True, metavar="MODULE:ENGINE")
@click.option("--until-idle", is_flag=True, help="Do what can be done now, then stop.")
def run(app: str, until_idle: bool) -> None:
    """Run the services of an application until SIGTERM."""
    with load_app(app) as engine:
        if until_idle:
            engine.run_until_idle()
        else:
            engine.run()
