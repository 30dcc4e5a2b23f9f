"""A failover leaves connections to a server that only reads. What was done meanwhile is kept and written by
the server that writes."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
import sqlalchemy as sa
from psycopg import sql
from support.databases import SCHEMA
from support.fault_models import one_task
from support.postgres.databases import Databases, libpq_url
from support.workers import wait_until

from bpm_engine import Config, Engine, UnavailableError
from bpm_engine.handlers import Work

PATIENCE = 30_000  # milliseconds
CUT = """SELECT pg_terminate_backend(pid, %s) FROM pg_stat_activity
    WHERE datname = %s AND pid <> pg_backend_pid() AND backend_type = 'client backend'"""


class Operator:
    """Makes the database read-only for sessions that begin from now on, and ends those that are there."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._connection = psycopg.connect(libpq_url(url), autocommit=True)
        self._name = sa.make_url(url).database

    def demote(self) -> None:
        self._say("on")
        self._connection.execute(CUT, (PATIENCE, self._name))

    def promote(self) -> None:
        """Sessions that are open go on reading only."""
        self._say("off")

    def _say(self, read_only: str) -> None:
        statement = sql.SQL("ALTER DATABASE {} SET default_transaction_read_only = {}")
        self._connection.execute(statement.format(sql.Identifier(self._name or ""), sql.SQL(read_only)))

    def close(self) -> None:
        self._connection.close()


@pytest.fixture
def operator(postgresql_databases: Databases) -> Iterator[Operator]:
    with postgresql_databases.clone(SCHEMA) as url:
        operator = Operator(url)
        yield operator
        operator.close()


def _refused(caplog: pytest.LogCaptureFixture) -> bool:
    told = [record.getMessage() for record in caplog.records]
    return any("commit" in message and "read-only" in message for message in told)


def test_a_result_that_meets_a_server_that_only_reads_is_kept(
    operator: Operator, caplog: pytest.LogCaptureFixture
) -> None:
    ran: list[str] = []
    with Engine(operator.url, config=Config(auto_migrate=False)) as engine:

        @engine.handler("pack")
        def pack(work: Work) -> None:
            ran.append(work.instance_id)
            operator.demote()

        engine.deploy(one_task("order", "pack"))
        instance = engine.start("order")
        with engine.running():
            wait_until(lambda: _refused(caplog), "the result could not be written")
            operator.promote()
            wait_until(lambda: engine.instances.get(instance.id).status != "Running", "it has ended")
            found = engine.instances.get(instance.id)
        assert (found.status, ran) == ("Completed", [instance.id])
        assert list(engine.incidents.find()) == []


def test_who_calls_is_told_that_the_database_is_away_and_served_by_the_next_connection(
    operator: Operator,
) -> None:
    with Engine(operator.url, config=Config(auto_migrate=False)) as engine:
        engine.deploy(one_task("order", "pack"))
        operator.demote()
        with pytest.raises(UnavailableError, match="read-only"):
            engine.start("order")
        operator.promote()
        assert engine.start("order").status == "Running"
