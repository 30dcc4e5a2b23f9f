"""The units and the compose file of the guide: every command in them is one that `bpm` understands."""

from __future__ import annotations

import configparser
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import yaml
from support.markdown import Block, blocks

from bpm_engine.cli import bpm

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "run-in-production.md"
UNITS = [block for block in blocks(PAGE) if block.language == "ini"]
COMPOSE = [block for block in blocks(PAGE) if block.language == "yaml"]


def unit(block: Block) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None)
    parser.read_string(block.source)
    return parser


def name(block: Block) -> str:
    """Of the file: each block begins with a comment that says it."""
    return Path(block.source.splitlines()[0].removeprefix("# ").split(":")[0]).name


def commands() -> Iterator[tuple[str, str]]:
    for block in UNITS:
        yield name(block), unit(block)["Service"]["ExecStart"]
    for block in COMPOSE:
        for service, settings in yaml.safe_load(block.source)["services"].items():
            if "command" in settings:
                yield f"{name(block)} {service}", settings["command"]


@pytest.mark.parametrize(("place", "command"), list(commands()), ids=[place for place, _ in commands()])
def test_the_command_is_one_that_bpm_understands(place: str, command: str) -> None:
    program, *arguments = shlex.split(command)
    assert Path(program).name == "bpm"
    found: click.Command = bpm
    context = click.Context(bpm)
    while isinstance(found, click.Group):
        below = found.get_command(context, arguments.pop(0))
        assert below is not None
        found = below
    found.make_context(place, arguments)  # raises what a user would be told


def test_what_a_unit_needs_is_another_unit_of_the_page() -> None:
    names = {name(block) for block in UNITS}
    needed = {unit(block)["Unit"].get("Requires") for block in UNITS} - {None}
    assert needed <= names
    assert len(names) == len(UNITS)


def test_a_stop_leaves_more_time_than_a_drain() -> None:
    from bpm_engine import Config

    for block in UNITS:
        service = unit(block)["Service"]
        if "bpm run" in service["ExecStart"]:
            assert float(service["TimeoutStopSec"]) > Config().drain_timeout
