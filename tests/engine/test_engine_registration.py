"""What could never work is refused where it is written: at registration and construction."""

from __future__ import annotations

import functools
import logging
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from support.definitions import bpmn, path
from support.samples import WORK

from bpm_engine import Engine, InvalidInputError, Retry, RetryLater, Work
from bpm_engine.testing import ManualClock, TestEngine

EXTERNAL = bpmn(
    '<startEvent id="start"/><serviceTask id="pack" bpm:topic="pack" bpm:external="true"/>'
    '<endEvent id="end"/>' + path("start", "pack", "end")
)


def one(work: Work) -> None: ...


def two(work: Work, connection: object) -> None: ...


def none() -> None: ...


def generator(work: Work) -> Iterator[None]:
    yield


async def asynchronous_generator(work: Work) -> AsyncIterator[None]:
    yield


async def asynchronous(work: Work) -> dict[str, object]:
    return {"done": True}


class Plain:
    def method(self, work: Work) -> None: ...

    def __call__(self, work: Work) -> None: ...


class Asynchronous:
    async def __call__(self, work: Work) -> dict[str, object]:
        return {"done": True}


class Generator:
    def __call__(self, work: Work) -> Iterator[None]:
        yield


@functools.wraps(two)
def decorated(work: Work) -> None:
    two(work, "a connection of its own")


@pytest.fixture
def engine() -> Iterator[Engine]:
    with TestEngine(WORK) as engine:
        yield engine


def test_a_decorator_without_its_parentheses_is_refused(engine: Engine) -> None:
    words = r'the topic must be a text, not <function one .*write @engine\.handler\("topic"\)'
    with pytest.raises(InvalidInputError, match=words):
        engine.handler(one)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match=r'must be a text.*write @engine\.data_store\("name"\)'):
        engine.data_store(Plain)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("function", "options", "words"),
    [
        (None, {}, "the handler for 'work' must be a function, not None"),
        ("one", {}, "must be a function, not 'one'"),
        (none, {}, r"is called as none\(work\), but it is none\(\) -> 'None': too many positional arguments"),
        (two, {}, "missing a required argument: 'connection'; only one with transactional=True gets"),
        (one, {"transactional": True}, "too many.*; a transactional handler gets the connection as well"),
        (functools.partial(one, None), {}, "too many positional arguments"),
        (generator, {}, "generator, is a generator; return the variables, do not yield them"),
        (functools.partial(generator), {}, "is a generator"),
        (Generator(), {}, "Generator, is a generator"),
        (asynchronous_generator, {}, "is a generator"),
        (asynchronous, {"transactional": True}, "must be a plain function"),
        (Asynchronous(), {"transactional": True}, "must be a plain function"),
        (one, {"lease": 30}, "lease must be a duration such as '30s', .*, not 30"),
        (one, {"timeout": 1.5}, "timeout must be a duration such as '30s', .*, not 1.5"),
        (one, {"retry": 3}, r"retry must be a Retry such as Retry\(attempts=3\), not 3"),
        (one, {"limit": "3"}, "limit must be a whole number, at least 1, such as limit=20, not '3'"),
        (one, {"limit": True}, "limit must be a whole number"),
        (one, {"limit": 0}, "limit must be a whole number"),
    ],
)
def test_what_cannot_be_a_handler_is_refused(
    engine: Engine, function: Any, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(InvalidInputError, match=words):
        engine.handler("work", **options)(function)
    engine.handler("work")(one)


@pytest.mark.parametrize(
    "function",
    [
        one,
        lambda *arguments: None,
        Plain(),
        Plain().method,
        functools.partial(two, connection=None),
        decorated,
        print,
        dict,
    ],
)
def test_what_can_be_called_with_the_work_is_taken(engine: Engine, function: Any) -> None:
    assert engine.handler("work")(function) is function


@pytest.mark.parametrize("function", [asynchronous, Asynchronous(), functools.partial(asynchronous)])
def test_whatever_is_async_is_awaited(engine: Engine, function: Any) -> None:
    engine.handler("work")(function)
    instance = engine.start("p").id
    engine.run_until_idle()
    assert engine.instances.get(instance).variables == {"done": True}


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"attempts": "5"}, r"retry attempts must be a whole number.*such as Retry\(attempts=5\), not '5'"),
        ({"attempts": 0}, "at least 1: the first run counts"),
        ({"kind": "quadratic"}, "retry kind is one of fixed, linear, exponential, not 'quadratic'"),
        ({"jitter": "much"}, "retry jitter is a share between 0 and 1, such as 0.5, not 'much'"),
        ({"jitter": 2}, "retry jitter is a share between 0 and 1"),
        ({"base": 2}, "retry base must be a duration such as '30s'"),
        ({"maximum": None}, "retry maximum must be a duration such as '30s'"),
    ],
)
def test_a_retry_that_makes_no_sense_is_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        Retry(**settings)


def test_a_duration_that_is_a_number_is_refused_with_an_example() -> None:
    clock = ManualClock()
    before = clock.now
    with pytest.raises(InvalidInputError, match=r"advance must be a duration such as '30s', .*, not 5"):
        clock.advance(5)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="delay must be a duration such as '30s'"):
        RetryLater(5)  # type: ignore[arg-type]
    assert clock.advance(timedelta(seconds=5)) > before


@pytest.mark.parametrize("url", [None, 17, b"sqlite://"])
def test_an_address_that_is_no_text_is_refused(url: Any) -> None:
    words = f"url must be a text such as 'sqlite:///bpm.db' .* not {type(url).__name__}"
    with pytest.raises(InvalidInputError, match=words):
        Engine(url)


@pytest.mark.parametrize("name", ["bpm.db", "a file?with 100%25 oddities#.db"])
def test_a_path_is_that_of_an_sqlite_file(tmp_path: Path, name: str) -> None:
    with Engine(tmp_path / name) as engine:
        engine.deploy(WORK)
    assert (tmp_path / name).is_file()


@pytest.mark.parametrize("handler_first", [True, False])
def test_a_handler_for_external_work_is_warned_of_once(
    engine: Engine, caplog: pytest.LogCaptureFixture, handler_first: bool
) -> None:
    caplog.set_level(logging.WARNING, "bpm_engine.engine")
    if handler_first:
        engine.handler("pack")(one)
    engine.deploy(EXTERNAL)
    engine.deploy(EXTERNAL)
    if not handler_first:
        engine.handler("pack")(one)
    engine.handler("other")(one)
    (told,) = caplog.messages
    assert told.startswith("the handler for 'pack' is not called for 'pack' of 'p': that is external work")
