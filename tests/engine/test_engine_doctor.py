"""The doctor finds what must not be: each contradiction put in by hand is named."""

from __future__ import annotations

import pytest
import sqlalchemy as sa
from support.samples import HOUR, HUMAN, WAIT, WORK

from bpm_engine.store.invariants import INVARIANTS, LIVENESS
from bpm_engine.testing import TestEngine

# What is done to the rows, and what the doctor must say. Foreign keys and triggers stay as they are.
DAMAGE = {
    "DELETE FROM token": "running instance without a token",
    "UPDATE process_instance SET status = 'Completed', ended_at = 1": "live token in an ended instance",
    "UPDATE process_instance SET ended_at = 1": "ended instance without an end, or the other way round",
    "UPDATE token SET waiting_for = NULL WHERE state = 'Waiting'": "waiting token with nothing to wait for",
    "DELETE FROM human_task": "waiting token with nothing to wait for",
    "DELETE FROM timer": "waiting token with nothing to wait for",
    "DELETE FROM subscription": "waiting token with nothing to wait for",
    "UPDATE token SET waiting_for = 'compensation'": "compensation that nobody carries out",
    "UPDATE token SET held = 1": "token held in a running instance",
    "UPDATE process_instance SET status = 'Suspended'": "claimable token in a halted instance",
    "UPDATE token SET state = 'Failed'": "incident without a reason",
    "UPDATE token SET state = 'Executing'": "executing token without a lease",
    "UPDATE token SET state = 'Cancelled'": "timer that outlived its token or scope",
    "UPDATE token SET state = 'Completed'": "subscription that outlived its token or scope",
    "UPDATE scope SET state = 'Completed'": "task that outlived its token or scope",
    "UPDATE scope SET live = 7": "scope that counts its tokens wrongly",
    "UPDATE scope SET population = 7": "instance that counts its tokens wrongly",
    "UPDATE scope SET state = 'Cancelled'": "closed scope with live tokens",
    "UPDATE scope SET seq = 7": "history with a gap",
    "DELETE FROM process_definition": "instance without its definition",
    "UPDATE token SET scope_id = id": "token without a scope",
    "UPDATE timer SET root_instance_id = id": "timer of another tenant or tree than its instance",
    "UPDATE process_instance SET tenant_id = 'zeta'": "token of another tenant or tree than its instance",
    "UPDATE timer SET due_at = 1": "timer overdue by an hour",
    "UPDATE token SET state = 'Executing', lease_owner = 'w', lease_until = 1": "lease expired an hour ago",
}


@pytest.fixture
def engine() -> TestEngine:
    engine = TestEngine(HUMAN, WAIT, HOUR, WORK)
    for version in (1, 2, 3, 4):
        engine.start("p", {"amount": 1, "order": "A-1"}, version=version)
    return engine


def test_a_sound_database_has_no_findings(engine: TestEngine) -> None:
    assert engine.doctor() == []


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_contradiction_is_named(engine: TestEngine, damage: str) -> None:
    with engine.begin() as connection:
        connection.execute(sa.text(damage))
    findings = {finding.name: finding for finding in engine.doctor()}
    assert DAMAGE[damage] in findings
    found = findings[DAMAGE[damage]]
    assert found.count >= len(found.rows) > 0
    assert found.advice in str(found)


def test_looking_changes_nothing(engine: TestEngine) -> None:
    with engine.begin() as connection:
        before = connection.connection.driver_connection.total_changes  # type: ignore[union-attr]
    engine.doctor()
    with engine.begin() as connection:
        assert connection.connection.driver_connection.total_changes == before  # type: ignore[union-attr]


def test_invariants_have_names_of_their_own() -> None:
    names = [invariant.name for invariant in (*INVARIANTS, *LIVENESS)]
    assert len(set(names)) == len(names)
