"""Mistakes of newcomers: the refusal says what was given, and how it is usually written."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from support.samples import HUMAN

from bpm_engine import Engine, InvalidInputError, NotFoundError


@pytest.fixture
def engine() -> Iterator[Engine]:
    with Engine("sqlite://") as engine:
        engine.deploy(HUMAN)
        yield engine


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (datetime(2030, 1, 1, tzinfo=UTC), r"is a datetime, .*; write it as text by \.isoformat\(\)"),
        (date(2030, 1, 1), r"is a date, .*; write it as text by \.isoformat\(\)"),
        (timedelta(1), r"is a timedelta, .*; write it as a number by \.total_seconds\(\)"),
        (Decimal("1.5"), r"is a Decimal, .*; write it as text by str\(\)"),
        (UUID(int=1), r"is a UUID, .*; write it as text by str\(\)"),
        (b"x", r"is a bytes, .*; write it as text by \.decode\(\)"),
        ({1}, r"is a set, .*; write it as a list by list\(\)"),
        (object(), "is a object, which JSON does not have$"),
    ],
)
def test_of_a_value_that_json_does_not_have_it_is_told_how_to_write_it(
    engine: Engine, value: object, words: str
) -> None:
    for given in ({"a": value}, {"a": [{"b": value}]}):
        with pytest.raises(InvalidInputError, match=words):
            engine.start("p", given)


def test_a_name_that_is_no_text_is_shown(engine: Engine) -> None:
    with pytest.raises(InvalidInputError, match="business_key must be a text that is not empty, not 17"):
        engine.start("p", business_key=17)  # type: ignore[arg-type]


def test_a_view_in_place_of_its_id_is_refused_without_showing_it(engine: Engine) -> None:
    instance: Any = engine.start("p", {"amount": 1, "secret": "hush"})
    (task,) = engine.tasks.find()
    wrong: Any = task
    words = "the id of the instance must be a text, not InstanceView; give its .id"
    with pytest.raises(InvalidInputError, match=words) as refused:
        engine.instances.get(instance)
    assert "hush" not in str(refused.value)
    with pytest.raises(
        InvalidInputError, match=r"the id of the task must be a text, not TaskView; give its \.id"
    ):
        engine.tasks.get(wrong)
    with pytest.raises(InvalidInputError, match=r"the id of the instance must be a text, not NoneType$"):
        engine.instances.cancel(None)  # type: ignore[arg-type]
    with pytest.raises(NotFoundError, match="there is no instance 'x'"):
        engine.instances.get("x")
