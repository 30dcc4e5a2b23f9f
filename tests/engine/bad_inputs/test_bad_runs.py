"""Rows 21 to 27 and 44 to 55 of the catalogue: what shows when it runs is an incident, nothing is lost."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest
from support.definitions import bpmn, flow, path
from support.samples import END, HOUR, START, WORK

from bpm_engine import BpmnError, Config, Engine, Retry, Work
from bpm_engine.testing import ManualClock


def timer(kind: str, text: str) -> bytes:
    event = f"<timerEventDefinition><{kind}>{text}</{kind}></timerEventDefinition>"
    wait = f'<intermediateCatchEvent id="wait">{event}</intermediateCatchEvent>'
    return bpmn(START + wait + END + path("start", "wait", "end"))


def choice(condition: str) -> bytes:
    """Two ways: one by the condition, one where `a` is 2."""
    return bpmn(
        f'{START}<exclusiveGateway id="choice"/>{END}<endEvent id="other"/>'
        + path("start", "choice")
        + flow("choice", "end", condition)
        + flow("choice", "other", "${a == 2}")
    )


REPEATED = bpmn(
    f'{START}<serviceTask id="each" bpm:topic="bad.each"><multiInstanceLoopCharacteristics><loopCardinality>'
    f"${{n}}</loopCardinality></multiInstanceLoopCharacteristics></serviceTask>{END}"
    + path("start", "each", "end")
)
ITSELF = bpmn(f'{START}<callActivity id="call" calledElement="p"/>{END}' + path("start", "call", "end"))

INCIDENTS: dict[str, tuple[bytes, dict[str, Any], str]] = {
    "22 no way out of a gateway": (choice("${a == 1}"), {"a": 5}, "NO_FLOW_CHOSEN"),
    "24 a billion years": (timer("timeDuration", "${d}"), {"d": "P999999999Y"}, "TIME_LIMIT"),
    "25 infinity": (timer("timeDate", "${d}"), {"d": "infinity"}, "TIME_FORMAT"),
    "25 the year 0": (timer("timeDate", "${d}"), {"d": "0000-01-01T00:00:00Z"}, "TIME_FORMAT"),
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


def incidents(engine: Engine, instance: str) -> list[str]:
    return [incident.code for incident in engine.incidents.find(instance=instance).items]


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
    view = engine.instances.get(instance)
    assert ([token.node_id for token in view.tokens], view.variables) == (["work"], {})


class Speechless(Exception):  # noqa: N818
    def __str__(self) -> str:
        raise RuntimeError


RAISED: dict[str, tuple[BaseException, str, str]] = {
    "5 MB of text": (ValueError("x" * 5_000_000), "ValueError", "x" * 2_000),
    "characters that no database keeps": (ValueError("a\x00b\ud800c"), "ValueError", "a\ufffdb\ufffdc"),
    "no text at all": (Speechless(), "Speechless", "its text cannot be had: RuntimeError"),
    "an error that nobody catches": (BpmnError("DECLINED", "m" * 5_000_000), "DECLINED", "m" * 2_000),
    "a code of 100 kB": (
        BpmnError("C" * 100_000),
        "bad_result",
        "the code of the error has 100000 characters; 255 are allowed",
    ),
    "no code": (BpmnError(17), "bad_result", "the code of the error must be a text that is not empty"),  # type: ignore[arg-type]
    "an error with an object": (
        BpmnError("DECLINED", variables={"a": object()}),
        "bad_result",
        "variables.a is a object, which JSON does not have",
    ),
}


@pytest.mark.parametrize("kind", RAISED)
def test_52_what_is_raised_is_kept_as_far_as_it_can_be(engine: Engine, kind: str) -> None:
    error, code, message = RAISED[kind]

    def fails(work: Work) -> None:
        raise error

    topic = f"bad.raised {kind}".replace(" ", ".")
    engine.handler(topic, retry=Retry(attempts=1))(fails)
    engine.deploy(WORK.replace(b'topic="work"', f'topic="{topic}"'.encode()))
    instance = engine.start("p").id
    engine.run_until_idle()
    (incident,) = engine.incidents.find(instance=instance).items
    assert (incident.code, incident.message) == (code, message)
    assert len(incident.traceback) <= 8_000
    assert sum(len(str(entry.data)) for entry in engine.history.find(instance).items) < 40_000


def test_54_a_handler_may_change_its_own_instance(engine: Engine) -> None:
    def note(work: Work) -> None:
        engine.instances.set_variables(work.instance_id, {"noted": True})

    engine.handler("bad.reenter")(note)
    engine.deploy(WORK.replace(b'topic="work"', b'topic="bad.reenter"'))
    instance = engine.start("p").id
    engine.run_until_idle()
    view = engine.instances.get(instance)
    assert (view.status, view.variables) == ("Completed", {"noted": True})


@pytest.mark.parametrize("name", ["os:system", "antigravity:x"])
def test_21_a_handler_name_is_looked_up_and_never_imported(engine: Engine, name: str) -> None:
    engine.deploy(WORK.replace(b'topic="work"', f'topic="{name}"'.encode()))
    instance = engine.start("p").id
    engine.run_until_idle()
    assert incidents(engine, instance) == ["no_handler_registered"]
    assert "antigravity" not in sys.modules


def test_23_a_join_that_never_gets_its_tokens_warns_at_deploy_and_is_an_incident(engine: Engine) -> None:
    deadlock = (
        f'{START}<exclusiveGateway id="either" default="either_a"/><task id="a"/><task id="b"/>'
        f'<parallelGateway id="both"/>{END}'
        + path("start", "either", "a", "both", "end")
        + flow("either", "b", "${n == 1}")
        + path("b", "both")
    )
    problems = engine.deploy(bpmn(deadlock)).problems
    assert [problem.code for problem in problems] == ["CAN_DEADLOCK"]
    instance = engine.start("p", {"n": 1}).id
    engine.run_until_idle()
    assert incidents(engine, instance) == ["DEADLOCK"]
    assert [token.node_id for token in engine.instances.get(instance).tokens] == ["both"]


def test_25_a_timer_that_cannot_be_leaves_the_others_to_fire(engine: Engine, clock: ManualClock) -> None:
    engine.deploy(HOUR)
    good = engine.start("p").id
    engine.deploy(timer("timeDate", "${d}"))
    bad = engine.start("p", {"d": "infinity"}).id
    clock.advance("PT2H")
    engine.run_until_idle()
    assert incidents(engine, bad) == ["TIME_FORMAT"]
    assert engine.instances.get(good).status == "Completed"


ENDLESS = bpmn(
    f'{START}<exclusiveGateway id="again"/><task id="a"/><exclusiveGateway id="on" default="on_again"/>{END}'
    + path("start", "again", "a", "on", "again")
    + flow("on", "end", "${n == 2}")
)
EXPLODING = bpmn(
    f'{START}<exclusiveGateway id="again"/><parallelGateway id="fork"/><task id="a"/>{END}'
    + path("start", "again", "fork", "a", "again")
    + flow("fork", "again", identifier="second")
    + flow("fork", "end")
)


@pytest.fixture
def small(url_of: Callable[[str], str]) -> Engine:
    """With limits that are reached soon; what they are by default is on the page of settings."""
    return Engine(url_of("sqlite memory"), config=Config(steps=100, total_steps=1_000, tokens=50))


def test_47_an_endless_loop_pauses_for_others_and_ends_as_an_incident(small: Engine) -> None:
    with small as engine:
        other = engine.tenant("other")
        other.deploy(HOUR)
        engine.deploy(ENDLESS)
        looping = engine.start("p", {"n": 1})
        assert looping.status == "Running"  # a hundred steps, then others
        assert other.start("p").tokens[0].node_id == "pause"
        engine.run_until_idle()
        assert incidents(engine, looping.id) == ["ENDLESS_LOOP"]
        assert len(engine.instances.get(looping.id).tokens) == 1
        steps = [entry for entry in engine.history.steps(looping.id) if entry.node_id == "a"]
        assert 300 <= len(steps) <= 334  # a third of a thousand


def test_48_tokens_that_double_stop_at_the_limit_and_no_fork_is_half_done(small: Engine) -> None:
    with small as engine:
        engine.deploy(EXPLODING)
        instance = engine.start("p").id
        engine.run_until_idle()
        assert set(incidents(engine, instance)) == {"TOO_MANY_TOKENS"}
        assert len(engine.instances.get(instance).tokens) <= 50
        assert engine.doctor() == []
