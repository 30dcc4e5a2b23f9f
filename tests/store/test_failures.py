"""What the errors of a server mean to whoever had work to write."""

from __future__ import annotations

import pytest

from bpm_engine.errors import UnavailableError
from bpm_engine.store.failures import StorageFullError, TransactionRetryError
from bpm_engine.store.store import Store

AWAY = {
    "too many connections": "53300",
    "too many open files": "53000",
    "a limit of the configuration": "53400",
    "a disk that cannot be read": "58030",
    "a transaction that took too long": "25P04",
    "an idle transaction": "25P03",
    "a cancelled statement": "57014",
    "a server that only reads": "25006",
    "shutdown": "57P01",
}


def fail(store: Store, code: str) -> None:
    with store.transaction() as tx:
        tx.connection.exec_driver_sql(
            f"DO $$ BEGIN RAISE EXCEPTION 'as the server says it' USING ERRCODE = '{code}'; END $$"
        )


@pytest.mark.parametrize("name", AWAY)
def test_what_is_the_fault_of_the_server_is_tried_again(postgresql_store: Store, name: str) -> None:
    with pytest.raises(UnavailableError, match="the database is away: as the server says it"):
        fail(postgresql_store, AWAY[name])


@pytest.mark.parametrize("code", ["53100", "53200"])
def test_a_full_server_is_told_apart(postgresql_store: Store, code: str) -> None:
    with pytest.raises(StorageFullError):
        fail(postgresql_store, code)


@pytest.mark.parametrize("code", ["40001", "40P01", "55P03"])
def test_what_lost_against_another_transaction_is_run_again(postgresql_store: Store, code: str) -> None:
    with pytest.raises(TransactionRetryError):
        fail(postgresql_store, code)
