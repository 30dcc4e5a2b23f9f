"""The catalogue of bad inputs, by number: the stated answer, nothing written, the next good request served.

Held elsewhere: files that attack the parser, with their time and memory (4, 6, 7, 11, 14 to 16:
unit/bpmn/test_hostile_xml.py); a join that can never fire (23: unit/bpmn/test_soundness.py); the hour that
is not there (29: unit/expressions/test_expression_times.py); values and filters (30 to 39, 60, 61:
test_engine_limits.py); endless loops and floods of tokens (47, 48: unit/core/test_core_advance.py); late and
killed handlers (53, 55: tests/faults); webhooks (63: services/test_webhook.py); three endings at once (65:
tests/races); two engines on one file, foreign schemas (66: tests/store).
"""

from __future__ import annotations

import gzip
import resource
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import sqlalchemy as sa
from support.databases import empty
from support.definitions import bpmn, flow, path
from support.samples import HUMAN, WAIT, WORK

from bpm_engine import Config, ConflictError, DefinitionError, Engine, InvalidInputError, NotFoundError, Work
from bpm_engine.store.schema import metadata
from bpm_engine.testing import ManualClock

SECONDS = 2.0  # of this process's own time
KILOBYTES = 100_000
START, END = '<startEvent id="start"/>', '<endEvent id="end"/>'
TEXT = WORK.decode()


def timer(kind: str, text: str) -> bytes:
    event = f"<timerEventDefinition><{kind}>{text}</{kind}></timerEventDefinition>"
    wait = f'<intermediateCatchEvent id="wait">{event}</intermediateCatchEvent>'
    return bpmn(START + wait + END + path("start", "wait", "end"))


def cycle(text: str) -> bytes:
    event = f"<timerEventDefinition><timeCycle>{text}</timeCycle></timerEventDefinition>"
    return bpmn(f'<startEvent id="start">{event}</startEvent>{END}' + path("start", "end"))


def choice(condition: str) -> bytes:
    """Two ways: one by the condition, one where `a` is 2."""
    return bpmn(
        f'{START}<exclusiveGateway id="choice"/>{END}<endEvent id="other"/>'
        + path("start", "choice")
        + flow("choice", "end", condition)
        + flow("choice", "other", "${a == 2}")
    )


def declared(doctype: str, words: str = "") -> str:
    documented = f'<documentation>{words}</documentation><process id="p"'
    return doctype + TEXT.replace('<process id="p"', documented)


REPEATED = bpmn(
    f'{START}<serviceTask id="each" bpm:topic="bad.each"><multiInstanceLoopCharacteristics><loopCardinality>'
    f"${{n}}</loopCardinality></multiInstanceLoopCharacteristics></serviceTask>{END}"
    + path("start", "each", "end")
)
ITSELF = bpmn(f'{START}<callActivity id="call" calledElement="p"/>{END}' + path("start", "call", "end"))

