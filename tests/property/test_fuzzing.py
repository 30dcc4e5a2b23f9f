"""Damaged files, expressions, times and values through what reads them: answers in words, no other errors.

`BPM_FUZZ=100000` asks for so many examples of each instead of the few of a normal run; `make fuzz` goes on
for minutes, led by coverage where atheris is installed.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from support.fuzz_targets import (
    EXPRESSIONS,
    OBJECTS,
    TIMES,
    VARIABLES,
    read_time,
    read_values,
    read_xml,
)

from bpm_engine.bpmn.expressions import ExpressionError, Notation, compile_expression
from bpm_engine.errors import InvalidInputError
from bpm_engine.store.types import from_json, to_json
from bpm_engine.store.values import check_variables

EXAMPLES = int(os.environ.get("BPM_FUZZ", "60"))
FUZZ = settings(
    max_examples=EXAMPLES,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
)
PROCESSES = Path(__file__).parents[2] / "processes"
FILES = [path.read_bytes() for path in sorted(PROCESSES.glob("*.bpmn"))]
PIECES = sorted({piece for data in FILES for piece in re.findall(rb"<[^<>]{1,200}>|\"[^\"]{1,60}\"", data)})
TOKENS = sorted({token for source in EXPRESSIONS for token in re.findall(r"\w+|\W", source)})
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.decimals(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=20,
)


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


@st.composite
def rewritten(draw: st.DrawFn, texts: tuple[str, ...]) -> bytes:
    """The first byte chooses the way to read the rest."""
    data = draw(st.sampled_from(texts)).encode()
    for _ in range(draw(st.integers(1, 4))):
        begin = draw(st.integers(0, len(data)))
        end = min(len(data), begin + draw(st.integers(0, 4)))
        piece = draw(st.sampled_from(texts)).encode()[: draw(st.integers(0, 9))]
        data = data[:begin] + piece * draw(st.integers(0, 3)) + draw(st.binary(max_size=1)) + data[end:]
    return bytes([draw(st.integers(0, 5))]) + data


@FUZZ
@given(damaged())
def test_a_damaged_file_is_judged_in_words(data: bytes) -> None:
    read_xml(data)


@FUZZ
@given(rearranged())
def test_a_file_whose_parts_are_exchanged_is_judged_in_words(data: bytes) -> None:
    read_xml(data)


@FUZZ
@given(expressions(), st.sampled_from([None, *Notation]))
def test_a_damaged_expression_gives_a_value_or_an_error_of_its_own(
    source: str, notation: Notation | None
) -> None:
    with suppress(ExpressionError):
        compile_expression(source, notation=notation).evaluate(VARIABLES)


@FUZZ
@given(rewritten(TIMES))
def test_a_damaged_time_is_a_time_or_an_error_of_its_own(data: bytes) -> None:
    read_time(data)


@FUZZ
@given(rewritten(OBJECTS))
def test_damaged_variables_are_refused_in_words_or_kept_exactly(data: bytes) -> None:
    read_values(data)


@FUZZ
@given(st.dictionaries(st.text(max_size=5), JSON, max_size=4))
def test_values_of_python_are_refused_in_words_or_kept_exactly(values: dict[str, object]) -> None:
    try:
        kept = check_variables(values)
    except InvalidInputError:
        return
    assert from_json(to_json(kept)) == kept == values
