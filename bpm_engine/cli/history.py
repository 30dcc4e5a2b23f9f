"""`bpm history`: what happened to an instance."""

from __future__ import annotations

import click

from bpm_engine.api.views import HistoryEntry, StepView
from bpm_engine.cli.session import Session, on_engine
from bpm_engine.cli.tables import Cell, Column, compact, element, error_words, print_table

ENTRY_COLUMNS = [
    Column("seq", "number"),
    Column("time", "time"),
    Column("what"),
    Column("node"),
    Column("by", "dim"),
    Column("data", "dim"),
]
STEP_COLUMNS = [
    Column("started", "time"),
    Column("node"),
    Column("status", "status"),
    Column("took", "number"),
    Column("attempts", "number"),
    Column("error"),
]
MOST = 500  # entries on one page


@click.command()
@click.argument("instance")
@click.option("--steps", is_flag=True, help="One line per run of a node, with its duration and attempts.")
@on_engine()
def history(session: Session, instance: str, steps: bool) -> None:
    """Tell what happened to an instance, in order.

    \b
    Examples:
      bpm history 0192f0c1-…
      bpm history A-17                      by its business key
      bpm history 0192f0c1-… --steps --json
    """
    instance = session.instance(instance)
    if steps:
        runs = session.engine.history.steps(instance)
        session.answer(
            {"items": runs},
            lambda: print_table(
                session.color, STEP_COLUMNS, [_step(each) for each in runs], empty="nothing has happened yet"
            ),
        )
        return
    entries = read_history(session, instance)
    session.answer(
        {"items": entries},
        lambda: print_table(
            session.color, ENTRY_COLUMNS, [_entry(each) for each in entries], empty="nothing has happened yet"
        ),
    )


def read_history(session: Session, instance: str) -> list[HistoryEntry]:
    entries: list[HistoryEntry] = []
    cursor: str | None = None
    while True:
        page = session.engine.history.find(instance, limit=MOST, cursor=cursor)
        entries += page
        cursor = page.cursor
        if cursor is None:
            return entries


def _entry(entry: HistoryEntry) -> tuple[Cell, ...]:
    moment = entry.at.strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
    data = {key: value for key, value in (entry.data or {}).items() if key != "traceback"}
    return entry.seq, moment, entry.kind, element(entry.node_id), entry.actor, compact(data) if data else None


def _step(step: StepView) -> tuple[Cell, ...]:
    error = error_words(step.error)
    return step.started_at, element(step.node_id), step.status, step.duration, step.attempts, error