REFUSED_FILES: dict[str, tuple[bytes, str]] = {
    "1 empty": (b"", "XML_EMPTY"),
    "2 a picture": (b"\x89PNG\r\n\x1a\n" + bytes(64), "XML_SYNTAX"),
    "3 a file as entity": (
        declared('<!DOCTYPE d [<!ENTITY x SYSTEM "file:///etc/passwd">]>', "&x;").encode(),
        "DOCTYPE_FORBIDDEN",
    ),
    "5 an external document type": (
        declared('<!DOCTYPE d SYSTEM "http://127.0.0.1:1/x.dtd">').encode(),
        "DOCTYPE_FORBIDDEN",
    ),
    "8 a document type in UTF-16": (declared("<!DOCTYPE d>").encode("utf-16"), "DOCTYPE_FORBIDDEN"),
    "9 an entity in an attribute": (
        b'<!DOCTYPE d [<!ENTITY x "work">]>' + WORK.replace(b'topic="work"', b'topic="&x;"'),
        "DOCTYPE_FORBIDDEN",
    ),
    "10 XInclude": (
        WORK.replace(
            b"<serviceTask",
            b'<xi:include xmlns:xi="http://www.w3.org/2001/XInclude" href="/etc/passwd"/><serviceTask',
        ),
        "UNKNOWN_ELEMENT",
    ),
    "12 gzip": (gzip.compress(WORK), "UNSUPPORTED_FORMAT"),
    "13 300 levels": (
        WORK.replace(b"</process>", b"<subProcess>" * 300 + b"</subProcess>" * 300 + b"</process>"),
        "TOO_DEEP",
    ),
    "17 an id twice": (WORK.replace(b"</process>", b'<task id="work"/></process>'), "DUPLICATE_ID"),
    "18 a flow to nowhere": (
        WORK.replace(b'targetRef="end"', b'targetRef="nowhere"'),
        "DANGLING_REFERENCE",
    ),
    "20 an unknown task": (WORK.replace(b"serviceTask", b"magicTask"), "UNKNOWN_ELEMENT"),
    "21 a path as handler": (WORK.replace(b'topic="work"', b'topic="../x"'), "BAD_TOPIC"),
    "24 no duration": (timer("timeDuration", "9999999999Y"), "TIMER_VALUE_INVALID"),
    "24 a billion years": (timer("timeDuration", "P999999999Y"), "TIMER_VALUE_INVALID"),
    "25 the year 20000": (timer("timeDate", "20000-01-01"), "TIMER_VALUE_INVALID"),
    "25 infinity": (timer("timeDate", "infinity"), "TIMER_VALUE_INVALID"),
    "25 the year 0": (timer("timeDate", "0000-01-01T00:00:00Z"), "TIMER_VALUE_INVALID"),
    "26 April 31": (timer("timeDate", "2024-04-31T10:00Z"), "TIMER_VALUE_INVALID"),
    "27 a negative duration": (timer("timeDuration", "-PT5M"), "TIMER_VALUE_INVALID"),
    "27 a cycle without pause": (cycle("R/PT0S"), "TIMER_VALUE_INVALID"),
    "28 a billion repetitions": (cycle("R1000000000/PT1S"), "TIMER_VALUE_INVALID"),
    "40 a tower of powers": (choice("${9**9**9}"), "EXPRESSION_SYNTAX"),
    "41 a class": (choice("${().__class__.__base__.__subclasses__()}"), "EXPRESSION_SYNTAX"),
    "42 a format": (choice("${'{0.__class__}'.format(a)}"), "EXPRESSION_SYNTAX"),
    "43 100,000 minus signs": (choice("${" + "-" * 100_000 + "1}"), "EXPRESSION_SYNTAX"),
}
INCIDENTS: dict[str, tuple[bytes, dict[str, Any], str]] = {
    "22 no way out of a gateway": (choice("${a == 1}"), {"a": 5}, "NO_FLOW_CHOSEN"),
    "24 a billion years": (timer("timeDuration", "${d}"), {"d": "P999999999Y"}, "TIME_LIMIT"),
    "25 the year 20000": (timer("timeDate", "${d}"), {"d": "20000-01-01"}, "TIME_FORMAT"),
    "26 April 31": (timer("timeDate", "${d}"), {"d": "2024-04-31T10:00Z"}, "TIME_FORMAT"),
    "27 a negative duration": (timer("timeDuration", "${d}"), {"d": "-PT5M"}, "TIME_LIMIT"),
    "44 a missing variable": (choice("${missing == 1}"), {"a": 2}, "UNKNOWN_VARIABLE"),
    "45 yes is not true": (choice("${b}"), {"a": 2, "b": "yes"}, "NOT_BOOLEAN"),
    "49 -1 items": (REPEATED, {"n": -1}, "NEGATIVE_CARDINALITY"),
    "49 1.5 items": (REPEATED, {"n": 1.5}, "NOT_AN_INTEGER"),
    "49 null items": (REPEATED, {"n": None}, "NOT_AN_INTEGER"),
    "49 a text of items": (REPEATED, {"n": "3"}, "NOT_AN_INTEGER"),
    "49 ten million items": (REPEATED, {"n": 10_000_000}, "TOO_MANY_REPETITIONS"),
    "50 a process that calls itself": (ITSELF, {}, "CALL_DEPTH"),
}
PASSES: dict[str, tuple[bytes, dict[str, Any]]] = {
    "27 no time at all": (timer("timeDuration", "PT0S"), {}),
    "46 a pattern that others take ages for": (
        choice("${not(matches(b, '(a+)+$'))}"),
        {"a": 2, "b": "a" * 50 + "!"},
    ),
    "49 0 items": (REPEATED, {"n": 0}),
}
ROUND: list[object] = []
ROUND.append(ROUND)
BAD_RESULTS: dict[str, object] = {
    "an object": object(),
    "a set": {"a": {1}},
    "bytes": {"a": b"x"},
    "five megabytes": {"a": "x" * 5_000_000},
    "a list in itself": {"a": ROUND},
}
FATAL: dict[str, BaseException] = {
    "SystemExit": SystemExit(1),
    "KeyboardInterrupt": KeyboardInterrupt(),
    "a group": BaseExceptionGroup("several", [SystemExit()]),
}


