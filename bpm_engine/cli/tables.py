"""Tables and field lists for people: they fit the terminal, and nothing is cut where there is none.

Every text goes through `visible`: a name in the database must not be able to move the cursor or hide its
neighbour. Ids are never shortened, so that they can be copied into the next command.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

import click
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from bpm_engine.bpmn.draw.text import visible

FIXED = ("id", "status", "number", "time")  # never shortened
BRIEF = 120  # columns below which times are brief
GAP = 2  # columns between two columns
SHORT = 60  # characters of an element that are shown
MOST_WORDS = 3  # of what a run of a repeated activity sees
LOOP_COUNTER = "loopCounter"
NARROWEST = 4  # to which a column is shortened
UNCUT = 10_000  # columns where nobody's terminal sets a width
STATUS_STYLES = {
    "Completed": "green",
    "completed": "green",
    "Running": "cyan",
    "running": "cyan",
    "Waiting": "cyan",
    "Ready": "cyan",
    "Executing": "cyan",
    "Open": "cyan",
    "Failed": "bold red",
    "failed": "bold red",
    "Suspended": "yellow",
    "Cancelled": "dim",
    "cancelled": "dim",
    "skipped": "yellow",
}
Cell = str | int | float | datetime | timedelta | None


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    kind: Literal["text", "id", "status", "number", "time", "dim"] = "text"


def make_console(color: bool | None, *, stderr: bool = False) -> Console:
    """`color` False: none; None: as the terminal and NO_COLOR have it."""
    console = Console(no_color=True if color is False else None, highlight=False, stderr=stderr)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        return Console(no_color=True, highlight=False, stderr=stderr, width=UNCUT)
    return console


def print_table(
    color: bool | None,
    columns: Sequence[Column],
    rows: Iterable[Sequence[Cell]],
    *,
    empty: str,
    details: Sequence[str] = (),
) -> None:
    """One line per row; what does not fit ends in "…".

    `details` stand below their rows; `empty` is said where there are no rows.
    """
    console = make_console(color)
    brief = console.width < BRIEF
    shown = [
        [_cell(value, column, brief=brief) for value, column in zip(row, columns, strict=True)]
        for row in rows
    ]
    if not shown:
        _print(console, Text(empty, style="dim"))
        return
    table = Table(box=None, padding=(0, GAP, 0, 0), header_style="bold", pad_edge=False, show_edge=False)
    for column, width in zip(columns, _widths(columns, shown, console.width), strict=True):
        table.add_column(
            column.name,
            justify="right" if column.kind == "number" else "left",
            no_wrap=True,
            overflow="ellipsis",
            width=width,
            style="dim" if column.kind in ("id", "dim", "time") else None,
        )
    for row in shown:
        table.add_row(*row)
    _print_lines(console, table, details)


def _widths(columns: Sequence[Column], rows: Sequence[Sequence[Text]], available: int) -> list[int]:
    """What each column needs; where that is too much the widest that may be shortened give way."""
    widths = [
        max(len(column.name), *(row[number].cell_len for row in rows))
        for number, column in enumerate(columns)
    ]
    flexible = [number for number, column in enumerate(columns) if column.kind not in FIXED]
    while sum(widths) + GAP * (len(widths) - 1) > available:
        widest = max(flexible, key=widths.__getitem__, default=None)
        if widest is None or widths[widest] <= NARROWEST:
            break
        widths[widest] -= 1
    return widths


def _print_lines(console: Console, table: Table, details: Sequence[str]) -> None:
    with console.capture() as captured:
        console.print(table)
    header, *lines = captured.get().splitlines()
    click.echo(_trimmed(console, header))
    for number, line in enumerate(lines):
        click.echo(_trimmed(console, line))
        if number < len(details):
            _print(console, Padding(Text(visible(details[number])), (0, 0, 0, 4)))


def print_fields(color: bool | None, fields: Iterable[tuple[str, Cell]]) -> None:
    """Names and values below each other; what has no value is left out."""
    console = make_console(color)
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in fields:
        if value is not None and value != "":
            column = Column(name, "status" if name == "status" else "text")
            table.add_row(visible(name), _cell(value, column))
    _print(console, table)


def print_heading(color: bool | None, text: str) -> None:
    console = make_console(color)
    console.print()
    _print(console, Text(visible(text), style="bold"))


def _print(console: Console, content: RenderableType) -> None:
    """Without the blanks that fill the last column, which only a terminal hides."""
    if console.is_terminal:
        console.print(content)
        return
    with console.capture() as captured:
        console.print(content)
    for line in captured.get().splitlines():
        click.echo(line.rstrip())


def _trimmed(console: Console, line: str) -> str:
    return line if console.is_terminal else line.rstrip()


def _cell(value: Cell, column: Column, *, brief: bool = False) -> Text:
    text = visible(show_value(value, brief=brief))
    style = STATUS_STYLES.get(text, "") if column.kind == "status" else ""
    return Text(text, style=style)


def show_value(value: Cell, *, brief: bool = False) -> str:
    match value:
        case None:
            return ""
        case datetime():
            return _brief(value) if brief else value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")
        case timedelta():
            return show_duration(value)
        case _:
            return str(value)


def _brief(moment: datetime) -> str:
    """The time of today, the day of any other."""
    moment = moment.astimezone(UTC)
    return moment.strftime("%H:%M:%S" if moment.date() == datetime.now(UTC).date() else "%Y-%m-%d")


def show_duration(length: timedelta) -> str:
    """Short and readable: 12 ms, 3.2 s, 4 min, 2 h, 3 d."""
    seconds = length.total_seconds()
    for limit, divisor, unit in ((1, 0.001, "ms"), (120, 1, "s"), (7200, 60, "min"), (172_800, 3600, "h")):
        if seconds < limit:
            number = seconds / divisor
            return f"{number:.1f} {unit}" if unit == "s" else f"{number:.0f} {unit}"
    return f"{seconds / 86_400:.0f} d"


def compact(value: object) -> str:
    """A value on one line."""
    return json.dumps(value, ensure_ascii=False, default=str)


# ------------------------------------------------------------------ words for what tokens are at


def element(node_id: str | None) -> str | None:
    """The id in the diagram: nodes that compilation made have derived ones, such as `task#body`."""
    return None if node_id is None else node_id.partition("#")[0]


def item_words(item: Mapping[str, object] | None) -> str:
    """Which run of a repeated activity it is; its element only if that is short."""
    if not item:
        return ""
    rest = {name: value for name, value in item.items() if name != LOOP_COUNTER}
    words = [f"{LOOP_COUNTER} {item[LOOP_COUNTER]}"] if LOOP_COUNTER in item else []
    words += [text for name, value in rest.items() if len(text := f"{name} {compact(value)}") <= SHORT]
    return ", ".join(words[:MOST_WORDS])


def error_words(error: Mapping[str, object] | None) -> str | None:
    """Code and message: the message alone, such as `'income'` of a KeyError, may say nothing."""
    parts = [str(part) for part in ((error or {}).get("code"), (error or {}).get("message")) if part]
    return ": ".join(parts) or None
