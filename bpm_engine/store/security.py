"""Row-level security by tenant: an option of the migration, on databases that have it.

A second line of defence: the tenant is in every query anyway. The policy compares with the setting
`bpm.tenant`, which the store sets for one transaction; services set `*`, which the store refuses as the name
of a tenant, as the border of the engine does. FORCE makes it hold for the owner of the tables, too. After a
transaction PostgreSQL leaves the setting as '' rather than NULL, so both mean "nothing is visible". A
superuser and a role with BYPASSRLS pass always: do not let the application connect as one.
"""

from __future__ import annotations

import sqlalchemy as sa

from bpm_engine.store.schema import metadata
from bpm_engine.tenants import ALL_TENANTS

POLICY = "bpm_tenant"
_CONDITION = (
    "tenant_id = nullif(current_setting('bpm.tenant', true), '')"
    f" OR current_setting('bpm.tenant', true) = '{ALL_TENANTS}'"
)
_IS_ENABLED = sa.text("SELECT relrowsecurity FROM pg_class WHERE oid = to_regclass('process_instance')")


_ROLE = sa.text(
    "SELECT rolname, rolsuper OR rolbypassrls AS passes FROM pg_roles WHERE rolname = current_user"
)


def find_problem(connection: sa.Connection) -> str | None:
    """Why the policies would not hold for this connection."""
    if not connection.execute(_IS_ENABLED).scalar():
        return "the tables have no policies: run `bpm db upgrade --row-level-security`"
    role = connection.execute(_ROLE).one()
    if role.passes:
        return f"role {role.rolname!r} passes every policy: connect as one without SUPERUSER and BYPASSRLS"
    return None


def arrange(connection: sa.Connection, wanted: bool | None) -> None:
    """Switch it on or off for every table; None: as it is, with the tables that came since."""
    if wanted is None:
        wanted = connection.execute(_IS_ENABLED).scalar() or None
    if wanted is None:
        return
    for table in metadata.sorted_tables:
        for statement in _enable(table.name) if wanted else _disable(table.name):
            connection.exec_driver_sql(statement)


def _enable(table: str) -> list[str]:
    return [
        f"DROP POLICY IF EXISTS {POLICY} ON {table}",
        f"CREATE POLICY {POLICY} ON {table} USING ({_CONDITION}) WITH CHECK ({_CONDITION})",
        f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY",
        f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY",
    ]


def _disable(table: str) -> list[str]:
    return [
        f"DROP POLICY IF EXISTS {POLICY} ON {table}",
        f"ALTER TABLE {table} NO FORCE ROW LEVEL SECURITY",
        f"ALTER TABLE {table} DISABLE ROW LEVEL SECURITY",
    ]
