"""Properties of the language, on generated expressions."""

from __future__ import annotations

import contextlib
import pickle
import re
from collections.abc import Iterator, Mapping
from decimal import Decimal, localcontext

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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
from bpm_engine.bpmn.expressions.patterns import compile_pattern
from bpm_engine.bpmn.expressions.values import Value

NAMES: dict[str, int | float] = {"a": 3, "b": -7, "c": 2.5, "d": 0}
VARIABLES: dict[str, Value] = {
    **NAMES,
    "s": "text",
    "n": None,
    "t": True,
    "l": [1, {"k": "v"}],
    "m": {"k": [1]},
}
OPERATORS = "( ) [ ] { } , . .. : ? = == != < <= > >= + - * / // % ** && || ! ${ #{ } @".split()  # noqa: SIM905
WORDS = """a b s l m n t zz and or not in if then else for return some every satisfies between instance of
    null true false empty item x len upper sum date duration matches string length""".split()  # noqa: SIM905
LITERALS = ["1", "2", "0.5", '"x"', "'y'", 'date("2026-01-01")', '@"PT1H"', "for x in l"]
FRAGMENTS = st.sampled_from(OPERATORS + WORDS + LITERALS)
GARBAGE = st.one_of(
    st.text(max_size=60),
    st.lists(FRAGMENTS, max_size=25).map(" ".join),
    st.lists(FRAGMENTS, max_size=25).map("".join),
)


@given(GARBAGE, st.sampled_from([None, *Notation]))
@settings(max_examples=1500, deadline=None)
def test_garbage_raises_nothing_but_expression_errors(source: str, notation: Notation | None) -> None:
    for use in ("evaluate", "holds"):
        error = refusal(source, notation, use)
        if error is not None:
            assert error.source == source
            assert str(error)


def refusal(source: str, notation: Notation | None, use: str) -> ExpressionError | None:
    try:
        getattr(compile_expression(source, notation=notation), use)(VARIABLES)
    except ExpressionError as error:
        return error
    return None


@given(GARBAGE)
@settings(max_examples=500, deadline=None)
def test_garbage_in_texts_scripts_and_times_raises_nothing_but_expression_errors(source: str) -> None:
    for compile_source in (compile_template, compile_script, parse_cycle, parse_datetime, parse_duration):
        try:
            compiled = compile_source(source)
        except ExpressionError:
            continue
        pickle.loads(pickle.dumps(compiled))


def operands() -> st.SearchStrategy[str]:
    literals = st.one_of(st.integers(0, 10**12).map(str), st.floats(0, 1e9, allow_nan=False).map(repr))
    return st.one_of(st.sampled_from(sorted(NAMES)), literals.filter(lambda text: "e" not in text))


def arithmetic() -> st.SearchStrategy[str]:
    def extend(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        joined = st.tuples(inner, st.sampled_from(["+", "-", "*", "/", "//", "%"]), inner).map(" ".join)
        return st.one_of(joined, inner.map(lambda text: f"({text})"), inner.map(lambda text: f"-{text}"))

    return st.recursive(operands(), extend, max_leaves=8)


def conditions() -> st.SearchStrategy[str]:
    chain = st.tuples(arithmetic(), st.sampled_from(["<", "<=", ">", ">=", "==", "!="]), arithmetic())
    longer = st.tuples(chain.map(" ".join), st.sampled_from([" < a", " == b", ""])).map("".join)

    def extend(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        joined = st.tuples(inner, st.sampled_from(["and", "or"]), inner).map(" ".join)
        return st.one_of(joined, inner.map(lambda text: f"not ({text})"), inner.map(lambda text: f"({text})"))

    return st.recursive(longer, extend, max_leaves=4)


@given(st.one_of(arithmetic(), conditions()))
@settings(max_examples=800, deadline=None)
def test_plain_arithmetic_and_comparison_agree_with_python(source: str) -> None:
    try:
        expected = eval(source, {"__builtins__": {}}, dict(NAMES))
    except (ZeroDivisionError, OverflowError):
        with pytest.raises(ExpressionError):
            compile_expression(source).evaluate(NAMES)
        return
    value = compile_expression(source).evaluate(NAMES)
    assert value == expected
    assert type(value) is type(expected)


decimals = st.decimals(-(10**9), 10**9, places=4, allow_nan=False)


@given(decimals, decimals)
@settings(deadline=None)
def test_feel_numbers_are_exact(left: Decimal, right: Decimal) -> None:
    source = f"= [({left}) + ({right}), ({left}) - ({right}), ({left}) * ({right}), ({left}) < ({right})]"
    with localcontext() as context:
        context.prec = 34
        expected = [left + right, left - right, left * right, left < right]
        assert compile_expression(source).evaluate({}) == expected


@given(decimals)
@settings(deadline=None)
def test_floats_from_json_enter_feel_by_their_shortest_text(amount: Decimal) -> None:
    value = compile_expression("= amount + 0").evaluate({"amount": float(amount)})
    assert value == Decimal(repr(float(amount)))


@given(GARBAGE, st.sampled_from([None, *Notation]))
@settings(max_examples=500, deadline=None)
def test_pickling_keeps_equality_and_result(source: str, notation: Notation | None) -> None:
    try:
        expression = compile_expression(source, notation=notation)
    except ExpressionError:
        return
    again = pickle.loads(pickle.dumps(expression))
    assert again == expression
    assert outcome(again) == outcome(expression)


def outcome(expression: object) -> str:
    try:
        return repr(expression.evaluate(VARIABLES))  # type: ignore[attr-defined]
    except ExpressionError as error:
        return str(error)


class Recorded(Mapping[str, Value]):
    def __init__(self) -> None:
        self.asked: set[str] = set()

    def __getitem__(self, name: str) -> Value:
        self.asked.add(name)
        return VARIABLES[name]

    def __iter__(self) -> Iterator[str]:
        return iter(VARIABLES)

    def __len__(self) -> int:
        return len(VARIABLES)


@given(GARBAGE, st.sampled_from([None, *Notation]))
@settings(max_examples=800, deadline=None)
def test_an_expression_looks_up_only_what_it_says_it_reads(source: str, notation: Notation | None) -> None:
    try:
        expression = compile_expression(source, notation=notation)
    except ExpressionError:
        return
    variables = Recorded()
    with contextlib.suppress(ExpressionError):
        expression.evaluate(variables)
    assert variables.asked <= expression.reads


PATTERNS = st.recursive(
    st.sampled_from(["a", "b", ".", "[ab]", "[^a]", "\\d", "\\w", "^", "$", "c?"]),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda pair: f"({pair[0]}|{pair[1]})"),
        inner.map(lambda text: f"({text})*"),
        inner.map(lambda text: f"({text})+"),
        inner.map(lambda text: f"({text}){{1,2}}"),
    ),
    max_leaves=6,
)


@given(PATTERNS, st.text("ab1c", max_size=8))
@settings(max_examples=500, deadline=None)
def test_patterns_match_where_pythons_do(pattern: str, text: str) -> None:
    expected = re.search(pattern.replace("$", r"\Z"), text, re.DOTALL)
    assert compile_pattern(pattern, "s", capturing=False).occurs(text) is (expected is not None)
    found = compile_pattern(pattern, "s").find(text)
    assert (found is not None) is (expected is not None)
    if found is not None and expected is not None:
        assert found.start == expected.start()
