"""Whatever belongs to one tenant does not exist for another: every call of the surface.

The calls are found by looking at the engine, and their arguments are chosen by the names of the parameters,
so that a new method is tested without being named here. A parameter with a new name has to be added to
`ARGUMENTS`, or the test of its method fails.
"""

from __future__ import annotations

import inspect
import random
from typing import Any

import pytest
import sqlalchemy as sa
from support.definitions import bpmn, path
from support.samples import HOURLY, HUMAN, WORK

from bpm_engine import BatchReport, Config, Engine, InvalidInputError, NotFoundError

EXTERNAL = bpmn(
    '<startEvent id="s"/><serviceTask id="x" bpm:topic="pack" bpm:external="true"/><endEvent id="e"/>'
    + path("s", "x", "e")
)
LOOK = bpmn('<startEvent id="s"/><userTask id="u"/><endEvent id="e"/>' + path("s", "u", "e"))
IDS = {
    "event_id": "event",
    "incident_id": "incident",
    "instance_id": "instance",
    "key": "definition",
    "lock": "lock",
    "schedule_id": "schedule",
    "task_id": "task",
}
"""Which parameter names what: a foreign one is not found."""
ARGUMENTS: dict[str, object] = {
    "code": "BROKEN",
    "count": 3,
    "from_node": "decide",
    "lease": "1m",
    "message": "no boxes",
    "node_id": "decide",
    "text": "looks good",
    "to": "bob",
    "to_node": "end",
    "to_version": 2,
    "topics": "pack",
    "user": "ann",
    "values": {},
    "variables": {"approved": True},
    "version": 1,
    "worker": "w",
}
"""The other parameters that must be given."""
WITHOUT_TENANT = {
    "begin",
    "close",
    "data_store",
    "doctor",
    "handler",
    "health",
    "observe",
    "run",
    "run_until_idle",
    "running",
    "tenant",
}
OWN = {"deploy", "send_message", "send_signal"}  # make something new for whoever calls


def _surface() -> dict[str, inspect.Signature]:
    engine = Engine("sqlite://")
    subjects = {name: value for name, value in vars(engine).items() if not name.startswith("_")}
    calls = {
        name: inspect.signature(method)
        for name, method in inspect.getmembers(engine, inspect.ismethod)
        if not name.startswith("_") and name not in WITHOUT_TENANT | OWN
    }
    for subject, value in subjects.items():
        for name, method in inspect.getmembers(value, inspect.ismethod):
            if not name.startswith("_"):
                calls[f"{subject}.{name}"] = inspect.signature(method)
    return calls


def _required(signature: inspect.Signature) -> list[str]:
    return [
        parameter.name
        for parameter in signature.parameters.values()
        if parameter.default is parameter.empty and parameter.kind is not parameter.VAR_KEYWORD
    ]


SURFACE = _surface()
BY_ID = [name for name, signature in SURFACE.items() if set(_required(signature)) & set(IDS)]
OVER_ALL = [name for name in SURFACE if name not in BY_ID]


def _call(engine: Engine, name: str, ids: dict[str, str]) -> Any:
    given: dict[str, object] = {}
    for parameter in _required(SURFACE[name]):
        assert parameter in IDS or parameter in ARGUMENTS, f"say in ARGUMENTS what {parameter!r} of {name} is"
        given[parameter] = ids[IDS[parameter]] if parameter in IDS else ARGUMENTS[parameter]
    if name.startswith("batches."):  # these want a filter
        given["definition"] = "p"
    method: Any = engine
    for part in name.split("."):
        method = getattr(method, part)
    return method(**given)


@pytest.fixture
def ids(engine: Engine) -> dict[str, str]:
    """What acme has: one of everything."""
    acme = engine.tenant("acme")
    acme.deploy(EXTERNAL)
    acme.start("p")
    (external,) = acme.external.fetch("pack", worker="w")
    acme.start("p")  # one more, to be fetched
    acme.deploy(LOOK)
    acme.start("p")  # a task that anybody may do
    acme.deploy(WORK)
    failed, ended = acme.start("p"), acme.start("p")
    acme.instances.cancel(ended.id)
    engine.run_until_idle()
    acme.deploy(HOURLY)
    schedule = acme.schedules.find().items[0].id
    acme.deploy(HUMAN)
    instance = acme.start("p", {"amount": 1})
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE event_outbox SET status = 'Dead'"))
    return {
        "definition": "p",
        "event": acme.outbox.find().items[0].id,
        "incident": acme.incidents.find(instance=failed.id).items[0].id,
        "instance": instance.id,
        "lock": external.lock,
        "schedule": schedule,
        "task": acme.tasks.find().items[0].id,
    }


