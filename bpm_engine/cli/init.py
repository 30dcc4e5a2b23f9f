"""`bpm init`: a small project that works: a process with its diagram, handlers, tests, a README."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import click

from bpm_engine.cli.options import JSON
from bpm_engine.cli.session import print_json
from bpm_engine.errors import ConflictError

TEMPLATE = Path(__file__).parent / "template"
FILES = {
    "README.md": "README.md",
    "app.py": "app.py",
    "handlers.py": "handlers.py",
    "processes/expense.bpmn": "processes/expense.bpmn",
    "test_expense.py": "test_expense.py",
    "gitignore": ".gitignore",  # under its own name it would hide things here
}


@click.command()
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path))
@JSON
def init(directory: Path, as_json: bool) -> None:
    """Write a small working project into a new or empty directory.

    \b
    Examples:
      bpm init expenses
      cd expenses && python -m pytest
    """
    taken = [name for name in FILES.values() if (directory / name).exists()]
    if taken:
        raise ConflictError(f"{directory} has {', '.join(taken)} already; name a new directory")
    for source, name in FILES.items():
        target = directory / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes((TEMPLATE / source).read_bytes())
    if as_json:
        print_json({"directory": str(directory), "files": list(FILES.values())})
        return
    for name in FILES.values():
        click.echo(f"  {directory / name}")
    click.echo(f"\nNext:\n  cd {directory}")
    if find_spec("pytest") is None:
        click.echo("  python -m pip install pytest")
    click.echo("  python -m pytest\n  less README.md")
