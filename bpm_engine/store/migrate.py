"""Bring the schema up, down, or say where it is. The scripts are in `alembic/`, inside the wheel in
`migrations/`.

A whole upgrade is one transaction under a lock: of two processes that migrate at once the second waits and
then finds nothing to do, and a failure leaves the schema as it was. A revision that this version does not
know comes from a newer engine and is refused.

Alembic is imported where it is used: who only imports the engine, or finds the schema up to date, need not
wait for it. A worker that takes the place of one that died is there a tenth of a second sooner.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import sqlalchemy as sa

from bpm_engine.store.database import Database
from bpm_engine.store.failures import SchemaVersionError, translate

if TYPE_CHECKING:
    from alembic.config import Config
    from alembic.script import ScriptDirectory

VERSION_TABLE = "bpm_schema_version"
REVISION = sa.select(sa.column("version_num", sa.Text())).select_from(sa.table(VERSION_TABLE))
PACKAGED = Path(__file__).parent.parent / "migrations"
IN_REPOSITORY = Path(__file__).parent.parent.parent / "alembic"


def scripts() -> Path:
    return PACKAGED if PACKAGED.is_dir() else IN_REPOSITORY


def upgrade(database: Database, revision: str = "head", *, row_level_security: bool | None = None) -> None:
    """`row_level_security` None leaves it as it is; policies of new tables are added where it is on."""
    from alembic import command

    with _migrating(database) as connection:
        _refuse_unknown(current(connection))
        _run(connection, lambda config: command.upgrade(config, revision))
        database.arrange_security(connection, row_level_security)


def downgrade(database: Database, revision: str) -> None:
    from alembic import command

    with _migrating(database) as connection:
        _refuse_unknown(current(connection))
        _run(connection, lambda config: command.downgrade(config, revision))


def current(connection: sa.Connection) -> str | None:
    """The revision of the schema; None: there is none yet."""
    if not sa.inspect(connection).has_table(VERSION_TABLE):
        return None
    return connection.execute(REVISION).scalar()


def find_revision(database: Database) -> str | None:
    try:
        with database.reading() as connection:
            return current(connection)
    except (sa.exc.DBAPIError, sa.exc.TimeoutError) as error:
        translate(database.classify(error), error)


@cache
def head() -> str:
    """The last of the scripts by its number. Read once: those of an installed version do not change while it
    runs."""
    return max(path.name.partition("_")[0] for path in (scripts() / "versions").glob("[0-9]*_*.py"))


def check_version(connection: sa.Connection) -> None:
    """Raise SchemaVersionError, with advice, unless the schema is the one this version works with."""
    found, expected = current(connection), head()
    if found == expected:
        return
    _refuse_unknown(found)
    raise SchemaVersionError(
        f"The schema is {'missing' if found is None else f'at {found}'}, expected {expected}."
        " Run `bpm db upgrade`, or set auto_migrate."
    )


def _refuse_unknown(found: str | None) -> None:
    known = {script.revision for script in _script_directory().walk_revisions()}
    if found is not None and found not in known:
        raise SchemaVersionError(
            f"The schema is at {found}, which this version of the engine does not know (it ends at {head()})."
            " A newer engine made it: upgrade this installation, or run that engine's `bpm db downgrade`."
        )


@contextmanager
def _migrating(database: Database) -> Iterator[sa.Connection]:
    try:
        with database.writing() as connection:
            database.lock_migrations(connection)
            yield connection
            connection.commit()
    except (sa.exc.DBAPIError, sa.exc.TimeoutError) as error:
        translate(database.classify(error), error)


def _run(connection: sa.Connection, action: Callable[[Config], None]) -> None:
    config = _config()
    config.attributes["connection"] = connection
    action(config)


def _config() -> Config:
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(scripts()).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config


def _script_directory() -> ScriptDirectory:
    from alembic.script import ScriptDirectory

    return ScriptDirectory.from_config(_config())
