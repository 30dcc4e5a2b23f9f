"""Whatever belongs to one tenant does not exist for another: every call of the surface that takes an id."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa
from support.samples import HOURLY, HUMAN, WORK

from bpm_engine import Engine, InvalidInputError, NotFoundError

SUBJECTS = ("definitions", "history", "incidents", "instances", "outbox", "schedules", "tasks")
LISTS = {"find", "count"}  # answer with nothing instead
CALLS: dict[str, Callable[[Engine, dict[str, str]], object]] = {
    "definitions.get": lambda engine, ids: engine.definitions.get(ids["definition"]),
    "definitions.xml": lambda engine, ids: engine.definitions.xml(ids["definition"]),
    "history.find": lambda engine, ids: engine.history.find(ids["instance"]),
    "history.steps": lambda engine, ids: engine.history.steps(ids["instance"]),
    "incidents.resolve": lambda engine, ids: engine.incidents.resolve(ids["incident"], {}),
    "incidents.retry": lambda engine, ids: engine.incidents.retry(ids["incident"]),
    "incidents.skip": lambda engine, ids: engine.incidents.skip(ids["incident"]),
    "instances.cancel": lambda engine, ids: engine.instances.cancel(ids["instance"]),
    "instances.delete": lambda engine, ids: engine.instances.delete(ids["ended"]),
    "instances.get": lambda engine, ids: engine.instances.get(ids["instance"]),
    "instances.move": lambda engine, ids: engine.instances.move(ids["instance"], "decide", "end"),
    "instances.purge": lambda engine, ids: engine.instances.purge(ids["ended"]),
    "instances.resume": lambda engine, ids: engine.instances.resume(ids["instance"]),
    "instances.retry": lambda engine, ids: engine.instances.retry(ids["instance"]),
    "instances.set_variables": lambda engine, ids: engine.instances.set_variables(ids["instance"], {}),
    "instances.suspend": lambda engine, ids: engine.instances.suspend(ids["instance"]),
    "outbox.requeue": lambda engine, ids: engine.outbox.requeue(ids["event"]),
    "schedules.pause": lambda engine, ids: engine.schedules.pause(ids["schedule"]),
    "schedules.preview": lambda engine, ids: engine.schedules.preview(ids["schedule"]),
    "schedules.resume": lambda engine, ids: engine.schedules.resume(ids["schedule"]),
    "start": lambda engine, ids: engine.start(ids["definition"]),
    "tasks.complete": lambda engine, ids: engine.tasks.complete(ids["task"], {"approved": True}),
    "tasks.get": lambda engine, ids: engine.tasks.get(ids["task"]),
}


def test_the_table_of_calls_is_complete(engine: Engine) -> None:
    methods = {
        f"{subject}.{name}"
        for subject in SUBJECTS
        for name, _ in inspect.getmembers(getattr(engine, subject), inspect.ismethod)
        if not name.startswith("_") and name not in LISTS
    }
    assert methods | {"start", "history.find"} == set(CALLS)
    assert {name for name, value in vars(engine).items() if not name.startswith("_")} == set(SUBJECTS)


@pytest.fixture
def ids(engine: Engine) -> dict[str, str]:
    """What acme has: one of everything."""
    acme = engine.tenant("acme")
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
        "ended": ended.id,
        "event": acme.outbox.find().items[0].id,
        "incident": acme.incidents.find(instance=failed.id).items[0].id,
        "instance": instance.id,
        "schedule": schedule,
        "task": acme.tasks.find().items[0].id,
    }


@pytest.mark.parametrize("call", CALLS)
def test_what_belongs_to_another_tenant_is_not_found(engine: Engine, ids: dict[str, str], call: str) -> None:
    before = _everything(engine.tenant("acme"))
    with pytest.raises(NotFoundError):
        CALLS[call](engine.tenant("zeta"), ids)
    assert _everything(engine.tenant("acme")) == before


@pytest.mark.parametrize("call", [name for name in CALLS if name != "start" and "definitions" not in name])
def test_what_is_no_id_is_not_found(engine: Engine, call: str) -> None:
    nonsense = dict.fromkeys(["ended", "event", "incident", "instance", "schedule", "task"], "x' OR 1=1 --")
    with pytest.raises(NotFoundError, match="there is no"):
        CALLS[call](engine, nonsense)


def test_lists_of_another_tenant_are_empty(engine: Engine, ids: dict[str, str]) -> None:
    zeta = engine.tenant("zeta")
    lists = (zeta.definitions, zeta.incidents, zeta.instances, zeta.outbox, zeta.schedules, zeta.tasks)
    assert [len(subject.find()) for subject in lists] == [0] * 6
    assert len(zeta.incidents.find(instance=ids["instance"])) == 0
    assert zeta.instances.count() == 0
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


def _everything(engine: Engine) -> list[Any]:
    return [
        engine.instances.find(),
        engine.tasks.find(),
        engine.incidents.find(),
        engine.schedules.find(),
        engine.outbox.find(),
        [engine.history.find(instance.id) for instance in engine.instances.find()],
    ]
