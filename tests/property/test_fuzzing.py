"""Damaged files and expressions through everything that reads them: an answer in words, never another error.

`BPM_FUZZ=100000` asks for so many examples of each instead of the few of a normal run.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from bpm_engine.bpmn.expressions import ExpressionError, Notation, compile_expression
from bpm_engine.bpmn.load import load
from bpm_engine.errors import DefinitionError

EXAMPLES = int(os.environ.get("BPM_FUZZ", "60"))
FUZZ = settings(
    max_examples=EXAMPLES,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
)
PROCESSES = Path(__file__).parents[2] / "processes"
FILES = [path.read_bytes() for path in sorted(PROCESSES.glob("*.bpmn"))]
PIECES = sorted({piece for data in FILES for piece in re.findall(rb"<[^<>]{1,200}>|\"[^\"]{1,60}\"", data)})
EXPRESSIONS = (
    "${amount > 100 and status == 'open' or not(paid)}",
    "${customer.address[0].city ?: 'none'}",
    "=for x in orders return x.total * 1.19",
    "=some x in items satisfies x.price between 1 and 10",
    '=date and time("2026-01-01T00:00:00Z") + duration("P1DT2H")',
    "${matches(name, '^[a-z]+(-[0-9]{2,3})?$') ? upper(name) : len(name)}",
    "#{sum([1, 2, 3]) // 2 % 2 - -1}",
    '=if a = null then {b: [1..3], c: "x"}.b[1] else string(a)',
)
TOKENS = sorted({token for source in EXPRESSIONS for token in re.findall(r"\w+|\W", source)})
VARIABLES = {
    "amount": 120,
    "status": "open",
    "paid": False,
    "name": "ab-12",
    "a": None,
    "orders": [{"total": 2}],
}


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    data = draw(st.sampled_from(FILES))
    for _ in range(draw(st.integers(1, 5))):
        begin = draw(st.integers(0, len(data)))
        end = min(len(data), begin + draw(st.integers(0, 120)))
        data = data[:begin] + draw(st.sampled_from([b"", *PIECES])) + data[end:]
    return data


@st.composite
def rearranged(draw: st.DrawFn) -> bytes:
    """Well-formed: whole elements and values are exchanged, so that damage gets past the parser of XML."""
    data = draw(st.sampled_from(FILES))
    for _ in range(draw(st.integers(1, 4))):
        found = sorted(set(re.findall(rb"\"[^\"<>]{1,60}\"", data)))
        old, new = draw(st.sampled_from(found)), draw(st.sampled_from(found))
        data = data.replace(old, new, draw(st.integers(1, 2)))
    return data


@st.composite
def expressions(draw: st.DrawFn) -> str:
    source = draw(st.sampled_from(EXPRESSIONS))
    for _ in range(draw(st.integers(1, 6))):
        begin = draw(st.integers(0, len(source)))
        end = min(len(source), begin + draw(st.integers(0, 6)))
        piece = draw(st.one_of(st.sampled_from(TOKENS), st.text(max_size=2)))
        source = source[:begin] + piece * draw(st.integers(1, 3)) + source[end:]
    return source


def read(data: bytes) -> None:
    try:
        problems = load(data, support=True).problems
    except DefinitionError as refusal:
        problems = refusal.problems
        assert problems
    assert all(problem.code and problem.message for problem in problems)


@FUZZ
@given(damaged())
def test_a_damaged_file_is_judged_in_words(data: bytes) -> None:
    read(data)


@FUZZ
@given(rearranged())
def test_a_file_whose_parts_are_exchanged_is_judged_in_words(data: bytes) -> None:
    read(data)


@FUZZ
@given(expressions(), st.sampled_from([None, *Notation]))
def test_a_damaged_expression_gives_a_value_or_an_error_of_its_own(
    source: str, notation: Notation | None
) -> None:
    with suppress(ExpressionError):
        compile_expression(source, notation=notation).evaluate(VARIABLES)
