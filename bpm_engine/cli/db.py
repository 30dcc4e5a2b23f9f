"""`bpm db`: bring the schema of a database up or down, or say where it is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import click

from bpm_engine.cli.options import APP, DATABASE, JSON
from bpm_engine.cli.session import chosen_app, load_app, print_json, read_url, require_database
from bpm_engine.config import Config
from bpm_engine.errors import InvalidInputError, UnavailableError
from bpm_engine.services.settings import store_config
from bpm_engine.store import migrate
from bpm_engine.store.config import StoreConfig
from bpm_engine.store.database import Database
from bpm_engine.store.failures import TransactionRetryError
from bpm_engine.store.store import connect


@click.group()
def db() -> None:
    """The schema of the database: upgrade, downgrade, current."""


@db.command()
@DATABASE
@APP
@click.option("--to", "revision", default="head", show_default=True, help="The revision to reach.")
@click.option(
    "--row-level-security/--no-row-level-security",
    default=None,
    help="Let PostgreSQL itself keep the tenants apart; without the option it stays as it is.",
)
@JSON
def upgrade(
    database: str, app: str | None, revision: str, row_level_security: bool | None, as_json: bool
) -> None:
    """Bring the schema up to date. Safe to run twice, and on many machines at once.

    \b
    Example:
      bpm db upgrade --database postgresql://localhost/shop
    """
    with _connected(database, app, creates=True) as connected:
        with _advice():
            migrate.upgrade(connected, revision, row_level_security=row_level_security)
        _tell(connected, as_json)


@db.command()
@DATABASE
@APP
@click.option("--to", "revision", default="-1", show_default=True, help="Where to go back to, or base.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@JSON
def downgrade(database: str, app: str | None, revision: str, yes: bool, as_json: bool) -> None:
    """Go back to an earlier schema.

    \b
    Example:
      bpm db downgrade --to 0001 --database postgresql://localhost/shop
    """
    with _connected(database, app, creates=False) as connected:
        if not yes:
            text = "Going back drops tables or columns with their data. Go on?"
            click.confirm(text, abort=True, err=True)  # stdout stays one document
        with _advice(), _known(connected, revision):
            migrate.downgrade(connected, revision)
        _tell(connected, as_json)


@db.command()
@DATABASE
@APP
@JSON
def current(database: str, app: str | None, as_json: bool) -> None:
    """Say which revision the schema has, and which is needed."""
    with _connected(database, app, creates=False) as connected:
        _tell(connected, as_json)


@contextmanager
def _connected(url: str, app: str | None, *, creates: bool) -> Iterator[Database]:
    """The database itself, with whatever schema it has: an engine would refuse one that is not its own."""
    from alembic.util import CommandError

    config = _config(url, app)
    if creates:
        read_url(config.url)
    else:
        require_database(config.url)
    database = connect(config)
    try:
        yield database
    except CommandError as error:  # such as a revision that does not exist
        raise InvalidInputError(str(error)) from error
    finally:
        database.close()


@contextmanager
def _known(database: Database, revision: str) -> Iterator[None]:
    """Alembic's own words are about scripts and steps."""
    from alembic.util import CommandError

    try:
        yield
    except CommandError as error:
        found = migrate.find_revision(database)
        state = f"the schema is at {found}" if found else "the database has no schema"
        raise InvalidInputError(f"there is no {revision} to go back to: {state}") from error


@contextmanager
def _advice() -> Iterator[None]:
    """A migration waits for no table for long, since everybody else would queue up behind it."""
    try:
        yield
    except TransactionRetryError as error:
        raise UnavailableError(
            f"a table is in use ({error}): stop the workers and whoever else works on this database, "
            "then run it again; nothing was changed"
        ) from error


def _config(url: str, app: str | None) -> StoreConfig:
    chosen = chosen_app(app)
    if chosen is None:
        return store_config(url, Config.from_environment())
    with load_app(chosen) as engine:
        return engine._runtime.store.config


def _tell(database: Database, as_json: bool) -> None:
    found = migrate.find_revision(database)
    if as_json:
        print_json({"revision": found, "expected": migrate.head()})
    else:
        click.echo(f"schema: {found or 'none'} (this version works with {migrate.head()})")
