"""The rows that `bench/scale.py` makes by SQL are like those of the engine; else its figures mean nothing."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType

import psycopg
import pytest
from support.databases import SCHEMA
from support.postgres.databases import Databases

from bpm_engine import Engine

BENCH = Path(__file__).parents[2] / "bench"
NUMBER = 60
TABLES = ("process_instance", "scope", "token", "timer", "execution_log")


@pytest.fixture
def rows(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCH))
    made = importlib.import_module("_scale_rows")
    monkeypatch.setattr(made, "CHUNK", 25)
    return made


@pytest.fixture
def url(postgresql_databases: Databases) -> Iterator[str]:
    with postgresql_databases.clone(SCHEMA) as cloned:
        yield cloned


@pytest.fixture
def engine(rows: ModuleType, url: str) -> Iterator[Engine]:
    workloads = importlib.import_module("_workloads")
    with Engine(url) as made:
        workloads.register(made)
        for file in (workloads.SEQUENCE, workloads.TIMER):
            made.deploy(file)
        yield made


def contradictions(engine: Engine) -> list[str]:
    found = [finding.name for finding in engine.doctor()]
    for instance in engine.instances.find(limit=500):
        found += engine.instances.verify(instance.id).findings
    return found


def columns(url: str, table: str, key: str) -> set[tuple[str, ...]]:
    """Which columns of a table have a value, in all ways that occur among the rows of a process."""
    of = f"(SELECT id FROM process_instance WHERE definition_key = '{key}')"
    own = "id" if table == "process_instance" else "instance_id"
    names = f"SELECT array_agg(k ORDER BY k) FROM jsonb_each(to_jsonb({table})) e (k, v) WHERE v <> 'null'"
    with psycopg.connect(url) as connection:
        found = connection.execute(f"SELECT DISTINCT ({names}) FROM {table} WHERE {own} IN {of}")
        return {tuple(row[0]) for row in found}


def test_waiting_instances_are_sound_and_run_to_their_end(rows: ModuleType, engine: Engine, url: str) -> None:
    now = datetime.now(UTC)
    rows.fill_waiting(url, engine, NUMBER, rows.Span(now - timedelta(minutes=10), now), lambda text: None)
    assert engine.instances.count(definition="w4", status="Running") == NUMBER
    assert contradictions(engine) == []
    engine.run_until_idle()
    assert engine.instances.count(definition="w4", status="Completed") == NUMBER
    assert contradictions(engine) == []


def test_finished_instances_are_sound_and_leave_room_for_others(
    rows: ModuleType, engine: Engine, url: str
) -> None:
    now = datetime.now(UTC)
    rows.fill_finished(url, engine, NUMBER, rows.Span(now - timedelta(days=29), now), lambda text: None)
    assert engine.instances.count(definition="w1", status="Completed") == NUMBER
    engine.start("w1", {"n": 0})
    engine.run_until_idle()
    assert engine.instances.count(definition="w1", status="Completed") == NUMBER + 1
    assert contradictions(engine) == []


def test_generated_rows_have_values_where_those_of_the_engine_have(
    rows: ModuleType, engine: Engine, url: str, postgresql_databases: Databases
) -> None:
    now = datetime.now(UTC)
    due = rows.Span(now + timedelta(days=1), now + timedelta(days=2))
    rows.fill_waiting(url, engine, NUMBER, due, lambda text: None)
    rows.fill_finished(url, engine, NUMBER, rows.Span(now - timedelta(days=29), now), lambda text: None)
    workloads = importlib.import_module("_workloads")
    with postgresql_databases.clone(SCHEMA) as other, Engine(other) as plain:
        workloads.register(plain)
        for file in (workloads.SEQUENCE, workloads.TIMER):
            plain.deploy(file)
        plain.start("w1", {"n": 0})
        plain.start("w4", {"due": due.first.isoformat()})
        plain.run_until_idle()
        for table in TABLES:
            for key in ("w1", "w4"):
                assert columns(url, table, key) == columns(other, table, key), (table, key)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_every_part_runs_and_loses_nothing(tmp_path: Path) -> None:
    results = tmp_path / "results.jsonl"
    command = [sys.executable, str(BENCH / "scale.py"), "--size", "0.01", "--rounds", "1"]
    done = subprocess.run(
        [*command, "--json", str(results)], capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in results.read_text().splitlines()]
    assert {each["workload"].split()[0] for each in found} == {"S1", "S2", "S3", "S4"}
    wrong = [each for each in found if each["wanted"] == 0 and each["value"]]
    assert wrong == []
