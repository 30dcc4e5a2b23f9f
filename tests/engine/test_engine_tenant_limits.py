"""A tenant with limits of its own beside others: each is held to its own, on the same engine."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from support.borders import (
    Incident,
    Try,
    big,
    calls,
    elements_of,
    file_of,
    fork,
    named,
    nested,
    repeat,
    returned,
    send_many,
    send_many_names,
    start_many,
    start_with_all_bytes,
    start_with_bytes,
    walk,
    walk_at_once,
)
from support.definitions import bpmn, path
from support.samples import END, START, WORK

from bpm_engine import Config, DefinitionError, Engine, InvalidInputError, UnavailableError
from bpm_engine.config import OF_A_TENANT
from bpm_engine.core.stimuli import Started
from bpm_engine.services.step import Submission, new_id
from bpm_engine.testing import ManualClock

Opening = Callable[..., Engine]
Kind = tuple[dict[str, int], Try, int, type[Exception], str]

FILE = len(WORK) + 10
BORDERS: dict[str, Kind] = {
    "tokens": ({"tokens": 20}, fork, 20, Incident, "TOO_MANY_TOKENS"),
    "steps": ({"steps": 10}, walk_at_once, 10, Incident, "it rests"),
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
    "variables_depth": ({"variables_depth": 5}, nested, 5, InvalidInputError, "deeper than 5 levels"),
    "the result of a handler": ({"variable_bytes": 100}, returned, 100, Incident, "bad_result"),
    "instances": ({"instances": 3}, start_many, 3, UnavailableError, "3 instances of process"),
    "tenant_instances": ({"tenant_instances": 3}, start_many, 3, UnavailableError, "3 instances of tenant"),
    "message_buffer": ({"message_buffer": 3}, send_many, 3, UnavailableError, "^3 messages named"),
    "tenant_messages": ({"tenant_messages": 3}, send_many_names, 3, UnavailableError, "3 messages of tenant"),
    "name_characters": ({"name_characters": 30}, named, 30, InvalidInputError, "30 are allowed"),
    "file_bytes": ({"file_bytes": FILE}, file_of, FILE, DefinitionError, "FILE_TOO_LARGE"),
    "file_elements": ({"file_elements": 40}, elements_of, 40, DefinitionError, "TOO_MANY_ELEMENTS"),
}


@pytest.fixture
def opened(opening: Opening) -> Opening:
    def open_engine(**settings: object) -> Engine:
        engine = opening(**settings)
        engine.handler("work")(lambda work: None)
        engine.handler("big")(big)
        return engine

    return open_engine


def test_every_limit_of_a_tenant_is_tried_here() -> None:
    tried = {limit for settings, *_ in BORDERS.values() for limit in settings}
    assert tried | {"backlog", "recoveries"} == OF_A_TENANT


@pytest.mark.parametrize("name", BORDERS)
def test_a_tenant_with_lower_limits_is_held_to_them_and_others_are_not(opened: Opening, name: str) -> None:
    settings, attempt, most, refusal, words = BORDERS[name]
    engine = opened(tenant_limits={"fits": settings, "over": settings})
    attempt(engine.tenant("fits"), most)
    with pytest.raises(refusal, match=words):
        attempt(engine.tenant("over"), most + 1)
    attempt(engine.tenant("other"), most + 1)


@pytest.mark.parametrize("name", BORDERS)
def test_a_tenant_with_higher_limits_is_served_and_others_are_not(opened: Opening, name: str) -> None:
    settings, attempt, most, refusal, words = BORDERS[name]
    higher = {limit: 2 * value for limit, value in settings.items()}
    engine = opened(**settings, tenant_limits={"large": higher})
    attempt(engine.tenant("large"), most + 1)
    with pytest.raises(refusal, match=words):
        attempt(engine.tenant("other"), most + 1)


def test_in_one_transaction_each_tenant_is_held_to_its_own_limits(opened: Opening) -> None:
    """The committer takes together what comes together, whoever's it is."""
    engine = opened(tokens=4, tenant_limits={"small": {"tokens": 2}, "large": {"tokens": 6}})
    submissions, started = [], {}
    for tenant in ("small", "default", "large"):
        for width in range(1, 8):
            tasks = "".join(f'<userTask id="t{n}"/>' for n in range(width))
            flows = "".join(path("fork", f"t{n}", "end") for n in range(width))
            body = f'{START}<parallelGateway id="fork"/>{tasks}{END}' + path("start", "fork") + flows
            engine.tenant(tenant).deploy(bpmn(body))
            definition = engine.tenant(tenant).definitions.get("p").id
            start = Started(instance_id=new_id(), tenant_id=tenant, definition_id=definition)
            submissions.append(Submission(stimulus=start, root=start.instance_id))
            started[start.instance_id] = (tenant, width)
    engine._runtime.committer.perform(submissions)
    widest: dict[str, int] = {}
    for instance, (tenant, width) in started.items():
        if engine.tenant(tenant).instances.get(instance).status == "Running":
            widest[tenant] = max(width, widest.get(tenant, 0))
    assert widest == {"small": 2, "default": 4, "large": 6}


