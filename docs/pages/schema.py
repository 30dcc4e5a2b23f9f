"""The page of the database schema, made from the tables of the code."""

from __future__ import annotations

from collections.abc import Iterator

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from bpm_engine.store.schema import metadata

INTRODUCTION = """# Database schema

Generated from the code. The same tables on PostgreSQL and SQLite; where the types differ, SQLite's follows
after the stroke (ids are texts, times whole microseconds since 1970, JSON is text, flags are 0 or 1). Why the
tables and indexes are as they are: [ADR 0010](../adr/0010-store-layout.md).

Every row has its tenant. Times of creation and update are kept by every statement, from one reading of the
clock per transaction. A new process needs no migration: its data is JSON.
"""
PURPOSES = {
    "process_definition": "Deployed definitions, immutable: a trigger refuses UPDATE.",
    "process_instance": "One row per instance; changed when its status changes, never the lock of a step.",
    "scope": "Variables and counters of an instance, a sub-process or a repetition. The row of a top"
    " instance's root scope is the lock of its whole call tree; a root scope carries the last log number.",
    "token": "The unit of execution: where the instance is, in which state, under whose lease.",
    "parallel_join": "What has arrived at a join, per incoming flow.",
    "timer": "What fires when: events, retries, delayed starts, deadlines.",
    "subscription": "Who waits for a message, a signal or a condition; without an instance: what starts one.",
    "human_task": "Tasks of people.",
    "compensation_record": "What can be undone, in the order in which it was done.",
    "message": "Messages that wait for a subscription, and the ids of those that were taken (the inbox).",
    "delivery": "A signal on its way to one subscription.",
    "execution_log": "The history, append-only: triggers refuse UPDATE and TRUNCATE, and DELETE while the"
    " instance is there.",
    "event_outbox": "Events to publish, in order per instance.",
    "schedule": "Timer starts of the latest versions.",
}


def render_schema() -> str:
    lines = [INTRODUCTION]
    for name in PURPOSES:
        lines += [f"## {name}", "", PURPOSES[name], "", *_columns(metadata.tables[name]), ""]
        lines += [*_indexes(metadata.tables[name]), ""]
    return "\n".join(lines).rstrip() + "\n"


def _columns(table: sa.Table) -> Iterator[str]:
    yield "| column | type | null | |"
    yield "|---|---|---|---|"
    for column in table.columns:
        yield f"| `{column.name}` | {_type(column)} | {'yes' if column.nullable else ''} | {_note(column)} |"


def _type(column: sa.Column[object]) -> str:
    here, there = (
        str(column.type.compile(dialect=dialect)).lower().replace("timestamp with time zone", "timestamptz")
        for dialect in (postgresql.dialect(), sqlite.dialect())
    )
    return here if here == there else f"{here} / {there}"


def _note(column: sa.Column[object]) -> str:
    notes = []
    if column.primary_key:
        notes.append("key")
    if column.foreign_keys:
        notes.append(f"of {next(iter(column.foreign_keys)).target_fullname}, goes with it")
    members = getattr(column.type, "members", None)
    if members:
        notes.append(", ".join(str(member) for member in members))
    if column.computed is not None:
        notes.append(f"`{column.computed.sqltext}`")
    return "; ".join(notes)


def _indexes(table: sa.Table) -> Iterator[str]:
    unique = [constraint for constraint in table.constraints if isinstance(constraint, sa.UniqueConstraint)]
    for constraint in unique:
        yield f"- unique ({', '.join(column.name for column in constraint.columns)})"
    for index in sorted(table.indexes, key=lambda each: str(each.name)):
        keys = ", ".join(_key(expression) for expression in index.expressions)
        where = index.dialect_options["postgresql"]["where"]
        condition = f" where `{where}`" if where is not None else ""
        yield f"- `{index.name}`{' unique' if index.unique else ''} ({keys}){condition}"


def _key(expression: sa.ColumnElement[object]) -> str:
    return str(expression).rpartition(".")[2]