def test_the_surface_is_found() -> None:
    assert {"start", "instances.get", "external.complete", "tasks.complete"} <= set(BY_ID)
    assert {"instances.find", "external.fetch", "tasks.find"} <= set(OVER_ALL)


@pytest.mark.parametrize("call", BY_ID)
def test_what_belongs_to_another_tenant_is_not_found(engine: Engine, ids: dict[str, str], call: str) -> None:
    before = _everything(engine.tenant("acme"))
    with pytest.raises(NotFoundError):
        _call(engine.tenant("zeta"), call, ids)
    assert _everything(engine.tenant("acme")) == before


@pytest.mark.slow
@pytest.mark.timeout(1_800)
@pytest.mark.reliable
def test_none_of_fifty_thousand_calls_reaches_another_tenant(engine: Engine, ids: dict[str, str]) -> None:
    dice = random.Random(1)
    zeta = engine.tenant("zeta")
    before = _everything(engine.tenant("acme"))
    for _ in range(50_000):
        call = dice.choice([*BY_ID, *OVER_ALL])
        mixed = {name: dice.choice([own, *ids.values()]) for name, own in ids.items()} | {"definition": "p"}
        if call in BY_ID:
            with pytest.raises(NotFoundError):
                _call(zeta, call, mixed)
        else:
            answer = _call(zeta, call, mixed)
            assert not (answer.total if isinstance(answer, BatchReport) else answer)
    assert _everything(engine.tenant("acme")) == before


@pytest.mark.parametrize("call", OVER_ALL)
def test_calls_over_everything_find_nothing_of_another_tenant(
    engine: Engine, ids: dict[str, str], call: str
) -> None:
    before = _everything(engine.tenant("acme"))
    answer = _call(engine.tenant("zeta"), call, ids)
    assert not (answer.total if isinstance(answer, BatchReport) else answer)
    assert _everything(engine.tenant("acme")) == before


@pytest.mark.parametrize("call", [name for name in BY_ID if "key" not in SURFACE[name].parameters])
def test_what_is_no_id_is_not_found(engine: Engine, call: str) -> None:
    with pytest.raises(NotFoundError, match="there is no"):
        _call(engine, call, dict.fromkeys(IDS.values(), "x' OR 1=1 --"))


def test_filters_by_what_another_tenant_has_find_nothing(engine: Engine, ids: dict[str, str]) -> None:
    zeta = engine.tenant("zeta")
    assert len(zeta.incidents.find(instance=ids["instance"])) == 0
    assert len(zeta.tasks.find(instance=ids["instance"])) == 0
    assert zeta.doctor() == []


def test_a_cursor_of_another_tenant_is_refused(engine: Engine, ids: dict[str, str]) -> None:
    cursor = engine.tenant("acme").instances.find(limit=1).cursor
    with pytest.raises(InvalidInputError, match="cursor"):
        engine.tenant("zeta").instances.find(limit=1, cursor=cursor)


def test_each_tenant_has_its_own_versions(engine: Engine) -> None:
    acme, zeta = engine.tenant("acme"), engine.tenant("zeta")
    acme.deploy(WORK)
    acme.deploy(HUMAN)
    assert acme.definitions.get("p").version == 2
    assert zeta.deploy(WORK).definitions[0].version == 1


def test_a_tenant_needs_a_name(engine: Engine) -> None:
    with pytest.raises(InvalidInputError, match="tenant must be a text that is not empty"):
        engine.tenant("")


def test_the_name_that_means_all_tenants_is_refused(engine: Engine) -> None:
    with pytest.raises(InvalidInputError, match="tenant must not be '\\*'"):
        engine.tenant("*")
    with pytest.raises(InvalidInputError, match="tenant must not be '\\*'"):
        Engine("sqlite://", tenant="*")
    with pytest.raises(InvalidInputError, match="must be limits by tenant"):
        Config(tenant_limits={"*": {"tokens": 1}})


def _everything(engine: Engine) -> list[Any]:
    return [
        engine.instances.find(),
        engine.tasks.find(),
        engine.incidents.find(),
        engine.schedules.find(),
        engine.outbox.find(),
        [engine.history.find(instance.id) for instance in engine.instances.find()],
    ]
