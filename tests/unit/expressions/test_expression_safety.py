"""Escapes and bombs: each is refused, quickly, and with nothing but an ExpressionError."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from bpm_engine.bpmn.expressions import (
    ExpressionError,
    Notation,
    compile_expression,
    compile_script,
    compile_template,
)

VARIABLES = {"x": 1, "text": "abc", "items": [1, 2, 3], "order": {"id": 7}, "many": list(range(10_000))}
SECONDS = 0.05

ESCAPES = [
    "().__class__.__base__.__subclasses__()",
    "''.__class__.__mro__",
    "x.__class__",
    "order.__class__",
    "order['__class__'].mro",
    "getattr(x, 'real')",
    "x.real",
    "text.upper",
    "__import__('os')",
    "globals()",
    "locals()",
    "vars()",
    "dir(x)",
    "type(x)",
    "print(x)",
    "print.__self__",
    "eval('1')",
    "exec('1')",
    "open('/etc/passwd')",
    "lambda: 1",
    "(lambda: 1)()",
    "[i for i in items].gi_frame",
    "(i for i in items).gi_frame.f_back",
    "(x for x in ()).gi_frame",
    "x.cr_frame",
    "'{0.__class__}'.format(x)",
    "'{0.__class__}'.format_map(order)",
    "'%s' % x",
    "f'{x}'",
    "text.__reduce__()",
    "text.__getattribute__('upper')",
    "(y := 1)",
    "max(*items)",
    "merge(**order)",
    "@decorated",
    "async x",
    "await x",
    "order.__ｃlass__",
    "order.__proto__",
    "order.constructor",
    "order | order",
    "order.__or__(order)",
    "order.keys()",
    "[].append(1)",
    "import os",
    "x; x",
    "x\ny",
    "items[0:2]",
    "x if x",
    "yield x",
    "`x`",
    "$x",
    "x.1",
    "1 .real",
    "0x10",
    "1_000",
    "~x",
    "x @ x",
    "x is x",
    "...",
    "*",
    "()",
    "",
    "   ",
    "\x00",
    "'unclosed",
    "'\\ud800'",
    "'\\u0000'",
    "x.contains('a')",
    "x()",
    "items[0]()",
    "contains(1)(2)",
]

BOMBS = [
    "9**9**9",
    "x + 9**9**9",
    "2**64**2",
    "pow(3, 10**9)",
    "10**9**(x + 1)",
    "1<<10**9",
    "(10**60) * (10**60)",
    "'x' * 10**9",
    "'{:>999999999}'.format(1)",
    "'x'.ljust(10**9)",
    "sum(range(10**10))",
    "range(10**18)",
    "range(-10**70, 10**70)",
    "[a * b for a in many for b in many]",
    "[a == many for a in [many, many, many] for b in many]",
    "[sum(many) for a in many]",
    "[sort(many) for a in many]",
    "[many + many for a in many]",
    "[contains(many, -1) for a in many]",
    "[distinct(many) for a in many]",
    "[join(split('" + "a," * 1000 + "', ',')) for a in many]",
    "[upper('" + "a" * 3000 + "') for a in many]",
    "[[[a for a in many] for b in many] for c in many]",
    "[range(9999) for a in many]",
    "replace('" + "a" * 1000 + "', 'a', '" + "b" * 1000 + "')",
    "1e999",
    "1" * 400,
    "1e300 * 1e300",
    "1e400",
    "decimal('9e999') ** 64",
    "-" * 100_000 + "1",
    "-" * 4_000 + "1",
    "not " * 1_000 + "true",
    "!" * 4_000 + "true",
    "(" * 2_000 + "1" + ")" * 2_000,
    "[" * 2_000 + "]" * 2_000,
    "abs(" * 900 + "1" + ")" * 900,
    "a" + ".a" * 2_000,
    "items" + "[0]" * 1_000,
    "x" + "<x" * 100_000,
    "x" + "<x" * 2_000,
    "x" + "+x" * 2_000,
    "x if x else " * 300 + "x",
    "2" + "**2" * 1_000,
    "{'a':" * 500 + "1" + "}" * 500,
    "/*" * 2_000,
    "matches(text, '((a{99}){99}){99}')",
    "matches(text, '" + "(" * 200 + "')",
    "split('" + "," * 3_000 + "', '')",
]

FEEL_BOMBS = [
    "= for a in 1..10000, b in 1..10000 return a",
    "= for a in 1..1000000000 return a",
    "= for a in -10**30..10**30 return a",
    "= some a in 1..10000 satisfies some b in 1..10000 satisfies false",
    "= many[item = many[item = 1][1]]",
    "= for a in many return many[item = a]",
    "= for a in many return list contains(many, -1)",
    "= 10 ** 100",
    "= exp(100000)",
    "= if true then " * 300 + "1",
    "= [1.." * 100,
    '= replace("' + "a" * 2000 + '", "a", "' + "b" * 100 + '")',
    '= for i in 1..9000 return matches("' + "a" * 50 + '", "(a+)+$")',
    "= -" + "-" * 3_000 + "1",
]


def refused_quickly(action: Callable[[], object]) -> ExpressionError:
    """The best of three runs counts, in processor time: the machine may be busy with other things."""
    taken = []
    for _ in range(3):
        begun = time.thread_time()
        with pytest.raises(ExpressionError) as caught:
            action()
        taken.append(time.thread_time() - begun)
        if taken[-1] < SECONDS:
            break
    assert min(taken) < SECONDS, f"refused only after {min(taken):.3f} s"
    assert str(caught.value)
    return caught.value


@pytest.mark.parametrize("notation", [Notation.PLAIN, Notation.JUEL, Notation.FEEL])
@pytest.mark.parametrize("source", ESCAPES)
def test_an_escape_is_refused(source: str, notation: Notation) -> None:
    refused_quickly(lambda: compile_expression(source, notation=notation).holds(VARIABLES))


@pytest.mark.parametrize("source", BOMBS, ids=lambda source: source[:40])
def test_a_bomb_is_refused_in_plain_notation(source: str) -> None:
    refused_quickly(lambda: compile_expression(source).evaluate(VARIABLES))


@pytest.mark.parametrize("source", FEEL_BOMBS, ids=lambda source: source[:40])
def test_a_bomb_is_refused_in_feel(source: str) -> None:
    refused_quickly(lambda: compile_expression(source).evaluate(VARIABLES))


@pytest.mark.parametrize("source", ["9**9**9", "().__class__", "1 / 0", "nothing_like_this()", "upper()"])
def test_what_is_wrong_without_variables_is_found_when_compiling(source: str) -> None:
    with pytest.raises(ExpressionError):
        compile_expression(source)


class Sneaky:
    """An object whose operators must never be called."""

    def __getattr__(self, name: str) -> object:
        raise AssertionError(f"attribute {name} was read")

    def __eq__(self, other: object) -> bool:
        raise AssertionError("== was called")

    def __lt__(self, other: object) -> bool:
        raise AssertionError("< was called")

    def __hash__(self) -> int:
        return 1


class SneakyText(str):
    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        raise AssertionError("== was called")

    def __hash__(self) -> int:
        return 1


FOREIGN: dict[str, object] = {
    "object": Sneaky(),
    "text": SneakyText("a"),
    "bytes": b"bytes",
    "set": {1},
    "tuple": (1,),
    "type": int,
}


@pytest.mark.parametrize("foreign", FOREIGN)
@pytest.mark.parametrize("source", ["v == 1", "v < 1", "v", "str(v)", "[v]", "v.a", "d.v == 1", "l[0] == 1"])
def test_a_python_object_among_the_variables_is_refused(foreign: str, source: str) -> None:
    value = FOREIGN[foreign]
    variables = {"v": value, "d": {"v": value}, "l": [value]}
    for notation in (Notation.PLAIN, Notation.JUEL):
        with pytest.raises(ExpressionError) as caught:
            compile_expression(source, notation=notation).evaluate(variables)
        assert caught.value.code == "TYPE_MISMATCH"


def test_a_backtracking_pattern_runs_in_linear_time() -> None:
    expression = compile_expression("matches(text, '(a+)+$')")
    begun = time.thread_time()
    assert expression.evaluate({"text": "a" * 50}) is True
    assert expression.evaluate({"text": "a" * 50 + "!"}) is False
    assert time.thread_time() - begun < SECONDS


def test_a_hundred_thousand_minus_signs_are_an_expression_error_everywhere() -> None:
    source = "-" * 100_000 + "1"
    for action in (compile_expression, compile_template, compile_script):
        with pytest.raises(ExpressionError) as caught:
            action("${" + source + "}" if action is compile_template else source)
        assert caught.value.code == "LIMIT"


def test_a_long_sum_of_a_few_hundred_terms_is_no_bomb() -> None:
    assert compile_expression("+".join(["x"] * 200)).evaluate(VARIABLES) == 200


def test_parentheses_thirty_deep_are_no_bomb() -> None:
    assert compile_expression("(" * 30 + "x" + ")" * 30).evaluate(VARIABLES) == 1


def test_a_collection_handed_on_is_not_measured_but_a_computed_one_is() -> None:
    texts = {"texts": ["a" * 100] * 5_000}
    assert compile_expression("texts").evaluate(texts) is texts["texts"]
    with pytest.raises(ExpressionError) as caught:
        compile_expression("[t for t in texts]").evaluate(texts)
    assert caught.value.code == "LIMIT"


@pytest.mark.parametrize("nest", ["({})", "[{}]", "abs({})", "-{}", "not {}"])
def test_nesting_beyond_thirty_two_is_refused_when_compiling(nest: str) -> None:
    source = "x"
    for _ in range(33):
        source = nest.format(source)
    with pytest.raises(ExpressionError) as caught:
        compile_expression(source)
    assert caught.value.code == "LIMIT"
    assert caught.value.position is not None


@pytest.mark.parametrize("source", ["__x", "order.__x", "${__x}", "= __x", "= `__x`"])
def test_names_with_two_leading_underscores_are_refused_when_compiling(source: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        compile_expression(source)
    assert caught.value.code == "SYNTAX"


@pytest.mark.parametrize(
    "source",
    ["long + long", "join([long, long])", "replace(long, 'a', 'bb')", "${long + long}", "= long + long"],
)
def test_a_text_beyond_the_limit_is_refused(source: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        compile_expression(f"[{source}] == 1" if source.startswith("long") else source).evaluate(
            {"long": "a" * 40_000}
        )
    assert caught.value.code == "LIMIT"
    with pytest.raises(ExpressionError):
        compile_template("${long}${long}").evaluate({"long": "a" * 40_000})
