"""Ways to do so much of something: the limits of the engine from both sides."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import reduce

from support.definitions import bpmn, flow, path
from support.samples import END, HUMAN, START, WORK

from bpm_engine import Engine, Work

Try = Callable[[Engine, int], object]
"""Does so much of something; raises if it is refused."""


class Incident(Exception):  # noqa: N818 - it is what a process answers
    pass


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
    """By the handler `big`, which is told how many bytes."""
    run(engine, WORK.replace(b'topic="work"', b'topic="big"'), {"size": size})


def big(work: Work) -> dict[str, object]:
    return {"a": "x" * (work["size"] - 2)}  # and two quotes


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


def nested(engine: Engine, depth: int) -> None:
    engine.deploy(HUMAN)
    innermost: object = 1
    engine.start("p", {"a": reduce(lambda inner, _: [inner], range(depth - 1), innermost)})


def elements_of(engine: Engine, count: int) -> None:
    """A file of so many XML elements, most of them documentation."""
    missing = count - len(re.findall(rb"<[A-Za-z]", WORK))
    engine.deploy(WORK.replace(START.encode(), b"<documentation/>" * missing + START.encode()))


def walk_at_once(engine: Engine, steps: int) -> None:
    """So many automatic steps in the call that starts the instance."""
    names = ["start", *(f"t{n}" for n in range(steps - 2)), "end"]
    tasks = "".join(f'<task id="{name}"/>' for name in names[1:-1])
    engine.deploy(bpmn(START + tasks + END + path(*names)))
    if engine.start("p").status != "Completed":
        raise Incident("it rests")
