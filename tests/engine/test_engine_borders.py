"""Every limit from both sides: what just fits is served, one more is refused or an incident."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from support.borders import (
    Incident,
    Try,
    big,
    calls,
    expression_of,
    file_of,
    fork,
    named,
    page,
    repeat,
    returned,
    send_many,
    send_many_names,
    start_many,
    start_with_all_bytes,
    start_with_bytes,
    timer_of,
    waiting,
    walk,
)
from support.samples import WAIT

from bpm_engine import Config, DefinitionError, Engine, InvalidInputError, UnavailableError
from bpm_engine.testing import ManualClock


@contextmanager
def engine_with(**settings: int) -> Iterator[Engine]:
    with Engine("sqlite://", config=Config(**settings), clock=ManualClock()) as engine:  # type: ignore[arg-type]
        engine.handler("work")(lambda work: None)
        engine.handler("big")(big)
        yield engine


CENTURY = 36_525 * 86_400
BORDERS: dict[str, tuple[dict[str, int], Try, int, type[Exception], str]] = {
    "tokens": ({"tokens": 20}, fork, 20, Incident, "TOO_MANY_TOKENS"),
    "total_steps": ({"total_steps": 50, "steps": 10}, walk, 50, Incident, "ENDLESS_LOOP"),
    "call_depth": ({"call_depth": 4}, calls, 4, Incident, "CALL_DEPTH"),
    "repetitions": ({"repetitions": 30}, repeat, 30, Incident, "TOO_MANY_REPETITIONS"),
    "variable_bytes": ({"variable_bytes": 100}, start_with_bytes, 100, InvalidInputError, "100 are allowed"),
    "variables_bytes": (
        {"variables_bytes": 200},
        start_with_all_bytes,
        200,
        InvalidInputError,
        "200 are allowed",
    ),
    "the result of a handler": ({"variable_bytes": 100}, returned, 100, Incident, "bad_result"),
    "instances": ({"instances": 3}, start_many, 3, UnavailableError, "3 instances of process"),
    "tenant_instances": ({"tenant_instances": 3}, start_many, 3, UnavailableError, "3 instances of tenant"),
    "message_buffer": ({"message_buffer": 3}, send_many, 3, UnavailableError, "nobody takes them"),
    "tenant_messages": ({"tenant_messages": 3}, send_many_names, 3, UnavailableError, "3 messages of tenant"),
    "name_characters": ({"name_characters": 30}, named, 30, InvalidInputError, "30 are allowed"),
    "a page": ({}, page, 500, InvalidInputError, "from 1 to 500"),
    "a file": ({}, file_of, 10_000_000, DefinitionError, "FILE_TOO_LARGE"),
    "an expression": ({}, expression_of, 4_096, DefinitionError, "EXPRESSION"),
    "a duration": ({}, timer_of, CENTURY, DefinitionError, "TIMER_VALUE_INVALID"),
    "how long a message waits": ({}, waiting, CENTURY, InvalidInputError, "100 years|hundred years"),
}


@pytest.mark.parametrize("name", BORDERS)
def test_what_just_fits_is_served_and_one_more_is_not(name: str) -> None:
    settings, attempt, most, refusal, words = BORDERS[name]
    with engine_with(**settings) as engine:
        attempt(engine, most)
    with engine_with(**settings) as engine:
        with pytest.raises(refusal, match=words):
            attempt(engine, most + 1)
        assert [finding for finding in engine.doctor() if "overdue" not in finding.name] == []
        engine.tenant("other").deploy(WAIT)  # others are served
        assert engine.tenant("other").start("p", {"order": "A-1"}).status == "Running"
