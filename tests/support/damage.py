"""What foreign hands may do to rows, past the triggers that guard them."""

from __future__ import annotations

from bpm_engine import Engine


def spoil_definition(engine: Engine, key: str) -> None:
    """In an SQLite file: no engine that is opened from now on can read this process."""
    with engine.begin() as connection:
        guards = "SELECT name FROM sqlite_schema WHERE (type, tbl_name) = ('trigger', 'process_definition')"
        for guard in connection.exec_driver_sql(guards).scalars().all():
            connection.exec_driver_sql(f"DROP TRIGGER {guard}")
        connection.exec_driver_sql("UPDATE process_definition SET xml = '<x/>' WHERE key = ?", (key,))
