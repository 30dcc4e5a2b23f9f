"""Mistakes of newcomers: the refusal says what was given, and how it is usually written."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from support.samples import HUMAN

from bpm_engine import DefinitionError, Engine, InvalidInputError, NotFoundError
from bpm_engine.testing import TestEngine


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


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"config": {"lease": 5}}, r"config must be a Config\(…\), not dict"),
        ({"clock": 5}, r"clock must have a method read\(connection\)"),
        ({"publisher": "http://example.org"}, r"publisher must have a method publish\(event\)"),
        ({"secrets": {"bank": "hush-hush"}}, "secrets must be a function of name and tenant"),
    ],
)
def test_what_an_engine_cannot_work_with_is_refused_when_it_is_made(
    given: dict[str, Any], words: str
) -> None:
    with pytest.raises(InvalidInputError, match=words) as refused:
        Engine("sqlite://", **given)
    assert "hush" not in str(refused.value)


def test_an_observer_without_its_methods_is_refused(engine: Engine) -> None:
    stranger: Any = object()
    with pytest.raises(InvalidInputError, match="the observer object has no attached, committed, swept"):
        engine.observe(stranger)


@pytest.mark.parametrize("what", ["lease", "timeout"])
def test_no_run_of_a_handler_is_as_short_as_nothing(engine: Engine, what: str) -> None:
    given: dict[str, Any] = {what: "0s"}
    with pytest.raises(InvalidInputError, match=f"{what} must be longer than nothing"):
        engine.handler("check", **given)(lambda work: None)


def test_a_version_without_the_tag_is_no_such_version(engine: Engine) -> None:
    with pytest.raises(NotFoundError, match="'p' has no version 1 with the tag 'stable'; the latest is"):
        engine.start("p", version=1, version_tag="stable")


def test_a_move_from_nowhere_to_nowhere_is_refused(engine: Engine) -> None:
    instance = engine.start("p", {"amount": 1})
    with pytest.raises(InvalidInputError, match="move needs from_node, to_node or both"):
        engine.instances.move(instance.id, None, None)


def test_an_id_in_place_of_a_list_of_ids_is_refused(engine: Engine) -> None:
    instance = engine.start("p", {"amount": 1})
    with pytest.raises(InvalidInputError, match=r"ids must be a list of texts, such as \['"):
        engine.batches.cancel(ids=instance.id)
    with pytest.raises(InvalidInputError, match="ids must be a list of texts"):
        engine.batches.plan_migration("p", 1, ids=instance.id)


def test_of_an_unknown_service_it_is_told_which_there_are(engine: Engine) -> None:
    with pytest.raises(InvalidInputError, match="there is no service exec; there are executor, timers"):
        engine.run_until_idle(only=["exec"])


def test_the_message_of_a_refused_file_has_the_hints() -> None:
    with pytest.raises(DefinitionError, match=r"\n    hint: Did you mean bpm:candidateGroups"):
        Engine("sqlite://").deploy(HUMAN.replace(b"bpm:candidateGroups", b"bpm:candidateGroup"))


def test_a_stub_raises_exceptions_only() -> None:
    wrong: Any = 5
    with pytest.raises(InvalidInputError, match="raises must be an exception or a class of them, not 5"):
        TestEngine().stub("check", raises=wrong)
