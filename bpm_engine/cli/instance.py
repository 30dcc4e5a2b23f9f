"""`bpm show INSTANCE`: one instance for people, as data, or drawn with its path in colour."""

from __future__ import annotations

from pathlib import Path

import click

from bpm_engine.api.pictures import draw_path
from bpm_engine.api.views import InstanceView, StepView
from bpm_engine.cli.session import Session
from bpm_engine.cli.tables import Column, compact, print_fields, print_heading, print_table

TOKEN_COLUMNS = [Column("node"), Column("state", "status"), Column("waiting for"), Column("error")]
STEP_COLUMNS = [
    Column("started", "time"),
    Column("node"),
    Column("status", "status"),
    Column("took", "number"),
    Column("attempts", "number"),
]


def show_instance(session: Session, instance_id: str, svg: Path | None) -> None:
    engine = session.engine
    instance = engine.instances.get(instance_id)
    steps = engine.history.steps(instance_id)
    if svg is not None:
        xml = engine.definitions.xml(instance.definition_key, instance.definition_version)
        svg.write_text(draw_path(xml, steps), encoding="utf-8")
        click.echo(f"drawn into {click.format_filename(svg)}", err=True)
    if svg is None or session.as_json:
        session.answer({"instance": instance, "steps": steps}, lambda: _print(session, instance, steps))


def _print(session: Session, instance: InstanceView, steps: tuple[StepView, ...]) -> None:
    color = session.color
    error = instance.error or {}
    print_fields(
        color,
        [
            ("instance", instance.id),
            ("process", f"{instance.definition_key} version {instance.definition_version}"),
            ("business key", instance.business_key),
            ("status", instance.status),
            ("error", error.get("message") or error.get("code")),
            ("started", instance.started_at),
            ("ended", instance.ended_at),
            ("called by", instance.parent_id),
            ("correlation id", instance.correlation_id),
        ],
    )
    if instance.tokens:
        print_heading(color, "Where it is")
        rows = [
            (token.node_id, token.state, token.waiting_for, (token.error or {}).get("message"))
            for token in instance.tokens
        ]
        print_table(color, TOKEN_COLUMNS, rows, empty="nowhere")
    if instance.variables:
        print_heading(color, "Variables")
        print_fields(color, [(name, compact(value)) for name, value in sorted(instance.variables.items())])
    print_heading(color, "Where it has been")
    path = [(step.started_at, step.node_id, step.status, step.duration, step.attempts) for step in steps]
    print_table(color, STEP_COLUMNS, path, empty="nowhere yet")
