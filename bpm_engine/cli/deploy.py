"""`bpm deploy`: files become definitions that can be started."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from bpm_engine.cli.commands import REFUSED
from bpm_engine.cli.files import bpmn_files
from bpm_engine.cli.options import ACTOR
from bpm_engine.cli.problems import problem_data, problem_lines
from bpm_engine.cli.session import Session, on_engine
from bpm_engine.cli.tables import Column, print_table
from bpm_engine.errors import DefinitionError
from bpm_engine.problems import Problem


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE…")
@ACTOR
@on_engine(creates=True)
def deploy(session: Session, files: tuple[str, ...], actor: str | None) -> int:
    """Deploy the executable processes of BPMN files.

    FILE may be a file, a directory or a pattern. The same content again is the same version. A file with
    errors is refused as a whole; the others are deployed.

    \b
    Examples:
      bpm deploy processes/order.bpmn
      bpm deploy processes --database postgresql://localhost/shop
    """
    rows: list[dict[str, object]] = []
    refused: list[dict[str, object]] = []
    for path in bpmn_files(files):
        try:
            deployment = session.engine.deploy(path, actor=actor)
        except DefinitionError as error:
            refused.append({"file": str(path), "problems": [problem_data(each) for each in error.problems]})
            _tell(session, path, error.problems)
            continue
        for definition in deployment.definitions:
            rows.append({"file": str(path), "key": definition.key, "version": definition.version})
        _tell(session, path, deployment.problems)
    columns = [Column("process"), Column("version", "number"), Column("file", "dim")]
    session.answer(
        {"deployed": rows, "refused": refused},
        lambda: print_table(
            session.color,
            columns,
            [(str(row["key"]), str(row["version"]), str(row["file"])) for row in rows],
            empty="nothing was deployed",
        ),
    )
    return REFUSED if refused else 0


def _tell(session: Session, path: Path, problems: Sequence[Problem]) -> None:
    for problem in problems:
        for line in problem_lines(path, problem):
            click.echo(line, err=True, color=session.color)
