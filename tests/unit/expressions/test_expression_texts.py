"""Templates (attributes that are usually text) and scripts (assignments)."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from bpm_engine.bpmn.expressions import ExpressionError, Notation, compile_script, compile_template
from bpm_engine.bpmn.expressions.values import Value

VARIABLES: dict[str, Value] = {
    "id": 7,
    "name": "Anna",
    "price": 2.5,
    "flag": True,
    "nothing": None,
    "order": {"a": 1},
}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("anna", "anna"),
        ("", ""),
        (" spaces stay ", " spaces stay "),
        ("total > limit", "total > limit"),
        ("${id}", 7),
        (" #{id} ", 7),
        ("= id + 1", 8),
        ("order-${id}", "order-7"),
        ("${id}-${name}", "7-Anna"),
        ("#{name}/${flag}/${price}", "Anna/true/2.5"),
        ("${id}.", "7."),
        ("a ${'}'} b", "a } b"),
        ("price \\${id}", "price ${id}"),
        ("5 $ and # alone", "5 $ and # alone"),
        ("urn:${order.a}:x", "urn:1:x"),
    ],
)
def test_a_template_is_text_unless_it_asks_for_an_expression(source: str, expected: Value) -> None:
    template = compile_template(source)
    assert template.evaluate(VARIABLES) == expected
    again = pickle.loads(pickle.dumps(template))
    assert again == template
    assert again.evaluate(VARIABLES) == expected


def test_a_template_knows_what_it_reads() -> None:
    template = compile_template("order-${id}-${name}")
    assert template.reads == {"id", "name"}
    assert not template.is_constant
    assert compile_template("plain text").is_constant


@pytest.mark.parametrize(
    ("source", "code", "position"),
    [
        ("order-${id", "SYNTAX", 7),
        ("order-${id +}", "SYNTAX", 12),
        ("order-${missing}", "UNKNOWN_VARIABLE", 8),
        ("order-${nothing}", "TYPE_MISMATCH", 8),
        ("order-${order}", "TYPE_MISMATCH", 8),
        ("${name}-${name.shout()}", "UNKNOWN_FUNCTION", 15),
    ],
)
def test_errors_in_a_template_point_into_its_text(source: str, code: str, position: int) -> None:
    with pytest.raises(ExpressionError) as caught:
        compile_template(source).evaluate(VARIABLES)
    assert (caught.value.code, caught.value.position) == (code, position)


def test_a_template_is_not_the_expression_of_the_same_text() -> None:
    assert compile_template("id").evaluate(VARIABLES) == "id"


def test_a_script_writes_only_what_it_assigns_and_later_lines_see_earlier_ones() -> None:
    script = compile_script("# totals\nnet = price * 2\n\ngross = net * 1.5;\nlabel = upper(\n  name\n)\n")
    before = dict(VARIABLES)
    assert script.run(VARIABLES) == {"net": 5.0, "gross": 7.5, "label": "ANNA"}
    assert before == VARIABLES
    assert script.reads == {"price", "name"}
    assert script.writes == {"net", "gross", "label"}
    assert script.result is None


def test_a_script_assigns_into_a_context_without_touching_the_original() -> None:
    script = compile_script("order.b.c = id\norder.a = 2\nfresh.x = 1")
    assert script.run(VARIABLES) == {"order": {"a": 2, "b": {"c": 7}}, "fresh": {"x": 1}}
    assert VARIABLES["order"] == {"a": 1}
    assert script.reads == {"order", "id", "fresh"}
    assert script.writes == {"order", "fresh"}


def test_a_script_may_read_a_variable_it_overwrites() -> None:
    script = compile_script("id = id + 1\nid = id * 2")
    assert script.run(VARIABLES) == {"id": 16}
    assert script.reads == {"id"}


def test_one_bare_expression_is_the_result_of_the_script() -> None:
    script = compile_script("price * 2 == 5")
    assert script.result is not None
    assert script.result.evaluate(VARIABLES) is True
    assert script.assignments == ()
    assert script.run(VARIABLES) == {}


def test_scripts_know_the_other_notations_and_the_time() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    assert compile_script("a = 0.1 + 0.2\nb = a = 0.3", notation=Notation.FEEL).run({}) == {
        "a": Decimal("0.3"),
        "b": True,
    }
    assert compile_script("a = ${id mod 4}\nb = a eq 3", notation=Notation.JUEL).run(VARIABLES) == {
        "a": 3,
        "b": True,
    }
    assert compile_script("t = now()").run({}, now) == {"t": now}


def test_scripts_are_equal_hashable_and_picklable() -> None:
    script = compile_script("a = id\nb = a")
    again = pickle.loads(pickle.dumps(script))
    assert again == script
    assert hash(again) == hash(script)
    assert again.run(VARIABLES) == script.run(VARIABLES)


@pytest.mark.parametrize(
    ("source", "code", "position"),
    [
        ("", "SYNTAX", 0),
        ("# only a comment", "SYNTAX", 0),
        ("a = 1\nb", "SYNTAX", 6),
        ("a = 1\nb += 1", "SYNTAX", 6),
        ("a = 1\nb = (", "SYNTAX", 11),
        ("a = 1\nb = 2 +", "SYNTAX", 13),
        ("__a = 1", "SYNTAX", 0),
        ("import os", "SYNTAX", 0),
        ("a = 1\n" * 300, "LIMIT", 1200),
        ("a = " + "1 + " * 5_000, "LIMIT", 0),
    ],
)
def test_a_wrong_script_is_refused_with_its_position(source: str, code: str, position: int) -> None:
    with pytest.raises(ExpressionError) as caught:
        compile_script(source)
    assert (caught.value.code, caught.value.position) == (code, position)
    assert caught.value.source == source


def test_assigning_below_a_number_is_an_error() -> None:
    with pytest.raises(ExpressionError) as caught:
        compile_script("id.x = 1").run(VARIABLES)
    assert caught.value.code == "TYPE_MISMATCH"
