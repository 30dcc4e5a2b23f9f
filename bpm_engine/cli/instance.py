"""`bpm show INSTANCE`: one instance for people, as data, or drawn with its path in colour."""

from __future__ import annotations

from pathlib import Path

import click

from bpm_engine.api.explanations import InstanceExplanation, TokenExplanation
from bpm_engine.api.pictures import draw_path, read
from bpm_engine.api.views import InstanceView, StepView, TokenView
from bpm_engine.cli.session import Session
from bpm_engine.cli.show import write_with_diagrams
from bpm_engine.cli.tables import (
    Cell,
    Column,
    compact,
    element,
    error_words,
    item_words,
    print_fields,
    print_heading,
    print_table,
)

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
    explanations = {token.token_id: token for token in explained.tokens}
    print_fields(
        color,
        [
            ("instance", instance.id),
            ("process", f"{instance.definition_key} version {instance.definition_version}"),
            ("business key", instance.business_key),
            ("subject", instance.subject),
            ("status", instance.status),
            ("error", error_words(instance.error)),
            ("started", instance.started_at),
            ("ended", instance.ended_at),
            ("called by", instance.parent_id),
            ("correlation id", instance.correlation_id),
        ],
    )
    if instance.tokens:
        print_heading(color, "Where it is")
        rows = [_token(token, explanations.get(token.id)) for token in instance.tokens]
        print_table(color, TOKEN_COLUMNS, rows, empty="nowhere")
    if instance.variables:
        print_heading(color, "Variables")
        print_fields(color, [(name, compact(value)) for name, value in sorted(instance.variables.items())])
    print_heading(color, "Where it has been")
    path = [
        (step.started_at, element(step.node_id), step.status, step.duration, step.attempts) for step in steps
    ]
    print_table(color, STEP_COLUMNS, path, empty="nowhere yet")


def _token(token: TokenView, explained: TokenExplanation | None) -> tuple[Cell, ...]:
    words = item_words(explained.item) if explained else ""
    place = f"{element(token.node_id)} ({words})" if words else element(token.node_id)
    return place, token.state, _waiting_for(token, explained), error_words(token.error)


def _waiting_for(token: TokenView, explained: TokenExplanation | None) -> str | None:
    """What it waits for by name, as `bpm explain` has it."""
    if token.node_id != element(token.node_id) and token.waiting_for == "scope":
        return "its items"
    if token.state != "Waiting" or token.waiting_for not in EXPLAINED or explained is None:
        return token.waiting_for
    return explained.text.removeprefix("waits ").removeprefix("for ").removeprefix("is ")
