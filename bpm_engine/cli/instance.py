"""`bpm show INSTANCE`: one instance for people, as data, or drawn with its path in colour."""

from __future__ import annotations

from pathlib import Path

import click

from bpm_engine.api.explanations import InstanceExplanation
from bpm_engine.api.pictures import draw_path, read
from bpm_engine.api.views import InstanceView, StepView, TokenView
from bpm_engine.cli.session import Session
from bpm_engine.cli.show import write_with_diagrams
from bpm_engine.cli.tables import Column, compact, print_fields, print_heading, print_table

TOKEN_COLUMNS = [Column("node"), Column("state", "status"), Column("waiting for"), Column("error")]
STEP_COLUMNS = [
    Column("started", "time"),
    Column("node"),
    Column("status", "status"),
    Column("took", "number"),
    Column("attempts", "number"),
]
EXPLAINED = ("event", "timer", "start")  # words that say nothing without a name, a key or a time


def show_instance(
    session: Session, instance_id: str, svg: Path | None, layout: bool, bpmn: Path | None
) -> None:
    engine = session.engine
    instance = engine.instances.get(instance_id)
    steps = engine.history.steps(instance_id)
    if svg is not None or bpmn is not None:
        xml = engine.definitions.xml(instance.definition_key, instance.definition_version)
        _draw(xml, steps, svg, layout, bpmn)
    if not (svg or bpmn) or session.as_json:
        explained = engine.instances.explain(instance_id)
        session.answer(
            {"instance": instance, "steps": steps, "explanation": explained},
            lambda: _print(session, instance, steps, explained),
        )


def _draw(xml: str, steps: tuple[StepView, ...], svg: Path | None, layout: bool, bpmn: Path | None) -> None:
    if svg is not None:
        svg.write_text(draw_path(xml, steps, layout=layout), encoding="utf-8")
        click.echo(f"drawn into {click.format_filename(svg)}", err=True)
    if bpmn is not None:  # its declaration may name another encoding, which it no longer has
        write_with_diagrams(xml.encode("utf-8-sig"), read(xml), bpmn, layout)


def _print(
    session: Session,
    instance: InstanceView,
    steps: tuple[StepView, ...],
    explained: InstanceExplanation,
) -> None:
    color = session.color
    texts = {token.token_id: token.text for token in explained.tokens}
    error = instance.error or {}
    print_fields(
        color,
        [
            ("instance", instance.id),
            ("process", f"{instance.definition_key} version {instance.definition_version}"),
            ("business key", instance.business_key),
            ("subject", instance.subject),
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
            (token.node_id, token.state, _waiting_for(token, texts), (token.error or {}).get("message"))
            for token in instance.tokens
        ]
        print_table(color, TOKEN_COLUMNS, rows, empty="nowhere")
    if instance.variables:
        print_heading(color, "Variables")
        print_fields(color, [(name, compact(value)) for name, value in sorted(instance.variables.items())])
    print_heading(color, "Where it has been")
    path = [(step.started_at, step.node_id, step.status, step.duration, step.attempts) for step in steps]
    print_table(color, STEP_COLUMNS, path, empty="nowhere yet")


def _waiting_for(token: TokenView, texts: dict[str, str]) -> str | None:
    """What it waits for by name, as `bpm explain` has it."""
    if token.state != "Waiting" or token.waiting_for not in EXPLAINED or token.id not in texts:
        return token.waiting_for
    return texts[token.id].removeprefix("waits ").removeprefix("for ").removeprefix("is ")
