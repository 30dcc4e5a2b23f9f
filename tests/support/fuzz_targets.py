"""What is read from outside, each as a function of bytes: it answers in words of its own, or the fuzzer has
found something.

`tests/fuzzing` feeds them for minutes, led by coverage where atheris is installed. The first bytes choose
between ways to read the rest, as a fuzzer has nothing but bytes to say so.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import click

from bpm_engine.bpmn.draw import draw_svg, lay_out
from bpm_engine.bpmn.expressions import (
    ExpressionError,
    Notation,
    compile_expression,
    compile_script,
    compile_template,
    parse_cycle,
    parse_datetime,
    parse_duration,
)
from bpm_engine.bpmn.load import load
from bpm_engine.cli.session import assignments, read_object
from bpm_engine.errors import DefinitionError, InvalidInputError
from bpm_engine.store.types import from_json, to_json
from bpm_engine.store.values import check_variables

ROOT = Path(__file__).parents[2]
NOW = datetime(2026, 3, 29, 0, 30, tzinfo=UTC)  # the night of a change of clocks
VARIABLES = {
    "amount": 120,
    "price": 1.5,
    "status": "open",
    "paid": False,
    "name": "ab-12",
    "a": None,
    "orders": [{"total": 2}, {"total": 3}],
    "customer": {"address": [{"city": "Ulm"}]},
}
EXPRESSIONS = (
    "${amount > 100 and status == 'open' or not(paid)}",
    "${customer.address[0].city ?: 'none'}",
    "=for x in orders return x.total * 1.19",
    "=some x in orders satisfies x.total between 1 and 10",
    '=date and time("2026-01-01T00:00:00Z") + duration("P1DT2H")',
    "${matches(name, '^[a-z]+(-[0-9]{2,3})?$') ? upper(name) : len(name)}",
    "#{sum([1, 2, 3]) // 2 % 2 - -1}",
    '=if a = null then {b: [1..3], c: "x"}.b[1] else string(a)',
    "[x.total ** 2 for x in orders if x.total in [1, 2]][0] < 5",
    "order-${name}-${amount}",
    "total = amount * 2\nname = upper(name) + 'x'",
    '=replace(name, "(a)(b)", "$2$1") + substring(name, -2) + string(@"PT1H")',
    "format_date(now(), '%Y') if amount != 0 else round(price, 1)",
)
TIMES = (
    "P1Y2M3DT4H5M6.7S",
    "PT5M",
    "2026-03-29T02:30:00[Europe/Berlin]",
    "2024-02-29T10:00:00.123+01:00",
    "R3/2026-01-01T00:00:00Z/PT1H",
    "R/P1M",
    "0 0 9-17 * * MON-FRI",
    "*/5 * * * *",
)
OBJECTS = (
    '{"a": 1, "b": [true, null, -1.5e3], "c": {"d": "\\u00e4\\ud83c\\udf89"}}',
    '{"big": 9007199254740993, "long": 1e39, "tiny": 5e-324, "nan": NaN}',
    '{"a": [[[[[[[[]]]]]]]], "__proto__": {}, "": 0}',
    "a=1",
    'name={"a": ["x"]}',
)


def read_xml(data: bytes) -> None:
    """A file, as deploying, checking and drawing read it."""
    try:
        loaded = load(data, support=True)
    except DefinitionError as refusal:
        problems = refusal.problems
        assert problems
    else:
        problems = loaded.problems
        if loaded.definitions is not None:
            draw_svg(loaded.definitions, lay_out(loaded.definitions))
    assert all(problem.code and problem.message for problem in problems)


def read_expression(data: bytes) -> None:
    way, source = _chosen(data)
    with suppress(ExpressionError):
        match way % 6:
            case 0:
                compile_expression(source).holds(VARIABLES, NOW)
            case 1 | 2 | 3:
                compile_expression(source, notation=list(Notation)[way % 6 - 1]).evaluate(VARIABLES, NOW)
            case 4:
                compile_template(source).evaluate(VARIABLES, NOW)
            case _:
                compile_script(source).run(VARIABLES, NOW)


def read_time(data: bytes) -> None:
    way, source = _chosen(data)
    with suppress(ExpressionError):
        match way % 3:
            case 0:
                parse_duration(source).add(NOW)
            case 1:
                parse_datetime(source)
            case _:
                cycle = parse_cycle(source)
                cycle.next_after(cycle.next_after(None, NOW), NOW)


def read_values(data: bytes) -> None:
    """What a command line or a caller gives as variables: refused, or kept exactly."""
    way, source = _chosen(data)
    try:
        given = read_object(source.lstrip("@-")) if way % 2 else assignments([source])
        kept = check_variables(given)
    except (InvalidInputError, click.UsageError):
        return
    again = from_json(to_json(kept))
    assert again == kept, (again, kept)
    assert check_variables(again) == kept


@dataclass(frozen=True, slots=True)
class Target:
    read: Callable[[bytes], None]
    seeds: Callable[[], Iterator[bytes]]
    words: Callable[[], set[bytes]]


def _chosen(data: bytes) -> tuple[int, str]:
    return (data[0] if data else 0), data[1:].decode("utf-8", "surrogateescape")


def _files() -> Iterator[bytes]:
    for path in sorted((ROOT / "processes").glob("*.bpmn")):
        yield path.read_bytes()


def _texts(texts: tuple[str, ...], ways: int) -> Iterator[bytes]:
    for text in texts:
        for way in range(ways):
            yield bytes([way]) + text.encode()


def _tags() -> set[bytes]:
    return {tag for data in _files() for tag in re.findall(rb"<[\w:]+|[\w:]+=\"[^\"]{0,40}\"", data)}


def _words(texts: tuple[str, ...]) -> set[bytes]:
    return {word.encode() for text in texts for word in re.findall(r"\w+|[^\w\s]+", text)}


TARGETS = {
    "xml": Target(read_xml, _files, _tags),
    "expressions": Target(
        read_expression, lambda: _texts(EXPRESSIONS, 6), lambda: _words(EXPRESSIONS) | _words(TIMES)
    ),
    "times": Target(read_time, lambda: _texts(TIMES, 3), lambda: _words(TIMES)),
    "values": Target(read_values, lambda: _texts(OBJECTS, 2), lambda: _words(OBJECTS)),
}