def test_what_goes_on_later_is_held_to_the_limits_of_its_tenant(opened: Opening) -> None:
    """The same for answers to work, in whose transaction the tenant is known from the rows alone."""
    engine = opened(tenant_limits={"small": {"tokens": 2}})
    body = (
        f'{START}<serviceTask id="work" bpm:topic="work"/><parallelGateway id="fork"/>'
        f'<userTask id="a"/><userTask id="b"/><userTask id="c"/>{END}'
    )
    flows = path("start", "work", "fork") + "".join(path("fork", each, "end") for each in "abc")
    instances = {}
    for tenant in ("small", "other"):
        engine.tenant(tenant).deploy(bpmn(body + flows))
        instances[tenant] = engine.tenant(tenant).start("p").id
    engine.run_until_idle()
    statuses = {each: engine.tenant(each).instances.get(id).status for each, id in instances.items()}
    assert statuses == {"small": "Failed", "other": "Running"}
    assert [each.code for each in engine.tenant("small").incidents.find().items] == ["TOO_MANY_TOKENS"]


def test_work_that_waits_keeps_the_tenant_with_the_least_patience_from_beginning_more(
    opened: Opening, clock: ManualClock
) -> None:
    engine = opened(backlog=120.0, tenant_limits={"eager": {"backlog": 60.0}, "patient": {"backlog": 0}})
    for tenant in ("eager", "patient", "other"):
        engine.tenant(tenant).deploy(WORK)
    engine.tenant("other").start("p")
    clock.advance("60s")
    engine.tenant("eager").start("p")
    clock.advance("1s")
    with pytest.raises(UnavailableError, match="more than 60 s"):
        engine.tenant("eager").start("p")
    engine.tenant("other").start("p")
    clock.advance("60s")
    with pytest.raises(UnavailableError, match="more than 120 s"):
        engine.tenant("other").start("p")
    engine.tenant("patient").start("p")


@pytest.mark.reliable  # what cannot be given back waits for its lease, and is lost once more
def test_each_tenants_work_may_lose_as_many_workers_as_its_limit_says(
    opened: Opening, clock: ManualClock
) -> None:
    engine = opened(recoveries=4, tenant_limits={"careful": {"recoveries": 2}, "brave": {"recoveries": 9}})
    lost = {"careful": 0, "brave": 0, "other": 0}
    for tenant in lost:
        engine.tenant(tenant).deploy(WORK)
        engine.tenant(tenant).start("p")
    for _ in range(8):
        for _ in lost:  # all are lost together: their leases expire in one transaction
            picked = engine._runtime.executor.run_chosen(lambda work: work[0] if work else None)
            if picked is not None and picked.held is not None:
                lost[picked.held.token.tenant_id] += 1
        clock.advance("31s")
        engine._runtime.recovery.run_once()
        clock.advance("1m")  # what was lost more than once waits up to a minute
        engine._runtime.timers.run_once()
    assert lost == {"careful": 3, "brave": 8, "other": 5}
    incidents = {
        tenant: [each.code for each in engine.tenant(tenant).incidents.find().items] for tenant in lost
    }
    assert incidents == {"careful": ["worker_lost"], "brave": [], "other": ["worker_lost"]}
    findings = [finding.name for finding in engine.tenant("brave").doctor()]
    assert [name for name in findings if "recover" in name] == []


def test_limits_of_tenants_come_from_the_environment_as_well() -> None:
    text = '{"acme": {"tokens": 500, "backlog": "2m"}, "zeta": {"instances": 0}}'
    config = Config.from_environment({"BPM_TENANT_LIMITS": text, "BPM_TOKENS": "7"})
    assert (config.of("acme").tokens, config.of("acme").backlog) == (500, 120.0)
    assert (config.of("zeta").tokens, config.of("zeta").instances) == (7, 0)
    assert config.of("somebody") is config


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("acme=5", "BPM_TENANT_LIMITS='acme=5': expected JSON such as"),
        ("[1]", "BPM_TENANT_LIMITS: tenant_limits must be limits by tenant"),
        ('{"acme": 5}', "tenant_limits must be limits by tenant.*not 'acme'"),
        ('{"": {}}', "tenant_limits must be limits by tenant"),
        (
            '{"acme": {"lease": 5}}',
            "tenant_limits of 'acme': no limit 'lease'; there are backlog, call_depth",
        ),
        (
            '{"acme": {"tokens": 0}}',
            "tenant_limits of 'acme': tokens must be a whole number from 1 on, not 0",
        ),
        ('{"acme": {"tokens": "x"}}', "BPM_TENANT_LIMITS=.*expected a whole number"),
        ('{"acme": {"variables_depth": 33}}', "variables_depth must be a whole number from 1 to 32, not 33"),
    ],
)
def test_limits_of_tenants_that_make_no_sense_are_refused_in_words(text: str, words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        Config.from_environment({"BPM_TENANT_LIMITS": text})


def test_limits_that_were_given_are_kept_as_they_were() -> None:
    given = {"acme": {"tokens": 5}}
    config = Config(tenant_limits=given)
    given["acme"]["tokens"] = 0
    assert config.of("acme").tokens == 5
