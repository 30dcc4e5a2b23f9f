"""Every limit from both sides: what just fits is served, one more is refused or an incident."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from support.definitions import bpmn, flow, path
from support.samples import END, HUMAN, START, WAIT, WORK

from bpm_engine import Config, DefinitionError, Engine, InvalidInputError, UnavailableError
from bpm_engine.testing import ManualClock

Try = Callable[[Engine, int], object]
"""Does so much of something; raises if it is refused."""


class Incident(Exception):  # noqa: N818 - it is what a process answers
    pass


@contextmanager
def engine_with(**settings: int) -> Iterator[Engine]:
    with Engine("sqlite://", config=Config(**settings), clock=ManualClock()) as engine:  # type: ignore[arg-type]
        engine.handler("work")(lambda work: None)
        yield engine


def run(engine: Engine, model: bytes, variables: dict[str, object] | None = None) -> None:
    engine.deploy(model)
    instance = engine.start("p", variables).id
    engine.run_until_idle()
    if found := engine.incidents.find(limit=1).items:
        raise Incident(found[0].code)
    assert engine.instances.get(instance).status in ("Completed", "Running")


def fork(engine: Engine, width: int) -> None:
    """So many tokens at once: the fork's own is gone when its branches begin."""
    tasks = "".join(f'<userTask id="t{n}"/>' for n in range(width))
    flows = "".join(path("fork", f"t{n}", "end") for n in range(width))
    run(engine, bpmn(f'{START}<parallelGateway id="fork"/>{tasks}{END}' + path("start", "fork") + flows))


def walk(engine: Engine, steps: int) -> None:
    """So many automatic steps, those of both events included."""
    names = ["start", *(f"t{n}" for n in range(steps - 2)), "end"]
    tasks = "".join(f'<task id="{name}"/>' for name in names[1:-1])
    run(engine, bpmn(START + tasks + END + path(*names)))


def calls(engine: Engine, depth: int) -> None:
    """A process that calls itself until it is so deep."""
    body = (
        f'{START}<exclusiveGateway id="x" default="x_end"/><callActivity id="call" calledElement="p">'
        '<extensionElements><bpm:input name="n" value="${n - 1}"/></extensionElements></callActivity>'
        f'{END}<endEvent id="done"/>'
    )
    flows = path("start", "x", "end") + flow("x", "call", "${n > 0}") + path("call", "done")
    run(engine, bpmn(body + flows), {"n": depth})


def repeat(engine: Engine, count: int) -> None:
    loop = "<multiInstanceLoopCharacteristics><loopCardinality>${n}</loopCardinality>"
    task = f'<serviceTask id="each" bpm:topic="work">{loop}</multiInstanceLoopCharacteristics></serviceTask>'
    run(engine, bpmn(START + task + END + path("start", "each", "end")), {"n": count})


def start_with_bytes(engine: Engine, size: int) -> None:
    engine.deploy(HUMAN)
    engine.start("p", {"a": "x" * (size - 2)})  # and two quotes


def start_with_all_bytes(engine: Engine, size: int) -> None:
    engine.deploy(HUMAN)
    engine.start("p", {"a": "x" * 40, "b": "x" * (size - 54)})  # quotes, names and what is between them


def start_many(engine: Engine, count: int) -> None:
    engine.deploy(HUMAN)
    for _ in range(count):
        engine.start("p", {"amount": 1})


def send_many(engine: Engine, count: int) -> None:
    for number in range(count):
        engine.send_message("paid", str(number))


def send_many_names(engine: Engine, count: int) -> None:
    for number in range(count):
        engine.send_message(f"paid{number}")


def named(engine: Engine, length: int) -> None:
    engine.deploy(HUMAN)
    engine.start("p", business_key="k" * length)


def returned(engine: Engine, size: int) -> None:
    engine.handler("big")(lambda work: {"a": "x" * (size - 2)})
    run(engine, WORK.replace(b'topic="work"', b'topic="big"'))


def page(engine: Engine, limit: int) -> None:
    engine.instances.find(limit=limit)


def file_of(engine: Engine, size: int) -> None:
    engine.deploy(WORK + b" " * (size - len(WORK)))


def expression_of(engine: Engine, length: int) -> None:
    condition = "1 ==" + " " * (length - 5) + "1"
    gateway = '<exclusiveGateway id="x"/><endEvent id="other"/>'
    flows = path("start", "x") + flow("x", "end", condition) + flow("x", "other", "2 == 1")
    run(engine, bpmn(START + gateway + END + flows))


def timer_of(engine: Engine, seconds: int) -> None:
    event = f"<timerEventDefinition><timeDuration>PT{seconds}S</timeDuration></timerEventDefinition>"
    catch = f'<intermediateCatchEvent id="w">{event}</intermediateCatchEvent>'
    engine.deploy(bpmn(START + catch + END + path("start", "w", "end")))


def waiting(engine: Engine, seconds: int) -> None:
    engine.send_message("paid", "k", ttl=f"PT{seconds}S")


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
