"""Instances that go over to another version: looked at first, then one by one, beside running workers."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from datetime import timedelta

import pytest
from support.definitions import bpmn, flow, path

from bpm_engine import ConflictError, Engine, InvalidInputError, NotFoundError, Work
from bpm_engine.api import walks
from bpm_engine.testing import ManualClock

Opening = Callable[..., Engine]
ENDS = '<startEvent id="start"/><endEvent id="end"/>'
HOUR = "<timerEventDefinition><timeDuration>PT1H</timeDuration></timerEventDefinition>"


def process(
    task: str, *, sub: str = "box", join: str = "join", late: str = "late", extra: bool = False
) -> bytes:
    """A fork: a person, a sub-process with a timer around some work, and a join; `extra` adds a last step."""
    last = '<userTask id="extra"/>' if extra else ""
    end = path(join, "extra", "end") if extra else flow(join, "end")
    return bpmn(
        f'{ENDS}<parallelGateway id="fork"/><userTask id="{task}" name="{task}"/>{last}'
        f'<subProcess id="{sub}"><startEvent id="{sub}s"/><serviceTask id="work" bpm:topic="work"/>'
        f'<endEvent id="{sub}e"/>{path(f"{sub}s", "work", f"{sub}e")}</subProcess>'
        f'<boundaryEvent id="{late}" attachedToRef="{sub}">{HOUR}</boundaryEvent><endEvent id="lost"/>'
        f'<parallelGateway id="{join}"/>'
        + path("start", "fork", task, join)
        + path("fork", sub, join)
        + end
        + flow(late, "lost")
    )


OLD = process("decide")
NEW = process("judge", sub="shell", join="meet", late="later", extra=True)
MAPPING = {"decide": "judge", "box": "shell", "join": "meet", "late": "later"}


@pytest.fixture
def two(engine: Engine) -> Engine:
    engine.deploy(OLD)
    engine.deploy(NEW)
    return engine


def finish(engine: Engine, instance_id: str) -> None:
    while tasks := [task for task in engine.tasks.find() if task.instance_id == instance_id]:
        engine.tasks.complete(tasks[0].id)


def test_a_dry_run_says_what_would_happen_and_changes_nothing(two: Engine) -> None:
    instance = two.start("p", version=1)
    before = two.history.find(instance.id).items
    plan = two.instances.migrate(instance.id, 2, dry_run=True)
    assert (plan.verdict, plan.applied) == ("needs mapping", False)
    (step,) = [step for step in plan.steps if step.node_id == "decide"]
    assert step.reason == "the new version has no 'decide': map 'decide' to one of extra, judge"
    plan = two.instances.migrate(instance.id, 2, mapping=MAPPING, dry_run=True)
    assert plan.verdict == "safe"
    assert {(step.node_id, step.to_node) for step in plan.steps} == {
        ("decide", "judge"),
        ("box", "shell"),
        ("work", "work"),
    }
    assert str(plan).splitlines()[0] == "version 1 to 2: safe"
    assert two.history.find(instance.id).items == before


def test_an_instance_goes_on_in_the_new_version(two: Engine) -> None:
    two.handler("work")(lambda work: {"done": True})
    instance = two.start("p", version=1)
    assert two.instances.migrate(instance.id, 2, mapping=MAPPING, actor="ops").applied
    moved = two.instances.get(instance.id)
    assert moved.definition_version == 2
    assert sorted(token.node_id for token in moved.tokens) == ["judge", "shell", "work"]
    entry = two.history.find(instance.id).items[-1]
    assert (entry.kind, entry.actor) == ("migrated", "ops")
    two.run_until_idle()
    finish(two, instance.id)
    assert two.instances.get(instance.id).status == "Completed"
    assert [step.node_id for step in two.history.steps(instance.id)][-2:] == ["extra", "end"]


def test_a_visit_that_was_renamed_is_one_step(two: Engine, clock: ManualClock) -> None:
    instance = two.start("p", version=1)
    two.instances.migrate(instance.id, 2, mapping=MAPPING)
    clock.advance("5s")
    (task,) = two.tasks.find()
    two.tasks.complete(task.id)
    steps = [step for step in two.history.steps(instance.id) if step.node_id in ("decide", "judge")]
    assert [(step.node_id, step.status, step.duration) for step in steps] == [
        ("judge", "completed", timedelta(seconds=5))
    ]


def test_what_is_not_safe_is_refused_with_the_reason(two: Engine) -> None:
    instance = two.start("p", version=1)
    with pytest.raises(ConflictError, match="needs mapping: the new version has no 'decide'"):
        two.instances.migrate(instance.id, 2)
    assert two.instances.get(instance.id).definition_version == 1
    with pytest.raises(InvalidInputError, match="mapping leads to 'moon', which version 2 does not have"):
        two.instances.migrate(instance.id, 2, mapping={"decide": "moon"})
    with pytest.raises(NotFoundError, match="has no version 9"):
        two.instances.migrate(instance.id, 9)
    with pytest.raises(ConflictError, match="is of version 1 already"):
        two.instances.migrate(instance.id, 1)


def test_a_migration_joins_the_callers_transaction(two: Engine) -> None:
    instance = two.start("p", version=1)

    def migrate_and_think_better_of_it() -> None:
        with two.begin() as connection:
            two.instances.migrate(instance.id, 2, mapping=MAPPING, connection=connection)
            seen = two.instances.get(instance.id, connection=connection)
            assert seen.definition_version == 2
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        migrate_and_think_better_of_it()
    assert two.instances.get(instance.id).definition_version == 1


def many(engine: Engine) -> dict[str, str]:
    """An instance of version 1 in each of six markings."""
    found = {}
    engine.handler("work")(lambda work: None)
    found["at the join"] = engine.start("p", version=1).id
    engine.run_until_idle()
    for name in ("fresh", "suspended", "person was here", "both", "ended"):
        found[name] = engine.start("p", version=1).id
    engine.instances.suspend(found["suspended"])
    for name in ("person was here", "ended"):
        (task,) = [task for task in engine.tasks.find() if task.instance_id == found[name]]
        engine.tasks.complete(task.id)
    engine.instances.cancel(found["ended"])
    return found


def test_a_forecast_counts_instances_by_marking(two: Engine) -> None:
    many(two)
    forecast = two.batches.plan_migration("p", 2)
    assert (forecast.total, forecast.verdicts["needs mapping"]) == (5, 5)
    forecast = two.batches.plan_migration("p", 2, mapping=MAPPING)
    assert forecast.verdicts == {"safe": 5, "busy": 0, "needs mapping": 0, "impossible": 0}
    markings = {each.marking: each.count for each in forecast.markings}
    assert markings == {("box", "decide", "work"): 3, ("decide", "join"): 1, ("box", "join", "work"): 1}
    assert str(forecast).startswith("5 to version 2: 5 safe\n3 of version 1 at box, decide, work: safe")


def test_a_batch_migrates_all_that_are_safe_and_names_the_others(
    two: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(walks, "STRETCH", 2)
    found = many(two)
    part = {name: to for name, to in MAPPING.items() if name != "join"}
    with pytest.raises(ConflictError, match="not everything can be migrated"):
        two.batches.migrate("p", 2, mapping=part, strict=True)
    report = two.batches.migrate("p", 2, mapping=part, actor="ops")
    assert (report.total, report.done, report.failed) == (5, 3, 2)
    assert {each.instance_id for each in report.failures} == {found["at the join"], found["person was here"]}
    report = two.batches.migrate("p", 2, mapping=MAPPING, strict=True)
    assert (report.done, report.unchanged, report.failed) == (2, 3, 0)
    two.instances.resume(found["suspended"])
    two.run_until_idle()
    for instance_id in found.values():
        finish(two, instance_id)
    assert two.instances.count(by="status") == {"Completed": 5, "Cancelled": 1}
    assert two.instances.count(by="version") == {"p:1": 1, "p:2": 5}


def test_timers_keep_their_due_time(opening: Opening, clock: ManualClock) -> None:
    two = opening(missing_handler="leave")
    two.deploy(OLD)
    two.deploy(NEW)
    instance = two.start("p", version=1)
    clock.advance("30m")
    two.instances.migrate(instance.id, 2, mapping=MAPPING)
    clock.advance("29m")
    assert two.run_until_idle() == 0
    clock.advance("1m")
    two.run_until_idle()
    assert "later" in _path(two, instance.id)


def _path(engine: Engine, instance_id: str) -> list[str]:
    return [step.node_id for step in engine.history.steps(instance_id)]


def test_a_running_handler_answers_after_the_migration(two: Engine) -> None:
    versions: list[int] = []

    @two.handler("work")
    def work(given: Work) -> dict[str, int]:
        two.instances.migrate(given.instance_id, 2, mapping=MAPPING)
        versions.append(1)
        return {"done": len(versions)}

    instance = two.start("p", version=1)
    two.run_until_idle()
    assert two.instances.get(instance.id).variables == {"done": 1}
    assert "meet" in [token.node_id for token in two.instances.get(instance.id).tokens]


def test_migrating_beside_workers_loses_nothing(opening: Opening) -> None:
    """Handlers run, people complete and instances go over, all at once: each instance ends once."""
    engine = opening(worker_threads=4)
    engine.deploy(OLD)
    engine.deploy(NEW)
    runs: list[str] = []
    lock = threading.Lock()

    @engine.handler("work")
    def work(given: Work) -> None:
        with lock:
            runs.append(given.instance_id)

    ids = [engine.start("p", version=1).id for _ in range(30)]
    people = threading.Thread(target=lambda: [finish(engine, each) for each in ids])
    with engine.running():
        people.start()
        for _ in range(3):
            engine.batches.migrate("p", 2, mapping=MAPPING, version=1)
        people.join(60)
        while engine.batches.migrate("p", 2, mapping=MAPPING, version=1).done:
            pass
    engine.run_until_idle()
    for each in ids:
        finish(engine, each)
    engine.run_until_idle()
    assert engine.instances.count(by="status") == {"Completed": 30}
    assert sorted(runs) == sorted(ids)


def test_another_tenant_migrates_nothing(two: Engine) -> None:
    instance = two.start("p", version=1)
    other = two.tenant("other")
    other.deploy(OLD)
    other.deploy(NEW)
    with pytest.raises(NotFoundError, match="there is no instance"):
        other.instances.migrate(instance.id, 2, mapping=MAPPING)
    assert other.batches.plan_migration("p", 2, mapping=MAPPING, ids=[instance.id]).total == 0
    assert other.batches.migrate("p", 2, mapping=MAPPING, ids=[instance.id]).failed == 1


def test_async_callers_migrate_as_well(two: Engine) -> None:
    instance = two.start("p", version=1)
    view = asyncio.run(two.aio.instances.migrate(instance.id, 2, mapping=MAPPING, dry_run=True))
    assert view.verdict == "safe"
