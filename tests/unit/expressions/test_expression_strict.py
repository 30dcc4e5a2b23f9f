"""The plain and JUEL notations: values, types and errors."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest

from bpm_engine.bpmn.expressions import Duration, ExpressionError, Notation, compile_expression, to_json
from bpm_engine.bpmn.expressions.values import Value

NOW = datetime(2026, 3, 1, 12, 30, tzinfo=UTC)
VARIABLES: dict[str, Value] = {
    "total": 120,
    "limit": 100,
    "price": 9.5,
    "name": "Anna",
    "approved": True,
    "nothing": None,
    "tags": ["new", "vip"],
    "order": {"id": 7, "items": [{"price": 2.5, "count": 2}, {"price": 4, "count": 1}], "note": None},
    "empty_list": [],
}

PLAIN: list[tuple[str, Value]] = [
    ("total > limit", True),
    ("total >= 120 and total <= 120", True),
    ("100 < total <= 120 != 3", True),
    ("100 < total < 110", False),
    ("limit > total or approved", True),
    ("not approved", False),
    ("not total > limit", False),
    ("!approved || total == 120 && !(name == 'Bob')", True),
    ("total == 120.0", True),
    ("approved == 1", False),
    ("'1' == 1", False),
    ("nothing == null", True),
    ("nothing == None", True),
    ("total != nothing", True),
    ("true == True and not False", True),
    ("'vip' in tags", True),
    ("'old' not in tags", True),
    ("nothing is None", True),
    ("tags is not None and nothing is not True", True),
    ("None is None is not False", True),
    ("'nn' in name", True),
    ("'id' in order", True),
    ("1 + 2 * 3 - 4", 3),
    ("-2 ** 2", -4),
    ("2 ** -1", 0.5),
    ("2 ** 3 ** 2", 512),
    ("7 / 2", 3.5),
    ("7 // 2", 3),
    ("-7 // 2", -4),
    ("-7 % 3", 2),
    ("1.5 + 1", 2.5),
    ("'a' + 'b'", "ab"),
    ("[1] + [2]", [1, 2]),
    ("'big' if total > limit else 'small'", "big"),
    ("1 if false else 2 if false else 3", 3),
    ("order.items[0].price", 2.5),
    ("order['items'][-1]['count']", 1),
    ("name[0]", "A"),
    ("{'a': total, 'b': [1, {'c': name}]}", {"a": 120, "b": [1, {"c": "Anna"}]}),
    ("[]", []),
    ("[1, 2,]", [1, 2]),
    ("[item.price * item.count for item in order.items]", [5.0, 4]),
    ("[item.count for item in order.items if item.price > 3]", [1]),
    ("[a + b for a in tags for b in tags if a != b]", ["newvip", "vipnew"]),
    ("any(item.price > 3 for item in order.items)", True),
    ("all(item.price > 3 for item in order.items)", False),
    ("sum(item.count for item in order.items)", 3),
    ("len(tags) + size(name) + count(order)", 9),
    ("contains(name, 'nn') and contains(tags, 'vip')", True),
    ("upper(name) + lower(name) + trim('  x ')", "ANNAannax"),
    ("starts_with(name, 'An') and ends_with(name, 'na')", True),
    ("substring(name, 1) + substring(name, -2) + substring(name, 0, 2)", "nnanaAn"),
    ("replace(name, 'n', 'm')", "Amma"),
    ("join(split('a,b', ','), '-')", "a-b"),
    ("index_of(tags, 'vip') + index_of(name, 'z')", 0),
    ("str(1.0) + str(true) + str(12)", "1true12"),
    ("int('42') + int(3.9)", 45),
    ("float('1.5')", 1.5),
    ("decimal('1.10') * 3", Decimal("3.30")),
    ("decimal('0.1') + 0.2", Decimal("0.3")),
    ("decimal('0.30') == 0.3", True),
    ("round(2.5) + round(2.675, 2)", 4.67),
    ("floor(2.7) + ceil(2.1) + abs(-1)", 6),
    ("min(3, 1, 2) + max([3, 1, 2])", 4),
    ("sum([])", 0),
    ("mean([1, 2])", 1.5),
    ("sort([3, 1.5, 2])", [1.5, 2, 3]),
    ("reverse(tags)", ["vip", "new"]),
    ("distinct([1, 1.0, true, 'a', 'a', [1], [1]])", [1, True, "a", [1]]),
    ("flatten([1, [2, [3]]])", [1, 2, 3]),
    ("range(3) + range(5, 3, -1)", [0, 1, 2, 5, 4]),
    ("keys(order)", ["id", "items", "note"]),
    ("get(order, 'discount', 0) + get(order, 'id')", 7),
    ("merge({'a': 1}, {'a': 2, 'b': 3})", {"a": 2, "b": 3}),
    ("put(order, 'id', 8).id", 8),
    ("coalesce(nothing, order.note, 'x')", "x"),
    ("defined(total) and defined(order.note) and not defined(order.x) and not defined(zz.y)", True),
    ("empty(empty_list) and empty(nothing)", True),
    ("matches(name, '^A.*a$')", True),
    ("date('2026-01-31') + duration('P1M')", date(2026, 2, 28)),
    ("date('2026-03-01') - date('2026-02-01')", Duration(rest=timedelta(days=28))),
    ("datetime('2026-01-01T10:00:00+01:00') == datetime('2026-01-01T09:00:00Z')", True),
    ("date('2026-01-31').year + date('2026-01-31').weekday", 2032),
    ("now() - duration('PT30M')", NOW - timedelta(minutes=30)),
    ("today()", date(2026, 3, 1)),
    ("now() > datetime('2026-02-28T00:00:00')", True),
    ("duration('PT90M') > duration('PT1H')", True),
    ("seconds(duration('PT90M'))", 5400),
    ("'\\u00e9\\n\\'' + \"\\\"\"", "é\n'\""),
    ("größe", 3),
]

JUEL: list[tuple[str, Value]] = [
    ("${total > limit}", True),
    ("#{total > limit}", True),
    ("  ${ total gt limit and total ge 120 or false }  ", True),
    ("${total lt limit || total le 1 || total eq 120 && name ne 'Bob'}", True),
    ("${!approved}", False),
    ("${not approved}", False),
    ("${!approved == false}", True),
    ("${7 div 2 + 7 mod 2}", 4.5),
    ("${-7 % 3}", -1),
    ("${-7.5 % 2}", -1.5),
    ("${empty tags}", False),
    ("${empty nothing and empty empty_list and empty ''}", True),
    ("${not empty order.note}", False),
    ("${approved ? 'yes' : 'no'}", "yes"),
    ("${false ? 1 : false ? 2 : 3}", 3),
    ("${order.items[0].price}", 2.5),
    ("${order['id']}", 7),
    ("${order.missing}", None),
    ("${order.missing.deeper}", None),
    ("${order.items[9]}", None),
    ("${order.missing == null}", True),
    ("${'}' == \"}\"}", True),
    ("${{'a': 1}.a}", 1),
    ("${size(tags) == 2}", True),
    ("${true}", True),
]

ERRORS: list[tuple[str, str, int]] = [
    ("total > missing", "UNKNOWN_VARIABLE", 8),
    ("missing", "UNKNOWN_VARIABLE", 0),
    ("${total > missing}", "UNKNOWN_VARIABLE", 10),
    ("${empty missing}", "UNKNOWN_VARIABLE", 8),
    ("order.discount > 3", "UNKNOWN_KEY", 6),
    ("tags[2]", "UNKNOWN_KEY", 4),
    ("total > name", "TYPE_MISMATCH", 6),
    ("total > nothing", "TYPE_MISMATCH", 6),
    ("total + name", "TYPE_MISMATCH", 6),
    ("total + approved", "TYPE_MISMATCH", 6),
    ("'n' + 1", "TYPE_MISMATCH", 4),
    ("1 + total - name", "TYPE_MISMATCH", 10),
    ("total < 200 < name", "TYPE_MISMATCH", 12),
    ("-name", "TYPE_MISMATCH", 0),
    ("tags.size", "TYPE_MISMATCH", 5),
    ("upper(total)", "TYPE_MISMATCH", 0),
    ("total and approved", "NOT_BOOLEAN", 0),
    ("not total", "NOT_BOOLEAN", 0),
    ("1 if name else 2", "NOT_BOOLEAN", 5),
    ("total / (limit - 100)", "DIVISION_BY_ZERO", 6),
    ("total % 0", "DIVISION_BY_ZERO", 6),
    ("${total % 0}", "DIVISION_BY_ZERO", 8),
    ("decimal('1') / 0", "DIVISION_BY_ZERO", 13),
    ("upper(name, name)", "ARGUMENT", 0),
    ("int('x')", "ARGUMENT", 0),
    ("shout(name)", "UNKNOWN_FUNCTION", 0),
    ("name.shout('A')", "UNKNOWN_FUNCTION", 5),
    ("${bean.method(total)}", "UNKNOWN_FUNCTION", 7),
    ("date('2026-02-30')", "TIME_FORMAT", 0),
    ("date('9999-12-31') + duration('P1D')", "TIME_LIMIT", 19),
    ("total = 5", "SYNTAX", 6),
    ("total >", "SYNTAX", 7),
    ("(total", "SYNTAX", 6),
    ("total limit", "SYNTAX", 6),
    ("a & b", "SYNTAX", 2),
    ("${approved == 'true'}", "TYPE_MISMATCH", 11),
    ("${total != '120'}", "TYPE_MISMATCH", 8),
    ("${a} > ${b}", "SYNTAX", 4),
    ("${a", "SYNTAX", 1),
    ("${a < b < c}", "SYNTAX", 8),
    ("{total: 1}", "SYNTAX", 1),
]


@pytest.mark.parametrize(("source", "expected"), PLAIN + JUEL)
def test_value(source: str, expected: Value) -> None:
    value = compile_expression(source).evaluate({**VARIABLES, "größe": 3}, NOW)
    assert value == expected
    assert type(value) is type(expected)


@pytest.mark.parametrize(("source", "code", "position"), ERRORS)
def test_error_has_code_and_position(source: str, code: str, position: int) -> None:
    with pytest.raises(ExpressionError) as caught:
        compile_expression(source).evaluate(VARIABLES, NOW)
    assert (caught.value.code, caught.value.position) == (code, position)
    assert caught.value.source == source
    assert "\n" not in str(caught.value)


def test_the_message_shows_where_it_went_wrong() -> None:
    with pytest.raises(ExpressionError) as caught:
        compile_expression("total > missing").evaluate(VARIABLES)
    assert str(caught.value) == "there is no variable 'missing' [UNKNOWN_VARIABLE]: total > ▸missing"


def test_a_condition_must_be_a_real_boolean() -> None:
    assert compile_expression("total > limit").holds(VARIABLES) is True
    for source in ("'yes'", "1", "nothing", "tags", "${name}", "= name", "= null"):
        with pytest.raises(ExpressionError) as caught:
            compile_expression(source).holds(VARIABLES)
        assert caught.value.code == "NOT_BOOLEAN"


def test_the_clock_is_only_what_is_passed_in() -> None:
    with pytest.raises(ExpressionError) as caught:
        compile_expression("now()").evaluate({})
    assert caught.value.code == "NO_CLOCK"
    assert not compile_expression("now()").is_constant


def test_and_or_stop_at_the_first_decisive_operand() -> None:
    assert compile_expression("approved or missing").evaluate(VARIABLES) is True
    assert compile_expression("not approved and missing").evaluate(VARIABLES) is False


class Recorded(Mapping[str, Value]):
    """Variables that must be looked up by name, never copied."""

    def __init__(self, values: dict[str, Value]) -> None:
        self.values_by_name = values
        self.asked: list[str] = []

    def __getitem__(self, name: str) -> Value:
        self.asked.append(name)
        return self.values_by_name[name]

    def __iter__(self) -> Iterator[str]:
        raise AssertionError("the variables were copied")

    def __len__(self) -> int:
        raise AssertionError("the variables were copied")


def test_only_the_names_read_are_looked_up() -> None:
    variables = Recorded(VARIABLES)
    assert compile_expression("[t for t in tags if t != name]").evaluate(variables) == ["new", "vip"]
    assert set(variables.asked) == {"tags", "name"}


@pytest.mark.parametrize(
    ("source", "reads"),
    [
        ("1 + 2", set()),
        ("a > b.c[d]", {"a", "b", "d"}),
        ("[x + y for x in xs for z in x]", {"xs", "y"}),
        ("defined(a.b)", {"a"}),
        ("${a ? b : c}", {"a", "b", "c"}),
        ("= for x in xs return x + y", {"xs", "y"}),
        ("= xs[item > limit]", {"xs", "limit"}),
        ("= {a: 1, b: a + c}", {"c"}),
        ("= some x in xs satisfies x in (low..high)", {"xs", "low", "high"}),
    ],
)
def test_the_variables_read_are_known_statically(source: str, reads: set[str]) -> None:
    assert compile_expression(source).reads == reads


def test_constants_are_recognised_and_never_share_mutable_values() -> None:
    expression = compile_expression("[1, {'a': 2}]")
    assert expression.is_constant
    first = expression.evaluate({})
    assert isinstance(first, list)
    first.append(3)
    assert expression.evaluate({}) == [1, {"a": 2}]


@pytest.mark.parametrize("source", ["total > limit", "${total > limit}", "= total > limit"])
def test_expressions_are_equal_by_text_hashable_picklable_and_immutable(source: str) -> None:
    expression = compile_expression(source)
    again = pickle.loads(pickle.dumps(expression))
    assert again == expression == copy.deepcopy(expression)
    assert hash(again) == hash(expression)
    assert again.holds(VARIABLES) is True
    assert again.reads == expression.reads
    assert expression != compile_expression("total > limit + 0")
    assert source in repr(expression)
    with pytest.raises(AttributeError):
        expression.source = "other"  # type: ignore[misc]


def test_the_notation_is_part_of_what_an_expression_is() -> None:
    plain = compile_expression("total")
    assert plain != compile_expression("total", notation=Notation.FEEL)
    assert compile_expression("= 1").notation is Notation.FEEL
    assert compile_expression("${1}").notation is Notation.JUEL
    assert plain.notation is Notation.PLAIN


def test_errors_survive_pickling() -> None:
    with pytest.raises(ExpressionError) as caught:
        compile_expression("1 +")
    again = pickle.loads(pickle.dumps(caught.value))
    assert (again.code, again.position, str(again)) == ("SYNTAX", 3, str(caught.value))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Decimal("3.00"), 3),
        (Decimal("1.10"), 1.1),
        (date(2026, 1, 31), "2026-01-31"),
        (datetime(2026, 1, 31, 9, 30, tzinfo=UTC), "2026-01-31T09:30:00Z"),
        (Duration(14, timedelta(hours=1)), "P1Y2MT1H"),
        ({"a": [Decimal("0.5"), None, True]}, {"a": [0.5, None, True]}),
    ],
)
def test_what_is_stored_as_a_variable_is_json(value: Value, expected: Value) -> None:
    stored = to_json(value)
    assert stored == expected
    assert type(stored) is type(expected)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), Decimal("NaN"), "\x00", "\ud800", {"\x00": 1}])
def test_what_no_database_can_store_is_refused(value: Value) -> None:
    with pytest.raises(ExpressionError):
        to_json(value)
