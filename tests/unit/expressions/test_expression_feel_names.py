"""Names with spaces in FEEL: words that follow each other are one name, up to a word of the language."""

from __future__ import annotations

import pytest

from bpm_engine.bpmn.expressions import ExpressionError, Notation, compile_expression

VARIABLES = {
    "order total": 4,
    "is paid": True,
    "customer": {"first name": "Ann", "name": "A"},
    "order lines": [{"unit price": 3}, {"unit price": 5}],
    "terms and conditions": "yes",
}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("order total * 2", 8),
        ("customer.first name", "Ann"),
        ("string length(customer.first name)", 3),
        ("if is paid then order total else 0", 4),
        ("is paid and order total > 3", True),
        ("for order line in order lines return order line.unit price", [3, 5]),
        ("some order line in order lines satisfies order line.unit price = 5", True),
        ("order total between 1 and 9", True),
        ("order total instance of number", True),
        ("order lines[unit price > 3].unit price", [5]),
        ("{ net price: order total, gross price: net price * 2 }.gross price", 8),
        ("`terms and conditions`", "yes"),
    ],
)
def test_a_name_with_spaces_is_one_name(source: str, expected: object) -> None:
    assert compile_expression(source, notation=Notation.FEEL).evaluate(VARIABLES) == expected


def test_in_a_condition_a_name_that_nobody_knows_is_an_error() -> None:
    condition = compile_expression("order totl > 3", notation=Notation.FEEL)
    with pytest.raises(ExpressionError, match="order totl"):
        condition.holds(VARIABLES)


def test_a_sentence_is_no_name() -> None:
    words = "this is a whole sentence that somebody wrote where a name belongs"
    with pytest.raises(ExpressionError, match="at most 10 words"):
        compile_expression(words, notation=Notation.FEEL)
