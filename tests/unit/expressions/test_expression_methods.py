"""Methods as Java and Python spell them: a fixed table over values, never something an object brings."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from bpm_engine.bpmn.expressions import ExpressionError, compile_expression, compile_template

VARIABLES: dict[str, Any] = {
    "name": "Anna Berg",
    "blank": " ",
    "list": ["a", "b"],
    "none": [],
    "order": {"total": 120, "paid": True, "URL": "http://x", "lines": [{"price": 3}], "a-b": 1},
    "rate": 2.5,
    "from": "here",
    "class": "first",
}


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ('${name.startsWith("Anna")}', True),
        ("${name.endsWith('g')}", True),
        ("${name.toLowerCase().contains('berg')}", True),
        ("${name.toUpperCase().equals('ANNA BERG')}", True),
        ("${name.equalsIgnoreCase('anna berg')}", True),
        ("${!name.equals('x')}", True),
        ("${name.substring(5, 9)}", "Berg"),
        ("${name.substring(5)}", "Berg"),
        ("${name.indexOf('B')}", 5),
        ("${name.replace('a', 'o')}", "Anno Berg"),
        ("${name.split('\\\\s+')}", ["Anna", "Berg"]),
        ("${name.concat('!')}", "Anna Berg!"),
        ("${name.length() > 3 && list.size() == 2}", True),
        ("${blank.isBlank() && none.isEmpty()}", True),
        ("${list.contains('b')}", True),
        ("${list.get(1)}", "b"),
        ("${order.get('total')}", 120),
        ("${order.getOrDefault('tax', 7)}", 7),
        ("${order.containsKey('a-b')}", True),
        ("${order.keySet().size()}", 5),
        ("${order.getTotal() > 100}", True),
        ("${order.isPaid()}", True),
        ("${order.getURL()}", "http://x"),
        ("${order.getLines()[0].getPrice()}", 3),
        ("${rate.intValue()}", 2),
        ("${rate.toString()}", "2.5"),
        ("${order.prop('total').numberValue()}", 120),
        ("${order.hasProp('tax')}", False),
        ("${execution.getVariable('name')}", "Anna Berg"),
        ("${execution.getVariable('missing') == null}", True),
        ("${execution.hasVariable('missing')}", False),
        ("name.lower().startswith('anna')", True),
        ("order.get('tax', 1)", 1),
        ("name.split(' ')", ["Anna", "Berg"]),
    ],
)
def test_a_method_means_what_it_means_where_it_comes_from(source: str, value: object) -> None:
    assert compile_expression(source).evaluate(VARIABLES) == value


def test_the_variables_a_method_reads_are_known() -> None:
    compiled = compile_expression("${execution.getVariable('a') == b.getC() && d.contains(e)}")
    assert compiled.reads == {"a", "b", "d", "e"}


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("getDataObject('rate') > 2", True),
        ("getDataObject('orders', 'name')", "Anna Berg"),
        ("getDataInput('missing')", None),
        ("${getProcessProperty('orders', 'name')}", "Anna Berg"),
    ],
)
def test_the_functions_of_the_standard_find_data_by_its_name(source: str, value: object) -> None:
    assert compile_expression(source).evaluate(VARIABLES) == value


def test_data_that_an_expression_finds_by_its_name_is_read_by_it() -> None:
    assert compile_expression("getDataObject('p', 'a') and getDataOutput('b')").reads == {"a", "b"}


@pytest.mark.parametrize("source", ["getDataObject(name)", "getDataObject()", "getDataObject('a b')"])
def test_data_is_found_by_a_fixed_name(source: str) -> None:
    with pytest.raises(ExpressionError, match="there is no function"):
        compile_expression(source)


def test_times_move_by_methods() -> None:
    now = datetime(2026, 1, 31, 9, tzinfo=UTC)
    due = compile_template("${dateTime().plusMonths(1).minusDays(2).plusHours(3).toDate()}").evaluate({}, now)
    assert due == datetime(2026, 2, 26, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("source", "code"),
    [
        ("${bean.check(name)}", "UNKNOWN_FUNCTION"),
        ("${order.getPrice(3)}", "UNKNOWN_FUNCTION"),
        ("${name.getClass().forName('os')}", "UNKNOWN_FUNCTION"),
        ("${list.size(1)}", "ARGUMENT"),
        ("name.format('x')", "UNKNOWN_FUNCTION"),
        ("= name.contains('A')", "UNKNOWN_FUNCTION"),
    ],
)
def test_what_the_table_does_not_hold_is_refused_when_compiling(source: str, code: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        compile_expression(source)
    assert caught.value.code == code


@pytest.mark.parametrize(
    "source",
    ["${list.startsWith('a')}", "${name.substring(5, 99)}", "${name.getTotal()}", "${name.plusDays(1)}"],
)
def test_a_method_of_the_wrong_value_is_an_error_of_the_evaluation(source: str) -> None:
    with pytest.raises(ExpressionError):
        compile_expression(source).evaluate(VARIABLES)


def test_words_of_python_are_names_in_juel_only() -> None:
    assert compile_expression("${from == 'here' and class == 'first'}").holds(VARIABLES)
    with pytest.raises(ExpressionError, match="not part of the expression language"):
        compile_expression("from == 'here'")


def test_the_strict_comparison_of_javascript_is_ours() -> None:
    assert compile_expression("rate === 2.5 && name !== 'x'").holds(VARIABLES)
    assert compile_expression("rate !== 2.5").holds(VARIABLES) is False