@pytest.fixture(scope="module", params=["sqlite memory", "postgresql"])
def site(request: pytest.FixtureRequest) -> Iterator[tuple[Engine, ManualClock]]:
    """One engine for all rows: each must leave it able to serve the next."""
    url = "sqlite://"
    if request.param == "postgresql":
        url = request.getfixturevalue("postgresql_schema")
    clock = ManualClock()
    with Engine(url, config=Config(pool_size=10), clock=clock) as engine:
        engine.handler("work")(lambda work: None)
        yield engine, clock
    if request.param == "postgresql":
        empty(url)


@pytest.fixture
def engine(site: tuple[Engine, ManualClock]) -> Iterator[Engine]:
    """Within its time and memory; afterwards a good file and a good start are served."""
    engine, _ = site
    memory, begun = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    yield engine
    assert time.process_time() - begun < SECONDS
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < KILOBYTES
    engine.deploy(WORK)
    served = engine.start("p")
    engine.run_until_idle()
    assert engine.instances.get(served.id).status == "Completed"


@pytest.fixture
def clock(site: tuple[Engine, ManualClock]) -> ManualClock:
    return site[1]


def rows(engine: Engine) -> dict[str, int]:
    with engine.begin() as connection:
        return {
            table.name: connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one()
            for table in metadata.sorted_tables
        }


def incidents(engine: Engine, instance: str) -> list[str]:
    return [incident.code for incident in engine.incidents.find(instance=instance).items]


@pytest.mark.parametrize("row", REFUSED_FILES)
def test_a_bad_file_is_refused(engine: Engine, row: str) -> None:
    data, code = REFUSED_FILES[row]
    before = rows(engine)
    with pytest.raises(DefinitionError) as refusal:
        engine.deploy(data)
    assert code in refusal.value.codes
    assert rows(engine) == before


@pytest.mark.parametrize("row", INCIDENTS)
def test_what_only_shows_when_it_runs_is_an_incident_and_the_token_is_kept(engine: Engine, row: str) -> None:
    model, variables, code = INCIDENTS[row]
    engine.deploy(model)
    root = engine.start("p", variables).id
    engine.run_until_idle()
    assert incidents(engine, root) == [code]
    assert engine.instances.get(root).tokens != ()


@pytest.mark.parametrize("row", PASSES)
def test_what_looks_bad_and_is_not_passes(engine: Engine, row: str) -> None:
    model, variables = PASSES[row]
    engine.deploy(model)
    instance = engine.start("p", variables).id
    engine.run_until_idle()
    assert engine.instances.get(instance).status == "Completed"


def test_22_an_incident_at_a_gateway_can_be_retried(engine: Engine) -> None:
    engine.deploy(choice("${a == 1}"))
    instance = engine.start("p", {"a": 5}).id
    engine.instances.set_variables(instance, {"a": 1})
    engine.instances.retry(instance)
    assert engine.instances.get(instance).status == "Completed"


