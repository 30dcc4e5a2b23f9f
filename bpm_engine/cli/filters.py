"""Which instances are meant: the same options for `bpm list` and for operations on many."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import click

from bpm_engine.api.filters import InstanceFilters
from bpm_engine.cli.options import moment
from bpm_engine.cli.session import assignments

F = TypeVar("F", bound=Callable[..., Any])
STATUSES = ["Running", "Suspended", "Completed", "Failed", "Cancelled"]
_OPTIONS = (
    click.option("--status", type=click.Choice(STATUSES, case_sensitive=False), help="Only these."),
    click.option("--definition", "-d", metavar="PROCESS", help="Only instances of this process."),
    click.option("--version", type=int, help="Only of this version."),
    click.option("--business-key", "-k", help="Only with this key."),
    click.option("--subject", help="Only about this subject."),
    click.option("--correlation-id", help="Only with this id."),
    click.option("--node", metavar="NODE", help="Only those with a token at this node."),
    click.option("--incidents/--no-incidents", default=None, help="Only with, or only without incidents."),
    click.option("--where", multiple=True, metavar="NAME=VALUE", help="Only with this variable."),
    click.option("--after", type=moment, metavar="TIME", help="Only started since (UTC)."),
    click.option("--before", type=moment, metavar="TIME", help="Only started before (UTC)."),
)
NAMES = (
    "status",
    "definition",
    "version",
    "business_key",
    "subject",
    "correlation_id",
    "node",
    "incidents",
    "where",
    "after",
    "before",
)


def filtered(function: F) -> F:
    """Add the options; the function gets them by their names, for `taken`."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def taken(options: dict[str, Any]) -> InstanceFilters:
    """Take what was given out of a command's options: what `instances.find` looks for."""
    given = {name: options.pop(name) for name in NAMES}
    where, after, before = given.pop("where"), given.pop("after"), given.pop("before")
    wanted: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if where:
        wanted["variables"] = nested(assignments(where))
    if after is not None:
        wanted["started_after"] = after
    if before is not None:
        wanted["started_before"] = before
    return cast(InstanceFilters, wanted)


def nested(flat: dict[str, Any]) -> dict[str, Any]:
    """`{"a.b": 1}` means the part `b` of `a`. What is both a value and the place of parts cannot be found."""
    result: dict[str, Any] = {}
    for name, value in flat.items():
        *outer, last = name.split(".")
        place: Any = result
        for part in outer:
            place = place.setdefault(part, {}) if isinstance(place, dict) else None
        if not isinstance(place, dict) or last in place:
            raise click.UsageError(f"--where {name} contradicts another --where: a variable has one value")
        place[last] = value
    return result
