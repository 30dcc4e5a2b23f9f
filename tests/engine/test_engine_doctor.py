"""The doctor finds what must not be: each contradiction put in by hand is named."""

from __future__ import annotations

import pytest
import sqlalchemy as sa
from support.definitions import bpmn, path
from support.samples import HOUR, HUMAN, WAIT, WORK

from bpm_engine.store.invariants import INVARIANTS, LIVENESS
from bpm_engine.store.sequences import ALTERED, SEQUENCES
from bpm_engine.testing import TestEngine

ENDS = '<startEvent id="start"/><endEvent id="end"/>'
# two scripts that can be undone, then a fork of which one branch waits for a person and one at the join
TOUR = bpmn(
    ENDS
    + "".join(
        f'<scriptTask id="{name}" bpm:compensate="undo"><script>{name} = 1</script></scriptTask>'
        for name in ("one", "two")
    )
    + '<parallelGateway id="fork"/><userTask id="ask"/><manualTask id="pass"/><parallelGateway id="join"/>'
    + path("start", "one", "two", "fork", "ask", "join", "end")
    + path("fork", "pass", "join")
).replace(b'process id="p"', b'process id="tour"')
UNDONE = bpmn(
    ENDS
    + "".join(f'<manualTask id="{name}" bpm:compensate="undo"/>' for name in ("one", "two"))
    + '<intermediateThrowEvent id="back"><compensateEventDefinition/></intermediateThrowEvent>'
    + path("start", "one", "two", "back", "end")
).replace(b'process id="p"', b'process id="undone"')
CALLER = bpmn(
    ENDS + '<callActivity id="call" calledElement="p" bpm:version="1"/>' + path("start", "call", "end")
).replace(b'process id="p"', b'process id="caller"')

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
    "UPDATE timer SET parked = 1": "timer set aside in a running instance",
    "UPDATE process_instance SET status = 'Suspended'": "claimable token in a halted instance",
    "UPDATE token SET state = 'Failed'": "incident without a reason",
    "UPDATE token SET state = 'Executing'": "executing token without a lease",
    "UPDATE token SET state = 'Cancelled'": "timer that outlived its token or scope",
    "UPDATE token SET state = 'Completed'": "subscription that outlived its token or scope",
    "UPDATE scope SET state = 'Completed'": "task that outlived its token or scope",
    "UPDATE scope SET live = 7": "scope that counts its tokens wrongly",
    "UPDATE scope SET population = 7": "instance that counts its tokens wrongly",
    "UPDATE scope SET conditional = 7": "instance that counts its conditional waits wrongly",
    "UPDATE scope SET state = 'Cancelled'": "closed scope with live tokens",
    "UPDATE scope SET seq = 7": "history with a gap",
    "DELETE FROM process_definition": "instance without its definition",
    "UPDATE token SET scope_id = id": "token without a scope",
    "UPDATE timer SET root_instance_id = id": "timer of another tenant or tree than its instance",
    "UPDATE process_instance SET tenant_id = 'zeta'": "token of another tenant or tree than its instance",
    "UPDATE parallel_join SET joined = 7": "join that counts its arrivals wrongly",
    "UPDATE compensation_record SET status = 'Running', requested_by = (SELECT min(id) FROM token "
    "WHERE state = 'Waiting')": "two compensations at once",
    'UPDATE compensation_record SET "order" = -"order"': "compensation in the wrong order",
    "INSERT INTO execution_log SELECT tenant_id, instance_id, root_instance_id, seq + 1000, kind, at, "
    "node_id, token_id, scope_id, activation, actor, data FROM execution_log WHERE kind = 'completed'": (
        "node run completed twice"
    ),
    "UPDATE token SET state = 'Cancelled' WHERE waiting_for = 'call'": (
        "called instance that outlived its caller"
    ),
    "UPDATE message SET status = 'Consumed'": "consumed message without a receiver",
    "UPDATE event_outbox SET status = 'Published', published_at = updated_at + 1 WHERE seq > 1": (
        "event published before an earlier one"
    ),
    "UPDATE event_outbox SET seq = seq + 1000": "event without its entry in the history",
    "UPDATE token SET attempt = 3": "attempts without a recorded failure",
    "UPDATE token SET recoveries = 99": "token recovered more often than allowed",
    "INSERT INTO process_definition SELECT 'x' || id, tenant_id, key, version + 9, version_tag, name, "
    "xml || ' ', content_hash, deployment_id, deployed_by, created_at, NULL, NULL FROM process_definition": (
        "definition that is not what was deployed"
    ),
    **{
        f"UPDATE {table} SET scope_id = id": f"{table} without a scope"
        for table in ("parallel_join", "timer", "human_task", "compensation_record")
    },
    **{
        f"UPDATE {table} SET root_instance_id = 'x'": f"{table} of another tenant or tree than its instance"
        for table in ("scope", "parallel_join", "human_task", "compensation_record")
    },
    "UPDATE timer SET due_at = 1": "timer overdue by an hour",
    "UPDATE token SET state = 'Executing', lease_owner = 'w', lease_until = 1": "lease expired an hour ago",
}


@pytest.fixture
def engine() -> TestEngine:
    engine = TestEngine(HUMAN, WAIT, HOUR, WORK, TOUR, UNDONE, CALLER)
    undone = engine.start("undone")
    engine.handler("undo")(lambda work: None)
    engine.run_until_idle()
    assert engine.instances.get(undone.id).status == "Completed"
    for version in (1, 2, 3, 4):
        engine.start("p", {"amount": 1, "order": "A-1"}, version=version)
    engine.start("tour")
    engine.start("caller", {"amount": 1})
    engine.send_message("unheard")
    return engine


def test_a_sound_database_has_no_findings(engine: TestEngine) -> None:
    assert engine.doctor() == []


def test_workers_whose_clocks_differ_break_no_order(engine: TestEngine) -> None:
    """Each knows the server's time as well as its question took: a later step may have the earlier time."""
    with engine.begin() as connection:
        connection.execute(sa.text('UPDATE compensation_record SET updated_at = "order"'))
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


NAMES = [invariant.name for invariant in (*INVARIANTS, *SEQUENCES, *LIVENESS)]


def test_invariants_have_names_of_their_own() -> None:
    assert len(set(NAMES)) == len(NAMES)


def test_every_invariant_is_seen_to_be_broken() -> None:
    assert {*NAMES, ALTERED} == set(DAMAGE.values())