@pytest.mark.parametrize("kind", FATAL)
def test_51_a_handler_that_wants_to_end_the_process_fails_its_attempt(
    engine: Engine, clock: ManualClock, kind: str
) -> None:
    calls: list[int] = []

    def fatal(work: Work) -> None:
        calls.append(work.attempt)
        if len(calls) == 1:
            raise FATAL[kind]

    topic = f"bad.fatal {kind}".replace(" ", ".")
    engine.handler(topic)(fatal)
    engine.deploy(WORK.replace(b'topic="work"', f'topic="{topic}"'.encode()))
    instance = engine.start("p").id
    engine.run_until_idle()
    clock.advance("PT1H")
    engine.run_until_idle()
    assert engine.instances.get(instance).status == "Completed"
    assert calls == [1, 2]


@pytest.mark.parametrize("kind", BAD_RESULTS)
def test_52_a_result_that_cannot_be_kept_is_an_incident(engine: Engine, kind: str) -> None:
    topic = f"bad.result {kind}".replace(" ", ".")
    engine.handler(topic)(lambda work: BAD_RESULTS[kind])
    engine.deploy(WORK.replace(b'topic="work"', f'topic="{topic}"'.encode()))
    instance = engine.start("p").id
    engine.run_until_idle()
    assert incidents(engine, instance) == ["bad_result"]


def test_54_a_handler_may_change_its_own_instance(engine: Engine) -> None:
    def note(work: Work) -> None:
        engine.instances.set_variables(work.instance_id, {"noted": True})

    engine.handler("bad.reenter")(note)
    engine.deploy(WORK.replace(b'topic="work"', b'topic="bad.reenter"'))
    instance = engine.start("p").id
    engine.run_until_idle()
    view = engine.instances.get(instance)
    assert (view.status, view.variables) == ("Completed", {"noted": True})


def test_56_of_fifty_who_complete_one_task_one_does(engine: Engine) -> None:
    engine.deploy(HUMAN)
    instance = engine.start("p", {"amount": 1}).id
    (task,) = engine.tasks.find(instance=instance).items

    def complete(number: int) -> bool:
        try:
            engine.tasks.complete(task.id, {"approved": True, "by": number})
        except ConflictError:
            return False
        return True

    with ThreadPoolExecutor(10) as threads:
        done = list(threads.map(complete, range(50)))
    assert done.count(True) == 1
    assert engine.instances.get(instance).variables["by"] == done.index(True)


def test_57_a_task_of_another_tenant_is_not_there(engine: Engine) -> None:
    engine.deploy(HUMAN)
    instance = engine.start("p", {"amount": 1}).id
    (task,) = engine.tasks.find(instance=instance).items
    before = rows(engine)
    with pytest.raises(NotFoundError):
        engine.tenant("other").tasks.complete(task.id, {"approved": True})
    assert rows(engine) == before
    engine.instances.cancel(instance)


def test_58_a_message_that_nobody_takes_waits_for_its_time(engine: Engine, clock: ManualClock) -> None:
    engine.deploy(WAIT)
    assert engine.send_message("paid", "58", ttl="PT1H") == "buffered"
    clock.advance("PT2H")
    instance = engine.start("p", {"order": "58"}).id
    engine.run_until_idle()
    assert engine.instances.get(instance).status == "Running"
    engine.instances.cancel(instance)


@pytest.mark.parametrize("key", ["k" * 1_000_000, ""], ids=["a megabyte", "empty"])
def test_59_a_bad_key_is_refused(engine: Engine, key: str) -> None:
    before = rows(engine)
    with pytest.raises(InvalidInputError, match="correlation_key"):
        engine.send_message("paid", key)
    assert rows(engine) == before


def test_59_a_key_is_only_a_text(engine: Engine) -> None:
    engine.deploy(WAIT)
    mine, other = (engine.start("p", {"order": key}).id for key in ("' OR 1=1--", "x"))
    assert engine.send_message("paid", "' OR 1=1--") == "delivered"
    assert [engine.instances.get(each).status for each in (mine, other)] == ["Completed", "Running"]
    engine.instances.cancel(other)
