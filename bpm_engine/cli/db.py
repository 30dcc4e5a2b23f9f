"""`bpm db`: bring the schema of a database up or down, or say where it is."""

from __future__ import annotations

import click

from bpm_engine.store import migrate
from bpm_engine.store.config import StoreConfig
from bpm_engine.store.database import Database
from bpm_engine.store.store import connect

URL = click.option(
    "--url", envvar="BPM_DATABASE_URL", default=StoreConfig().url, show_default=True, help="The database."
)


@click.group()
def db() -> None:
    """The schema of the database: upgrade, downgrade, current."""


@db.command()
@URL
@click.option("--to", "revision", default="head", show_default=True, help="The revision to reach.")
@click.option(
    "--row-level-security/--no-row-level-security",
    default=None,
    help="Let PostgreSQL itself keep the tenants apart; without the option it stays as it is.",
)
def upgrade(url: str, revision: str, row_level_security: bool | None) -> None:
    """Bring the schema up to date. Safe to run twice, and on many machines at once."""
    database = connect(StoreConfig(url=url))
    try:
        migrate.upgrade(database, revision, row_level_security=row_level_security)
        _tell(database)
    finally:
        database.close()


@db.command()
@URL
@click.option("--to", "revision", default="-1", show_default=True, help="Where to go back to, or base.")
@click.confirmation_option("--yes", prompt="Going back drops tables or columns with their data. Go on?")
def downgrade(url: str, revision: str) -> None:
    """Go back to an earlier schema."""
    database = connect(StoreConfig(url=url))
    try:
        migrate.downgrade(database, revision)
        _tell(database)
    finally:
        database.close()


@db.command()
@URL
def current(url: str) -> None:
    """Say at which revision the schema is, and which one this version works with."""
    database = connect(StoreConfig(url=url))
    try:
        _tell(database)
    finally:
        database.close()


def _tell(database: Database) -> None:
    found = migrate.find_revision(database)
    click.echo(f"schema: {found or 'none'} (this version works with {migrate.head()})")
