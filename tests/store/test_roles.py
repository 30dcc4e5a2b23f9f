"""The roles that the documentation proposes: what it says word for word, on a real server."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
import sqlalchemy as sa
from psycopg import sql
from support.postgres.databases import libpq_url
from support.samples import WORK

from bpm_engine import Config, Engine, EngineError
from bpm_engine.store import migrate
from bpm_engine.store.config import StoreConfig
from bpm_engine.store.store import connect
from bpm_engine.testing import ManualClock

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "separate-database-roles.md"
ROLES = ("bpm_owner", "bpm_app", "bpm_sweeper", "bpm_readonly")
ATTEMPTS = {
    "UPDATE": "UPDATE execution_log SET actor = 'nobody'",
    "DELETE": "DELETE FROM execution_log",
    "TRUNCATE": "TRUNCATE execution_log",
    "ON CONFLICT": "INSERT INTO execution_log SELECT * FROM execution_log"
    " ON CONFLICT (instance_id, seq) DO UPDATE SET actor = 'nobody'",
    "ALTER": "ALTER TABLE execution_log ADD COLUMN extra int",
    "DISABLE TRIGGER": "ALTER TABLE execution_log DISABLE TRIGGER ALL",
    "DROP": "DROP TABLE execution_log",
    "a writable CTE": "WITH gone AS (DELETE FROM execution_log RETURNING 1) SELECT count(*) FROM gone",
    "as a replica": "SET session_replication_role = replica",
    "the triggers' functions": "CREATE OR REPLACE FUNCTION bpm_keep_log() RETURNS trigger LANGUAGE plpgsql"
    " AS 'BEGIN RETURN NULL; END'",
    "by its instance": "DELETE FROM process_instance",
}


class Urls(dict[str, str]):
    """The URL of each role, by its name on the page."""


@pytest.fixture
def urls(postgresql_url: str) -> Iterator[Urls]:
    """Roles belong to the whole server: here each test has its own names for them."""
    suffix = uuid4().hex[:8]
    first, after = re.findall(r"```sql\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)

    def named(text: str) -> str:
        return re.sub(rf"\b({'|'.join(ROLES)})\b", rf"\1_{suffix}", text)

    url = sa.make_url(postgresql_url)
    found = Urls(
        {role: url.set(username=named(role)).render_as_string(hide_password=False) for role in ROLES}
    )
    with psycopg.connect(libpq_url(postgresql_url), autocommit=True) as admin:
        admin.execute(named(first))
        try:
            owner = connect(StoreConfig(url=found["bpm_owner"]))
            migrate.upgrade(owner)
            owner.close()
            with psycopg.connect(libpq_url(found["bpm_owner"]), autocommit=True) as connection:
                connection.execute(named(after))
            yield found
        finally:
            for role in ROLES:
                name = sql.Identifier(named(role))
                admin.execute(sql.SQL("DROP OWNED BY {} CASCADE; DROP ROLE {}").format(name, name))


def _one_completed(url: str, clock: ManualClock) -> str:
    with Engine(url, clock=clock, config=Config(retention=60.0)) as engine:
        engine.handler("work")(lambda work: {"done": True})
        engine.deploy(WORK)
        instance = engine.start("p").id
        engine.run_until_idle()
        assert engine.instances.get(instance).status == "Completed"
        return instance


@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_the_application_cannot_touch_the_history(urls: Urls, attempt: str) -> None:
    _one_completed(urls["bpm_app"], ManualClock())
    with psycopg.connect(libpq_url(urls["bpm_app"]), autocommit=True) as connection:
        written = connection.execute("SELECT count(*), min(actor) FROM execution_log").fetchone()
        assert written is not None
        assert written[0] > 0
        with pytest.raises((psycopg.errors.InsufficientPrivilege, psycopg.errors.RaiseException)):
            connection.execute(ATTEMPTS[attempt])
        assert connection.execute("SELECT count(*), min(actor) FROM execution_log").fetchone() == written


def test_copying_over_the_history_is_refused(urls: Urls) -> None:
    _one_completed(urls["bpm_app"], ManualClock())
    with psycopg.connect(libpq_url(urls["bpm_app"]), autocommit=True) as connection:
        with connection.cursor().copy("COPY execution_log TO STDOUT") as out:
            rows = b"".join(bytes(part) for part in out)
        assert rows
        with (
            pytest.raises(psycopg.errors.UniqueViolation),
            connection.cursor().copy("COPY execution_log FROM STDIN") as into,
        ):
            into.write(rows)


def test_the_application_changes_no_tables(urls: Urls) -> None:
    with psycopg.connect(libpq_url(urls["bpm_app"]), autocommit=True) as connection:
        for statement in ("CREATE TABLE mine (a int)", "UPDATE bpm_schema_version SET version_num = 'x'"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(statement)


def test_the_sweeper_deletes_what_is_past_its_time_with_its_history(urls: Urls) -> None:
    clock = ManualClock()
    instance = _one_completed(urls["bpm_app"], clock)
    clock.advance(timedelta(hours=1))
    with Engine(urls["bpm_sweeper"], clock=clock) as engine:
        engine.instances.purge(instance)
        assert engine.instances.count() == 0
    with psycopg.connect(libpq_url(urls["bpm_sweeper"])) as connection:
        assert connection.execute("SELECT count(*) FROM execution_log").fetchone() == (0,)


def test_who_may_only_read_reads(urls: Urls) -> None:
    instance = _one_completed(urls["bpm_app"], ManualClock())
    with Engine(urls["bpm_readonly"]) as engine:
        assert engine.instances.get(instance).status == "Completed"
        assert engine.history.find(instance).items
        with pytest.raises(EngineError, match="permission denied"):
            engine.start("p")
