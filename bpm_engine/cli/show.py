"""`bpm show`: a process of a file, or an instance, as text or JSON and as a picture."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict
from pathlib import Path

import click

from bpm_engine.bpmn import Loaded, load
from bpm_engine.bpmn.draw import draw_svg, lay_out, lay_out_each
from bpm_engine.bpmn.draw.outline import Line, Outline, outline_lines, outlines
from bpm_engine.bpmn.draw.text import visible
from bpm_engine.bpmn.model import Definitions
from bpm_engine.cli.commands import REFUSED
from bpm_engine.cli.files import SUFFIXES, read_bytes
from bpm_engine.cli.options import APP, DATABASE, JSON, NO_COLOR, TENANT
from bpm_engine.errors import DefinitionError

WIDEST = 100
_COLOURS = {"title": "cyan", "id": "green", "kind": "blue", "way": "yellow"}


@click.command()
@click.argument("target", metavar="FILE|INSTANCE")
@click.option(
    "--svg", type=click.Path(dir_okay=False, path_type=Path), help="Draw the diagram into this file."
)
@click.option("--layout", is_flag=True, help="Lay out anew, even if the file has a diagram.")
@click.option(
    "--bpmn",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the file with its diagram, or a new one, so that editors can open it.",
)
@DATABASE
@APP
@TENANT
@JSON
@NO_COLOR
@click.pass_context
def show(
    ctx: click.Context,
    target: str,
    svg: Path | None,
    layout: bool,
    bpmn: Path | None,
    database: str,
    app: str | None,
    tenant: str,
    as_json: bool,
    no_color: bool,
) -> None:
    """Show a process or an instance as text, or draw it.

    Of a FILE: scopes, nodes, flows with their conditions, the handlers it needs, its messages, signals and
    timers, and the variables its expressions read. A file with errors is shown as far as it goes.

    Of an INSTANCE in the database: where it is and what it waits for, its variables, where it has been;
    drawn with its path in colour. --bpmn writes the file of its version.

    \b
    Examples:
      bpm show order.bpmn
      bpm show order.bpmn --svg order.svg
      bpm show A-17                         by its business key
      bpm show 0192f0c1-… --svg instance.svg
    """
    if no_color:
        ctx.color = False
    path = Path(target)
    if path.is_file():
        _show_file(ctx, path, svg, layout, bpmn, as_json)
    elif target.lower().endswith(SUFFIXES):
        raise click.UsageError(f"there is no file {click.format_filename(target)!r}")
    else:
        _show_instance(target, svg, layout, bpmn, database, app, tenant, as_json, ctx.color)


def _show_instance(
    instance: str,
    svg: Path | None,
    layout: bool,
    bpmn: Path | None,
    database: str,
    app: str | None,
    tenant: str,
    as_json: bool,
    color: bool | None,
) -> None:
    from bpm_engine.cli.instance import show_instance
    from bpm_engine.cli.session import Session, open_engine

    with open_engine(database, app, creates=False) as engine:
        session = Session(engine.tenant(tenant), as_json, color)
        show_instance(session, session.instance(instance), svg, layout, bpmn)


def _show_file(
    ctx: click.Context, file: Path, svg: Path | None, layout: bool, bpmn: Path | None, as_json: bool
) -> None:
    data = read_bytes(file)
    loaded = load(data, source=str(file))
    definitions = loaded.definitions
    if definitions is None:
        raise DefinitionError(loaded.problems, str(file))
    if svg:
        _draw(definitions, svg, layout)
    if bpmn:
        write_with_diagrams(data, definitions, bpmn, layout)
    if not (svg or bpmn) or as_json:
        _print(ctx, loaded, definitions, as_json)
    if loaded.errors:
        count = len(loaded.errors)
        noun = "error" if count == 1 else "errors"
        click.secho(f"{count} {noun} in this file: see `bpm validate`", fg="red", err=True, color=ctx.color)
        ctx.exit(REFUSED)


def _draw(definitions: Definitions, picture: Path, layout: bool) -> None:
    """The first diagram into the file asked for, each further one beside it."""
    diagrams = definitions.diagrams
    if layout or not diagrams:
        diagrams = (lay_out(definitions),)
    for number, diagram in enumerate(diagrams, 1):
        path = picture if number == 1 else picture.with_stem(f"{picture.stem}-{number}")
        path.write_text(draw_svg(definitions, diagram), encoding="utf-8")
        click.echo(f"drawn into {click.format_filename(path)}", err=True)


def write_with_diagrams(data: bytes, definitions: Definitions, file: Path, layout: bool) -> None:
    """With the diagram that somebody drew, unless there is none or another is wanted."""
    from bpm_engine.bpmn.document import read_document
    from bpm_engine.bpmn.draw.interchange import as_drawn, with_diagrams

    root = read_document(data).root
    if layout or not definitions.diagrams:
        file.write_bytes(with_diagrams(root, definitions, lay_out_each(definitions)))
    else:
        file.write_bytes(as_drawn(root))
    click.echo(f"written to {click.format_filename(file)}", err=True)


def _print(ctx: click.Context, loaded: Loaded, definitions: Definitions, as_json: bool) -> None:
    found = outlines(definitions, loaded.graphs)
    if as_json:
        click.echo(
            json.dumps({"processes": [asdict(outline) for outline in found]}, ensure_ascii=False, indent=2)
        )
        return
    for position, outline in enumerate(found):
        if position:
            click.echo()
        _print_outline(ctx, outline)


def _print_outline(ctx: click.Context, outline: Outline) -> None:
    width = min(WIDEST, shutil.get_terminal_size((WIDEST, 24)).columns)
    for line in outline_lines(outline, max(80, width)):
        click.echo(_styled(line), color=ctx.color)


def _styled(line: Line) -> str:
    return "".join(
        click.style(visible(text), fg=_COLOURS.get(role), bold=role == "title", dim=role in ("fact", "tree"))
        for role, text in line.parts
    ).rstrip()
