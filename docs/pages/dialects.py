"""`docs/reference/dialects.md`: what is read of other engines' settings, from the tables that read it."""

from __future__ import annotations

from bpm_engine.bpmn.dialects.implied import MEANINGS, Meaning
from bpm_engine.bpmn.dialects.rows import Dialect, Treatment
from bpm_engine.bpmn.dialects.table import DIALECTS, TableRow, dialect_table

_INTRODUCTION = """\
# Dialects

Files made for other engines run here where the meaning is the same. Each attribute and element of
their namespaces that we know is listed below with the setting it becomes. Standard BPMN needs none of
them, and [our own namespace](extension.md) says everything exactly; where both are present, ours counts.

| treatment | what it means | reported as |
|---|---|---|
| read | the same meaning | nothing |
| read differently | read, with the difference in the note | warning `DIALECT_DIFFERENT` |
| ignored | no counterpart here | warning `DIALECT_IGNORED` |
| not run | executable content of that engine | warning `DIALECT_NOT_RUN` |
| no effect | nothing about execution depends on it | nothing |

What is in one of these namespaces and not listed is a warning, `DIALECT_NOT_UNDERSTOOD`. Extensions in any
other namespace are left alone.
"""


_IMPLIED = """\
## Without any attribute

What those engines mean by an element that carries no extension, where BPMN or we mean something else. It is
reported, as `DIALECT_DIFFERENT`, in files that declare the namespace of that engine and not ours.

| element | when | in a file for | note |
|---|---|---|---|
"""


def render_dialects() -> str:
    sections = [_section(dialect) for dialect in DIALECTS if not dialect.own]
    return "\n".join([_INTRODUCTION, *sections, _implied()])


def _implied() -> str:
    return _IMPLIED + "".join(
        f"| `{meaning.tag}` | {meaning.when} | {_names(meaning)} | {cell(meaning.note)} |\n"
        for meaning in MEANINGS
    )


def _names(meaning: Meaning) -> str:
    return ", ".join(dialect.name for dialect in meaning.dialects)


def _section(dialect: Dialect) -> str:
    rows = dialect_table(dialect)
    namespaces = ", ".join(f"`{namespace}`" for namespace in dialect.namespaces)
    lines = [
        f"## {dialect.name}",
        "",
        namespaces,
        "",
        "| what | on | becomes | treatment | note |",
        "|---|---|---|---|---|",
        *(_line(row) for row in rows),
        "",
    ]
    return "\n".join(lines)


def _line(row: TableRow) -> str:
    becomes = f"`{row.becomes}`" if row.becomes and row.treatment in _READ else ""
    return f"| `{row.what}` | {cell(row.on)} | {becomes} | {row.treatment.value} | {cell(row.note)} |"


_READ = (Treatment.SAME, Treatment.DIFFERENT)


def cell(text: str) -> str:
    """Text that stays inside its cell: bars and angle brackets are Markdown's."""
    if text.startswith("<") and text.endswith(">"):
        return f"`{text}`"
    return text.replace("|", "\\|")
