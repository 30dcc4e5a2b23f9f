"""Instances by the hundred thousand, made in the database by SQL: waiting for a timer (W4), or finished (W1).

The rows are those that the engine would have written itself: instance, root scope, token, timer, history and
events, with ids in the order of time. A test lets `engine.doctor()` and `instances.verify` look at them. They
are made in chunks of a transaction each, so that the server can recycle its log meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg

from bpm_engine import Engine

CHUNK = 50_000
WAIT = timedelta(days=1)  # from the start of a waiting instance until its timer is due
KEPT = timedelta(days=30)  # ended instances, as by default
PUBLISHED = timedelta(days=6)  # of these the events are still there; by default they go after a week

# Version 7, by the time of the instance, then by the number of the row.
NEW_ID = """
CREATE OR REPLACE FUNCTION pg_temp.new_id(kind int, n bigint, at timestamptz) RETURNS uuid LANGUAGE sql
IMMUTABLE AS $$
    SELECT (lpad(to_hex(floor(extract(epoch FROM at) * 1000)::bigint), 12, '0') || '7'
        || lpad(to_hex(kind), 3, '0') || '8' || lpad(to_hex(n), 15, '0'))::uuid
$$
"""
MADE = """
CREATE TEMPORARY TABLE IF NOT EXISTS made
    (n bigint, id uuid, token_id uuid, started_at timestamptz, ended_at timestamptz)
"""
MAKE = """
INSERT INTO made
SELECT n, pg_temp.new_id(1, n, at), pg_temp.new_id(2, n, at), at, at + %(lasts)s::interval
FROM (SELECT n, %(begin)s::timestamptz + n * %(step)s::interval AS at
      FROM generate_series(%(low)s::bigint, %(high)s::bigint) n) numbered
"""

INSTANCES = """
INSERT INTO process_instance (id, tenant_id, root_instance_id, depth, definition_id, definition_key,
    definition_version, status, priority, version, retention, started_at, ended_at, purge_at, created_at,
    updated_at)
SELECT id, %(tenant)s, id, 0, %(definition)s, %(key)s, %(version)s, {status}, 0, {changes},
    extract(epoch FROM %(kept)s::interval), started_at, {ended}, {ended} + %(kept)s::interval, started_at,
    coalesce({ended}, started_at)
FROM made
"""
SCOPES = """
INSERT INTO scope (id, tenant_id, instance_id, root_instance_id, node_id, state, variables, live, parked,
    inclusive_waiting, conditional, steps, seq, population, created_at, updated_at)
SELECT id, %(tenant)s, id, id, %(key)s, {state}, {variables}, {live}, 0, 0, 0, 0, {seq}, {live}, started_at,
    coalesce({ended}, started_at)
FROM made
"""
TOKENS = """
INSERT INTO token (id, tenant_id, instance_id, root_instance_id, scope_id, node_id, state, mode, phase, held,
    waiting_for, priority, attempt, activation, recoveries, version, flow_id, entered_at, created_at,
    updated_at)
SELECT token_id, %(tenant)s, id, id, id, {node}, {state}, 'Forward', {phase}, false, {waiting_for}, 0, 0,
    {activation}, 0, {changes}, {flow}, coalesce({ended}, started_at), started_at,
    coalesce({ended}, started_at)
FROM made
"""
TIMERS = """
INSERT INTO timer (id, tenant_id, instance_id, root_instance_id, scope_id, token_id, node_id, event, purpose,
    due_at, status, fired, created_at, updated_at)
SELECT pg_temp.new_id(3, n, started_at), %(tenant)s, id, id, id, token_id, 'wait', 0, 'event', ended_at,
    'Scheduled', 0, started_at, started_at
FROM made
"""
# An entry is of a node, or of the whole instance. `at` is the part of its time that has passed.
LOG = """
INSERT INTO execution_log (tenant_id, instance_id, root_instance_id, seq, kind, at, node_id, token_id,
    scope_id, activation, data)
SELECT %(tenant)s, id, id, e.seq, e.kind, started_at + (ended_at - started_at) * e.at, e.node,
    CASE WHEN e.node IS NOT NULL THEN token_id END, CASE WHEN e.node IS NOT NULL THEN id END, e.activation,
    CASE WHEN e.kind = 'started'
        THEN jsonb_build_object('version', %(version)s::int, 'definition', %(key)s::text,
                                'variables', {given})
        ELSE e.data::jsonb END
FROM made, (VALUES {entries}) e (seq, kind, at, node, activation, data)
"""
EVENTS = """
INSERT INTO event_outbox (id, tenant_id, instance_id, root_instance_id, seq, type, data, at, status, attempts,
    next_at, published_at, updated_at)
SELECT pg_temp.new_id(16 + e.seq, n, happened), %(tenant)s, id, id, e.seq, e.type,
    CASE e.type
        WHEN 'instance.started' THEN jsonb_build_object('version', %(version)s::int, 'definition',
                                                        %(key)s::text, 'business_key', NULL)
        WHEN 'instance.completed' THEN jsonb_build_object('definition', %(key)s::text)
        ELSE jsonb_build_object('name', '', 'node_id', e.node, 'token_id', token_id) END,
    happened, 'Published', 0, happened, happened, happened
