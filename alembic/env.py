"""Run by alembic: migrate on the connection that `bpm_engine.store.migrate` hands over.

For writing a new revision: `alembic -x url=sqlite:///x.db revision --autogenerate` with `script_location` set
here.
"""

from __future__ import annotations

import sqlalchemy as sa

from alembic import context
from bpm_engine.store.migrate import VERSION_TABLE
from bpm_engine.store.schema import metadata


def run(connection: sa.Connection) -> None:
    context.configure(connection=connection, target_metadata=metadata, version_table=VERSION_TABLE)
    with context.begin_transaction():
        context.run_migrations()


connection = context.config.attributes.get("connection")
if connection is not None:
    run(connection)
else:
    with sa.create_engine(context.get_x_argument(as_dictionary=True)["url"]).connect() as opened:
        run(opened)
        opened.commit()
