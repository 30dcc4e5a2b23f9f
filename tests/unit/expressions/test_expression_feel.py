"""FEEL: its grammar, its numbers, null and three-valued logic, and its functions."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal

import pytest

from bpm_engine.bpmn.expressions import Duration, ExpressionError, Notation, compile_expression
from bpm_engine.bpmn.expressions.values import Range, Value

NOW = datetime(2026, 3, 1, 12, 30, tzinfo=UTC)
VARIABLES: dict[str, Value] = {
    "total": 120,
    "price": 0.1,
    "name": "Anna",
    "flag": True,
    "unknown": None,
    "first name": "Bo",
    "numbers": [1, 2, 3, 4],
    "items": [{"price": 2.5, "count": 2}, {"price": 4, "count": 1}],
    "order": {"id": 7, "customer": {"tier": "gold"}},
}

VALUES: list[tuple[str, Value]] = [
    ("total = 120", True),
    ("total != 120", False),
    ("1 < 2 and 2 = 2", True),
    ("0.1 + 0.2 = 0.3", True),
    ("price + 0.2", Decimal("0.3")),
    ("1.10 * 3", Decimal("3.30")),
    ("1 / 3", Decimal("0.3333333333333333333333333333333333")),
    ("2 ** 3 ** 2", Decimal("64")),
    ("-2 ** 2", Decimal("4")),
    ("1 / 0", None),
    ("total + null", None),
    ('"a" + 1', None),
    ('"a" + "b"', "ab"),
    ("missing", None),
    ("missing + 1", None),
    ("missing.deeper", None),
    ("order.missing", None),
    ('"a" = 1', None),
    ("null = null", True),
    ("1 = null", False),
    ("1 < null", None),
    ("[1, 2.0] = [1.0, 2]", True),
    ("true and null", None),
    ("false and null", False),
    ("null and false", False),
    ("true or null", True),
    ("null or true", True),
    ("null or false", None),
    ("not(null)", None),
    ("not(flag)", False),
    ("1 and true", None),
    ('if total > 100 then "big" else "small"', "big"),
    ("if null then 1 else 2", 2),
    ("if false then 1 else if true then 2 else 3", 2),
    ("for i in 1..3 return i * i", [1, 4, 9]),
    ("for i in 3..1 return i", [3, 2, 1]),
    ("for x in numbers, y in [10, 20] return x * y", [10, 20, 20, 40, 30, 60, 40, 80]),
    ("for x in [[1, 2], [3]], y in x return y", [1, 2, 3]),
    ('for d in @"2026-01-30"..@"2026-02-01" return d.day', [30, 31, 1]),
    ("some x in numbers satisfies x > 3", True),
    ("every x in numbers satisfies x > 3", False),
    ("every x in [] satisfies false", True),
    ("some x in [null, 1] satisfies x > 5", None),
    ("some x in numbers, y in numbers satisfies x + y = 8", True),
    ("total between 100 and 120", True),
    ("total between 121 and 200", False),
    ("total in [100..120]", True),
    ("total in [100..120)", False),
    ("total in (120..130)", False),
    ("total in ]119..121[", True),
    ("total in (1, 2, 120)", True),
    ("total in (< 5, > 100)", True),
    ("total in < 5", False),
    ("total in [1, 120]", True),
    ("total in numbers", False),
    ('name in ("Bob", "Anna")', True),
    ("numbers[1]", 1),
    ("numbers[-1]", 4),
    ("numbers[9]", None),
    ("numbers[0]", None),
    ("numbers[item > 2]", [3, 4]),
    ("numbers[even(item)]", [2, 4]),
    ("items[price > 3].count", [1]),
    ("items[price > 3][1].count", 1),
    ("items.count", [2, 1]),
    ("[][1]", None),
    ("[][item > 1]", []),
    ("total[1]", 120),
    ("unknown[item > 1]", []),
    ("{a: 1, b: a + 1}", {"a": 1, "b": 2}),
    ('{"a b": 1, c d: 2}.`a b`', 1),
    ("`first name`", "Bo"),
    ("{a: {b: 3}}.a.b", 3),
    ("order.customer.tier", "gold"),
    ("[1..5]", Range(1, 5)),
    ("[1..5].end", 5),
    ("(1..5).start included", False),
    ("5 instance of number", True),
    ('"a" instance of number', False),
    ('@"PT1H" instance of days and time duration', True),
    ('@"2026-01-01" instance of date and time', False),
    ('@"2026-01-01" instance of date', True),
    ("1 /* one */ + 2 // two", 3),
    ('date("2026-01-31") + duration("P1M")', date(2026, 2, 28)),
    ('@"2026-01-31T10:00:00Z" + @"PT15H"', datetime(2026, 2, 1, 1, tzinfo=UTC)),
    ('@"2026-01-02" - @"2026-01-01"', Duration(rest=timedelta(days=1))),
    ('@"P1D" * 2 + @"PT1H"', Duration(rest=timedelta(days=2, hours=1))),
    ('@"P1Y" / @"P1M"', Decimal(12)),
    ('@"10:00:00" + @"PT15H"', time(1)),
    ('@"10:00:00" < @"11:00:00"', True),
    ('date and time(date("2026-01-01"), time("10:00:00"))', datetime(2026, 1, 1, 10, tzinfo=UTC)),
    ('@"2026-01-01T10:00:00@Europe/Berlin" = @"2026-01-01T09:00:00Z"', True),
    ('date and time("2026-01-01T10:00:00").time offset', Duration()),
    ("date(2026, 1, 31)", date(2026, 1, 31)),
    ('date("2026-02-30")', None),
    ('cycle(duration("PT1M"))', "R/PT1M"),
    ('cycle(3, duration("P1DT2H"))', "R3/P1DT2H"),
    ('cycle(null, duration("P1M"))', "R/P1M"),
    ('years and months duration(@"2025-11-30", @"2027-01-29")', Duration(13)),
    ('@"P14M".years', 1),
    ('@"P14M".months', 2),
    ('@"P1DT2H3M4S".hours', 2),
    ('day of week(@"2026-03-01")', "Sunday"),
    ('month of year(@"2026-03-01")', "March"),
    ('week of year(@"2026-01-01")', 1),
    ('day of year(@"2026-02-01")', 32),
    ('last day of month(@"2028-02-01")', date(2028, 2, 29)),
    ("today()", date(2026, 3, 1)),
    ('now() > @"2026-01-01T00:00:00"', True),
    ("string(1.10)", "1.10"),
    ("string(true)", "true"),
    ('string(@"PT1H")', "PT1H"),
    ('number("1,234.5", ",", ".")', Decimal("1234.5")),
    ('number("x")', None),
    ('string length("größe")', 5),
    ("upper case(name) + lower case(name)", "ANNAanna"),
    ('substring("foobar", 3)', "obar"),
    ('substring("foobar", 3, 3)', "oba"),
    ('substring("foobar", -2, 1)', "a"),
    ('substring(string: "foobar", start position: 3)', "obar"),
    ('substring before("foobar", "bar")', "foo"),
    ('substring after("foobar", "ob")', "ar"),
    ('contains("foobar", "of")', False),
    ('starts with("foobar", "fo") and ends with("foobar", "r")', True),
    ('matches("foobar", "^fo*b")', True),
    ('matches("FooBar", "^foo", "i")', True),
    ('matches("x-Y", "^X\\\\Dy$", "i")', True),
    ('matches("b", "[A-C]", "i")', True),
    ('matches("1", "\\\\D", "i")', False),
    ('replace("abcd", "(ab)|(a)", "[$1]")', "[ab]cd"),
    ('split("John Doe", "\\\\s")', ["John", "Doe"]),
    ('extract("a1 b22", "[0-9]+")', ["1", "22"]),
    ('string join(["a", null, "b"], "-")', "a-b"),
    ("contains(total, 1)", None),
    ("list contains(numbers, 2)", True),
    ("count(numbers) + sum(numbers) + min(numbers) + max(1, 9)", 24),
    ("sum([])", None),
    ("mean([1, 2])", Decimal("1.5")),
    ("median([3, 1, 2])", Decimal(2)),
    ("product([2, 3])", Decimal(6)),
    ("mode([6, 1, 9, 6])", [Decimal(6)]),
    ("stddev([2, 4, 7, 5])", Decimal("2.081665999466132735282297706979931")),
    ("append([1], 2, 3)", [1, 2, 3]),
    ("concatenate([1], [2])", [1, 2]),
    ("insert before([1, 3], 2, 2)", [1, 2, 3]),
    ("remove([1, 2, 3], 2)", [1, 3]),
    ("list replace([1, 2], 2, 5)", [1, 5]),
    ("reverse(numbers)", [4, 3, 2, 1]),
    ("index of([1, 2, 1], 1)", [1, 3]),
    ("union([1, 2], [2, 3])", [1, 2, 3]),
    ("distinct values([1, 2, 1])", [1, 2]),
    ("duplicate values([1, 2, 1])", [1]),
    ("flatten([1, [2, [3]]])", [1, 2, 3]),
    ("sublist([1, 2, 3], 2)", [2, 3]),
    ("sublist([1, 2, 3], -2, 1)", [2]),
    ("partition([1, 2, 3], 2)", [[1, 2], [3]]),
    ("sort([3, 1.5, 2])", [Decimal("1.5"), 2, 3]),
    ("all([true, null])", None),
    ("all([true, false])", False),
    ("any([null, true])", True),
    ("decimal(1 / 3, 2)", Decimal("0.33")),
    ('decimal("1.10")', Decimal("1.10")),
    ("floor(-1.5)", -2),
    ("ceiling(1.21, 1)", Decimal("1.3")),
    ("round half up(2.5) + round half down(2.5) + round up(1.1) + round down(1.9)", 8),
    ("modulo(-7, 3)", 2),
    ("modulo(10.1, 4.5)", Decimal("1.1")),
    ("abs(-1.5)", Decimal("1.5")),
    ('abs(@"-PT1H")', Duration(rest=timedelta(hours=1))),
    ("sqrt(16)", Decimal(4)),
    ("sqrt(-1)", None),
    ("odd(3) and even(2)", True),
    ('get value({a: 1}, "a")', 1),
    ("get entries({a: 1})", [{"key": "a", "value": 1}]),
    ('context([{key: "a", value: 1}])', {"a": 1}),
    ('context put({a: 1}, "b", 2)', {"a": 1, "b": 2}),
    ('context put({a: {b: 1}}, ["a", "b"], 2)', {"a": {"b": 2}}),
    ("context merge([{a: 1}, {b: 2}])", {"a": 1, "b": 2}),
    ("is defined(missing)", False),
    ("is defined(unknown)", True),
    ("get or else(missing, 3)", 3),
    ('fromAi(total, "what it costs", "number")', 120),
    ('is blank(" ")', True),
    ("before(1, [2..5])", True),
    ("after([2..5], 1)", True),
    ("meets([1..5], [5..9])", True),
    ("overlaps([1..5], [5..9])", True),
    ("overlaps([1..5), [5..9])", False),
    ("includes([1..5], 3) and during(3, [1..5])", True),
    ("includes([1..5], [1..6])", False),
    ("starts(1, [1..5]) and finishes(5, [1..5]) and coincides(1, 1)", True),
    ("overlaps before([1..5], [3..9]) and overlaps after([3..9], [1..5])", True),
]


@pytest.mark.parametrize(("source", "expected"), VALUES)
def test_value(source: str, expected: Value) -> None:
    value = compile_expression(source, notation=Notation.FEEL).evaluate(VARIABLES, NOW)
    assert value == expected
    assert type(value) is type(expected)
    assert compile_expression(f"= {source}").evaluate(VARIABLES, NOW) == expected


@pytest.mark.parametrize(
    ("source", "code"),
    [
        ("= a == b", "SYNTAX"),
        ("= a && b", "SYNTAX"),
        ("= if a then b", "SYNTAX"),
        ("= for x return 1", "SYNTAX"),
        ("= some x in y", "SYNTAX"),
        ("= [1..", "SYNTAX"),
        ("= function(x) x", "SYNTAX"),
        ("= shout(1)", "UNKNOWN_FUNCTION"),
        ("= upper case()", "ARGUMENT"),
        ("= substring(text: 1)", "ARGUMENT"),
        ('= @"2026-02-30"', "TIME_FORMAT"),
        ("= x instance of nonsense", "SYNTAX"),
    ],
)
def test_what_is_not_feel_is_refused_when_compiling(source: str, code: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        compile_expression(source)
    assert caught.value.code == code
    assert caught.value.source == source


@pytest.mark.parametrize(
    "source",
    [
        "= missing > 3",
        "= missing",
        "= not(missing)",
        "= missing = 3 or flag",
        "= some x in missing satisfies true",
    ],
)
def test_a_condition_reading_a_missing_variable_is_an_error_not_false(source: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        compile_expression(source).holds(VARIABLES)
    assert caught.value.code == "UNKNOWN_VARIABLE"
    assert caught.value.position is not None
    assert source[caught.value.position :].startswith("missing")


@pytest.mark.parametrize(
    "source",
    ["= missing = null", "= null = missing", "= not(is defined(missing))", "= get or else(missing, true)"],
)
def test_a_condition_may_ask_whether_a_variable_exists(source: str) -> None:
    assert compile_expression(source).holds(VARIABLES) is True


def test_a_condition_that_is_null_is_an_error() -> None:
    for source in ("= order.missing > 3", "= unknown", "= name > 3"):
        with pytest.raises(ExpressionError) as caught:
            compile_expression(source).holds(VARIABLES)
        assert caught.value.code == "NOT_BOOLEAN"