FROM made, (VALUES {events}) e (seq, type, at, node),
    LATERAL (SELECT started_at + (ended_at - started_at) * e.at AS happened) then_
WHERE started_at > %(events_since)s
"""

Entry = tuple[int, str, float, str | None, int | None, str | None]  # seq, kind, at, node, activation, data
Event = tuple[int, str, float, str | None]  # seq, type, at, node


@dataclass(frozen=True, slots=True)
class Span:
    """From the first to the last of many moments, evenly."""

    first: datetime
    last: datetime

    def step(self, number: int) -> timedelta:
        return (self.last - self.first) / number


def fill_waiting(url: str, engine: Engine, number: int, due: Span, say: Callable[[str], None]) -> None:
    """Instances of W4, each waiting for its timer."""
    given = """jsonb_build_object('due', to_char(ended_at AT TIME ZONE 'UTC',
        'YYYY-MM-DD"T"HH24:MI:SS.US"+00:00"'))"""
    entries: list[Entry] = [
        (1, "started", 0, None, None, None),
        (2, "completed", 0, "start", 1, None),
        (3, "entered", 0, "wait", 2, None),
    ]
    values = {
        "status": "'Running'", "state": "'Active'", "ended": "NULL::timestamptz", "changes": "1",
        "variables": given, "given": given, "live": "1", "seq": "3",
        "entries": _rows(entries), "events": _rows([(1, "instance.started", 0, None)]),
    }  # fmt: skip
    token = {
        "state": "'Waiting'", "node": "'wait'", "phase": "'inside'", "waiting_for": "'timer'",
        "activation": "2", "flow": "'start-wait'",
    }  # fmt: skip
    statements = [
        *(text.format(**values) for text in (INSTANCES, SCOPES)),
        TOKENS.format(**values | token),
        TIMERS,
        *(text.format(**values) for text in (LOG, EVENTS)),
    ]
    started = Span(due.first - WAIT, due.last - WAIT)
    _fill(url, engine, "w4", number, started, WAIT, statements, say)


def fill_finished(url: str, engine: Engine, number: int, started: Span, say: Callable[[str], None]) -> None:
    """Instances of W1 that ended a second after their start. Events of the older ones are gone already."""
    tasks = "abcde"
    entries: list[Entry] = [(1, "started", 0, None, None, None), (2, "completed", 0, "start", 1, None)]
    events: list[Event] = [(1, "instance.started", 0, None)]
    for number_of, node in enumerate(tasks):
        seq, at = 3 + 2 * number_of, number_of / len(tasks)
        output = f'{{"output": {{"n": {number_of + 1}}}}}'
        entries.append((seq, "entered", at, node, 2 + number_of, None))
        entries.append((seq + 1, "completed", at + 1 / len(tasks), node, 2 + number_of, output))
        events.append((seq + 1, "activity.completed", at + 1 / len(tasks), node))
    last = 3 + 2 * len(tasks)
    entries += [(last, "completed", 1, "end", 7, None), (last + 1, "ended", 1, None, None, None)]
    events.append((last + 1, "instance.completed", 1, None))
    values = {
        "status": "'Completed'", "state": "'Completed'", "ended": "ended_at", "changes": "2",
        "variables": """'{"n": 5}'::jsonb""", "given": """'{"n": 0}'::jsonb""", "live": "0",
        "seq": str(last + 1), "entries": _rows(entries), "events": _rows(events),
    }  # fmt: skip
    token = {
        "node": "'end'", "phase": "'enter'", "waiting_for": "NULL", "activation": "7", "changes": "7",
        "flow": "'e-end'",
    }  # fmt: skip
    statements = [
        *(text.format(**values) for text in (INSTANCES, SCOPES)),
        TOKENS.format(**values | token),
        *(text.format(**values) for text in (LOG, EVENTS)),
    ]
    _fill(url, engine, "w1", number, started, timedelta(seconds=1), statements, say)


def _fill(
    url: str,
    engine: Engine,
    key: str,
    number: int,
    started: Span,
    lasts: timedelta,
    statements: Sequence[str],
    say: Callable[[str], None],
) -> None:
    definition = engine.definitions.get(key)
    values: dict[str, Any] = {
        "tenant": "default",
        "definition": definition.id,
        "key": key,
        "version": definition.version,
        "kept": KEPT,
        "lasts": lasts,
        "begin": started.first,
        "step": started.step(number),
        "events_since": datetime.now(UTC) - PUBLISHED,
    }
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(NEW_ID)
        connection.execute(MADE)
        for low in range(1, number + 1, CHUNK):
            chunk = values | {"low": low, "high": min(number, low + CHUNK - 1)}
            with connection.transaction():
                connection.execute("TRUNCATE made")
                for statement in (MAKE, *statements):
                    connection.execute(statement, chunk)
            say(f"{chunk['high']:,} instances of {key} made")
        connection.execute("VACUUM ANALYZE")


def _rows(rows: Sequence[Entry] | Sequence[Event]) -> str:
    return ", ".join(f"({', '.join(map(_literal, row))})" for row in rows)


def _literal(value: str | float | None) -> str:
    if value is None:
        return "NULL"
    return str(value) if not isinstance(value, str) else "'" + value.replace("'", "''") + "'"
